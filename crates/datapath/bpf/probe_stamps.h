/* SPDX-License-Identifier: GPL-2.0 */
/* When answers to evenkeel's own probes arrive, before the IFB: their path is told from our own
 * ingress queue, which lies before the kernel's receive stamp.
 *
 * Sees: every IP packet that arrives.
 * Principles: answers are replies and ICMP errors that quote a probe; only those to senders that a
 * prober has registered are remembered; a datagram that cannot be one is told by its first bytes,
 * most often at hand, so that other packets cost a comparison. Times are CLOCK_MONOTONIC's.
 * Non-goals: whether an answer is right, which the prober knows; TCP, whose round trips the kernel
 * measures itself.
 */
#pragma once

#include <linux/in.h>
#include <linux/in6.h>

#include <bpf/bpf_endian.h>

#include "flow.h"
#include "packet.h"

/* `evenkeel_measure::packet`: what a UDP payload with room for it begins with. */
#define PROBE_MAGIC 0x454b7031 /* EKp1 */

struct probe_header {
	__be32 magic, session, number;
};

/* From one answer that does not wait at our IFB to the next to the same prober, at least: no prober
 * asks more often, and who guesses its identifier gets little past the shaper.
 */
#define AT_ONCE_EVERY 2000000ULL /* ns */

/* Senders of probes. Value: 0 if answers to them wait at our IFB, as they do for a prober that does
 * not set the shaper; else the time, ns, from which on the next does not.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct probe_sender);
	__type(value, __u64);
	__uint(max_entries, 1024);
} ek_senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct probe_key);
	__type(value, __u64);
	__uint(max_entries, 4096);
} ek_arrivals SEC(".maps");

/* The number at the head of a UDP payload, which begins `at` or stands `there`. 0: there is none. */
static __always_inline int probe_number(struct __sk_buff *skb, __u32 at, const void *there,
					__be32 *number)
{
	struct probe_header head;

	if (there)
		__builtin_memcpy(&head, there, sizeof(head));
	else if (load_bytes(skb, at, &head, sizeof(head)))
		return 0;
	if (head.magic != bpf_htonl(PROBE_MAGIC))
		return 0;
	*number = head.number;
	return 1;
}

/* Whose probe an ICMP message is about: an echo or time stamp reply, or an error that quotes one.
 * Both kinds of ICMP echo have identifier and sequence number in the same place. 0: nobody's.
 */
static __always_inline int icmp_probe(struct __sk_buff *skb, struct scratch *s, __u32 at,
				      struct probe_key *key)
{
	int v6 = s->proto == IPPROTO_ICMPV6;
	__u8 *b = s->bytes;

	key->sender.proto = IPPROTO_ICMP;
	if (load_bytes(skb, at, b, 8))
		return 0;
	if (v6 ? b[0] >= 1 && b[0] <= 4 : b[0] == 3 || b[0] == 11) {
		at += 8;
		if (load_bytes(skb, at, b, 20))
			return 0;
		__u8 proto = v6 ? b[6] : b[9];

		at += v6 ? 40 : (b[0] & 15) * 4;
		if (load_bytes(skb, at, b, 8))
			return 0;
		if (proto == IPPROTO_UDP) {
			key->sender.proto = IPPROTO_UDP;
			__builtin_memcpy(&key->sender.port, b, 2);
			if (!probe_number(skb, at + 8, 0, &key->number))
				key->number = UNNUMBERED;
			return 1;
		}
		if (proto != (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
			return 0;
	}
	__builtin_memcpy(&key->sender.port, b + 4, 2);
	key->number = bpf_htonl(b[6] << 8 | b[7]);
	return 1;
}

/* Whether an answer goes past our IFB: to a prober that sets the shaper, small, and not too soon. */
static __always_inline int goes_at_once(const struct packet *p, __u64 *at_once, __u64 now)
{
	if (*at_once == 0 || now < *at_once || p->segments != 1 || p->length >= SMALL_BYTES)
		return 0;
	*at_once = now + AT_ONCE_EVERY;
	return 1;
}

/* Remembers when a probe's answer arrived. 1: it is not to wait at our IFB. */
static __always_inline int stamp_probe_answer(struct __sk_buff *skb, struct scratch *s, __u64 now)
{
	const struct packet *p = &s->p;
	__u32 at = s->ip_at + p->headers;
	struct probe_key key = {};

	if (p->key.proto == IPPROTO_UDP) {
		if (p->payload < sizeof(struct probe_header))
			key.number = UNNUMBERED;
		else if (!probe_number(skb, at, s->fast ? s->udp_head : 0, &key.number))
			return 0;
		key.sender.proto = IPPROTO_UDP;
		key.sender.port = p->key.local_port;
	} else if (p->key.proto == IPPROTO_ICMP || p->key.proto == IPPROTO_ICMPV6) {
		/* Never parse_fast.h's, so `later_fragment` is this packet's. */
		if (s->later_fragment || !icmp_probe(skb, s, at, &key))
			return 0;
	} else {
		return 0;
	}
	__u64 *at_once = bpf_map_lookup_elem(&ek_senders, &key.sender);

	if (!at_once)
		return 0;
	/* Of answers with a number the first one counts. */
	bpf_map_update_elem(&ek_arrivals, &key, &now,
			    key.number == UNNUMBERED ? BPF_ANY : BPF_NOEXIST);
	return goes_at_once(p, at_once, now);
}
