/* SPDX-License-Identifier: GPL-2.0 */
/* Explicit congestion notification (RFC 3168) of an IP packet.
 *
 * Sees: packets that arrive while the line is above 98 % and the policer is told a rate.
 * Principles: checksums stay right.
 * Non-goals: whether to mark (police.h).
 */
#pragma once

#include "kernel.h"

#define ECN_CE 3

/* The ECN field of an IP packet, whose first two bytes go to `head`; 0: it is not ECN-capable. */
static __always_inline int ecn_field(struct __sk_buff *skb, __u32 at, __u8 head[2])
{
	if (load_bytes(skb, at, head, 2))
		return 0;
	return (head[0] >> 4 == 4 ? head[1] : head[1] >> 4) & 3;
}

/* Marks congestion; 0, or an error. `head` is what ecn_field read. */
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
