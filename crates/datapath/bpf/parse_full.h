/* The parser for every form of IP packet: tags, PPPoE, options, extension headers, fragments, and the
 * TCP options that matter.
 *
 * Sees: in both directions, what parse_fast.h does not take.
 * Principles: every loop is bounded; what is cut off ends where it is cut; the first fragment of a
 * packet lends its ports to the others.
 * Non-goals: tunnels.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>

#include <bpf/bpf_endian.h>

#include "packet.h"

#define ETH_PPP_SESSION 0x8864
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

/* Set by the loader: bytes before the IP packet, 14 (Ethernet) or 0. */
const volatile __u8 link_header = 14;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct fragment_key);
	__type(value, __u32);
	__uint(max_entries, 1024);
} ek_fragments SEC(".maps");

/* Where the IP header begins, and which; 0 for anything else. */
static __always_inline __u16 parse_link_layer(struct __sk_buff *skb, __u32 *at)
{
	*at = link_header;
	if (link_header == 0) {
		__u8 first;

		if (load_bytes(skb, 0, &first, 1))
			return 0;
		return first >> 4 == 4 ? ETH_P_IP : first >> 4 == 6 ? ETH_P_IPV6 : 0;
	}
	__be16 proto;

	if (load_bytes(skb, link_header - 2, &proto, 2))
		return 0;
	/* Tags that the device did not take out. */
	for (int i = 0; i < 2; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if (load_bytes(skb, *at + 2, &proto, 2))
			return 0;
		*at += 4;
	}
	if (proto == bpf_htons(ETH_PPP_SESSION)) {
		if (load_bytes(skb, *at + 6, &proto, 2))
			return 0;
		*at += 8;
		return proto == bpf_htons(PPP_IP)	? ETH_P_IP
		       : proto == bpf_htons(PPP_IPV6) ? ETH_P_IPV6
						      : 0;
	}
	return bpf_ntohs(proto);
}

/* An IPv4 address as IPv6 has it: ::ffff:a.b.c.d. */
static __always_inline void map_ipv4(__be32 to[4], const __u8 v4[4])
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	__builtin_memcpy(to + 3, v4, 4);
}

/* Remembers the ports of a first fragment, or finds them for a later one. */
static __always_inline void find_fragment_ports(struct scratch *s)
{
	s->fragment.proto = s->proto;
	if (s->later_fragment) {
		__u32 *known = bpf_map_lookup_elem(&ek_fragments, &s->fragment);

		s->ports = known ? *known : 0;
	} else {
		bpf_map_update_elem(&ek_fragments, &s->fragment, &s->ports, BPF_ANY);
	}
}

/* Time stamps, window scale and segment size, from `option_at` to `options_end`. */
static __always_inline void parse_tcp_options(struct __sk_buff *skb, struct scratch *s)
{
	struct packet *p = &s->p;

	/* The usual form of everything but a SYN: NOP NOP TIMESTAMPS. */
	if (!(p->tcp_flags & TCP_SYN) && s->options_end - s->option_at >= 12 &&
	    load_bytes(skb, s->option_at, s->bytes, 12) == 0 &&
	    s->bytes[0] == 1 && s->bytes[1] == 1 && s->bytes[2] == 8 && s->bytes[3] == 10) {
		__builtin_memcpy(&p->tsval, s->bytes + 4, 4);
		__builtin_memcpy(&p->tsecr, s->bytes + 8, 4);
		p->has_timestamps = 1;
		return;
	}
	/* At most 40 bytes: 20 options with something in them, and fillers. */
	for (int i = 0; i < 24; i++) {
		barrier();
		if (s->option_at + 1 >= s->options_end || load_bytes(skb, s->option_at, s->bytes, 2))
			return;
		if (s->bytes[0] == 0)
			return;
		if (s->bytes[0] == 1) {
			s->option_at++;
			continue;
		}
		if (s->bytes[1] < 2)
			return;
		if (s->bytes[0] == 3 && s->bytes[1] == 3) {
			if (load_bytes(skb, s->option_at + 2, s->bytes + 2, 1))
				return;
			p->window_scale = (s->bytes[2] > 14 ? 14 : s->bytes[2]) + 1;
		} else if (s->bytes[0] == 8 && s->bytes[1] == 10) {
			if (load_bytes(skb, s->option_at + 2, &p->tsval, 8))
				return;
			p->has_timestamps = 1;
		} else if (s->bytes[0] == 2 && s->bytes[1] == 4 &&
			   s->option_at + 4 <= s->options_end) {
			if (load_bytes(skb, s->option_at + 2, s->bytes + 2, 2))
				return;
			p->mss = s->bytes[2] << 8 | s->bytes[3];
			p->mss_at = s->option_at + 2;
		} else if (s->bytes[0] == 30) {
			p->mptcp = 1;
		}
		s->option_at += s->bytes[1];
	}
}

/* TCP's header at `at`, and its options. */
static __always_inline void parse_tcp(struct __sk_buff *skb, struct scratch *s)
{
	struct packet *p = &s->p;

	if (load_bytes(skb, s->at, s->bytes, 20))
		return;
	__u32 length = (s->bytes[12] >> 4) * 4;
	__u32 *words = (__u32 *)s->bytes;

	p->tcp_at = s->at;
	set_tcp_header(p, words[1], words[2], words[3]);
	s->headers += length;
	s->option_at = s->at + 20;
	s->options_end = s->at + length;
	if (length > 20)
		parse_tcp_options(skb, s);
}

/* IPv4: addresses, protocol, fragmentation. */
static __always_inline int parse_ipv4(struct __sk_buff *skb, struct scratch *s)
{
	__u8 *ip = s->bytes;

	if (load_bytes(skb, s->at, ip, 20) || ip[0] >> 4 != 4 || (ip[0] & 15) < 5)
		return 0;
	s->p.dscp = ip[1] >> 2;
	s->total_length = ip[2] << 8 | ip[3];
	s->fragment.id = ip[4] << 8 | ip[5];
	s->more_fragments = ip[6] & 0x20;
	s->later_fragment = (ip[6] & 0x1f) | ip[7];
	s->proto = ip[9];
	map_ipv4(s->fragment.source, ip + 12);
	map_ipv4(s->fragment.destination, ip + 16);
	s->at += (ip[0] & 15) * 4;
	return 1;
}

/* IPv6: the same, behind whatever headers extend it. */
static __always_inline int parse_ipv6(struct __sk_buff *skb, struct scratch *s)
{
	__u8 *ip = s->bytes;

	if (load_bytes(skb, s->at, ip, 40) || ip[0] >> 4 != 6)
		return 0;
	s->p.dscp = (ip[0] & 15) << 2 | ip[1] >> 6;
	s->total_length = ip[4] << 8 | ip[5];
	if (s->total_length)
		s->total_length += 40;
	s->proto = ip[6];
	__builtin_memcpy(s->fragment.source, ip + 8, 16);
	__builtin_memcpy(s->fragment.destination, ip + 24, 16);
	s->at += 40;
	for (int i = 0; i < 8; i++) {
		barrier();
		switch (s->proto) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_MH:
			if (load_bytes(skb, s->at, s->bytes, 2))
				return 0;
			s->at += (s->bytes[1] + 1) * 8;
			break;
		case IPPROTO_AH:
			if (load_bytes(skb, s->at, s->bytes, 2))
				return 0;
			s->at += (s->bytes[1] + 2) * 4;
			break;
		case IPPROTO_FRAGMENT:
			if (load_bytes(skb, s->at, s->bytes, 8))
				return 0;
			s->more_fragments = s->bytes[3] & 1;
			s->later_fragment = s->bytes[2] | (s->bytes[3] & 0xf8);
			__builtin_memcpy(&s->fragment.id, s->bytes + 4, 4);
			s->at += 8;
			break;
		default:
			return 1;
		}
		s->proto = s->bytes[0];
		/* Behind it there is no header any more, only the rest. */
		if (s->later_fragment)
			return 1;
	}
	return 1;
}

/* Local and remote end; the first two bytes of `ports` are the sender's. */
static __always_inline void set_endpoints(struct flow_key *k, int dir, const void *source,
					  const void *destination, __u32 ports)
{
	if (dir == UP) {
		__builtin_memcpy(k->local, source, 16);
		__builtin_memcpy(k->remote, destination, 16);
		k->local_port = ports & 0xffff;
		k->remote_port = ports >> 16;
	} else {
		__builtin_memcpy(k->local, destination, 16);
		__builtin_memcpy(k->remote, source, 16);
		k->local_port = ports >> 16;
		k->remote_port = ports & 0xffff;
	}
}

/* Fills the scratch; 0 if the packet is not IP, or cut off. */
static __always_inline int parse_full(struct __sk_buff *skb, int dir, struct scratch *s)
{
	struct packet *p = &s->p;
	__u16 family = parse_link_layer(skb, &s->at);

	__builtin_memset(p, 0, sizeof(*p));
	s->ip_at = s->at;
	s->ports = 0;
	s->more_fragments = 0;
	s->later_fragment = 0;
	if (family == ETH_P_IP) {
		if (!parse_ipv4(skb, s))
			return 0;
	} else if (family == ETH_P_IPV6) {
		if (!parse_ipv6(skb, s))
			return 0;
	} else {
		return 0;
	}
	barrier();
	s->headers = s->at - s->ip_at;
	p->key.proto = s->proto;
	if (!s->later_fragment) {
		switch (s->proto) {
		case IPPROTO_TCP:
		case IPPROTO_UDP:
		case IPPROTO_SCTP:
		case IPPROTO_DCCP:
		case IPPROTO_UDPLITE:
			/* A first fragment may be too short for them. */
			if (load_bytes(skb, s->at, &s->ports, 4))
				s->ports = 0;
		}
	}
	barrier();
	if (s->more_fragments | s->later_fragment)
		find_fragment_ports(s);
	barrier();
	set_endpoints(&p->key, dir, s->fragment.source, s->fragment.destination, s->ports);
	if (s->proto == IPPROTO_TCP && !s->later_fragment) {
		parse_tcp(skb, s);
	} else if (s->proto == IPPROTO_UDP) {
		s->headers += 8;
	}
	barrier();
	p->tsval = bpf_ntohl(p->tsval);
	p->tsecr = bpf_ntohl(p->tsecr);
	set_lengths(skb, p, s->ip_at, s->headers, s->total_length);
	barrier();
	return 1;
}
