/* Downloads that obey no windows and move much (QUIC).
 *
 * Beside flows that windows hold they have a share as well, and are told to slow down by a dropped
 * packet a round trip while they take more and the line is full to 96 %. Where nobody is held, CAKE
 * has them: a queue that stands there instead of at the provider keeps them going through their own
 * back-off, and others need not wait in it. For that the shaper must be a good deal slower than the
 * line, as it need not be for anybody else: so it is made to count more of them than came, by bytes
 * at the end of their frames, which IP drops as it does Ethernet's padding.
 *
 * Sees: every packet of a heavy flow without a bounded window that arrives, while windows are bounded.
 * Principles: what the shaper counts is in bytes of the line; a first start is cut short in any
 * case, since no shaper sees it in time.
 * Non-goals: short flows, and what is not heavy: the shaper's.
 */
#pragma once

#include "reserve.h"

/* How much may wait on the line that is 4 % slower, and how seldom a flow is slowed at least, ns. */
#define SLOW_DOWN_QUEUE 5000000
#define SLOW_DOWN_INTERVAL 20000000

/* Makes the shaper count more of a packet than came. */
static __always_inline void add_surcharge(struct __sk_buff *skb, const struct line *l,
					   struct pool *pool, __u32 bytes)
{
	int atm = l->framing.mode == FRAMING_ATM;

	pool->surcharge_bytes += bytes * l->surcharge / 10000;
	__u32 n = atm ? pool->surcharge_bytes / 53 : pool->surcharge_bytes;

	pool->surcharge_bytes -= atm ? n * 53 : n;
	if (n)
		bpf_skb_change_tail(skb, skb->len + (atm ? n * 48 : n), 0);
}

/* A packet of such a flow; 1 if it is to be dropped. */
static __always_inline int slow_down(struct __sk_buff *skb, const struct line *l,
				     struct pool *pool, struct host *h, struct flow *f,
				     __u32 bytes, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 slot = now >> SLOT_SHIFT, base = base_rtt(f);
	__u64 took = now - g->interval_start, rtt = base * 1000ULL;

	if (rtt < SLOW_DOWN_INTERVAL)
		rtt = SLOW_DOWN_INTERVAL;
	g->interval_bytes += bytes;
	if (took >= rtt) {
		g->rate = took < 10 * SECOND ? g->interval_bytes * SECOND / took : 0;
		g->interval_bytes = 0;
		g->interval_start = now;
		g->reserved = 0;
	}
	if ((__s32)(g->reserved_until - slot) <= 1 || !g->reserved)
		reserve_share(l, pool, h, f, slot);
	/* A super-packet's segments end where its first one says. */
	if (l->surcharge && !skb->gso_size && now - pool->limited_at > SECOND / 4) {
		add_surcharge(skb, l, pool, bytes);
		if (g->computed_at)
			return 0;
	}
	if (g->rate < g->share - g->share / 16 || now - g->computed_at < rtt)
		return 0;
	/* The first time it probably doubles with every round trip. */
	if (pool->busy_until < now + (g->computed_at ? SLOW_DOWN_QUEUE : SLOW_DOWN_QUEUE / 3) +
				       4ULL * l->packet_ns)
		return 0;
	g->computed_at = now;
	return 1;
}
