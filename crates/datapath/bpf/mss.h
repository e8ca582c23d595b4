/* Segment sizes: how long the packets of new TCP connections become, where a full one would hold
 * up everything behind it for long.
 *
 * A SYN announces how much its sender takes in one segment. So what arrives with one bounds our
 * uploads, and what leaves with one our downloads.
 *
 * Sees: every TCP SYN in both directions.
 * Principles: only ever lowered; without the option nothing is announced and nothing is bounded;
 * lengths are those of IP packets, so both versions of IP fill the line alike.
 * Non-goals: connections that stand already; anything but TCP.
 */
#pragma once

#include <bpf/bpf_endian.h>

#include "packet.h"
#include "tcp_rewrite.h"

/* Headers of IP and TCP without options, which the announced size leaves out (RFC 9293, 3.7.1). */
#define MSS_HEADERS 40
#define MSS_HEADERS6 60

/* A SYN announces at most what fits into a packet of so many bytes; 0: as it likes. */
static __always_inline void clamp_mss(struct __sk_buff *skb, const struct scratch *s,
				      __u32 max_packet)
{
	const struct packet *p = &s->p;

	if (!max_packet || !(p->tcp_flags & TCP_SYN) || !p->mss_at)
		return;
	__u32 headers = p->key.local[2] == bpf_htonl(0xffff) && !p->key.local[0] && !p->key.local[1]
				? MSS_HEADERS
				: MSS_HEADERS6;

	if (max_packet > headers && max_packet - headers < p->mss)
		rewrite_tcp_u16(skb, p, p->mss_at, p->mss, max_packet - headers);
}
