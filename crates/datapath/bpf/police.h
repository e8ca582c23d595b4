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
 * Principles: a full line is no offence, a queue at the provider is. How long it is tell the
 * clocks and the round trips of the flows; where none are known, the virtual queues must do. One
 * heavy flow at a time is told to slow down, and then left alone until that has shown, the more
 * flows the longer packets wait. A dropped packet has taken its time on the line, so the first two queues count it.
 * Non-goals: exactness when several CPUs receive at once (a few bytes may be counted twice or
 * not at all); holding packets back.
 */
#pragma once

/* A virtual queue of so much stands. */
#define STANDS 1000000ULL
/* Long packets: those that the ancestor's filters called so. */
#define LONG_BYTES 1024
/* Older than this, what was seen of the provider's queue says nothing any more. */
#define SEEN_STALE SECOND
/* Round trip of a flow that shows none. */
#define TRIP_UNKNOWN (100 * 1000000ULL)
#define TRIP_LEAST (10 * 1000000ULL)
#define TRIP_MOST (500 * 1000000ULL)
/* Until what was asked of a flow is seen to have worked, in its round trips. */
#define TRIPS_PATIENCE 3
/* With a queue this many times the target, ECN-capable packets are dropped like others. */
#define DEAF 8

#define ECN_CE 3

struct policing {
	__u64 full[3]; /* when the virtual queues will be empty, ns */
	__u64 waits;   /* how long packets wait at the provider, ns */
	__u64 seen;    /* when that was seen; 0: never */
	__u64 next;    /* before this nobody is told to slow down */
};

/* What is known of the flows of one hash, of the latest of them. */
struct heard {
	__u64 told;  /* when it was last told to slow down, ns */
	__u64 first; /* when its clock was first seen; 0: never */
	__s64 base;  /* least difference of our clock and its own since then */
	__u32 stamp; /* its clock then: TCP time stamp, ms */
	__u32 owner;
};

#define HEARD 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct policer);
	__uint(max_entries, 1);
} ek_policer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct policing);
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
	__type(value, struct heard);
	__uint(max_entries, HEARD);
} ek_heard SEC(".maps");

static __always_inline __u64 stands(const __u64 *full, __u64 now)
{
	return *full > now ? *full - now : 0;
}

static __always_inline void fill(__u64 *full, __u64 cost, __u32 wire, __u64 most, __u64 now)
{
	if (*full < now)
		*full = now;
	else if (*full - now > most)
		return;
	__sync_fetch_and_add(full, cost * wire >> 20);
}

/* Marks congestion (RFC 3168); 0 if the packet is not ECN-capable. */
static __always_inline int ecn_capable(struct __sk_buff *skb, __u32 at, __u8 head[2])
{
	if (load(skb, at, head, 2))
		return 0;
	return (head[0] >> 4 == 4 ? head[1] : head[1] >> 4) & 3;
}

static __always_inline int set_ce(struct __sk_buff *skb, __u32 at, const __u8 head[2])
{
	__u8 field;

	if (head[0] >> 4 == 6) {
		/* No checksum covers it; a hardware one of the whole packet is renewed. */
		field = head[1] | ECN_CE << 4;
		return bpf_skb_store_bytes(skb, at + 1, &field, 1, BPF_F_RECOMPUTE_CSUM);
	}
	field = head[1] | ECN_CE;
	__be16 was, is;
	__u8 word[2] = { head[0], field };

	__builtin_memcpy(&was, head, 2);
	__builtin_memcpy(&is, word, 2);
	if (bpf_l3_csum_replace(skb, at + 10, was, is, 2))
		return -1;
	return bpf_skb_store_bytes(skb, at + 1, &field, 1, 0);
}

/* How much longer than at best a packet was on its way to us, ns; -1: not known. By the sender's
 * clock in its TCP time stamps, of which nearly all tick in milliseconds (RFC 7323, 5.4); one
 * that does not is not asked again. The round trip bounds it, because clocks drift; alone it would
 * hold our own queue as well.
 */
static __always_inline __s64 waited(struct heard *h, const struct flow *f, const struct packet *p,
				    __u64 now)
{
	const struct way *out = &f->way[UP];
	__s64 trips = out->rtt_count ? (out->rtt - out->rtt_min) * 1000LL : -1;

	if (!p->stamps || !h->first)
		return trips;
	__s64 elapsed = now - h->first;
	__s64 ticks = (__s32)(p->stamp - h->stamp) * 1000000LL;
	__s64 behind = elapsed - ticks;

	if (elapsed > (__s64)SECOND && (behind > elapsed / 4 || behind < -elapsed / 4))
		return trips;
	if (behind < h->base)
		h->base = behind;
	behind -= h->base;
	return trips >= 0 && trips < behind ? trips : behind;
}

/* Whether it is this flow's turn to be told. */
static __always_inline int turn(struct policing *q, const struct policer *c, const struct flow *f,
				struct heard *h, __u64 waits, __u64 now)
{
	__u64 trip = f->way[UP].rtt ? f->way[UP].rtt * 1000ULL : TRIP_UNKNOWN;

	if (trip < TRIP_LEAST)
		trip = TRIP_LEAST;
	if (trip > TRIP_MOST)
		trip = TRIP_MOST;
	if (now < q->next || now - h->told < TRIPS_PATIENCE * trip)
		return 0;
	h->told = now;
	/* Twice the target: once in a round trip. */
	__u64 gap = waits > c->target ? trip * c->target / (waits - c->target) : trip;

	if (gap < trip / 8)
		gap = trip / 8;
	if (gap > 2 * trip)
		gap = 2 * trip;
	q->next = now + gap;
	return 1;
}

/* What becomes of an arriving packet. */
static __always_inline int police(struct __sk_buff *skb, const struct scratch *s, struct flow *f,
				  __u64 now)
{
	const struct packet *p = &s->p;
	__u32 zero = 0;
	const struct policer *c = bpf_map_lookup_elem(&ek_policer, &zero);

	if (!c || !c->cost[2])
		return TC_ACT_UNSPEC;
	__u32 hash = hash_of(&p->key), at = hash & (HEARD - 1);
	struct policing *q = bpf_map_lookup_elem(&ek_policing, &zero);
	struct policed *did = bpf_map_lookup_elem(&ek_policed, &zero);
	struct heard *h = bpf_map_lookup_elem(&ek_heard, &at);

	if (!q || !did || !h)
		return TC_ACT_UNSPEC;
	struct way *w = &f->way[DOWN];
	__u32 wire = wire_bytes(skb, &c->framing, p);
	__u64 at98 = stands(&q->full[0], now), at99 = stands(&q->full[1], now);
	__u64 at100 = stands(&q->full[2], now), waits = at100;

	fill(&q->full[0], c->cost[0], wire, 4 * c->target, now);
	fill(&q->full[1], c->cost[1], wire, 4 * c->target, now);
	if (!w->heavy && w->window_bytes > c->heavy)
		w->heavy = 1;
	if (h->owner != hash) {
		__builtin_memset(h, 0, sizeof(*h));
		h->owner = hash;
	}
	if (p->stamps && !h->first) {
		h->first = now;
		h->stamp = p->stamp;
	}
	__s64 late = waited(h, f, p, now);

	if (late >= 0 && w->heavy) {
		q->waits = late;
		q->seen = now;
	}
	if (q->seen && now - q->seen < SEEN_STALE) {
		if (q->waits > waits)
			waits = q->waits;
	} else if (at99 > waits) {
		waits = at99;
	}
	int large = p->length >= LONG_BYTES * p->segments;
	int ack = p->key.proto == IPPROTO_TCP && p->payload == 0 &&
		  !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
	int drop = large ? at100 > c->burst / 2 : at100 > (ack ? 2 * c->burst : c->burst);

	if (!drop && at98 > STANDS) {
		__u8 head[2];
		int ecn = ecn_capable(skb, s->begin, head);

		if (w->heavy && waits > c->target && ecn && waits < DEAF * c->target) {
			if (ecn != ECN_CE && turn(q, c, f, h, waits, now) &&
			    set_ce(skb, s->begin, head) == 0)
				did->marked += p->segments;
		} else if (w->heavy && waits > c->target && large && at99 > STANDS) {
			drop = turn(q, c, f, h, waits, now);
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
	fill(&q->full[2], c->cost[2], wire, 4 * c->burst, now);
	return TC_ACT_UNSPEC;
}
