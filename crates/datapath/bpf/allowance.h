/* What a flow's window has beyond its share of a round trip, for serialisation and for delayed and
 * queued acknowledgements: found by each flow from the rate it reaches.
 *
 * Sees: the packet that ends an interval of a flow whose window is bounded.
 * Principles: it rises by what the rate lacks and falls by what it has too much, and while the line is
 * full and round trips show that a queue stands; a queue must be proven, as must late acknowledgements.
 * Non-goals: shares (share.h).
 */
#pragma once

#include "share.h"

/* How much longer round trips of a flow were of late than its least, us. */
static __always_inline __u32 excess_rtt(const struct line *l, const struct flow *f)
{
	const struct grant *g = &f->grant;
	__u32 least = g->rtt_base, far = f->dir[UP].rtt_min, packet = l->packet_ns / 1000;

	/* It may never have seen the line without a queue, but its handshake was no full packet. */
	if (far && far + packet + 100 < least)
		least = far + packet + 100;
	return g->rtt_recent > least ? g->rtt_recent - least : 0;
}

/* Whether the line has long been idle in spite of this flow: then so long as its round trips take, so
 * long do its acknowledgements.
 */
static __always_inline int is_idle_proven(const struct line *l, const struct pool *pool, __u32 base,
					  __u64 now)
{
	__u64 since = now - pool->full_at;
	int proven = since >= idle_proof(l, base);

	/* Sooner where a good part of it is free at this moment, as it is at the beginning. */
	if (pool->rate_now < l->target - l->target / 32)
		proven |= since + SECOND * 3 / 16 >= idle_proof(l, base);
	return proven;
}

/* The smallest share of late, of which what arrived was let through a round trip or two ago. */
static __always_inline __u32 smallest_share(const struct grant *g)
{
	__u32 low = g->share;

	for (int i = 0; i < 2; i++)
		if (g->past_shares[i] && g->past_shares[i] < low)
			low = g->past_shares[i];
	return low;
}

/* Adjusts a flow's slack after an interval of `took_us` at whose begin it was window-limited. */
static __always_inline void adjust_window_slack(const struct line *l, struct pool *pool,
						struct flow *f, __u32 took_us, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 base = base_rtt(f), share = g->share;
	__u32 packet = l->packet_ns / 1000;
	__u32 small = packet + (packet < 1000 ? packet : 1000) + 100 + l->slack;
	__u32 low = smallest_share(g), excess = excess_rtt(l, f);
	__s32 slack = g->window_slack;

	if (!(g->flags & GRANT_WINDOW_LIMITED) || !share)
		return;
	if (now - pool->limited_at > SECOND / 10)
		pool->full_at = now;
	pool->limited_at = now;
	pool->queue_us = (pool->queue_us + excess) / 2;
	if (took_us > 200000)
		took_us = 200000;
	int proven = is_idle_proven(l, pool, base, now);

	if (!pool->full && proven && excess > g->ack_delay)
		g->ack_delay = excess;
	if (pool->full)
		g->ack_delay -= g->ack_delay / 64;
	/* A line that is to be full is given a little more than it carries. */
	__u32 over_target = l->fills ? share / 64 : 0;

	/* Late acknowledgements come in bursts, and so does what they let through: to fill the
	 * pauses between costs more delay than it is worth to others.
	 */
	if (g->ack_delay > 6000 && !l->fills) {
		share -= share / 16;
		low -= low / 16;
	}
	int queued = excess > small + g->ack_delay && (!proven || pool->full);

	queued |= excess > 4 * small + 2 * g->ack_delay && pool->rate_now >= l->target;
	if (queued) {
		slack -= (excess - small - g->ack_delay) / 4;
	} else if (g->rate < low - low / 16 ||
		   (g->rate < low && !pool->full && !many_short_flows(l, pool))) {
		slack += (__u64)took_us * (low - g->rate) / low / 4;
	} else if (g->rate > share + over_target) {
		__u32 over = g->rate - share;

		if (over > share)
			over = share;
		slack -= (__u64)took_us * over / share / 4;
	}
	__s32 least = -(__s32)(base / 2), most = base + 30000;

	g->window_slack = slack < least ? least : slack > most ? most : slack;
}

/* Whether a flow is limited by its window. The first data beyond an edge then comes a round trip
 * after the edge was moved; with time stamps that is seen for sure.
 */
static __always_inline int is_window_limited(const struct flow *f)
{
	const struct grant *g = &f->grant;
	__u32 rtt = f->dir[UP].rtt;

	if (!g->window_rtt || !g->interval_edge)
		return 0;
	if (f->dir[DOWN].heavy && f->dir[UP].rtt_count > 4)
		return g->window_rtt < rtt + rtt / 4 + 1000;
	return (__s32)(g->data_end - g->interval_edge) + (__s32)g->segment >= 0;
}
