/* All that is done about downloads: windows for those who obey them, what else there is for others.
 *
 * Principles: nothing without a lease, which whoever wanted it renews or gave for good; who is
 * active, and how full the line is, is learned from every packet. Non-goals: how (windows.h,
 * unheld.h).
 */
#pragma once

/* The entry of a flow's host: by its address and the device it is behind. Few are active at a
 * time, so two of them rarely share one; if so, they share as one.
 */
static __always_inline __u8 host_of(struct __sk_buff *skb, const struct packet *p)
{
	const __u32 *a = p->key.local;
	__u32 h = (a[0] ^ a[1] * 0x27d4eb2fu ^ a[2] ^ a[3]) * 0x9e3779b1u ^ skb->ingress_ifindex * 0x85ebca6bu;

	h ^= h >> 16;
	h ^= h >> 8;
	return h;
}

/* All of it, for one packet; 1 if it is to be dropped. */
static __always_inline int downloads(struct __sk_buff *skb, struct flow *f, const struct packet *p,
				     int way, __u64 now)
{
	__u32 zero = 0;
	struct line *l = bpf_map_lookup_elem(&ek_line, &zero);
	struct pool *pool = bpf_map_lookup_elem(&ek_pool, &zero);

	if (!l || !pool)
		return 0;
	if (now >= l->lease) {
		f->grant.flags &= ~(GRANT_EDGE | GRANT_SEEN);
		f->grant.promise = 0;
		if (way == DOWN && p->tcp_flags & TCP_SYN)
			f->grant.origin = p->seq;
		return 0;
	}
	int ours = p->key.proto == IPPROTO_TCP && p->tcp && !(f->seen & FLOW_MPTCP);

	/* Both offers of scaling must be known, but for the first of them. */
	if (p->tcp_flags & TCP_SYN)
		ours = ours && f->seen & (FLOW_SYN_UP | FLOW_SYN_DOWN);
	else
		ours = ours && (f->seen & (FLOW_SYN_UP | FLOW_SYN_DOWN)) ==
				       (FLOW_SYN_UP | FLOW_SYN_DOWN);
	if (way == UP && !(f->grant.flags & GRANT_HOST)) {
		f->grant.host = host_of(skb, p);
		f->grant.flags |= GRANT_HOST;
	}
	__u32 at = f->grant.host, bytes;
	struct host *h = bpf_map_lookup_elem(&ek_hosts, &at);

	if (!h)
		return 0;
	if (way == UP) {
		if (ours)
			leaves(skb, l, pool, h, f, p, now);
		return 0;
	}
	bytes = wire_bytes(skb, &l->framing, p);
	__sync_fetch_and_add(&pool->arrived, bytes);
	if (pool->busy < now)
		pool->busy = now;
	if (pool->busy < now + SECOND / 20 + 64ULL * l->packet_ns)
		pool->busy += (__u64)bytes * l->packet_ns / l->packet * 25 / 24;
	watch(l, pool, now);
	again();
	if (ours) {
		if (!f->way[DOWN].heavy)
			__sync_fetch_and_add(&pool->light, bytes);
		arrived(skb, l, pool, h, f, p, bytes, now);
		return 0;
	}
	if (f->way[DOWN].heavy)
		return slow_down(skb, l, pool, h, f, bytes, now);
	__sync_fetch_and_add(&pool->others, bytes);
	return 0;
}
