/* Receive windows: how much each sender on the far side may have on its way to us, so that downloads
 * fill the line without queueing in front of it.
 *
 * A flow's window is its share (share.h) x (base RTT + slack): the smallest round trip seen, from the
 * handshake on, and what allowance.h finds.
 *
 * Sees: every TCP packet that leaves of a flow whose both SYNs were seen, and the SYNs; changes the
 * window that it offers.
 * Principles: a right edge that was let through never moves left; whole segments, at least two; no flow
 * is bounded whose window scale is not known.
 * Non-goals: flows that obey no windows (unresponsive.h).
 */
#pragma once

#include "lan.h"
#include "reserve.h"
#include "tcp_rewrite.h"

/* A window is computed again after this long, ns. */
#define WINDOW_LIFETIME (SECOND / 1000)
/* Where the window stands in a TCP header. */
#define TCP_WINDOW_AT 14

/* Window for a flow now, bytes. */
static __always_inline __u32 window_size(const struct line *l, struct pool *pool, struct host *h,
					struct flow *f, __u64 now)
{
	struct grant *g = &f->grant;

	if (g->window && now - g->computed_at < WINDOW_LIFETIME)
		return g->window;
	__u32 base = base_rtt(f), slot = now >> SLOT_SHIFT;
	__u64 whole = 1 << SLOT_SHIFT, past = now - g->computed_at;

	if (past > whole || !follows_slowly(l, pool, f))
		past = whole;
	g->computed_at = now;
	g->share = (g->share * (whole - past) +
		    share_of(l, pool, h, g, slot, f->tier) * past) >> SLOT_SHIFT;
	__s64 us = (__s64)base + 2 * (l->packet_ns / 1000) + g->window_slack;

	if (us < 100)
		us = 100;
	__u32 wire = g->segment_wire ? g->segment_wire : l->packet;
	__u32 segment = g->segment ? g->segment : l->segment;
	__u64 n = ((__u64)g->share * us / 1000000 + wire / 2) / wire;

	/* No more than slow start can make use of: it might be somebody else's by then. */
	__u64 most = 4ULL * g->rate * base / 1000000 / wire;

	if (most < 2 * INITIAL_SEGMENTS)
		most = 2 * INITIAL_SEGMENTS;
	if (g->flags & GRANT_SLOW_START && n > most)
		n = most;
	if (n < 2) {
		n = 2;
		pool->minimum_at = now;
	}
	/* What is short had better be over soon. */
	if (n < INITIAL_SEGMENTS && l->packet_ns * INITIAL_SEGMENTS < 4000000 &&
	    f->dir[DOWN].packets < INITIAL_SEGMENTS)
		n = INITIAL_SEGMENTS;
	g->window = lan_bound(l, f, n * segment);
	return g->window;
}

/* How far a window opens at once: as fast as one of slow start, or else it would be a burst; a
 * quarter of it, or two segments, may always be there.
 */
static __always_inline __u32 limit_opening(const struct grant *g, __u32 from, __u32 right)
{
	__u32 more = from - g->window_left, segment = g->segment ? g->segment : 1;
	__u32 most = g->right_edge + 2 * more, least = g->window / 4 / segment;

	least = (least < 2 ? 2 : least) * segment;
	if ((__s32)(from + least - most) > 0)
		most = from + least;
	return (__s32)more >= 0 && (__s32)(right - most) > 0 ? most : right;
}

/* Our SYN or SYN-ACK: the first window, of what takes the line 20 ms. Windows of SYNs are never scaled
 * (RFC 7323, 2.2).
 */
static __always_inline void on_egress_syn(struct __sk_buff *skb, const struct line *l,
					  struct grant *g, const struct packet *p)
{
	__u32 field = p->window, n = 20000000 / (l->packet_ns + 1);

	if (n < 2)
		n = 2;
	if (n > INITIAL_SEGMENTS)
		n = INITIAL_SEGMENTS;
	n *= l->segment;
	g->flags |= GRANT_SLOW_START;
	if (n < field) {
		rewrite_tcp_u16(skb, p, p->tcp_at + TCP_WINDOW_AT, field, n);
		field = n;
	}
	g->syn_window = field;
	if (p->tcp_flags & TCP_ACK) {
		__u32 right = p->ack + field;

		if (!(g->flags & GRANT_EDGE_KNOWN) || (__s32)(right - g->right_edge) > 0)
			g->right_edge = right;
		g->flags |= GRANT_EDGE_KNOWN;
	}
}

/* Whether an acknowledgement says the same number again while more arrives: something was lost, and
 * what lies behind it is not on its way any more.
 */
static __always_inline int is_duplicate_ack(const struct grant *g, const struct packet *p)
{
	return p->ack == g->last_ack && g->flags & GRANT_DATA_SEEN &&
	       (__s32)(g->data_end - p->ack) > 0;
}

/* The right edge that a flow may have now; `offered` is what its own packet shows. */
static __always_inline __u32 granted_edge(struct grant *g, __u32 from, __u32 window, __u32 offered)
{
	__u32 right = from + window;

	if (g->flags & GRANT_EDGE_KNOWN && !(g->flags & GRANT_SLOW_START))
		right = limit_opening(g, from, right);
	g->window_left = from;

	/* Nobody followed it while windows were not bounded: this one may have been shown before. */
	if (!(g->flags & GRANT_EDGE_KNOWN))
		right = offered;
	else if ((__s32)(g->right_edge - right) > 0)
		right = g->right_edge;
	return right;
}

/* Remembers the edge that was let through, and when it moved: four times in a round trip. */
static __always_inline void move_edge(struct flow *f, __u32 edge, __u64 now)
{
	struct grant *g = &f->grant;

	__u32 us = now / 1000, n = g->moves - g->moves_answered;

	/* What was shown before is not known, so data beyond it may be on its way already. */
	if (!(g->flags & GRANT_EDGE_KNOWN))
		g->moves_answered = g->moves;
	else if ((__u16)n < 4 && us - g->moved_at[(g->moves - 1) & 3] > base_rtt(f) / 4) {
		g->moved_at[g->moves & 3] = us;
		g->moved_from[g->moves & 3] = g->right_edge;
		g->moves++;
	} else if (us - g->moved_at[(g->moves - 1) & 3] > 1000000) {
		g->moves_answered = g->moves;
	}
	g->right_edge = edge;
	g->flags |= GRANT_EDGE_KNOWN;
}

/* A packet leaves, of a flow whose window is bounded: it offers no more than is granted. */
static __always_inline void on_egress_ack(struct __sk_buff *skb, const struct line *l,
					  struct pool *pool, struct host *h, struct flow *f,
					  const struct packet *p, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 field = p->window;

	if (p->tcp_flags & TCP_RST)
		return;
	if (p->tcp_flags & TCP_SYN) {
		on_egress_syn(skb, l, g, p);
		return;
	}
	if (!(p->tcp_flags & TCP_ACK) || !field)
		return;
	__u32 scale = f->dir[UP].window_scale && f->dir[DOWN].window_scale
			      ? f->dir[UP].window_scale - 1
			      : 0;
	__u32 unit = 1 << (scale & 15), slot = now >> SLOT_SHIFT;

	if (!g->reserved_until && g->flags & GRANT_SLOW_START) {
		/* Whoever has shaken hands will soon take something. */
		reserve_share(l, pool, h, f, slot);
		g->interval_start = now;
	}
	__u32 from = p->ack, window = window_size(l, pool, h, f, now);

	if (is_duplicate_ack(g, p))
		from = g->data_end;
	g->last_ack = p->ack;
	__u32 edge = p->ack + (field << (scale & 15)), right = granted_edge(g, from, window, edge);

	if ((__s32)(edge - right) > 0) {
		__u32 granted = (right - p->ack + unit - 1) >> (scale & 15);

		if (granted < field) {
			rewrite_tcp_u16(skb, p, p->tcp_at + TCP_WINDOW_AT, field, granted);
			edge = p->ack + (granted << (scale & 15));
		}
	}
	if (!(g->flags & GRANT_EDGE_KNOWN) || (__s32)(edge - g->right_edge) > 0)
		move_edge(f, edge, now);
}
