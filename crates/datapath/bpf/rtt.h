/* Round trips of TCP connections that pass, from handshakes, from time stamps (RFC 7323) and, where there
 * are none, from sequence numbers (Karn's algorithm, RFC 6298, section 3): for the flow's entry, for
 * histograms, and for a controller whose probes nobody answers.
 *
 * Sees: every TCP packet in both directions.
 * Principles: passive; a controller is told only what an answer ends at once, of a handshake or of what
 * moves much; the latest samples push out the oldest, so that nobody has to listen.
 * Non-goals: what they say of the line (`evenkeel_core::control`).
 */
#pragma once

#include "packet.h"

/* The echo of a time stamp is waited for this long. */
#define RTT_TIMEOUT (10 * SECOND)
/* Another answer is waited for so long after the latest, us. */
#define AWAIT_EACH 10000
/* What moves this much, and no less in a second, is answered at once. */
#define MOVES_BYTES (4 * 1024)
#define MOVES_RATE (8 * 1024)

/* First those of the Internet's side (what we sent came back), then the LAN's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2 * RTT_STEPS);
} ek_rtt SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, struct rtt_sample);
	__uint(max_entries, RTT_SAMPLES);
} ek_rtt_samples SEC(".maps");

/* Tells the controller of a round trip beyond us of `rtt` us. */
static __always_inline void publish_rtt_sample(const struct packet *p, __u32 rtt, int may_have_queued,
						__u64 now)
{
	struct rtt_sample sample = {
		.answered_at = now,
		.rtt_us = rtt,
		.tsval = p->tsval,
		.local_port = p->key.local_port,
		.remote_port = p->key.remote_port,
		.may_have_queued = may_have_queued,
		.has_tsval = p->has_timestamps,
	};

	__builtin_memcpy(sample.remote, p->key.remote, sizeof(sample.remote));
	bpf_map_push_elem(&ek_rtt_samples, &sample, BPF_EXIST);
}

/* Whether a flow moves enough for its far side to take no time over an answer. */
static __always_inline int moves(const struct direction_state *d, __u64 now)
{
	return d->heavy || (d->second_bytes >= MOVES_BYTES &&
			    d->second_bytes * SECOND >= MOVES_RATE * (now - d->second_start));
}

/* From now on the answer to `what`, which is leaving, is waited for, for the controller. */
static __always_inline void await_answer(struct flow *f, const struct packet *p, __u32 what, __u64 now)
{
	__u32 us = now / 1000;
	__u8 n = f->awaited_count;

	if (n) {
		__u32 since = us - f->awaited[(f->awaited_first + n - 1) & (AWAITED - 1)].sent_at;

		if (since > RTT_TIMEOUT / 1000)
			n = 0;
		else if (n >= AWAITED || since < AWAIT_EACH)
			return;
	}
	__u8 at = (f->awaited_first + n) & (AWAITED - 1);

	f->awaited[at].what = what;
	f->awaited[at].sent_at = us;
	f->awaited_data = (f->awaited_data & ~(1 << at)) | (p->payload ? 1 << at : 0);
	f->awaited_count = n + 1;
}

/* Tells the controller of the latest answer that `p` brings, which acknowledges up to `until`, or echoes exactly that.
 */
static __always_inline void answer(struct flow *f, const struct packet *p, __u32 until, int exactly,
				   __u64 now)
{
	int found = -1;

	for (int i = 0; i < AWAITED; i++) {
		__u8 at = f->awaited_first & (AWAITED - 1);
		__s32 past = until - f->awaited[at].what;

		if (!f->awaited_count || past < 0)
			break;
		f->awaited_first = at + 1;
		f->awaited_count--;
		if (past == 0 || !exactly)
			found = at;
	}
	if (found < 0 || (!moves(&f->dir[UP], now) && !moves(&f->dir[DOWN], now)))
		return;
	__u32 us = (__u32)(now / 1000) - f->awaited[found & (AWAITED - 1)].sent_at;

	/* Empty acknowledgements are too little to wait. */
	publish_rtt_sample(p, us, f->awaited_data >> found & 1, now);
}

/* The histogram's step for a round trip: four in each doubling, from 64 us on. */
static __always_inline __u32 rtt_histogram_step(__u32 us)
{
	__u32 log = 0, v = us >> 6;

	if (v == 0)
		return 0;
	if (v >> 16) {
		v >>= 16;
		log += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log += 2;
	}
	if (v >> 1)
		log += 1;
	__u32 step = log * 4 + ((us >> (log + 4)) & 3) + 1;

	return step < RTT_STEPS ? step : RTT_STEPS - 1;
}

/* A round trip beyond us in direction `dir` took `rtt` ns. */
static __always_inline void add_rtt_sample(struct flow *f, int dir, __u64 rtt)
{
	struct direction_state *d = &f->dir[dir & 1];
	__u64 us = rtt / 1000;

	if (us > 0xffffffff)
		return;
	d->rtt = us ? us : 1;
	if (d->rtt_min == 0 || d->rtt < d->rtt_min)
		d->rtt_min = d->rtt;
	d->rtt_count++;
	__u32 at = dir * RTT_STEPS + rtt_histogram_step(us);
	__u64 *n = bpf_map_lookup_elem(&ek_rtt, &at);

	if (n)
		*n += 1;
}

/* The same without time stamps: from the end of data that is new to the acknowledgement of it. What is sent
 * again takes the measurement back: nobody knows which one is answered, or what was waited for before.
 */
static __always_inline void measure_rtt_by_sequence(struct flow *f, const struct packet *p, int dir,
						    __u64 now)
{
	struct direction_state *mine = &f->dir[dir & 1], *other = &f->dir[!dir];

	if (other->awaited_at && p->tcp_flags & TCP_ACK && (__s32)(p->ack - other->awaited) >= 0) {
		if (now - other->awaited_at < RTT_TIMEOUT)
			add_rtt_sample(f, !dir, now - other->awaited_at);
		other->awaited_at = 0;
	}
	if (dir == DOWN && f->awaited_count && p->tcp_flags & TCP_ACK)
		answer(f, p, p->ack, 0, now);
	if (!p->payload || p->tcp_flags & TCP_SYN)
		return;
	__u32 end = p->seq + p->payload;

	if (mine->latest && (__s32)(end - mine->latest) <= 0) {
		mine->awaited_at = 0;
		if (dir == UP)
			f->awaited_count = 0;
		return;
	}
	if (dir == UP)
		await_answer(f, p, end, now);
	if (!mine->awaited_at || now - mine->awaited_at > RTT_TIMEOUT) {
		mine->awaited = end;
		mine->awaited_at = now;
		mine->awaited_with_data = 1;
	}
	mine->latest = end;
}

/* Round trips that a TCP packet ends, and begins. A stamp counts from the first packet that bears it;
 * only its exact echo answers it. Stamps of empty acknowledgements are waited for only while much comes
 * the other way: else nothing answers them at once.
 */
static __always_inline void measure_rtt(struct flow *f, const struct packet *p, int dir, __u64 now)
{
	struct direction_state *mine = &f->dir[dir & 1], *other = &f->dir[!dir];
	__u8 flags = p->tcp_flags;

	if (flags & TCP_SYN) {
		/* Sent again, nobody knows which one is answered. */
		__u8 bit = dir == UP ? FLOW_SYN_UP : FLOW_SYN_DOWN;

		if (flags & TCP_ACK && f->flags & (FLOW_SYN_UP | FLOW_SYN_DOWN) && f->syn_at &&
		    !(f->flags & bit)) {
			add_rtt_sample(f, !dir, now - f->syn_at);
			if (dir == DOWN && now - f->syn_at < RTT_TIMEOUT)
				publish_rtt_sample(p, (now - f->syn_at) / 1000, 0, now);
		}
		f->syn_at = f->flags & bit ? 0 : now;
		f->flags |= bit;
		mine->window_scale = p->window_scale;
		if (p->mptcp)
			f->flags |= FLOW_MPTCP;
	} else if (f->syn_at && flags & TCP_ACK) {
		/* The third of the handshake answers the second, if it comes from the first. */
		if (f->flags == (FLOW_SYN_UP | FLOW_SYN_DOWN) && p->payload == 0)
			add_rtt_sample(f, !dir, now - f->syn_at);
		f->syn_at = 0;
	}
	if (flags & (TCP_FIN | TCP_RST))
		f->flags |= FLOW_CLOSED;
	if (!p->has_timestamps) {
		measure_rtt_by_sequence(f, p, dir, now);
		return;
	}
	if (other->awaited_at && flags & TCP_ACK) {
		__s32 past = p->tsecr - other->awaited;

		if (past == 0 && now - other->awaited_at < RTT_TIMEOUT)
			add_rtt_sample(f, !dir, now - other->awaited_at);
		if (past >= 0)
			other->awaited_at = 0;
	}
	if (dir == DOWN && f->awaited_count && flags & TCP_ACK)
		answer(f, p, p->tsecr, 1, now);
	if (dir == UP && p->tsval != mine->latest && !(flags & TCP_SYN) && (p->payload || moves(other, now)))
		await_answer(f, p, p->tsval, now);
	if (p->tsval != mine->latest &&
	    (!mine->awaited_at || now - mine->awaited_at > RTT_TIMEOUT) &&
	    !(flags & TCP_SYN) && (p->payload || other->heavy)) {
		mine->awaited = p->tsval;
		mine->awaited_at = now;
		mine->awaited_with_data = p->payload > 0;
	}
	mine->latest = p->tsval;
}
