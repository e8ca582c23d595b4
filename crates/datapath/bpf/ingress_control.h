/* Control of what arrives, before it arrives: windows for those who obey them, dropped packets and a
 * surcharge for others.
 *
 * Sees: every IP packet in both directions; what leaves may have its window changed, what arrives may
 * be dropped.
 * Principles: nothing without a lease, which whoever wanted it renews or gave for good; who is
 * active, and how full the line is, is learned from every packet.
 * Non-goals: how (window.h, delivery.h, unresponsive.h).
 */
#pragma once

#include <linux/in.h>

#include "delivery.h"
#include "framing.h"
#include "lan.h"
#include "lan_host.h"
#include "unresponsive.h"
#include "window.h"

/* The entry of a flow's host: by its address and the device it is behind. Few are active at a
 * time, so two of them rarely share one; if so, they share as one.
 */
static __always_inline __u8 host_index(struct __sk_buff *skb, const struct packet *p)
{
	const __be32 *a = p->key.local;
	__u32 h = (a[0] ^ a[1] * 0x27d4eb2fu ^ a[2] ^ a[3]) * 0x9e3779b1u ^
		  skb->ingress_ifindex * 0x85ebca6bu;

	h ^= h >> 16;
	h ^= h >> 8;
	return h;
}

/* Does so for one packet; 1 if it is to be dropped. */
static __always_inline int control_ingress(struct __sk_buff *skb, struct flow *f,
					   const struct packet *p, int dir, __u64 now)
{
	__u32 zero = 0;
	struct line *l = bpf_map_lookup_elem(&ek_line, &zero);
	struct pool *pool = bpf_map_lookup_elem(&ek_pool, &zero);

	if (!l || !pool)
		return 0;
	if (now >= l->lease) {
		f->grant.flags &= ~(GRANT_EDGE_KNOWN | GRANT_DATA_SEEN);
		f->grant.syn_window = 0;
		if (dir == DOWN && p->tcp_flags & TCP_SYN)
			f->grant.peer_isn = p->seq;
		return 0;
	}
	int windowed = p->key.proto == IPPROTO_TCP && p->tcp_at && !(f->flags & FLOW_MPTCP);

	/* Both offers of scaling must be known, but for the first of them. */
	if (p->tcp_flags & TCP_SYN)
		windowed = windowed && f->flags & (FLOW_SYN_UP | FLOW_SYN_DOWN);
	else
		windowed = windowed && (f->flags & (FLOW_SYN_UP | FLOW_SYN_DOWN)) ==
				       (FLOW_SYN_UP | FLOW_SYN_DOWN);
	if (dir == UP && !(f->grant.flags & GRANT_HOST_KNOWN)) {
		f->grant.host = host_index(skb, p);
		f->grant.flags |= GRANT_HOST_KNOWN;
	}
	__u32 at = f->grant.host, bytes;
	struct host *h = bpf_map_lookup_elem(&ek_hosts, &at);

	if (!h)
		return 0;
	if (dir == UP) {
		if (windowed) {
			observe_lan(l, f, now);
			on_egress_ack(skb, l, pool, h, f, p, now);
		}
		return 0;
	}
	bytes = wire_bytes(skb, &l->framing, p);
	__sync_fetch_and_add(&pool->arrived_bytes, bytes);
	if (pool->busy_until < now)
		pool->busy_until = now;
	if (pool->busy_until < now + SECOND / 20 + 64ULL * l->packet_ns)
		pool->busy_until += (__u64)bytes * l->packet_ns / l->packet * 25 / 24;
	observe_line(l, pool, now);
	barrier();
	if (windowed) {
		if (!f->dir[DOWN].heavy)
			__sync_fetch_and_add(&pool->light_bytes, bytes);
		count_data(&f->grant, p, bytes);
		on_ingress_data(skb, l, pool, h, f, p, now);
		return 0;
	}
	if (f->dir[DOWN].heavy) {
		if (l->lan && slow_down_lan_host(at, bytes, now))
			return 1;
		return slow_down(skb, l, pool, h, f, bytes, now);
	}
	__sync_fetch_and_add(&pool->other_bytes, bytes);
	return 0;
}
