/* Bytes of TCP's payload that pass, and those of them that have passed before: a line that loses much makes senders
 * send much again.
 *
 * Sees: every TCP packet in both directions.
 * Principles: what passes below the highest end so far was sent again; towards us that is about what was lost before
 * it came to us, from us what was lost behind us or in our own queue.
 * Non-goals: what they say of the line (`evenkeel_core::control`).
 */
#pragma once

#include "packet.h"

/* Counts a packet in direction `dir`. */
static __always_inline void count_sent_again(struct direction_state *d, const struct packet *p, int dir,
					     struct counts *counts)
{
	__u32 end = p->seq + p->payload, again = 0;

	if (p->tcp_flags & (TCP_SYN | TCP_RST)) {
		d->sent_end = 0;
		return;
	}
	if (!p->payload)
		return;
	if (d->sent_end && (__s32)(p->seq - d->sent_end) < 0) {
		again = d->sent_end - p->seq;
		if (again > p->payload)
			again = p->payload;
	}
	counts->payload[dir & 1] += p->payload;
	counts->again[dir & 1] += again;
	if (!d->sent_end || (__s32)(end - d->sent_end) > 0)
		d->sent_end = end;
}
