/* What a packet takes on the line: Framing::wire_len, and the same of super-packets.
 *
 * Sees: every IP packet, once where it is counted, and again where police.h, ingress_control.h and
 * ifb_bypass.h count it.
 * Principles: each segment is framed by itself, as it will be on the line.
 * Non-goals: rates.
 */
#pragma once

#include "packet.h"
#include "types.h"

/* Bytes on the line of an IP packet of `length` bytes. */
static __always_inline __u32 wire_len(const struct framing *f, __u32 length)
{
	__s32 framed = (__s32)length + f->overhead;
	__u32 n = framed > (__s32)f->mpu ? (__u32)framed : f->mpu;

	if (f->mode == FRAMING_ATM)
		return (n + 47) / 48 * 53;
	if (f->mode == FRAMING_PTM)
		return n + (n + 63) / 64;
	return n;
}

/* Bytes on the line of all segments of a packet. */
static __always_inline __u32 wire_bytes(struct __sk_buff *skb, const struct framing *f,
					const struct packet *p)
{
	__u32 each = skb->gso_size + p->headers, before = p->segments - 1;

	if (before == 0 || each * before >= p->length)
		return wire_len(f, p->length);
	return before * wire_len(f, each) + wire_len(f, p->length - before * each);
}
