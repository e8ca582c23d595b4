/* Queues behind us: at an access point, a powerline adapter, a mesh. A way on our own side that carries
 * less than the line lets its flows wait there, where no discipline of ours is; the sender's window is
 * what holds them shorter.
 *
 * A round trip on our side goes from data's arrival here to its acknowledgement (rtt.h). Aggregation,
 * scans and sleep make single ones longer; the least of some is longer only while something waits all
 * the time. The bound on a flow's window follows that, as FAST does (Wei, Jin, Low, Hegde 2006): it is
 * multiplied by (base + target) / (base + queue) once in a round trip, so that a short queue stands,
 * which keeps the way busy.
 *
 * Sees: every acknowledgement that leaves of a heavy flow whose window is bounded.
 * Principles: each flow for itself, by its own way: who is near is not taken for who is far, also where
 * address translation makes one of them; nothing is bounded that reaches its share of the line; what
 * a way takes without a queue is looked for again and again, since people move.
 * Non-goals: what a host uploads, which waits in the host.
 */
#pragma once

#include "lan_host.h"
#include "packet.h"
#include "share.h"

/* So many round trips at least, and so long, make one look; us. */
#define LAN_SAMPLES 3
#define LAN_SAMPLES_MOST 200
#define LAN_INTERVAL 20000
/* What may stand behind us beside two packets and a part of the scatter, and all of it at most, us. */
#define LAN_TARGET 1500
#define LAN_TARGET_MAX 10000
/* Who waits so much longer, beside the scatter, waits too long; us. */
#define LAN_LATE 8000
/* Where nothing stands the bound rises as if so much more were to, us. */
#define LAN_PROBE 4000
/* The way's base is looked for when a bound was found, and anew this often, ns, with windows that let
 * nothing stand for so many looks.
 */
#define LAN_BASE_AGE (10 * SECOND)
#define LAN_BASE_LOOKS 5
/* It rises by half of itself and so much at a time, us. */
#define LAN_BASE_STEP 2000
/* A least round trip below the base moves it by a part of this. */
#define LAN_BASE_PART 32
/* TCP's windows are not larger (RFC 7323, 2.3), bytes. */
#define TCP_WINDOW_MOST (1U << 30)

/* How long the queue is to be of a flow, us: with scatter, what is least comes seldom. */
static __always_inline __u32 lan_target(const struct lan *n, const struct grant *g)
{
	__u32 segment = g->segment ? g->segment : 1;
	__u64 target = LAN_TARGET + 2000000ULL * segment / (n->rate + 1) + n->scatter / 4;

	return target < LAN_TARGET_MAX ? target : LAN_TARGET_MAX;
}

/* What the way takes without a queue: what round trips usually take then, so that scatter is in both. Whether the window is to stay as it is for that.
 */
static __always_inline int observe_lan_base(struct lan *n, __u32 usual, __u32 first, int bound,
					    __u64 now)
{
	if (!n->base)
		n->base = first;
	if (!n->window) {
		n->base_since = now - LAN_BASE_AGE;
		n->base_next = 0;
		n->looking = 0;
	}
	if (n->looking) {
		/* The first one has seen the window that was before. */
		if (n->looking < LAN_BASE_LOOKS)
			n->base_next += usual;
		if (--n->looking)
			return 1;
		__u32 found = n->base_next / (LAN_BASE_LOOKS - 1);
		__u32 most = n->base + n->base / 2 + LAN_BASE_STEP;

		/* It may have become slower meanwhile, so that much stood in spite of it. */
		n->base = found < most ? found : most;
		n->base_next = 0;
		n->base_since = now;
	} else if (usual < n->base) {
		n->base -= (n->base - usual) / LAN_BASE_PART;
	}
	/* Who does not use the window has nothing standing for it. */
	if (n->window && bound && now - n->base_since > LAN_BASE_AGE) {
		n->looking = LAN_BASE_LOOKS;
		return 1;
	}
	return 0;
}

/* The bound after a look at which `queue` us stood. */
static __always_inline __u32 next_lan_window(const struct lan *n, const struct grant *g, __u32 base,
					     __u32 target, __u32 queue)
{
	__u64 w = n->window, held = (__u64)n->rate * (base + queue) / 1000000;
	/* The less stands, the more it may carry beyond what is seen. */
	__u32 more = queue < target ? LAN_PROBE * (target - queue) / target : 0;
	__u64 next = w * (base + target + more) / (base + queue);

	if (queue < target / 2 && next < w + w / 8)
		next = w + w / 8;
	if (next > w) {
		/* Who does not use it shows nothing. */
		if (!(g->flags & GRANT_LAN_BOUND) || held < w / 2)
			return w;
		next += g->segment / 2;
	}
	if (next > w + w / 4)
		next = w + w / 4;
	if (next < w / 2)
		next = w / 2;
	return next < 2 * g->segment ? 2 * g->segment : next;
}

/* A round trip of a flow without a queue behind us, us: with what stands on its way beyond us now, as of an
 * upload, which is no reason for a smaller window.
 */
static __always_inline __u32 lan_round_trip(const struct flow *f)
{
	__u32 base = base_rtt(f), now = f->dir[UP].rtt + f->dir[DOWN].rtt_min;

	if (now > 4 * base)
		now = 4 * base;
	/* A little more is scatter. */
	return now > base + base / 4 ? now : base;
}

/* Ends a look at a flow's way that took `took` ns. */
static __noinline int end_lan_look(struct flow *f, __u64 took, __u64 now)
{
	if (!f)
		return 0;
	struct lan *n = &f->lan;
	struct grant *g = &f->grant;
	__u32 base = lan_round_trip(f);
	/* Without the longest, which may have met a scan or a host that slept. */
	__u32 count = n->samples > LAN_SAMPLES ? n->samples : LAN_SAMPLES;
	__u32 usual = (n->sum - n->least - n->most) / (count - 2);
	int looked = n->looking, bound = g->flags & GRANT_LAN_BOUND;
	int stays = observe_lan_base(n, usual, f->dir[DOWN].rtt_min, bound, now);
	__u32 acked = g->last_ack - n->acked;

	if (took > SECOND || acked > (1 << 30))
		return 0;
	n->rate = acked * SECOND / (took + 1);
	n->queue = saturating_sub(n->window ? usual : n->least, n->base);
	if (stays) {
		n->was_cut = 1;
		if (n->looking == LAN_BASE_LOOKS)
			n->dip = (__u64)n->rate * base / 1000000;
		return 0;
	}
	__u32 target = lan_target(n, g), queue = n->queue, before = n->window;

	if (looked) {
		/* What was granted before is no measure any more. */
		__u64 w = (__u64)n->dip * (base + target + LAN_PROBE) / base;

		n->window = w < n->window ? w : n->window;
	} else if (n->window) {
		n->window = next_lan_window(n, g, base, target, queue);
	} else if (queue > 2 * target && g->rate < g->share - g->share / 8) {
		/* It has carried what it can: something waited. */
		__u32 w = (__u64)n->rate * (base + target) / 1000000;

		n->window = w < 2 * g->segment ? 2 * g->segment : w;
	}
	n->was_cut = !before || n->window < before;
	return 0;
}

/* An acknowledgement leaves. */
static __always_inline void observe_lan(const struct line *l, struct flow *f, __u64 now)
{
	struct lan *n = &f->lan;
	const struct direction_state *in = &f->dir[DOWN];

	if (in->rtt_count == n->rtt_count || !l->lan)
		return;
	n->rtt_count = in->rtt_count;
	note_lan_host(f->grant.host, in->rtt, now);
	if (!in->heavy)
		return;
	__u64 took = now - n->begun, whole = lan_round_trip(f) * 1000ULL;

	/* What comes before a round trip is over was sent under the bound that was before; if it waits long
	 * although that one was not larger, the way has become slower.
	 */
	int late = !n->was_cut && in->rtt > n->base + n->scatter + LAN_LATE;

	if (n->window && took < whole && !late)
		return;
	if (!n->samples) {
		n->least = in->rtt;
		n->most = 0;
		n->sum = 0;
	}
	if (in->rtt < n->least)
		n->least = in->rtt;
	if (in->rtt > n->most)
		n->most = in->rtt;
	n->sum += in->rtt;
	n->scatter = (n->scatter * 15ULL + (in->rtt - n->least)) / 16;
	if (++n->samples < LAN_SAMPLES)
		return;
	late = !n->was_cut && n->least > n->base + n->scatter + LAN_LATE;
	whole = n->window && !late ? whole * 3 / 2 : 0;
	if (whole < LAN_INTERVAL * 1000ULL)
		whole = LAN_INTERVAL * 1000ULL;
	if (took < whole && n->samples < LAN_SAMPLES_MOST)
		return;
	end_lan_look(f, took, now);
	n->samples = 0;
	n->begun = now;
	n->acked = f->grant.last_ack;
}

/* No more than this on a flow's way: `wanted` bytes, or what its own way carries. */
static __always_inline __u32 lan_bound(const struct line *l, struct flow *f, __u64 wanted)
{
	struct lan *n = &f->lan;
	__u32 window = wanted < TCP_WINDOW_MOST ? wanted : TCP_WINDOW_MOST, bound = n->window;

	f->grant.flags &= ~GRANT_LAN_BOUND;
	if (!bound || !l->lan)
		return window;
	if (bound / 2 > window) {
		/* The line is what holds it now. */
		n->window = 0;
		return window;
	}
	if (bound >= window)
		return window;
	f->grant.flags |= GRANT_LAN_BOUND;
	if (n->looking) {
		__u32 least = 2 * f->grant.segment;

		bound = n->dip < least ? least : n->dip;
	}
	return bound;
}
