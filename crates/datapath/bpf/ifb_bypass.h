/* Small packets that do not wait at our IFB: what has come over the line behind a long packet has
 * waited for it once. Behind our own shaper it would wait for the same one again: a packet's time,
 * 0.1 ms at 100 Mbit/s and 6 ms at 2.
 *
 * Sees: every IP packet that arrives and is not dropped.
 * Principles: only where windows hold the senders, and could hold them tighter, so that the line is
 * not the shaper's to keep, who does not see what passes; it counts as the others' (line.h), and
 * downloads leave room for it. A sixteenth of the line at most; not while an earlier packet of the
 * same flow may still wait in our queue.
 * Non-goals: TCP, whose segments of all sizes need their order; what a rule calls bulk or gives a ceiling; answers to
 * who sets the shaper (probe_stamps.h).
 */
#pragma once

#include <linux/in.h>

#include "flow.h"
#include "framing.h"
#include "line.h"

/* A byte that passes takes the time of so many, and so much may come at once, ns. */
#define BYPASS_COST 16
#define BYPASS_BURST (SECOND / 20)
/* After this long what a flow has in our queue has left it; a small packet sooner, ns. */
#define BYPASS_ORDER (SECOND / 20)
#define BYPASS_SMALL (SECOND / 1000)

/* Whether a packet that arrived goes straight on, past the filter that redirects to the IFB. */
static __always_inline int bypasses_ifb(struct __sk_buff *skb, const struct direction_config *c,
					struct flow *f, const struct packet *p, __u64 now)
{
	__u32 zero = 0;

	if (p->key.proto == IPPROTO_TCP || c->mode == PRIORITY_NONE || f->limit)
		return 0;
	struct line *l = bpf_map_lookup_elem(&ek_line, &zero);
	struct pool *pool = bpf_map_lookup_elem(&ek_pool, &zero);

	if (!l || !pool || now >= l->lease)
		return 0;
	int small = p->segments == 1 && p->length < SMALL_BYTES;
	/* Senders could be held tighter. */
	int held = !pool->minimum_at || now - pool->minimum_at > SECOND;

	if (small && held && !f->dir[DOWN].heavy && f->tier != BULK && now >= f->queued_until &&
	    pool->bypass_busy_until < now + BYPASS_BURST) {
		if (pool->bypass_busy_until < now)
			pool->bypass_busy_until = now;
		pool->bypass_busy_until += (__u64)wire_bytes(skb, &l->framing, p) * l->packet_ns /
					   l->packet * BYPASS_COST;
		return 1;
	}
	__u64 until = now + (small ? BYPASS_SMALL + 2ULL * l->packet_ns : BYPASS_ORDER);

	if (until > f->queued_until)
		f->queued_until = until;
	return 0;
}
