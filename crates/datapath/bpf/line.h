/* The line as a whole: how full it is, what fills it, and whether there is room.
 *
 * Sees: every IP packet that arrives while windows are bounded.
 * Principles: every packet adds to sums; whoever comes 8 ms later turns them into smoothed rates.
 * Non-goals: single flows.
 */
#pragma once

#include "kernel.h"
#include "types.h"

/* Thousandths: how far the shares may be raised when those who have them do not use them. */
#define BOOST_MAX 7000
/* What part of the line light connections must bring to count as many, and what part the others then
 * leave free.
 */
#define SHORT_FLOWS_PART 32
#define SHORT_FLOWS_ROOM 22

/* Who is active in a slot of time. */
struct pool_slot {
	__u32 number;
	__u32 hosts;        /* with flows that take all they get */
	__u32 limited_rate; /* what the other hosts take, bytes per second */
};

/* All that arrives over the line, in bytes at the link layer. */
struct pool {
	__u64 arrived_bytes, other_bytes, light_bytes; /* all; of unresponsive flows; of light TCP */
	__u64 arrived_before, other_before, light_before;
	__u64 observed_at;       /* time of the latest look */
	__u64 full_at;           /* when it was used to the full, or nobody asked for more */
	__u64 busy_until;        /* when a line a little slower will have carried what came */
	__u64 limited_at;        /* when a flow last used up its window */
	__u64 minimum_at;        /* when a flow last had the smallest window there is */
	__u64 bypass_busy_until; /* until when the line's part for small packets is used up */
	__u32 rate, other_rate, light_rate; /* as smoothed rates, bytes per second */
	__u32 rate_now;          /* the first of them of late */
	__u32 full;              /* whether the line is used to the full */
	__u32 queue_us;          /* round trips beyond the least, smoothed */
	__u32 boost;             /* of shares, thousandths beyond them */
	__u32 surcharge_bytes;   /* not yet counted of the surcharge */
	struct pool_slot slot[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct line);
	__uint(max_entries, 1);
} ek_line SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct pool);
	__uint(max_entries, 1);
} ek_pool SEC(".maps");

/* Whether short connections come all the time. What they bring in a round trip is not known
 * beforehand, so others had better leave room for more of it than there is on average.
 */
static __always_inline int many_short_flows(const struct line *l, const struct pool *pool)
{
	return pool->light_rate > l->target / SHORT_FLOWS_PART;
}

/* How long the line must not have been full until that is believed, ns; `base` is a round trip, us. */
static __always_inline __u64 idle_proof(const struct line *l, __u32 base)
{
	return SECOND / 4 + 128ULL * l->packet_ns + 4000ULL * base;
}

/* Observes the line as a whole, every 8 ms or eight packets. */
static __always_inline void observe_line(const struct line *l, struct pool *pool, __u64 now)
{
	__u64 interval = now - pool->observed_at;

	if (interval < 8000000 || interval < l->packet_ns * 8ULL)
		return;
	__u64 arrived = pool->arrived_bytes, other = pool->other_bytes, light = pool->light_bytes;
	__u64 new_bytes = arrived - pool->arrived_before;

	pool->arrived_before = arrived;
	pool->observed_at = now;
	if (interval > SECOND) {
		pool->other_before = other;
		pool->light_before = light;
		pool->rate = 0;
		pool->rate_now = 0;
		pool->other_rate = 0;
		pool->light_rate = 0;
		pool->boost = 0;
		pool->full = 0;
		return;
	}
	__u64 rate = new_bytes * SECOND / interval;
	__u64 other_rate = (other - pool->other_before) * SECOND / interval;
	__u64 light_rate = (light - pool->light_before) * SECOND / interval;

	pool->other_before = other;
	pool->light_before = light;
	/* Slow lines have fewer packets to judge by, and as little time. */
	if (interval > 16000000) {
		pool->rate = (pool->rate * 3ULL + rate) / 4;
		pool->light_rate = (pool->light_rate * 3ULL + light_rate) / 4;
	} else {
		pool->rate = (pool->rate * 7ULL + rate) / 8;
		pool->light_rate = (pool->light_rate * 15ULL + light_rate) / 16;
	}
	pool->rate_now = (pool->rate_now + rate) / 2;
	pool->other_rate = (pool->other_rate * 7ULL + other_rate) / 8;
	pool->full = pool->rate >= l->target;
	if (pool->full) {
		pool->full_at = now;
		pool->boost -= (pool->boost + 3) / 4;
	} else if (now - pool->limited_at < SECOND / 10 &&
		   pool->queue_us < l->packet_ns / 1000 + 100 &&
		   now - pool->full_at >= idle_proof(l, 0) &&
		   pool->rate < l->target - l->target / 64) {
		__u64 more = (l->target - pool->rate) * 1000ULL / l->target;
		__u64 boost = pool->boost + (more * (interval >> 20) >> 7);

		pool->boost = boost < BOOST_MAX ? boost : BOOST_MAX;
	}
}
