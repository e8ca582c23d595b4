/* A flow's share of the line's target rate: hosts equal among each other, flows of a host by the
 * weight of their tier; what flows do not use that are limited elsewhere is the others'.
 *
 * Sees: packets in both directions of flows whose window is bounded, and arriving ones of unresponsive
 * flows.
 * Principles: reads the sums that reserve.h keeps; nobody starves.
 * Non-goals: what a share is used for (window.h, unresponsive.h).
 */
#pragma once

#include "line.h"
#include "types.h"

/* Round trip of flows that have shown none yet, us. */
#define RTT_UNKNOWN 30000

/* Entries for hosts on our side. */
#define HOSTS 256

/* What the flows of a host take in a slot of time. */
struct host_slot {
	__u32 number;
	__u32 weight;       /* of flows that take all they get */
	__u32 limited_rate; /* what the others take, bytes per second */
};

/* A host on our side. */
struct host {
	struct host_slot slot[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct host);
	__uint(max_entries, HOSTS);
} ek_hosts SEC(".maps");

/* Weights of the tiers: bulk leaves the line to the others, as CAKE's bulk tin. */
static __always_inline __u32 tier_weight(__u8 tier)
{
	return tier == BULK ? 1 : 16;
}

/* What a flow's round trip takes at least, us: beyond us, and on our side. */
static __always_inline __u32 base_rtt(const struct flow *f)
{
	__u32 far = f->dir[UP].rtt_min, near = f->dir[DOWN].rtt_min;

	if (f->grant.rtt_base && (!far || f->grant.rtt_base < far))
		far = f->grant.rtt_base;
	if (!far)
		return RTT_UNKNOWN;
	/* A slow host on our side shall not have the line's buffer for it. */
	if (near > 50000)
		near = 50000;
	return far + near;
}

/* Whether the share of a flow follows slowly. What each of many short flows takes is over before the
 * others could make room for it, and when they get it back their windows open with a burst.
 */
static __always_inline int follows_slowly(const struct line *l, const struct pool *pool,
					  const struct flow *f)
{
	return f->dir[DOWN].heavy && f->grant.window && many_short_flows(l, pool);
}

/* The share of a flow that would take all it gets, bytes per second at the link layer. */
static __always_inline __u32 share_of(const struct line *l, const struct pool *pool,
				      const struct host *h, const struct grant *g, __u32 slot,
				      __u8 tier)
{
	const struct pool_slot *line = &pool->slot[slot & 7];
	const struct host_slot *own = &h->slot[slot & 7];
	__u32 hosts = 0, elsewhere = 0, weight = 0, limited = 0, own_weight = tier_weight(tier);
	int reserved = (__s32)(g->reserved_until - slot) > 0;
	__u64 free = saturating_sub(l->target, pool->other_rate);

	if (line->number == slot) {
		hosts = line->hosts;
		elsewhere = line->limited_rate;
	}
	if (own->number == slot) {
		weight = own->weight;
		limited = own->limited_rate;
	}
	if (!weight) {
		/* Its host is not among those that take what they get: as if it were. */
		hosts++;
		elsewhere = saturating_sub(elsewhere, limited);
	}
	if (!reserved || !g->reserved_weight)
		weight += own_weight;
	if (reserved && !g->reserved_weight)
		limited = saturating_sub(limited, g->reserved_rate);
	if (many_short_flows(l, pool))
		free = saturating_sub(free, l->target / SHORT_FLOWS_ROOM);
	/* However much is limited elsewhere or knows no windows: nobody starves. */
	__u64 floor = free / 8;

	free = free > elsewhere ? free - elsewhere : 0;
	if (free < floor)
		free = floor;
	free /= hosts ? hosts : 1;
	floor = free / 8;
	free = free > limited ? free - limited : 0;
	if (free < floor)
		free = floor;
	free = free * own_weight / (weight ? weight : 1);
	free = free * (1000 + pool->boost) / 1000;
	if (free > l->target)
		free = l->target;
	return free ? free : 1;
}
