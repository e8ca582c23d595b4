/* The table of flows: who they are, what they moved, and whether that is much.
 *
 * Sees: every IP packet in both directions.
 * Principles: one entry for both directions, so that a download inherits what its request was; what
 * the LRU has forgotten begins anew.
 * Non-goals: tiers (classify.h), round trips (rtt.h).
 */
#pragma once

#include "classify.h"
#include "packet.h"

/* Of a flow in a second: more is heavy, and less than a quarter of it light again. */
#define HEAVY_BYTES (64 * 1024)
/* A datagram of a call or a game is below this. */
#define SMALL_BYTES 256

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_key);
	__type(value, struct flow);
	__uint(max_entries, 32768);
} ek_flows SEC(".maps");

/* The flow of a packet, made if need be; NULL if there is no room for it. */
static __always_inline struct flow *find_or_make_flow(struct __sk_buff *skb,
						      const struct config *c, struct scratch *s,
						      int dir, __u64 now, struct counts *counts)
{
	const struct packet *p = &s->p;
	struct flow *f = bpf_map_lookup_elem(&ek_flows, &p->key);

	if (f) {
		int changed = f->generation != c->generation;

		/* The far side does not decide how urgent our flows are: only what we send can
		 * change it.
		 */
		if (dir == UP)
			changed |= f->dscp != p->dscp || f->mark != skb->mark ||
				   f->dir[UP].last_seen == 0;
		else
			/* Marks, control groups and sockets are seen of what leaves alone. */
			changed &= f->dir[UP].last_seen == 0;
		if (!changed)
			return f;
		if (with_cgroups && dir == UP && !f->cgroup)
			f->cgroup = bpf_skb_cgroup_id(skb);
	} else {
		__builtin_memset(&s->new_flow, 0, sizeof(s->new_flow));
		s->new_flow.first_seen = now;
		if (with_cgroups && dir == UP)
			s->new_flow.cgroup = bpf_skb_cgroup_id(skb);
		counts->new_flows++;
		/* Another CPU may have been faster. */
		bpf_map_update_elem(&ek_flows, &p->key, &s->new_flow, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&ek_flows, &p->key);
		if (!f) {
			counts->full++;
			return f;
		}
	}
	classify(skb, c, s, dir, f);
	return f;
}

/* Counts a packet of a flow, and whether the flow is heavy this way. */
static __always_inline void account(struct direction_state *d, const struct packet *p, __u64 now)
{
	d->bytes += p->length;
	d->packets += p->segments;
	d->last_seen = now;
	if (now - d->second_start > SECOND) {
		/* Light again only after a whole window of little. */
		if (d->second_bytes < HEAVY_BYTES / 4 || now - d->second_start > 2 * SECOND)
			d->heavy = 0;
		d->second_start = now;
		d->second_bytes = 0;
		d->second_packets = 0;
	}
	d->second_bytes += p->length;
	d->second_packets += p->segments;
	if (!d->heavy && d->second_bytes > HEAVY_BYTES)
		d->heavy = 1;
}

/* A hash of both ends and the protocol. */
static __always_inline __u32 flow_hash(const struct flow_key *k)
{
	__u32 h = k->local_port * 0x9e3779b1u ^ k->remote_port * 0x85ebca6bu;

	h ^= (k->local[3] ^ k->remote[3] * 0xc2b2ae35u) + k->proto;
	h ^= k->local[1] ^ k->remote[1] * 0x27d4eb2fu;
	h ^= k->local[2] ^ k->remote[2] * 0x165667b1u;
	h ^= h >> 15;
	h *= 0x2c1b3c6du;
	h ^= h >> 12;
	h *= 0x297a2d39u;
	h ^= h >> 15;
	return h;
}
