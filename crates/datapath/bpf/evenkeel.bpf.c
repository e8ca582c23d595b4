// SPDX-License-Identifier: GPL-2.0
/* evenkeel's programs on the WAN device: which flow a packet belongs to, how urgent that is, and
 * how long its round trips take. Attached to clsact, egress before the shaper, ingress before the
 * IFB.
 *
 * Principles: one table of flows for both directions, so that a download inherits what its
 * request was; rules are asked once per flow and again when mark, DSCP or the rules change; packets
 * are changed only by the policer (police.h), if it is told a rate, in the segment size that their
 * SYN announces (mss.h) and in the window that they offer (windows.h), and dropped only by the first
 * and the last of these; whatever cannot be parsed passes as it is.
 * Everything works in a kernel without BTF or JIT.
 * Non-goals: payload; keeping state for what the LRU has forgotten.
 */
#include "shared.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SECOND 1000000000ULL
/* Of a flow in a second: more is heavy, and less than a quarter of it light again. */
#define HEAVY_BYTES (64 * 1024)
/* A datagram of a call or a game is below this, and a flow of them below so many a second. */
#define SMALL_BYTES 256
#define SMALL_RATE (128 * 1024)
/* A bucket that nobody used for so long is free. */
#define BUCKET_IDLE (SECOND / 2)
/* A SYN or a stamp is waited for this long. */
#define WAIT (10 * SECOND)

#define ETH_PPP_SESSION 0x8864
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

char _license[] SEC("license") = "GPL";

/* Set by the loader: whether the kernel has the helpers; bytes before the IP packet, 14
 * (Ethernet) or 0.
 */
const volatile __u8 with_cgroups = 0;
const volatile __u8 link_header = 14;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct config);
	__uint(max_entries, 1);
} ek_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct rule);
	__uint(max_entries, 2 * MAX_RULES);
} ek_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_key);
	__type(value, struct flow);
	__uint(max_entries, 32768);
} ek_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct fragment_key);
	__type(value, __u32);
	__uint(max_entries, 1024);
} ek_fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(max_entries, 2 * TIERS * HEAVY_BUCKETS);
} ek_buckets SEC(".maps");

/* First those of the Internet's side (what we sent came back), then the LAN's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2 * RTT_STEPS);
} ek_rtt SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct counts);
	__uint(max_entries, 1);
} ek_counts SEC(".maps");

/* What a packet says of itself. */
struct packet {
	struct flow_key key;
	__u32 length;   /* of the IP packet, of all segments with their headers */
	__u32 segments;
	__u32 payload;  /* behind the TCP header */
	__u32 headers;  /* of each segment, from the IP header on */
	__u32 stamp, echo;
	__u32 tcp; /* where its header begins; 0: it has none */
	__u32 mss_at; /* where its maximum segment size stands; 0: nowhere */
	__u32 seq, ack;
	__u16 window;
	__u16 mss;
	__u8 mptcp;
	__u8 dscp;
	__u8 tcp_flags;
	__u8 scale; /* plus 1; 0: no option */
	__u8 stamps; /* whether there are any */
	__u8 pad;
};

/* Where a packet is taken apart. In a map rather than on the stack, because the verifier follows
 * every value that lies on the stack through every path, and gives up.
 */
struct scratch {
	struct packet p;
	struct flow fresh;
	struct fragment_key fragment;
	__u32 at, begin, headers, ports;
	__u8 proto, more, later;
	__u8 usual; /* it was taken apart in one go; `head` is known */
	__u32 total; /* bytes, by its own header; 0: it does not say */
	__u32 option, options_end;
	__u64 now;
	__u8 bytes[40];
	__u32 head[3]; /* of a UDP payload */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} ek_scratch SEC(".maps");

/* What follows reads memory again, so that the verifier need not tell apart the ways that lead
 * here: without it loading takes twice as long.
 */
#define again() asm volatile("" ::: "memory")

static __always_inline int load(struct __sk_buff *skb, __u32 at, void *to, __u32 n)
{
	return bpf_skb_load_bytes(skb, at, to, n);
}

/* Where the IP header begins, and which; 0 for anything else. */
static __always_inline __u16 link_layer(struct __sk_buff *skb, __u32 *at)
{
	*at = link_header;
	if (link_header == 0) {
		__u8 first;

		if (load(skb, 0, &first, 1))
			return 0;
		return first >> 4 == 4 ? ETH_P_IP : first >> 4 == 6 ? ETH_P_IPV6 : 0;
	}
	__be16 proto;

	if (load(skb, link_header - 2, &proto, 2))
		return 0;
	/* Tags that the device did not take out. */
	for (int i = 0; i < 2; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if (load(skb, *at + 2, &proto, 2))
			return 0;
		*at += 4;
	}
	if (proto == bpf_htons(ETH_PPP_SESSION)) {
		if (load(skb, *at + 6, &proto, 2))
			return 0;
		*at += 8;
		return proto == bpf_htons(PPP_IP)	? ETH_P_IP
		       : proto == bpf_htons(PPP_IPV6) ? ETH_P_IPV6
						      : 0;
	}
	return bpf_ntohs(proto);
}

static __always_inline void mapped(__u32 to[4], const __u8 v4[4])
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	__builtin_memcpy(to + 3, v4, 4);
}

/* Remembers the ports of a first fragment, or finds them for a later one. */
static __always_inline void fragment(struct scratch *s)
{
	s->fragment.proto = s->proto;
	if (s->later) {
		__u32 *known = bpf_map_lookup_elem(&ek_fragments, &s->fragment);

		s->ports = known ? *known : 0;
	} else {
		bpf_map_update_elem(&ek_fragments, &s->fragment, &s->ports, BPF_ANY);
	}
}

/* Time stamps, window scale and segment size, from `option` to `options_end`. */
static __always_inline void tcp_options(struct __sk_buff *skb, struct scratch *s)
{
	struct packet *p = &s->p;

	/* The usual form of everything but a SYN: NOP NOP TIMESTAMPS. */
	if (!(p->tcp_flags & TCP_SYN) && s->options_end - s->option >= 12 &&
	    load(skb, s->option, s->bytes, 12) == 0 &&
	    s->bytes[0] == 1 && s->bytes[1] == 1 && s->bytes[2] == 8 && s->bytes[3] == 10) {
		__builtin_memcpy(&p->stamp, s->bytes + 4, 4);
		__builtin_memcpy(&p->echo, s->bytes + 8, 4);
		p->stamps = 1;
		return;
	}
	/* At most 40 bytes: 20 options with something in them, and fillers. */
	for (int turn = 0; turn < 24; turn++) {
		again();
		if (s->option + 1 >= s->options_end || load(skb, s->option, s->bytes, 2))
			return;
		if (s->bytes[0] == 0)
			return;
		if (s->bytes[0] == 1) {
			s->option++;
			continue;
		}
		if (s->bytes[1] < 2)
			return;
		if (s->bytes[0] == 3 && s->bytes[1] == 3) {
			if (load(skb, s->option + 2, s->bytes + 2, 1))
				return;
			p->scale = (s->bytes[2] > 14 ? 14 : s->bytes[2]) + 1;
		} else if (s->bytes[0] == 8 && s->bytes[1] == 10) {
			if (load(skb, s->option + 2, &p->stamp, 8))
				return;
			p->stamps = 1;
		} else if (s->bytes[0] == 2 && s->bytes[1] == 4 &&
			   s->option + 4 <= s->options_end) {
			if (load(skb, s->option + 2, s->bytes + 2, 2))
				return;
			p->mss = s->bytes[2] << 8 | s->bytes[3];
			p->mss_at = s->option + 2;
		} else if (s->bytes[0] == 30) {
			p->mptcp = 1;
		}
		s->option += s->bytes[1];
	}
}

/* IPv4: addresses, protocol, fragmentation. */
static __always_inline int ipv4(struct __sk_buff *skb, struct scratch *s)
{
	__u8 *ip = s->bytes;

	if (load(skb, s->at, ip, 20) || ip[0] >> 4 != 4 || (ip[0] & 15) < 5)
		return 0;
	s->p.dscp = ip[1] >> 2;
	s->total = ip[2] << 8 | ip[3];
	s->fragment.id = ip[4] << 8 | ip[5];
	s->more = ip[6] & 0x20;
	s->later = (ip[6] & 0x1f) | ip[7];
	s->proto = ip[9];
	mapped(s->fragment.source, ip + 12);
	mapped(s->fragment.destination, ip + 16);
	s->at += (ip[0] & 15) * 4;
	return 1;
}

/* IPv6: the same, behind whatever headers extend it. */
static __always_inline int ipv6(struct __sk_buff *skb, struct scratch *s)
{
	__u8 *ip = s->bytes;

	if (load(skb, s->at, ip, 40) || ip[0] >> 4 != 6)
		return 0;
	s->p.dscp = (ip[0] & 15) << 2 | ip[1] >> 6;
	s->total = ip[4] << 8 | ip[5];
	if (s->total)
		s->total += 40;
	s->proto = ip[6];
	__builtin_memcpy(s->fragment.source, ip + 8, 16);
	__builtin_memcpy(s->fragment.destination, ip + 24, 16);
	s->at += 40;
	for (int turn = 0; turn < 8; turn++) {
		again();
		switch (s->proto) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_MH:
			if (load(skb, s->at, s->bytes, 2))
				return 0;
			s->at += (s->bytes[1] + 1) * 8;
			break;
		case IPPROTO_AH:
			if (load(skb, s->at, s->bytes, 2))
				return 0;
			s->at += (s->bytes[1] + 2) * 4;
			break;
		case IPPROTO_FRAGMENT:
			if (load(skb, s->at, s->bytes, 8))
				return 0;
			s->more = s->bytes[3] & 1;
			s->later = s->bytes[2] | (s->bytes[3] & 0xf8);
			__builtin_memcpy(&s->fragment.id, s->bytes + 4, 4);
			s->at += 8;
			break;
		default:
			return 1;
		}
		s->proto = s->bytes[0];
		/* Behind it there is no header any more, only the rest. */
		if (s->later)
			return 1;
	}
	return 1;
}

/* Local and remote end; the first two bytes of `ports` are the sender's. */
static __always_inline void ends(struct flow_key *k, int way, const void *source,
				 const void *destination, __u32 ports)
{
	if (way == UP) {
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

/* How much the packet is, of which its header says that it is `total` bytes (0: it does not). What
 * Ethernet padded a short one with is none of it; merged segments are believed to be as long as
 * they are.
 */
static __always_inline void measure(struct __sk_buff *skb, struct packet *p, __u32 begin,
				    __u32 headers, __u32 total)
{
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	__u32 length = skb->len > begin ? skb->len - begin : 0;

	if (segments == 1 && total && total < length)
		length = total;
	p->segments = segments;
	p->headers = headers;
	p->payload = length > headers ? length - headers : 0;
	p->length = length + (segments - 1) * headers;
}

/* A word of a packet. Behind an Ethernet header they are aligned, as some processors need it. */
struct loose_word {
	__u32 value;
} __attribute__((packed, aligned(2)));

static __always_inline __u32 word(const void *from, __u32 n, __u32 link)
{
	if (link == 14)
		return ((const __u32 *)from)[n];
	return ((const struct loose_word *)from)[n].value;
}

/* TCP's header, from its second word on. */
static __always_inline void tcp_header(struct packet *p, __u32 seq, __u32 ack, __u32 flags)
{
	flags = bpf_ntohl(flags);
	p->seq = bpf_ntohl(seq);
	p->ack = bpf_ntohl(ack);
	p->window = flags & 0xffff;
	p->tcp_flags = flags >> 16;
}

/* What follows a usual IP header of `headers` bytes, at `from`. */
static __always_inline int usual_rest(struct __sk_buff *skb, struct scratch *s, const void *ip,
				      __u32 headers, __u32 total, __u32 link)
{
	struct packet *p = &s->p;
	const void *from = ip + headers, *end = (void *)(long)skb->data_end;

	p->stamps = 0;
	p->scale = 0;
	p->mptcp = 0;
	p->mss_at = 0;
	s->begin = link;
	if (p->key.proto == IPPROTO_UDP) {
		p->tcp_flags = 0;
		p->tcp = 0;
		/* Of its payload, for probes. */
		s->head[0] = word(from, 2, link);
		s->head[1] = word(from, 3, link);
		s->head[2] = word(from, 4, link);
		measure(skb, p, link, headers + 8, total);
		return 1;
	}
	p->tcp = link + headers;
	tcp_header(p, word(from, 1, link), word(from, 2, link), word(from, 3, link));
	__u32 data = ((const __u8 *)from)[12] >> 4;

	if (data == 8) {
		if (from + 32 > end || word(from, 5, link) != bpf_htonl(0x0101080a))
			return 0;
		p->stamp = bpf_ntohl(word(from, 6, link));
		p->echo = bpf_ntohl(word(from, 7, link));
		p->stamps = 1;
	} else if (data != 5) {
		return 0;
	}
	measure(skb, p, link, headers + data * 4, total);
	return 1;
}

/* Nearly all packets: whole, without options or extension headers, UDP or TCP with no option but
 * time stamps, their headers in one piece. 0: it is not one of them.
 */
static __always_inline int parse_usual(struct __sk_buff *skb, int way, struct scratch *s,
				       __u32 link)
{
	const void *ip = (void *)(long)skb->data + link, *end = (void *)(long)skb->data_end;
	const __u8 *b = ip;
	struct flow_key *k = &s->p.key;
	__u32 *source = way == UP ? k->local : k->remote;
	__u32 *destination = way == UP ? k->remote : k->local;
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
		source[3] = word(ip, 3, link);
		destination[0] = 0;
		destination[1] = 0;
		destination[2] = bpf_htonl(0xffff);
		destination[3] = word(ip, 4, link);
		ports = word(ip, 5, link);
		k->proto = b[9];
		s->p.dscp = b[1] >> 2;
		if (!usual_rest(skb, s, ip, 20, bpf_ntohs(half[1]), link))
			return 0;
	} else if (b[0] >> 4 == 6) {
		const __be16 *half = ip;

		if (link && half[-1] != bpf_htons(ETH_P_IPV6))
			return 0;
		if (ip + 60 > end || (b[6] != IPPROTO_TCP && b[6] != IPPROTO_UDP))
			return 0;
		for (int i = 0; i < 4; i++) {
			source[i] = word(ip, 2 + i, link);
			destination[i] = word(ip, 6 + i, link);
		}
		ports = word(ip, 10, link);
		k->proto = b[6];
		s->p.dscp = (b[0] & 15) << 2 | b[1] >> 6;
		/* 0: a jumbogram. */
		if (!half[2] || !usual_rest(skb, s, ip, 40, 40 + bpf_ntohs(half[2]), link))
			return 0;
	} else {
		return 0;
	}
	k->local_port = way == UP ? ports & 0xffff : ports >> 16;
	k->remote_port = way == UP ? ports >> 16 : ports & 0xffff;
	return 1;
}

/* Fills the scratch; 0 if the packet is not IP, or cut off. */
static __always_inline int parse(struct __sk_buff *skb, int way, struct scratch *s)
{
	struct packet *p = &s->p;

	s->usual = link_header == 14 ? parse_usual(skb, way, s, 14) : parse_usual(skb, way, s, 0);
	if (s->usual)
		return 1;
	__u16 family = link_layer(skb, &s->at);

	__builtin_memset(p, 0, sizeof(*p));
	s->begin = s->at;
	s->ports = 0;
	s->more = 0;
	s->later = 0;
	if (family == ETH_P_IP) {
		if (!ipv4(skb, s))
			return 0;
	} else if (family == ETH_P_IPV6) {
		if (!ipv6(skb, s))
			return 0;
	} else {
		return 0;
	}
	again();
	s->headers = s->at - s->begin;
	p->key.proto = s->proto;
	if (!s->later) {
		switch (s->proto) {
		case IPPROTO_TCP:
		case IPPROTO_UDP:
		case IPPROTO_SCTP:
		case IPPROTO_DCCP:
		case IPPROTO_UDPLITE:
			/* A first fragment may be too short for them. */
			if (load(skb, s->at, &s->ports, 4))
				s->ports = 0;
		}
	}
	again();
	if (s->more | s->later)
		fragment(s);
	again();
	ends(&p->key, way, s->fragment.source, s->fragment.destination, s->ports);
	if (s->proto == IPPROTO_TCP && !s->later) {
		if (load(skb, s->at, s->bytes, 20) == 0) {
			__u32 data = (s->bytes[12] >> 4) * 4;

			__u32 *words = (__u32 *)s->bytes;

			p->tcp = s->at;
			tcp_header(p, words[1], words[2], words[3]);
			s->headers += data;
			s->option = s->at + 20;
			s->options_end = s->at + data;
			if (data > 20)
				tcp_options(skb, s);
		}
	} else if (s->proto == IPPROTO_UDP) {
		s->headers += 8;
	}
	again();
	p->stamp = bpf_ntohl(p->stamp);
	p->echo = bpf_ntohl(p->echo);
	measure(skb, p, s->begin, s->headers, s->total);
	again();
	return 1;
}

static __always_inline int within(const __u32 a[4], const struct rule *r)
{
	return (a[0] & r->mask[0]) == r->addr[0] && (a[1] & r->mask[1]) == r->addr[1] &&
	       (a[2] & r->mask[2]) == r->addr[2] && (a[3] & r->mask[3]) == r->addr[3];
}

static __always_inline int in_range(__be16 port, const struct rule *r)
{
	__u16 p = bpf_ntohs(port);

	return p >= r->port_low && p <= r->port_high;
}

static __always_inline int holds(struct __sk_buff *skb, const struct rule *r,
				 const struct packet *p, int way)
{
	const struct flow_key *k = &p->key;

	if (r->what & RULE_PROTO && r->proto != k->proto)
		return 0;
	if (r->what & RULE_DSCP && r->dscp != p->dscp)
		return 0;
	if (r->what & RULE_MARK && (skb->mark & r->mark_mask) != r->mark)
		return 0;
	if (r->what & RULE_LOCAL_PORT && !in_range(k->local_port, r))
		return 0;
	if (r->what & RULE_REMOTE_PORT && !in_range(k->remote_port, r))
		return 0;
	if (r->what & RULE_ANY_PORT && !in_range(k->local_port, r) && !in_range(k->remote_port, r))
		return 0;
	if (r->what & RULE_LOCAL_ADDR && !within(k->local, r))
		return 0;
	if (r->what & RULE_REMOTE_ADDR && !within(k->remote, r))
		return 0;
	if (r->what & RULE_CGROUP) {
		if (!with_cgroups || way != UP)
			return 0;
		if (bpf_skb_ancestor_cgroup_id(skb, r->cgroup_level) != r->cgroup)
			return 0;
	}
	return 1;
}

/* Asks the rules, in order; the first that holds decides. */
static __always_inline void classify(struct __sk_buff *skb, const struct config *c,
				     const struct packet *p, int way, struct flow *f)
{
	f->generation = c->generation;
	f->mark = way == UP ? skb->mark : f->mark;
	f->dscp = p->dscp;
	f->tier = BEST_EFFORT;
	f->why = WHY_DEFAULT;
	f->cake_knows = 1;
	for (__u32 i = 0; i < MAX_RULES; i++) {
		if (i >= c->rules)
			break;
		__u32 at = c->first_rule + i;
		const struct rule *r = bpf_map_lookup_elem(&ek_rules, &at);

		if (!r)
			break;
		if (!holds(skb, r, p, way))
			continue;
		f->tier = r->tier & (TIERS - 1);
		f->why = i;
		f->cake_knows = !!(r->what & RULE_CAKE_KNOWS);
		break;
	}
}

/* The flow of a packet, made if need be; NULL if there is no room for it. */
static __always_inline struct flow *flow_of(struct __sk_buff *skb, const struct config *c,
					    struct scratch *s, int way, __u64 now,
					    struct counts *counts)
{
	const struct packet *p = &s->p;
	struct flow *f = bpf_map_lookup_elem(&ek_flows, &p->key);

	if (f) {
		int changed = f->generation != c->generation;

		/* The far side does not decide how urgent our flows are: only what we send can
		 * change it.
		 */
		if (way == UP)
			changed |= f->dscp != p->dscp || f->mark != skb->mark ||
				   f->way[UP].last == 0;
		if (!changed)
			return f;
	} else {
		__builtin_memset(&s->fresh, 0, sizeof(s->fresh));
		s->fresh.first = now;
		if (with_cgroups && way == UP)
			s->fresh.cgroup = bpf_skb_cgroup_id(skb);
		counts->new_flows++;
		/* Another CPU may have been faster. */
		bpf_map_update_elem(&ek_flows, &p->key, &s->fresh, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&ek_flows, &p->key);
		if (!f) {
			counts->full++;
			return f;
		}
	}
	classify(skb, c, p, way, f);
	return f;
}

#include "trips.h"

/* Four steps in each doubling, from 64 us on. */
static __always_inline __u32 rtt_step(__u32 us)
{
	__u32 log = 0, v = us >> 6;

	if (v == 0)
		return 0;
	if (v >> 16) {
		v >>= 16;
		log += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log += 2;
	}
	if (v >> 1)
		log += 1;
	__u32 step = log * 4 + ((us >> (log + 4)) & 3) + 1;

	return step < RTT_STEPS ? step : RTT_STEPS - 1;
}

/* A round trip beyond us in direction `way` took this long. */
static __always_inline void sample(struct flow *f, const struct packet *p, int way, __u64 took,
				   __u64 now)
{
	struct way *w = &f->way[way & 1];
	__u64 us = took / 1000;

	if (us > 0xffffffff)
		return;
	if (way == UP)
		tell_trip(f, p, took, now);
	w->rtt = us ? us : 1;
	if (w->rtt_min == 0 || w->rtt < w->rtt_min)
		w->rtt_min = w->rtt;
	w->rtt_count++;
	__u32 at = way * RTT_STEPS + rtt_step(us);
	__u64 *n = bpf_map_lookup_elem(&ek_rtt, &at);

	if (n)
		*n += 1;
}

/* Round trips from handshakes and from time stamps (RFC 7323). A stamp counts from the first
 * packet that bears it; only its exact echo answers it. Stamps of empty acknowledgements are
 * waited for only while much comes the other way: else nothing answers them at once.
 */
static __always_inline void round_trips(struct flow *f, const struct packet *p, int way, __u64 now)
{
	struct way *mine = &f->way[way & 1], *other = &f->way[!way];
	__u8 flags = p->tcp_flags;

	if (flags & TCP_SYN) {
		/* Sent again, nobody knows which one is answered. */
		__u8 bit = way == UP ? FLOW_SYN_UP : FLOW_SYN_DOWN;

		if (flags & TCP_ACK && f->seen & (FLOW_SYN_UP | FLOW_SYN_DOWN) && f->syn &&
		    !(f->seen & bit))
			sample(f, p, !way, now - f->syn, now);
		f->syn = f->seen & bit ? 0 : now;
		f->seen |= bit;
		mine->scale = p->scale;
		if (p->mptcp)
			f->seen |= FLOW_MPTCP;
	} else if (f->syn && flags & TCP_ACK) {
		/* The third of the handshake answers the second, if it comes from the first. */
		if (f->seen == (FLOW_SYN_UP | FLOW_SYN_DOWN) && p->payload == 0)
			sample(f, p, !way, now - f->syn, now);
		f->syn = 0;
	}
	if (flags & (TCP_FIN | TCP_RST))
		f->seen |= FLOW_CLOSED;
	if (!p->stamps)
		return;
	if (other->stamped && flags & TCP_ACK) {
		__s32 past = p->echo - other->stamp;

		if (past == 0 && now - other->stamped < WAIT)
			sample(f, p, !way, now - other->stamped, now);
		if (past >= 0)
			other->stamped = 0;
	}
	if (p->stamp != mine->last_stamp && (!mine->stamped || now - mine->stamped > WAIT) &&
	    !(flags & TCP_SYN) && (p->payload || other->heavy)) {
		mine->stamp = p->stamp;
		mine->stamped = now;
		mine->stamp_data = p->payload > 0;
	}
	mine->last_stamp = p->stamp;
}

/* Counts a packet of a flow and finds out how it behaves. */
static __always_inline void behave(struct way *w, const struct packet *p, __u64 now)
{
	w->bytes += p->length;
	w->packets += p->segments;
	w->last = now;
	if (now - w->window > SECOND) {
		/* Light again only after a whole window of little. */
		if (w->window_bytes < HEAVY_BYTES / 4 || now - w->window > 2 * SECOND)
			w->heavy = 0;
		w->window = now;
		w->window_bytes = 0;
		w->window_packets = 0;
	}
	w->window_bytes += p->length;
	w->window_packets += p->segments;
	if (!w->heavy && w->window_bytes > HEAVY_BYTES)
		w->heavy = 1;
}

/* The bucket of a heavy flow: its own while there are enough. */
static __always_inline __u32 heavy_bucket(struct way *w, int way, __u32 tier, __u32 hash, __u64 now)
{
	__u32 base = ((way & 1) * TIERS + (tier & (TIERS - 1))) * HEAVY_BUCKETS;
	__u32 at;
	struct bucket *b;

	if (w->heavy == 2) {
		at = base + (w->bucket & (HEAVY_BUCKETS - 1));
		b = bpf_map_lookup_elem(&ek_buckets, &at);
		if (b) {
			if (b->owner == hash || now - b->last < BUCKET_IDLE) {
				b->last = now;
				return at - base;
			}
		}
	}
	__u32 chosen = hash & (HEAVY_BUCKETS - 1);

	for (__u32 i = 0; i < HEAVY_BUCKETS; i++) {
		__u32 n = (hash + i) & (HEAVY_BUCKETS - 1);

		at = base + n;
		b = bpf_map_lookup_elem(&ek_buckets, &at);
		if (b && now - b->last > BUCKET_IDLE) {
			chosen = n;
			break;
		}
	}
	at = base + chosen;
	b = bpf_map_lookup_elem(&ek_buckets, &at);
	if (b) {
		b->last = now;
		b->owner = hash;
	}
	w->bucket = chosen;
	w->heavy = 2;
	return chosen;
}

static __always_inline __u32 hash_of(const struct flow_key *k)
{
	__u32 h = k->local_port * 0x9e3779b1u ^ k->remote_port * 0x85ebca6bu;

	h ^= (k->local[3] ^ k->remote[3] * 0xc2b2ae35u) + k->proto;
	h ^= k->local[1] ^ k->remote[1] * 0x27d4eb2fu;
	h ^= k->local[2] ^ k->remote[2] * 0x165667b1u;
	h ^= h >> 15;
	h *= 0x2c1b3c6du;
	h ^= h >> 12;
	h *= 0x297a2d39u;
	h ^= h >> 15;
	return h;
}

/* Writes another number of 16 bits over one of a TCP header, with its checksum. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct packet *p, __u32 at,
				   __u16 before, __u16 after)
{
	__be16 bytes = bpf_htons(after), was = bpf_htons(before), is = bytes;

	/* An option may lie across two of the numbers that are summed up. */
	if ((at - p->tcp) & 1) {
		was = before;
		is = after;
	}
	if (bpf_l4_csum_replace(skb, p->tcp + 16, was, is, 2))
		return -1;
	return bpf_skb_store_bytes(skb, at, &bytes, 2, 0);
}

#include "framing.h"
#include "windows.h"
#include "unheld.h"
#include "downloads.h"
#include "mss.h"

/* Tells the queueing discipline. */
static __always_inline void hand_on(struct __sk_buff *skb, const struct side *s, struct flow *f,
				    const struct packet *p, int way, __u64 now,
				    struct counts *counts)
{
	struct way *w = &f->way[way & 1];
	__u32 tier = f->tier & (TIERS - 1), minor;
	int knows = f->cake_knows;

	if (s->hand == HAND_CAKE) {
		/* CAKE finds small flows and sparse acknowledgements by itself. */
		knows |= p->key.proto == IPPROTO_TCP && p->payload == 0;
	} else if (p->key.proto == IPPROTO_TCP && p->payload == 0) {
		/* Whatever it acknowledges must not wait for it. */
		tier = VOICE;
	} else {
		/* A call or a game. */
		f->small = f->why == WHY_DEFAULT && p->key.proto == IPPROTO_UDP &&
			   p->length < SMALL_BYTES * p->segments &&
			   w->window_bytes < SMALL_RATE &&
			   w->window_bytes < SMALL_BYTES * w->window_packets;
		if (f->small)
			tier = VOICE;
	}
	counts->tier_packets[way & 1][tier] += p->segments;
	counts->tier_bytes[way & 1][tier] += p->length;

	switch (s->hand) {
	case HAND_CAKE:
		if (knows)
			return;
		/* sch_cake: tin_order[minor - 1], bulk_order being 1, 0, 2, 3. */
		minor = TIERS - tier;
		break;
	case HAND_TIERS:
		minor = (tier + 1) << 4;
		break;
	case HAND_BUCKETS:
		if (w->heavy && p->payload)
			minor = heavy_bucket(w, way, tier, hash_of(&p->key), now);
		else
			minor = HEAVY_BUCKETS + (hash_of(&p->key) & (LIGHT_BUCKETS - 1));
		minor += (tier + 1) << 8;
		break;
	default:
		return;
	}
	skb->priority = s->major | minor;
}

#include "pass.h"
#include "police.h"
#include "stamps.h"

static __always_inline int run(struct __sk_buff *skb, int way)
{
	__u32 zero = 0;
	struct config *c = bpf_map_lookup_elem(&ek_config, &zero);
	struct counts *counts = bpf_map_lookup_elem(&ek_counts, &zero);
	struct scratch *s = bpf_map_lookup_elem(&ek_scratch, &zero);

	if (!c || !counts || !s)
		return TC_ACT_UNSPEC;
	if (!parse(skb, way, s)) {
		counts->other[way & 1]++;
		return TC_ACT_UNSPEC;
	}
	__u64 now = bpf_ktime_get_ns();
	struct packet *p = &s->p;

	s->now = now;
	if (way == DOWN)
		stamp(skb, s, now);
	again();
	counts->packets[way & 1]++;
	counts->segments[way & 1] += p->segments;
	counts->bytes[way & 1] += p->length;
	struct flow *f = flow_of(skb, c, s, way, now, counts);

	if (!f)
		return TC_ACT_UNSPEC;
	behave(&f->way[way & 1], p, now);
	if (p->key.proto == IPPROTO_TCP)
		round_trips(f, p, way, now);
	hand_on(skb, &c->side[way & 1], f, p, way, now, counts);
	bound_segments(skb, s, c->side[!(way & 1)].longest);
	again();
	if (downloads(skb, f, p, way, s->now)) {
		counts->slowed += p->segments;
		return TC_ACT_SHOT;
	}
	again();
	if (way == UP)
		return TC_ACT_UNSPEC;
	if (passes(skb, &c->side[DOWN], f, p, s->now)) {
		counts->passed++;
		return TC_ACT_OK;
	}
	return police(skb, s, f, s->now);
}

SEC("classifier")
int ek_egress(struct __sk_buff *skb)
{
	return run(skb, UP);
}

SEC("classifier")
int ek_ingress(struct __sk_buff *skb)
{
	return run(skb, DOWN);
}

/* Does nothing: what a program costs is measured beside it. */
SEC("classifier")
int ek_nothing(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
