/* Takes a packet apart: addresses, ports, lengths, and of TCP what its header and options say.
 *
 * Sees: every packet in both directions, once.
 * Principles: the usual form in one go, everything else step by step; what is not IP, or cut off, is
 * counted and passes as it is.
 * Non-goals: payload.
 */
#pragma once

#include "parse_fast.h"
#include "parse_full.h"

/* Fills the scratch; 0 if the packet is not IP, or cut off. */
static __always_inline int parse_packet(struct __sk_buff *skb, int dir, struct scratch *s)
{
	s->fast = link_header == 14 ? parse_fast(skb, dir, s, 14) : parse_fast(skb, dir, s, 0);
	return s->fast ? 1 : parse_full(skb, dir, s);
}
