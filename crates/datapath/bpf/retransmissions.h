/* Retransmissions: bytes of TCP's payload that pass, and those of them that have passed before.
 *
 * Sees: every TCP packet in both directions.
 * Principles: what passes below the highest end so far is a retransmission; towards us that is about what was lost
 * before it came to us, from us what was lost behind us or in our own queue. Packets in another order look the same.
 * Non-goals: what they say of the line (`evenkeel_core::control`).
 */
#pragma once

#include "packet.h"

/* Counts a packet in direction `dir`. */
static __always_inline void count_retransmissions(struct direction_state *d, const struct packet *p, int dir,
						  struct counts *counts)
{
	__u32 end = p->seq + p->payload, again = 0;

	if (p->tcp_flags & (TCP_SYN | TCP_RST)) {
		d->highest_end = 0;
		return;
	}
	if (!p->payload)
		return;
	if (d->highest_end && (__s32)(p->seq - d->highest_end) < 0) {
		again = d->highest_end - p->seq;
		if (again > p->payload)
			again = p->payload;
	}
	counts->payload[dir & 1] += p->payload;
	counts->retransmitted[dir & 1] += again;
	if (!d->highest_end || (__s32)(end - d->highest_end) > 0)
		d->highest_end = end;
}
