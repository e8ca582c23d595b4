/* One packet: what it says of itself, and where it is taken apart.
 *
 * Sees: every IP packet in both directions; parse.h fills it, all that follows reads it.
 * Principles: lengths are of IP packets, every segment of a super-packet with its headers; numbers in
 * host byte order, addresses and ports as on the wire.
 * Non-goals: reading the packet (parse_fast.h, parse_full.h).
 */
#pragma once

#include <bpf/bpf_endian.h>

#include "kernel.h"
#include "types.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* The ports of a packet's first fragment, for the others. */
struct fragment_key {
	__be32 source[4], destination[4];
	__u32 id;
	__u32 proto;
};

/* What a packet says of itself. */
struct packet {
	struct flow_key key;
	__u32 length;  /* of the IP packet, of all segments with their headers */
	__u32 segments;
	__u32 payload; /* behind the TCP or UDP header */
	__u32 headers; /* of each segment, from the IP header on */
	__u32 tsval, tsecr; /* TCP time stamp and the one it echoes (RFC 7323) */
	__u32 tcp_at;  /* where its TCP header begins; 0: it has none */
	__u32 mss_at;  /* where its maximum segment size stands; 0: nowhere */
	__u32 seq, ack;
	__u16 window;
	__u16 mss;
	__u8 mptcp;
	__u8 dscp;
	__u8 tcp_flags;
	__u8 window_scale;   /* plus 1; 0: no option */
	__u8 has_timestamps;
	__u8 pad;
};

/* Where a packet is taken apart. In a map rather than on the stack, because the verifier follows
 * every value that lies on the stack through every path, and gives up.
 */
struct scratch {
	struct packet p;
	struct flow new_flow;
	struct fragment_key fragment;
	__u32 at;    /* what is looked at, from the packet's begin */
	__u32 ip_at; /* where the IP header begins */
	__u32 headers, ports;
	__u8 proto, more_fragments, later_fragment;
	__u8 fast; /* parse_fast.h took it; `udp_head` is known */
	__u32 total_length; /* bytes, by its own header; 0: it does not say */
	__u32 option_at, options_end;
	__u64 now;
	__u8 bytes[40];
	__u32 udp_head[3]; /* of a UDP payload */
	struct name_key name; /* what is asked for */
	struct name found;    /* what all names say together, and then the rules */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} ek_scratch SEC(".maps");

/* Lengths of the packet, of which its header says that it is `total` bytes (0: it does not). What
 * Ethernet padded a short one with is none of it; merged segments are believed to be as long as
 * they are.
 */
static __always_inline void set_lengths(struct __sk_buff *skb, struct packet *p, __u32 ip_at,
					__u32 headers, __u32 total)
{
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	__u32 length = skb->len > ip_at ? skb->len - ip_at : 0;

	if (segments == 1 && total && total < length)
		length = total;
	p->segments = segments;
	p->headers = headers;
	p->payload = length > headers ? length - headers : 0;
	p->length = length + (segments - 1) * headers;
}

/* What TCP's header says, given its words from the second on. */
static __always_inline void set_tcp_header(struct packet *p, __u32 seq, __u32 ack, __u32 flags)
{
	flags = bpf_ntohl(flags);
	p->seq = bpf_ntohl(seq);
	p->ack = bpf_ntohl(ack);
	p->window = flags & 0xffff;
	p->tcp_flags = flags >> 16;
}
