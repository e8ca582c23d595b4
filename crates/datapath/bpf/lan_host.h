/* What obeys no windows (QUIC, other UDP) in a queue behind us: held to what the way to its host carries.
 *
 * Such flows show no round trips, but the TCP of the same host does, however little of it there is:
 * what it waits, they have filled, unless a window holds it. While their host's least round trip shows a
 * queue they are told to slow down by a dropped packet, one in each look, and as a bucket where that
 * does not help.
 *
 * Sees: acknowledgements that end a round trip on our side; every packet that arrives of a heavy flow
 * without a bounded window.
 * Principles: the least of all flows of a host, so that one entry that several hosts share by address
 * translation has a queue only if all of them wait; nothing without a proof that is a second old at most.
 * Non-goals: hosts without any TCP; fairness among such flows.
 */
#pragma once

#include "kernel.h"
#include "share.h"

/* One look, and after how long without a round trip nothing is known any more, ns. */
#define LAN_HOST_LOOK (SECOND / 10)
#define LAN_HOST_STALE SECOND
/* The least round trip of a host is looked for anew after so long, ns. */
#define LAN_HOST_AGE (60 * SECOND)
/* A queue of so much is one, beside what so many bytes take: four packets; us. */
#define LAN_HOST_QUEUE 12000
#define LAN_HOST_PACKETS 6000ULL
/* The least of fewer round trips is not known. */
#define LAN_HOST_SAMPLES 3
/* So long a queue is given to drain, ns. */
#define LAN_HOST_DRAIN (SECOND / 2)
/* What may come at once, ns. */
#define LAN_HOST_BURST (SECOND / 25)

/* The way to a host. */
struct lan_host {
	__u64 begun;      /* the current look, ns */
	__u64 seen_at;    /* the latest round trip, ns */
	__u64 slowed_at;  /* when a packet was dropped last, ns */
	__u64 busy_until; /* when what came at the limit will have passed, ns */
	__u64 cut_at;     /* when the limit was lowered last, ns */
	__u64 base_since; /* since when the base is looked for, ns */
	__u32 base, base_next; /* least round trip of late, and since then, us */
	__u32 least;      /* of the current look, us; 0: none yet */
	__u32 bytes;      /* that arrived in it of flows without windows */
	__u32 limit;      /* of these flows together, bytes per second; 0: none */
	__u32 queue;      /* at the latest look that had round trips, us */
	__u32 count;      /* of round trips that are looked at */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct lan_host);
	__uint(max_entries, HOSTS);
} ek_lan_hosts SEC(".maps");

/* A round trip on our side to a host took `rtt` us. */
static __always_inline void note_lan_host(__u32 host, __u32 rtt, __u64 now)
{
	struct lan_host *w = bpf_map_lookup_elem(&ek_lan_hosts, &host);

	if (!w)
		return;
	w->seen_at = now;
	w->count++;
	if (!w->least || rtt < w->least)
		w->least = rtt;
	if (!w->base || rtt < w->base)
		w->base = rtt;
	if (!w->base_next || rtt < w->base_next)
		w->base_next = rtt;
	if (now - w->base_since > LAN_HOST_AGE) {
		if (w->base_since)
			w->base = w->base_next;
		w->base_next = rtt;
		w->base_since = now;
	}
}

/* The end of a look in which `bytes` arrived. */
static __always_inline void end_lan_host_look(struct lan_host *w, __u64 took, __u64 now)
{
	__u64 rate = w->bytes * SECOND / took;

	int seen = w->count >= LAN_HOST_SAMPLES;

	/* Without round trips what was seen last is believed. */
	if (seen)
		w->queue = saturating_sub(w->least, w->base);
	w->bytes = 0;
	w->begun = now;
	if (took > LAN_HOST_STALE || now - w->seen_at > LAN_HOST_STALE) {
		/* Nobody shows a queue any more. */
		w->limit = took > LAN_HOST_STALE ? 0 : w->limit + w->limit / 16;
		w->least = 0;
		w->count = 0;
		return;
	}
	if (w->queue > LAN_HOST_QUEUE + LAN_HOST_PACKETS * 1000000 / (rate + 1)) {
		/* What came was carried, but for what is to drain now. */
		if (seen && now - w->cut_at > LAN_HOST_DRAIN) {
			w->limit = rate - rate / 8 + 1;
			w->cut_at = now;
		}
	} else if (w->limit) {
		w->limit += w->limit / 16;
		if (w->limit > 2 * rate)
			w->limit = 0;
	}
	if (seen) {
		w->least = 0;
		w->count = 0;
	}
}

/* A packet of `bytes` arrives of a heavy flow without windows; 1 if it is to be dropped. */
static __always_inline int slow_down_lan_host(__u32 host, __u32 bytes, __u64 now)
{
	struct lan_host *w = bpf_map_lookup_elem(&ek_lan_hosts, &host);

	if (!w)
		return 0;
	w->bytes += bytes;
	__u64 took = now - w->begun;

	if (took > LAN_HOST_LOOK)
		end_lan_host_look(w, took, now);
	if (!w->limit)
		return 0;
	if (w->busy_until < now)
		w->busy_until = now;
	__u64 ahead = w->busy_until - now;

	if (ahead < LAN_HOST_BURST / 4 || (ahead < LAN_HOST_BURST && now - w->slowed_at < LAN_HOST_LOOK)) {
		w->busy_until += bytes * SECOND / w->limit;
		return 0;
	}
	w->slowed_at = now;
	return 1;
}
