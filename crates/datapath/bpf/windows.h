/* Receive windows: how much each sender on the far side may have on its way to us, so that
 * downloads fill the line without queueing in front of it.
 *
 * What a flow is granted is share x (round trip + allowance). The share is its part of the line's
 * target rate: hosts equal among each other, flows of a host by the weight of their tier; what
 * flows do not use that are limited elsewhere is the others'. Round trip: the smallest seen, from
 * the handshake on. Allowance: what a round trip takes beyond that (serialisation, delayed and
 * queued acknowledgements), found by each flow from the rate it reaches; it falls while the line
 * is full and round trips show that a queue stands.
 *
 * Principles: a right edge that was let through never moves left; whole segments, at least two;
 * no flow is bounded whose window scale is not known. Sums of who is active live in slots of
 * 33 ms, paid in advance for as long as a round trip takes: whoever ends or goes quiet is
 * forgotten without anybody looking for him.
 * Non-goals: what obeys no windows (unheld.h).
 */
#pragma once

/* A slot lasts 2^25 ns; at most so many are paid in advance. */
#define SLOT_SHIFT 25
#define PAID 6
/* Shares are computed again after this long. */
#define FRESH (SECOND / 1000)
/* Round trip of those who have shown none yet, us. */
#define UNKNOWN_RTT 30000
/* Most segments of a first promise. */
#define FIRST_SEGMENTS 10
/* Thousandths: how far the shares may be raised when those who have them do not use them. */
#define MOST_BOOST 7000
/* The part of the line that connections which are not heavy must bring to be a crowd, and the part
 * that the others then leave free.
 */
#define CROWD 32
#define CROWD_ROOM 22
#define HOSTS 256

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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct host);
	__uint(max_entries, HOSTS);
} ek_hosts SEC(".maps");

/* Weights of the tiers: bulk leaves the line to the others, as CAKE's bulk tin. */
static __always_inline __u32 weight_of(__u8 tier)
{
	return tier == BULK ? 1 : 16;
}

static __always_inline __u32 rest(__u32 whole, __u32 part)
{
	return whole > part ? whole - part : 0;
}

/* What a flow's round trip takes at least, us: beyond us, and on our side. */
static __always_inline __u32 base_rtt(const struct flow *f)
{
	__u32 far = f->way[UP].rtt_min, near = f->way[DOWN].rtt_min;

	if (f->grant.base && (!far || f->grant.base < far))
		far = f->grant.base;
	if (!far)
		return UNKNOWN_RTT;
	/* Who dawdles on our side shall not have the line's buffer for it. */
	if (near > 50000)
		near = 50000;
	return far + near;
}

/* Enters what a flow takes (a weight, or a rate if it is limited elsewhere) for this slot and
 * those ahead, instead of what it took before. Slots are put in order by whoever comes first.
 */
static __noinline int pay_for(struct pool *pool, struct host *h, struct grant *g, __u64 when,
			      __u64 what)
{
	__u32 slot = when, ahead = when >> 32, limited = what, weight = what >> 32;

	if (!pool || !h || !g)
		return 0;
	for (__u32 i = 0; i <= PAID; i++) {
		__u32 n = slot + i;
		struct pool_slot *all = &pool->slot[n & 7];
		struct host_slot *his = &h->slot[n & 7];

		if (i > ahead && (__s32)(g->paid - n) <= 0)
			break;
		if (all->slot != n) {
			all->hosts = 0;
			all->limited = 0;
			all->slot = n;
		}
		if (his->slot != n) {
			his->weight = 0;
			his->limited = 0;
			his->slot = n;
		} else if ((__s32)(g->paid - n) > 0) {
			/* What he paid before. */
			if (g->weight) {
				his->weight = rest(his->weight, g->weight);
				if (!his->weight) {
					all->hosts = rest(all->hosts, 1);
					all->limited += his->limited;
				}
			} else {
				his->limited = rest(his->limited, g->limited);
				if (!his->weight)
					all->limited = rest(all->limited, g->limited);
			}
		}
		if (i > ahead)
			continue;
		if (weight) {
			if (!his->weight) {
				all->hosts++;
				all->limited = rest(all->limited, his->limited);
			}
			his->weight += weight;
		} else {
			his->limited += limited;
			if (!his->weight)
				all->limited += limited;
		}
	}
	g->weight = weight;
	g->limited = limited;
	g->paid = slot + ahead + 1;
	return 0;
}

static __always_inline void pay(struct pool *pool, struct host *h, struct grant *g, __u32 slot,
				__u32 ahead, __u32 weight, __u32 limited)
{
	pay_for(pool, h, g, (__u64)ahead << 32 | slot, (__u64)weight << 32 | limited);
}

/* Whether short connections come all the time. What they bring in a round trip is not known
 * beforehand, so others had better leave room for more of it than there is on average.
 */
static __always_inline int crowded(const struct line *l, const struct pool *pool)
{
	return pool->light_rate > l->target / CROWD;
}

/* Whether the share of a flow follows slowly. What each of a crowd takes is over before the others
 * could make room for it, and when they get it back their windows open with a burst.
 */
static __always_inline int steady(const struct line *l, const struct pool *pool,
				  const struct flow *f)
{
	return f->way[DOWN].heavy && f->grant.window && crowded(l, pool);
}

/* The share of a flow that would take all it gets, bytes per second at the link layer. */
static __always_inline __u32 share_of(const struct line *l, const struct pool *pool,
				      const struct host *h, const struct grant *g, __u32 slot,
				      __u8 tier)
{
	const struct pool_slot *all = &pool->slot[slot & 7];
	const struct host_slot *his = &h->slot[slot & 7];
	__u32 hosts = 0, elsewhere = 0, weight = 0, limited = 0, mine = weight_of(tier);
	int paid = (__s32)(g->paid - slot) > 0;
	__u64 free = rest(l->target, pool->other);

	if (all->slot == slot) {
		hosts = all->hosts;
		elsewhere = all->limited;
	}
	if (his->slot == slot) {
		weight = his->weight;
		limited = his->limited;
	}
	if (!weight) {
		/* His host is not among those who take what they get: as if it were. */
		hosts++;
		elsewhere = rest(elsewhere, limited);
	}
	if (!paid || !g->weight)
		weight += mine;
	if (paid && !g->weight)
		limited = rest(limited, g->limited);
	if (crowded(l, pool))
		free = rest(free, l->target / CROWD_ROOM);
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
	free = free * mine / (weight ? weight : 1);
	free = free * (1000 + pool->boost) / 1000;
	if (free > l->target)
		free = l->target;
	return free ? free : 1;
}

/* How many slots ahead a flow pays: for the longest pause that it makes between two packets while
 * it is active.
 */
static __always_inline __u32 ahead_of(const struct line *l, const struct grant *g, __u32 base)
{
	__u32 pause = g->turn > base ? g->turn : base;

	if (pause < l->packet_ns / 100)
		pause = l->packet_ns / 100;
	pause = 1 + (pause >> 15);
	return pause < PAID ? pause : PAID;
}

/* What a flow would take next if nobody held it, bytes per second. Most new ones are short: half a
 * first window in each round trip is what they take; whoever takes more has shown it by then.
 */
static __always_inline __u64 demand_of(const struct line *l, const struct grant *g, __u32 base)
{
	__u32 wire = g->wire ? g->wire : l->packet;
	__u64 first = FIRST_SEGMENTS / 2 * (__u64)wire * 1000000 / base;

	if (g->flags & GRANT_BOUND)
		return l->target;
	if (!(g->flags & GRANT_RAMPS))
		return g->rate + g->rate / 8 + 1;
	return g->rate * 4ULL > first ? g->rate * 4ULL : first;
}

/* Enters what a flow takes of its share, or its share if it takes all of that. */
static __always_inline void enter(const struct line *l, struct pool *pool, struct host *h,
				  struct flow *f, __u32 slot)
{
	struct grant *g = &f->grant;
	__u32 base = base_rtt(f), ahead = ahead_of(l, g, base);
	__u32 share = share_of(l, pool, h, g, slot, f->tier);
	__u64 demand = demand_of(l, g, base);

	if (!steady(l, pool, f))
		g->share = share;
	g->settled = 1;
	if (demand >= share)
		pay(pool, h, g, slot, ahead, weight_of(f->tier), 0);
	else
		pay(pool, h, g, slot, ahead, 0, demand);
}

/* How long the line must not have been full until that is believed, ns. */
static __always_inline __u64 proof(const struct line *l, __u32 base)
{
	return SECOND / 4 + 128ULL * l->packet_ns + 4000ULL * base;
}

/* Looks at the line as a whole, every 8 ms or eight packets. */
static __always_inline void watch(const struct line *l, struct pool *pool, __u64 now)
{
	__u64 took = now - pool->step;

	if (took < 8000000 || took < l->packet_ns * 8ULL)
		return;
	__u64 arrived = pool->arrived, other = pool->others, light = pool->light;
	__u64 came = arrived - pool->arrived_before;

	pool->arrived_before = arrived;
	pool->step = now;
	if (took > SECOND) {
		pool->others_before = other;
		pool->light_before = light;
		pool->all = 0;
		pool->now = 0;
		pool->other = 0;
		pool->light_rate = 0;
		pool->boost = 0;
		pool->full = 0;
		return;
	}
	__u64 rate = came * SECOND / took;
	__u64 other_rate = (other - pool->others_before) * SECOND / took;
	__u64 light_rate = (light - pool->light_before) * SECOND / took;

	pool->others_before = other;
	pool->light_before = light;
	/* Slow lines have fewer packets to judge by, and as little time. */
	if (took > 16000000) {
		pool->all = (pool->all * 3ULL + rate) / 4;
		pool->light_rate = (pool->light_rate * 3ULL + light_rate) / 4;
	} else {
		pool->all = (pool->all * 7ULL + rate) / 8;
		pool->light_rate = (pool->light_rate * 15ULL + light_rate) / 16;
	}
	pool->now = (pool->now + rate) / 2;
	pool->other = (pool->other * 7ULL + other_rate) / 8;
	pool->full = pool->all >= l->target;
	if (pool->full) {
		pool->full_at = now;
		pool->boost -= (pool->boost + 3) / 4;
	} else if (now - pool->bounded < SECOND / 10 && pool->queue < l->packet_ns / 1000 + 100 &&
		   now - pool->full_at >= proof(l, 0) &&
		   pool->all < l->target - l->target / 64) {
		__u64 more = (l->target - pool->all) * 1000ULL / l->target;
		__u64 boost = pool->boost + (more * (took >> 20) >> 7);

		pool->boost = boost < MOST_BOOST ? boost : MOST_BOOST;
	}
}

/* The allowance of a flow after an interval in which it used all of its window, or not. */
static __always_inline void adjust(const struct line *l, struct pool *pool, struct flow *f,
				   __u32 took_us, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 base = base_rtt(f), share = g->share;
	__u32 packet = l->packet_ns / 1000;
	__u32 small = packet + (packet < 1000 ? packet : 1000) + 100 + l->slack;
	__u32 from = g->base, far = f->way[UP].rtt_min;
	/* What came was let through a round trip or two ago, by what was the share then. */
	__u32 low = share;

	for (int i = 0; i < 2; i++)
		if (g->shares[i] && g->shares[i] < low)
			low = g->shares[i];
	/* It may never have seen the line without a queue, but its handshake was no full packet. */
	if (far && far + packet + 100 < from)
		from = far + packet + 100;
	__u32 excess = g->least > from ? g->least - from : 0;
	__s32 extra = g->extra;

	if (!(g->flags & GRANT_BOUND) || !share)
		return;
	if (now - pool->bounded > SECOND / 10)
		pool->full_at = now;
	pool->bounded = now;
	pool->queue = (pool->queue + excess) / 2;
	if (took_us > 200000)
		took_us = 200000;
	/* A queue, unless the line has long been idle in spite of it: then so long do
	 * acknowledgements take.
	 */
	__u64 since = now - pool->full_at;
	int proven = since >= proof(l, base);

	/* Sooner where a good part of it is free at this moment, as it is at the beginning. */
	if (pool->now < l->target - l->target / 32)
		proven |= since + SECOND * 3 / 16 >= proof(l, base);
	if (!pool->full && proven && excess > g->usual)
		g->usual = excess;
	if (pool->full)
		g->usual -= g->usual / 64;
	/* A line that is to be full is given a little more than it carries. */
	__u32 spare = l->fills ? share / 64 : 0;

	/* Late acknowledgements come in bursts, and so does what they let through: to fill the
	 * pauses between costs more delay than it is worth to others.
	 */
	if (g->usual > 6000 && !l->fills) {
		share -= share / 16;
		low -= low / 16;
	}
	int queued = excess > small + g->usual && (!proven || pool->full);

	queued |= excess > 4 * small + 2 * g->usual && pool->now >= l->target;
	if (queued) {
		extra -= (excess - small - g->usual) / 4;
	} else if (g->rate < low - low / 16 ||
		   (g->rate < low && !pool->full && !crowded(l, pool))) {
		extra += (__u64)took_us * (low - g->rate) / low / 4;
	} else if (g->rate > share + spare) {
		__u32 over = g->rate - share;

		if (over > share)
			over = share;
		extra -= (__u64)took_us * over / share / 4;
	}
	__s32 least = -(__s32)(base / 2), most = base + 30000;

	g->extra = extra < least ? least : extra > most ? most : extra;
}

/* Whether a flow uses all it is granted. The first data beyond an edge then comes a round trip
 * after the edge was moved; with time stamps that is seen for sure.
 */
static __always_inline int bound(const struct flow *f)
{
	const struct grant *g = &f->grant;
	__u32 rtt = f->way[UP].rtt;

	if (!g->turn || !g->edge_before)
		return 0;
	if (f->way[DOWN].heavy && f->way[UP].rtt_count > 4)
		return g->turn < rtt + rtt / 4 + 1000;
	return (__s32)(g->seen - g->edge_before) + (__s32)g->segment >= 0;
}

/* A packet arrived that a flow may have been granted a window for. */
static __always_inline void arrived(struct __sk_buff *skb, const struct line *l, struct pool *pool,
				    struct host *h, struct flow *f, const struct packet *p,
				    __u32 bytes, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 end = p->seq + p->payload, slot = now >> SLOT_SHIFT;

	if (p->tcp_flags & TCP_SYN) {
		/* A copy of it says nothing new, and more may have been let through since. */
		if (g->flags & GRANT_EDGE && g->origin == p->seq)
			return;
		g->origin = p->seq;
		g->flags &= ~(GRANT_EDGE | GRANT_SEEN);
		/* The promise that our SYN made begins here. */
		if (p->tcp_flags & TCP_ACK && g->promise) {
			g->edge = p->seq + 1 + g->promise;
			g->flags |= GRANT_EDGE;
		}
		return;
	}
	if (p->tcp_flags & (TCP_FIN | TCP_RST)) {
		if ((__s32)(g->paid - slot) > 0)
			pay(pool, h, g, slot, 0, 0, 0);
		g->paid = slot;
		return;
	}
	if (!p->payload)
		return;
	__u32 segment = skb->gso_size;

	if (!segment || p->segments <= 1)
		segment = p->payload;
	if (segment > g->segment) {
		g->segment = segment;
		g->wire = wire_len(&l->framing, segment + p->headers);
	}
	if (!(g->flags & GRANT_SEEN) || (__s32)(end - g->seen) > 0) {
		g->seen = end;
		g->flags |= GRANT_SEEN;
	}
	/* The first data beyond an edge answers the acknowledgement that moved it, unless the sender
	 * has nothing to send; an echoed time stamp is answered at once.
	 */
	__u32 took_us = 0;

	if (g->ask != g->answered && (__s32)(end - g->asked_edge[g->answered & 3]) > 0) {
		took_us = (__u32)(now / 1000) - g->asked[g->answered & 3];
		g->answered++;
		g->turn = took_us;
	}
	if (p->stamps && f->way[DOWN].heavy) {
		took_us = f->way[UP].rtt_count != g->samples ? f->way[UP].rtt : 0;
		g->samples = f->way[UP].rtt_count;
	}
	if (took_us) {
		if (!g->least || took_us < g->least)
			g->least = took_us;
		if (!g->base || took_us < g->base)
			g->base = took_us;
	}
	g->bytes += bytes;
	__u32 base = base_rtt(f);
	__u64 took = now - g->since;
	__u64 whole = base * 1000ULL;

	if (whole < 10000000)
		whole = 10000000;
	if (whole < l->packet_ns * 8ULL)
		whole = l->packet_ns * 8ULL;
	if (took >= whole) {
		__u32 before = g->rate;
		int ramps = g->flags & GRANT_RAMPS, was = g->flags & GRANT_BOUND;

		g->rate = took < 10 * SECOND ? g->bytes * SECOND / took : 0;
		g->bytes = 0;
		g->since = now;
		g->flags = bound(f) ? g->flags | GRANT_BOUND : g->flags & ~GRANT_BOUND;
		if (ramps && g->rate < before + before / 4 && before)
			g->flags &= ~GRANT_RAMPS;
		g->edge_before = g->edge;
		if (was)
			adjust(l, pool, f, took / 1000, now);
		g->shares[1] = g->shares[0];
		g->shares[0] = g->share;
		again();
		if (++g->rounds % 4 == 0)
			g->least = 0;
		g->settled = 0;
	}
	if ((__s32)(g->paid - slot) > 1 && g->settled)
		return;
	enter(l, pool, h, f, slot);
}

/* Window for a flow now, bytes. */
static __always_inline __u32 window_of(const struct line *l, struct pool *pool, struct host *h,
				       struct flow *f, __u64 now)
{
	struct grant *g = &f->grant;

	if (g->window && now - g->fresh < FRESH)
		return g->window;
	__u32 base = base_rtt(f), slot = now >> SLOT_SHIFT;
	__u64 whole = 1 << SLOT_SHIFT, past = now - g->fresh;

	if (past > whole || !steady(l, pool, f))
		past = whole;
	g->fresh = now;
	g->share = (g->share * (whole - past) +
		    share_of(l, pool, h, g, slot, f->tier) * past) >> SLOT_SHIFT;
	__s64 us = (__s64)base + 2 * (l->packet_ns / 1000) + g->extra;

	if (us < 100)
		us = 100;
	__u32 wire = g->wire ? g->wire : l->packet, segment = g->segment ? g->segment : l->segment;
	__u64 n = ((__u64)g->share * us / 1000000 + wire / 2) / wire;

	/* No more than slow start can make use of: it might be somebody else's by then. */
	__u64 most = 4ULL * g->rate * base / 1000000 / wire;

	if (most < 2 * FIRST_SEGMENTS)
		most = 2 * FIRST_SEGMENTS;
	if (g->flags & GRANT_RAMPS && n > most)
		n = most;
	if (n < 2) {
		n = 2;
		pool->tightest = now;
	}
	/* What is short had better be over soon. */
	if (n < FIRST_SEGMENTS && l->packet_ns * FIRST_SEGMENTS < 4000000 &&
	    f->way[DOWN].packets < FIRST_SEGMENTS)
		n = FIRST_SEGMENTS;
	g->window = n * segment;
	return g->window;
}

/* How far a window opens at once: as fast as one of slow start, or else it would be a burst; a
 * quarter of it, or two segments, may always be there.
 */
static __always_inline __u32 opened(const struct grant *g, __u32 from, __u32 right)
{
	__u32 more = from - g->from, segment = g->segment ? g->segment : 1;
	__u32 most = g->edge + 2 * more, least = g->window / 4 / segment;

	least = (least < 2 ? 2 : least) * segment;
	if ((__s32)(from + least - most) > 0)
		most = from + least;
	return (__s32)more >= 0 && (__s32)(right - most) > 0 ? most : right;
}

/* A packet leaves: bounds the window that it offers. */
static __always_inline void leaves(struct __sk_buff *skb, const struct line *l, struct pool *pool,
				   struct host *h, struct flow *f, const struct packet *p, __u64 now)
{
	struct grant *g = &f->grant;
	__u32 field = p->window;

	if (p->tcp_flags & TCP_RST)
		return;
	if (p->tcp_flags & TCP_SYN) {
		/* The first promise. Windows of SYNs are never scaled (RFC 7323, 2.2). */
		__u32 n = 20000000 / (l->packet_ns + 1);

		if (n < 2)
			n = 2;
		if (n > FIRST_SEGMENTS)
			n = FIRST_SEGMENTS;
		n *= l->segment;
		g->flags |= GRANT_RAMPS;
		if (n < field) {
			rewrite(skb, p, p->tcp + 14, field, n);
			field = n;
		}
		g->promise = field;
		if (p->tcp_flags & TCP_ACK) {
			__u32 right = p->ack + field;

			if (!(g->flags & GRANT_EDGE) || (__s32)(right - g->edge) > 0)
				g->edge = right;
			g->flags |= GRANT_EDGE;
		}
		return;
	}
	if (!(p->tcp_flags & TCP_ACK) || !field)
		return;
	__u32 scale = f->way[UP].scale && f->way[DOWN].scale ? f->way[UP].scale - 1 : 0;
	__u32 unit = 1 << (scale & 15), slot = now >> SLOT_SHIFT;

	if (!g->paid && g->flags & GRANT_RAMPS) {
		/* Whoever has shaken hands will soon take something. */
		enter(l, pool, h, f, slot);
		g->since = now;
	}
	__u32 from = p->ack, window = window_of(l, pool, h, f, now);

	/* The same number again while more arrives: something was lost, and what lies behind it
	 * is not on its way any more.
	 */
	if (p->ack == g->acked && g->flags & GRANT_SEEN && (__s32)(g->seen - from) > 0)
		from = g->seen;
	g->acked = p->ack;
	__u32 right = from + window, real = p->ack + (field << (scale & 15));

	if (g->flags & GRANT_EDGE && !(g->flags & GRANT_RAMPS))
		right = opened(g, from, right);
	g->from = from;

	/* Nobody followed it while windows were not bounded: this one may have been shown before. */
	if (!(g->flags & GRANT_EDGE))
		right = real;
	else if ((__s32)(g->edge - right) > 0)
		right = g->edge;
	if ((__s32)(real - right) > 0) {
		__u32 granted = (right - p->ack + unit - 1) >> (scale & 15);

		if (granted < field) {
			rewrite(skb, p, p->tcp + 14, field, granted);
			real = p->ack + (granted << (scale & 15));
		}
	}
	if (!(g->flags & GRANT_EDGE) || (__s32)(real - g->edge) > 0) {
		__u32 us = now / 1000, n = g->ask - g->answered;

		/* Four in a round trip. */
		if ((__u16)n < 4 && us - g->asked[(g->ask - 1) & 3] > base_rtt(f) / 4) {
			g->asked[g->ask & 3] = us;
			g->asked_edge[g->ask & 3] = g->edge;
			g->ask++;
		} else if (us - g->asked[(g->ask - 1) & 3] > 1000000) {
			g->answered = g->ask;
		}
		g->edge = real;
		g->flags |= GRANT_EDGE;
	}
}
