/* SPDX-License-Identifier: GPL-2.0 */
/* Differentiated policing of what arrives, where it cannot wait on an IFB.
 *
 * Three virtual queues take in what arrives, in bytes of the line, and drain at 98, 99 and 100 %
 * of its rate. While the first stands, the line is above 98 %: ECN-capable packets are marked,
 * others may get a fwmark. While the second stands, long packets are dropped. The third holds
 * what passed and bounds it: behind half a burst goes every long packet, behind a whole one
 * everything but empty acknowledgements, and only behind two of them those too, so that no
 * acknowledgement of an upload is dropped while a long packet could have been.
 *
 * Sees: every IP packet that arrives, while the policer is told a rate.
 * Principles: a full line is no offence, a queue at the provider is. How long it is tell the
 * clocks and the round trips of the flows; where none are known, the virtual queues must do. One
 * heavy flow at a time is told to slow down, and then left alone until that has shown, the more
 * flows the longer packets wait. A dropped packet has taken its time on the line, so the first two
 * queues count it.
 * Non-goals: exactness when several CPUs receive at once (a few bytes may be counted twice or
 * not at all); holding packets back.
 */
#pragma once

#include <linux/in.h>
#include <linux/pkt_cls.h>

#include "ecn.h"
#include "flow.h"
#include "framing.h"
#include "packet.h"

/* A virtual queue of so much stands, ns. */
#define QUEUE_STANDS 1000000ULL
/* Long packets: those that the ancestor's filters called so. */
#define LONG_BYTES 1024
/* Older than this, what was seen of the provider's queue says nothing any more. */
#define QUEUE_SEEN_STALE SECOND
/* Round trip of a flow that shows none, and what is believed of others, ns. */
#define SIGNAL_RTT_UNKNOWN (100 * 1000000ULL)
#define SIGNAL_RTT_MIN (10 * 1000000ULL)
#define SIGNAL_RTT_MAX (500 * 1000000ULL)
/* Until what was asked of a flow is seen to have worked, in its round trips. */
#define SIGNAL_PATIENCE 3
/* With a queue this many times the target, ECN-capable packets are dropped like others. */
#define ECN_LIMIT 8

struct policer_state {
	__u64 empty_at[3];    /* when the virtual queues will be empty, ns */
	__u64 queue_ns;       /* how long packets wait at the provider */
	__u64 queue_seen_at;  /* when that was seen, ns; 0: never */
	__u64 next_signal_at; /* before this nobody is told to slow down, ns */
};

/* What is known of the flows of one hash, of the latest of them. */
struct flow_clock {
	__u64 signalled_at; /* when it was last told to slow down, ns */
	__u64 first_seen;   /* when its clock was, ns; 0: never */
	__s64 least_offset; /* least difference of our clock and its own since then, ns */
	__u32 first_tsval;  /* its clock then: TCP time stamp, ms */
	__u32 owner;        /* flow_hash */
};

#define FLOW_CLOCKS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct policer);
	__uint(max_entries, 1);
} ek_policer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct policer_state);
	__uint(max_entries, 1);
} ek_policing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct policed);
	__uint(max_entries, 1);
} ek_policed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_clock);
	__uint(max_entries, FLOW_CLOCKS);
} ek_flow_clocks SEC(".maps");

/* What stands in a virtual queue, ns. */
static __always_inline __u64 queue_length(const __u64 *empty_at, __u64 now)
{
	return *empty_at > now ? *empty_at - now : 0;
}

/* Puts a packet into a virtual queue of at most `most` ns. */
static __always_inline void add_to_queue(__u64 *empty_at, __u64 cost, __u32 wire, __u64 most,
					 __u64 now)
{
	if (*empty_at < now)
		*empty_at = now;
	else if (*empty_at - now > most)
		return;
	__sync_fetch_and_add(empty_at, cost * wire >> 20);
}

/* How much longer than at best a packet was on its way to us, ns; -1: not known. By the sender's
 * clock in its TCP time stamps, of which nearly all tick in milliseconds (RFC 7323, 5.4); one
 * that does not is not asked again. The round trip bounds it, because clocks drift; alone it would
 * hold our own queue as well.
 */
static __always_inline __s64 queueing_delay(struct flow_clock *clock, const struct flow *f,
					    const struct packet *p, __u64 now)
{
	const struct direction_state *out = &f->dir[UP];
	__s64 increase = out->rtt_count ? (out->rtt - out->rtt_min) * 1000LL : -1;

	if (!p->has_timestamps || !clock->first_seen)
		return increase;
	__s64 elapsed = now - clock->first_seen;
	__s64 ticks = (__s32)(p->tsval - clock->first_tsval) * 1000000LL;
	__s64 behind = elapsed - ticks;

	if (elapsed > (__s64)SECOND && (behind > elapsed / 4 || behind < -elapsed / 4))
		return increase;
	if (behind < clock->least_offset)
		clock->least_offset = behind;
	behind -= clock->least_offset;
	return increase >= 0 && increase < behind ? increase : behind;
}

/* Notes the clock of the flow of this hash that a packet is of. */
static __always_inline void note_clock(struct flow_clock *clock, const struct packet *p, __u32 hash,
				       __u64 now)
{
	if (clock->owner != hash) {
		__builtin_memset(clock, 0, sizeof(*clock));
		clock->owner = hash;
	}
	if (p->has_timestamps && !clock->first_seen) {
		clock->first_seen = now;
		clock->first_tsval = p->tsval;
	}
}

/* How long the provider's queue is now, ns: by the clocks, or else by the virtual queues of 99 and
 * 100 %.
 */
static __always_inline __u64 observe_queue(struct policer_state *q, struct flow_clock *clock,
					   const struct flow *f, const struct packet *p,
					   __u64 at99, __u64 at100, __u64 now)
{
	__u64 queue_ns = at100;
	__s64 delay = queueing_delay(clock, f, p, now);

	if (delay >= 0 && f->dir[DOWN].heavy) {
		q->queue_ns = delay;
		q->queue_seen_at = now;
	}
	if (q->queue_seen_at && now - q->queue_seen_at < QUEUE_SEEN_STALE) {
		if (q->queue_ns > queue_ns)
			queue_ns = q->queue_ns;
	} else if (at99 > queue_ns) {
		queue_ns = at99;
	}
	return queue_ns;
}

/* Whether it is this flow's turn to be told to slow down; if so, it counts as told. */
static __always_inline int may_signal(struct policer_state *q, const struct policer *c,
				      const struct flow *f, struct flow_clock *clock,
				      __u64 queue_ns, __u64 now)
{
	__u64 rtt = f->dir[UP].rtt ? f->dir[UP].rtt * 1000ULL : SIGNAL_RTT_UNKNOWN;

	if (rtt < SIGNAL_RTT_MIN)
		rtt = SIGNAL_RTT_MIN;
	if (rtt > SIGNAL_RTT_MAX)
		rtt = SIGNAL_RTT_MAX;
	if (now < q->next_signal_at || now - clock->signalled_at < SIGNAL_PATIENCE * rtt)
		return 0;
	clock->signalled_at = now;
	/* Twice the target: once in a round trip. */
	__u64 gap = queue_ns > c->target ? rtt * c->target / (queue_ns - c->target) : rtt;

	if (gap < rtt / 8)
		gap = rtt / 8;
	if (gap > 2 * rtt)
		gap = 2 * rtt;
	q->next_signal_at = now + gap;
	return 1;
}

/* What becomes of an arriving packet: TC_ACT_UNSPEC or TC_ACT_SHOT. */
static __always_inline int police(struct __sk_buff *skb, const struct scratch *s, struct flow *f,
				  __u64 now)
{
	const struct packet *p = &s->p;
	__u32 zero = 0;
	const struct policer *c = bpf_map_lookup_elem(&ek_policer, &zero);

	if (!c || !c->cost[2])
		return TC_ACT_UNSPEC;
	__u32 hash = flow_hash(&p->key), at = hash & (FLOW_CLOCKS - 1);
	struct policer_state *q = bpf_map_lookup_elem(&ek_policing, &zero);
	struct policed *did = bpf_map_lookup_elem(&ek_policed, &zero);
	struct flow_clock *clock = bpf_map_lookup_elem(&ek_flow_clocks, &at);

	if (!q || !did || !clock)
		return TC_ACT_UNSPEC;
	struct direction_state *in = &f->dir[DOWN];
	__u32 wire = wire_bytes(skb, &c->framing, p);
	__u64 at98 = queue_length(&q->empty_at[0], now), at99 = queue_length(&q->empty_at[1], now);
	__u64 at100 = queue_length(&q->empty_at[2], now);

	add_to_queue(&q->empty_at[0], c->cost[0], wire, 4 * c->target, now);
	add_to_queue(&q->empty_at[1], c->cost[1], wire, 4 * c->target, now);
	if (!in->heavy && in->second_bytes > c->heavy)
		in->heavy = 1;

	note_clock(clock, p, hash, now);
	__u64 queue_ns = observe_queue(q, clock, f, p, at99, at100, now);
	int large = p->length >= LONG_BYTES * p->segments;
	int ack = p->key.proto == IPPROTO_TCP && p->payload == 0 &&
		  !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
	int drop = large ? at100 > c->burst / 2 : at100 > (ack ? 2 * c->burst : c->burst);

	if (!drop && at98 > QUEUE_STANDS) {
		__u8 head[2];
		int ecn = ecn_field(skb, s->ip_at, head);

		if (in->heavy && queue_ns > c->target && ecn && queue_ns < ECN_LIMIT * c->target) {
			if (ecn != ECN_CE && may_signal(q, c, f, clock, queue_ns, now) &&
			    set_ce(skb, s->ip_at, head) == 0)
				did->marked += p->segments;
		} else if (in->heavy && queue_ns > c->target && large && at99 > QUEUE_STANDS) {
			drop = may_signal(q, c, f, clock, queue_ns, now);
		}
		if (!drop && !ecn && c->mark) {
			skb->mark = c->mark;
			did->flagged += p->segments;
		}
	}
	if (drop) {
		if (large)
			did->large += p->segments;
		else if (ack)
			did->acks += p->segments;
		else
			did->small += p->segments;
		did->bytes += wire;
		return TC_ACT_SHOT;
	}
	add_to_queue(&q->empty_at[2], c->cost[2], wire, 4 * c->burst, now);
	return TC_ACT_UNSPEC;
}
