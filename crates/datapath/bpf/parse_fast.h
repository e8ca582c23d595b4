/* The parser for nearly all packets: whole, without options or extension headers, UDP or TCP with no
 * option but time stamps, their headers in one piece and read in place.
 *
 * Sees: every packet in both directions, before parse_full.h does.
 * Principles: a comparison for each assumption; what fails one is parse_full.h's.
 * Non-goals: tags, fragments, SYNs.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>

#include "packet.h"

/* A word that need not be aligned. */
struct unaligned_word {
	__u32 value;
} __attribute__((packed, aligned(2)));

/* Word `n` behind `from`. Behind an Ethernet header they are aligned, as some processors need it. */
static __always_inline __u32 packet_word(const void *from, __u32 n, __u32 link)
{
	if (link == 14)
		return ((const __u32 *)from)[n];
	return ((const struct unaligned_word *)from)[n].value;
}

/* What follows an IP header of `headers` bytes, in a packet of `total` bytes. 0: it is not one of
 * those.
 */
static __always_inline int parse_fast_transport(struct __sk_buff *skb, struct scratch *s,
						const void *ip, __u32 headers, __u32 total,
						__u32 link)
{
	struct packet *p = &s->p;
	const void *from = ip + headers, *end = (void *)(long)skb->data_end;

	p->has_timestamps = 0;
	p->window_scale = 0;
	p->mptcp = 0;
	p->mss_at = 0;
	s->ip_at = link;
	if (p->key.proto == IPPROTO_UDP) {
		p->tcp_flags = 0;
		p->tcp_at = 0;
		/* Of its payload, for probes. */
		s->udp_head[0] = packet_word(from, 2, link);
		s->udp_head[1] = packet_word(from, 3, link);
		s->udp_head[2] = packet_word(from, 4, link);
		set_lengths(skb, p, link, headers + 8, total);
		return 1;
	}
	p->tcp_at = link + headers;
	set_tcp_header(p, packet_word(from, 1, link), packet_word(from, 2, link),
		       packet_word(from, 3, link));
	__u32 data = ((const __u8 *)from)[12] >> 4;

	if (data == 8) {
		if (from + 32 > end || packet_word(from, 5, link) != bpf_htonl(0x0101080a))
			return 0;
		p->tsval = bpf_ntohl(packet_word(from, 6, link));
		p->tsecr = bpf_ntohl(packet_word(from, 7, link));
		p->has_timestamps = 1;
	} else if (data != 5) {
		return 0;
	}
	set_lengths(skb, p, link, headers + data * 4, total);
	return 1;
}

/* Fills the packet; 0: it is not one of those. `link` is a constant, so that there is code for each.
 */
static __always_inline int parse_fast(struct __sk_buff *skb, int dir, struct scratch *s,
				      __u32 link)
{
	const void *ip = (void *)(long)skb->data + link, *end = (void *)(long)skb->data_end;
	const __u8 *b = ip;
	struct flow_key *k = &s->p.key;
	__u32 *source = dir == UP ? k->local : k->remote;
	__u32 *destination = dir == UP ? k->remote : k->local;
	__u32 ports;

	if (ip + 40 > end)
		return 0;
	if (b[0] == 0x45) {
		const __be16 *half = ip;

		if (link && half[-1] != bpf_htons(ETH_P_IP))
			return 0;
		if (half[3] & bpf_htons(0x3fff) || (b[9] != IPPROTO_TCP && b[9] != IPPROTO_UDP))
			return 0;
		source[0] = 0;
		source[1] = 0;
		source[2] = bpf_htonl(0xffff);
		source[3] = packet_word(ip, 3, link);
		destination[0] = 0;
		destination[1] = 0;
		destination[2] = bpf_htonl(0xffff);
		destination[3] = packet_word(ip, 4, link);
		ports = packet_word(ip, 5, link);
		k->proto = b[9];
		s->p.dscp = b[1] >> 2;
		if (!parse_fast_transport(skb, s, ip, 20, bpf_ntohs(half[1]), link))
			return 0;
	} else if (b[0] >> 4 == 6) {
		const __be16 *half = ip;

		if (link && half[-1] != bpf_htons(ETH_P_IPV6))
			return 0;
		if (ip + 60 > end || (b[6] != IPPROTO_TCP && b[6] != IPPROTO_UDP))
			return 0;
		for (int i = 0; i < 4; i++) {
			source[i] = packet_word(ip, 2 + i, link);
			destination[i] = packet_word(ip, 6 + i, link);
		}
		ports = packet_word(ip, 10, link);
		k->proto = b[6];
		s->p.dscp = (b[0] & 15) << 2 | b[1] >> 6;
		/* 0: a jumbogram. */
		if (!half[2] || !parse_fast_transport(skb, s, ip, 40, 40 + bpf_ntohs(half[2]), link))
			return 0;
	} else {
		return 0;
	}
	k->local_port = dir == UP ? ports & 0xffff : ports >> 16;
	k->remote_port = dir == UP ? ports >> 16 : ports & 0xffff;
	return 1;
}
