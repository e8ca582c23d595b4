/* What arrives of a flow whose window is bounded: its segments, its round trips and the rate it
 * reaches, in intervals of a round trip.
 *
 * Sees: every TCP packet that arrives of such a flow, also SYNs and empty ones.
 * Principles: never changes or drops one; an interval is a round trip, 10 ms or eight full packets,
 * whichever is longest.
 * Non-goals: what follows from it (allowance.h, window.h).
 */
#pragma once

#include "allowance.h"
#include "framing.h"
#include "packet.h"
#include "reserve.h"

/* The far side's SYN: where its sequence numbers begin, and with them the window of our own SYN. */
static __always_inline void on_ingress_syn(struct grant *g, const struct packet *p)
{
	/* A copy of it says nothing new, and more may have been let through since. */
	if (g->flags & GRANT_EDGE_KNOWN && g->peer_isn == p->seq)
		return;
	g->peer_isn = p->seq;
	g->flags &= ~(GRANT_EDGE_KNOWN | GRANT_DATA_SEEN);
	if (p->tcp_flags & TCP_ACK && g->syn_window) {
		g->right_edge = p->seq + 1 + g->syn_window;
		g->flags |= GRANT_EDGE_KNOWN;
	}
}

/* The far side ends or resets the flow, which takes nothing any more. */
static __always_inline void on_ingress_end(struct pool *pool, struct host *h, struct grant *g,
					   __u32 slot)
{
	if ((__s32)(g->reserved_until - slot) > 0)
		reserve(pool, h, g, slot, 0, 0, 0);
	g->reserved_until = slot;
}

/* How long the flow's segments are. */
static __always_inline void observe_segment(struct __sk_buff *skb, const struct line *l,
					    struct grant *g, const struct packet *p)
{
	__u32 segment = skb->gso_size;

	if (!segment || p->segments <= 1)
		segment = p->payload;
	if (segment > g->segment) {
		g->segment = segment;
		g->segment_wire = wire_len(&l->framing, segment + p->headers);
	}
}

/* Round trips of the window. The first data beyond an edge answers the acknowledgement that moved
 * it, unless the sender has nothing to send; an echoed time stamp is answered at once.
 */
static __always_inline void observe_window_rtt(struct flow *f, const struct packet *p, __u32 end,
					       __u64 now)
{
	struct grant *g = &f->grant;
	__u32 rtt = 0;

	if (g->moves != g->moves_answered &&
	    (__s32)(end - g->moved_from[g->moves_answered & 3]) > 0) {
		rtt = (__u32)(now / 1000) - g->moved_at[g->moves_answered & 3];
		g->moves_answered++;
		g->window_rtt = rtt;
	}
	if (p->has_timestamps && f->dir[DOWN].heavy) {
		rtt = f->dir[UP].rtt_count != g->rtt_count ? f->dir[UP].rtt : 0;
		g->rtt_count = f->dir[UP].rtt_count;
	}
	if (rtt) {
		if (!g->rtt_recent || rtt < g->rtt_recent)
			g->rtt_recent = rtt;
		if (!g->rtt_base || rtt < g->rtt_base)
			g->rtt_base = rtt;
	}
}

/* How long an interval of a flow with this base RTT (us) is at least, ns. */
static __always_inline __u64 interval_length(const struct line *l, __u32 base)
{
	__u64 length = base * 1000ULL;

	if (length < 10000000)
		length = 10000000;
	if (length < l->packet_ns * 8ULL)
		length = l->packet_ns * 8ULL;
	return length;
}

/* The end of an interval that took `took` ns: the rate that was reached, and what follows. */
static __always_inline void end_interval(const struct line *l, struct pool *pool, struct flow *f,
					 __u64 took, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 before = g->rate;
	int slow_start = g->flags & GRANT_SLOW_START, was_limited = g->flags & GRANT_WINDOW_LIMITED;

	g->rate = took < 10 * SECOND ? g->interval_bytes * SECOND / took : 0;
	g->interval_bytes = 0;
	g->interval_start = now;
	/* What its way on our side holds is limited elsewhere. */
	g->flags = is_window_limited(f) && !(g->flags & GRANT_LAN_BOUND)
			   ? g->flags | GRANT_WINDOW_LIMITED
			   : g->flags & ~GRANT_WINDOW_LIMITED;
	if (slow_start && g->rate < before + before / 4 && before)
		g->flags &= ~GRANT_SLOW_START;
	g->interval_edge = g->right_edge;
	if (was_limited)
		adjust_window_slack(l, pool, f, took / 1000, now);
	g->past_shares[1] = g->past_shares[0];
	g->past_shares[0] = g->share;
	barrier();
	if (++g->intervals % 4 == 0)
		g->rtt_recent = 0;
	g->reserved = 0;
}

/* Counts a packet of `bytes` at the link layer to the rate of its flow's interval. */
static __always_inline void count_data(struct grant *g, const struct packet *p, __u32 bytes)
{
	if (p->payload && !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)))
		g->interval_bytes += bytes;
}

/* A packet that is counted arrived, of a flow whose window is bounded. */
static __always_inline void on_ingress_data(struct __sk_buff *skb, const struct line *l,
					    struct pool *pool, struct host *h, struct flow *f,
					    const struct packet *p, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 end = p->seq + p->payload, slot = now >> SLOT_SHIFT;

	if (p->tcp_flags & TCP_SYN) {
		on_ingress_syn(g, p);
		return;
	}
	if (p->tcp_flags & (TCP_FIN | TCP_RST)) {
		on_ingress_end(pool, h, g, slot);
		return;
	}
	if (!p->payload)
		return;
	observe_segment(skb, l, g, p);
	if (!(g->flags & GRANT_DATA_SEEN) || (__s32)(end - g->data_end) > 0) {
		g->data_end = end;
		g->flags |= GRANT_DATA_SEEN;
	}
	observe_window_rtt(f, p, end, now);
	__u32 base = base_rtt(f);
	__u64 took = now - g->interval_start;

	if (took >= interval_length(l, base))
		end_interval(l, pool, f, took, now);
	if ((__s32)(g->reserved_until - slot) > 1 && g->reserved)
		return;
	reserve_share(l, pool, h, f, slot);
}
