/* Who is active and how much they take: sums for the line and for each host, in slots of 33 ms.
 *
 * Sees: what share.h sees.
 * Principles: slots are reserved in advance for as long as a round trip takes: whoever ends or goes
 * quiet is forgotten without anybody looking for him.
 * Non-goals: exactness when several CPUs reserve at once.
 */
#pragma once

#include "share.h"

/* A slot lasts 2^25 ns; at most so many are reserved in advance. */
#define SLOT_SHIFT 25
#define SLOTS_AHEAD 6

/* Most segments of a first window. */
#define INITIAL_SEGMENTS 10

/* Enters what a flow takes for this slot and those ahead, instead of what it took before: its weight,
 * or a rate if it is limited elsewhere. `when` is the slot and, 32 bits higher, how many ahead; `what`
 * is the rate and, as high, the weight. Slots are put in order by whoever comes first.
 */
static __noinline int reserve_slots(struct pool *pool, struct host *h, struct grant *g, __u64 when,
				    __u64 what)
{
	__u32 slot = when, ahead = when >> 32, limited = what, weight = what >> 32;

	if (!pool || !h || !g)
		return 0;
	for (__u32 i = 0; i <= SLOTS_AHEAD; i++) {
		__u32 n = slot + i;
		struct pool_slot *line = &pool->slot[n & 7];
		struct host_slot *own = &h->slot[n & 7];

		if (i > ahead && (__s32)(g->reserved_until - n) <= 0)
			break;
		if (line->number != n) {
			line->hosts = 0;
			line->limited_rate = 0;
			line->number = n;
		}
		if (own->number != n) {
			own->weight = 0;
			own->limited_rate = 0;
			own->number = n;
		} else if ((__s32)(g->reserved_until - n) > 0) {
			/* What was reserved before. */
			if (g->reserved_weight) {
				own->weight = saturating_sub(own->weight, g->reserved_weight);
				if (!own->weight) {
					line->hosts = saturating_sub(line->hosts, 1);
					line->limited_rate += own->limited_rate;
				}
			} else {
				own->limited_rate =
					saturating_sub(own->limited_rate, g->reserved_rate);
				if (!own->weight)
					line->limited_rate = saturating_sub(line->limited_rate,
									   g->reserved_rate);
			}
		}
		if (i > ahead)
			continue;
		if (weight) {
			if (!own->weight) {
				line->hosts++;
				line->limited_rate =
					saturating_sub(line->limited_rate, own->limited_rate);
			}
			own->weight += weight;
		} else {
			own->limited_rate += limited;
			if (!own->weight)
				line->limited_rate += limited;
		}
	}
	g->reserved_weight = weight;
	g->reserved_rate = limited;
	g->reserved_until = slot + ahead + 1;
	return 0;
}

/* The same: a function that is not inlined has at most five arguments. */
static __always_inline void reserve(struct pool *pool, struct host *h, struct grant *g, __u32 slot,
				    __u32 ahead, __u32 weight, __u32 limited)
{
	reserve_slots(pool, h, g, (__u64)ahead << 32 | slot, (__u64)weight << 32 | limited);
}

/* How many slots ahead a flow reserves: for the longest pause that it makes between two packets while
 * it is active.
 */
static __always_inline __u32 slots_ahead(const struct line *l, const struct grant *g, __u32 base)
{
	__u32 pause = g->window_rtt > base ? g->window_rtt : base;

	if (pause < l->packet_ns / 100)
		pause = l->packet_ns / 100;
	pause = 1 + (pause >> 15);
	return pause < SLOTS_AHEAD ? pause : SLOTS_AHEAD;
}

/* What a flow would take next if its window were not bounded, bytes per second. Most new ones are
 * short: half a first window in each round trip is what they take; whoever takes more has shown it by
 * then.
 */
static __always_inline __u64 expected_demand(const struct line *l, const struct grant *g,
					     __u32 base)
{
	__u32 wire = g->segment_wire ? g->segment_wire : l->packet;
	__u64 first = INITIAL_SEGMENTS / 2 * (__u64)wire * 1000000 / base;

	if (g->flags & GRANT_WINDOW_LIMITED)
		return l->target;
	if (!(g->flags & GRANT_SLOW_START))
		return g->rate + g->rate / 8 + 1;
	return g->rate * 4ULL > first ? g->rate * 4ULL : first;
}

/* Reserves what a flow takes of its share, or its weight if it takes all of that. */
static __always_inline void reserve_share(const struct line *l, struct pool *pool, struct host *h,
					  struct flow *f, __u32 slot)
{
	struct grant *g = &f->grant;
	__u32 base = base_rtt(f), ahead = slots_ahead(l, g, base);
	__u32 share = share_of(l, pool, h, g, slot, f->tier);
	__u64 demand = expected_demand(l, g, base);

	if (!follows_slowly(l, pool, f))
		g->share = share;
	g->reserved = 1;
	if (demand >= share)
		reserve(pool, h, g, slot, ahead, tier_weight(f->tier), 0);
	else
		reserve(pool, h, g, slot, ahead, 0, demand);
}
