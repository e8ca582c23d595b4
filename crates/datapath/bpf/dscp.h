/* The DSCP of what leaves, where a rule writes one.
 *
 * Sees: packets from us whose flow has one to be written and that have another.
 * Principles: after the packet was classified by its own; checksums stay right; ECN stays.
 * Non-goals: what arrives.
 */
#pragma once

#include "kernel.h"

/* Writes `dscp` into the IP packet at `at`. */
static __always_inline void write_dscp(struct __sk_buff *skb, __u32 at, __u8 dscp)
{
	__u8 was[2], is[2];
	__be16 old, new;

	if (load_bytes(skb, at, was, 2))
		return;
	if (was[0] >> 4 == 6) {
		/* No checksum covers it; a hardware one of the whole packet is renewed. */
		is[0] = 0x60 | dscp >> 2;
		is[1] = (dscp & 3) << 6 | (was[1] & 0x3f);
		bpf_skb_store_bytes(skb, at, is, 2, BPF_F_RECOMPUTE_CSUM);
		return;
	}
	is[0] = was[0];
	is[1] = dscp << 2 | (was[1] & 3);
	__builtin_memcpy(&old, was, 2);
	__builtin_memcpy(&new, is, 2);
	if (!bpf_l3_csum_replace(skb, at + 10, old, new, 2))
		bpf_skb_store_bytes(skb, at + 1, &is[1], 1, 0);
}
