/* Changes a number of 16 bits in a TCP header, and the checksum with it.
 *
 * Sees: the SYNs and acknowledgements that mss.h and window.h change.
 * Principles: no other byte changes.
 * Non-goals: what it becomes.
 */
#pragma once

#include <bpf/bpf_endian.h>

#include "packet.h"

/* Writes `after` over `before`, `at` bytes from the packet's begin. 0, or an error. */
static __always_inline int rewrite_tcp_u16(struct __sk_buff *skb, const struct packet *p,
					   __u32 at, __u16 before, __u16 after)
{
	__be16 bytes = bpf_htons(after), was = bpf_htons(before), is = bytes;

	/* An option may lie across two of the numbers that are summed up. */
	if ((at - p->tcp_at) & 1) {
		was = before;
		is = after;
	}
	if (bpf_l4_csum_replace(skb, p->tcp_at + 16, was, is, 2))
		return -1;
	return bpf_skb_store_bytes(skb, at, &bytes, 2, 0);
}
