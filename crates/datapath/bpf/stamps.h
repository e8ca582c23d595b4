/* SPDX-License-Identifier: GPL-2.0 */
/* When answers to evenkeel's own probes arrive, before the IFB: their path is told from our own
 * ingress queue, which lies before the kernel's receive stamp.
 *
 * Principles: only answers of sessions that a prober has registered are remembered; what cannot
 * be one is told by its length, so that other packets cost a comparison. Times are
 * CLOCK_MONOTONIC's. Non-goals: whether an answer is right, which the prober knows.
 */
#pragma once

/* `evenkeel_measure::packet`: magic, session and sequence number at its head, 56 bytes in all. */
#define PROBE_BYTES 56
#define PROBE_MAGIC 0x454b7031 /* EKp1 */
#define ICMP_HEADER 8

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 64);
} ek_sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct probe_key);
	__type(value, __u64);
	__uint(max_entries, 4096);
} ek_arrivals SEC(".maps");

static __always_inline void stamp(struct __sk_buff *skb, struct scratch *s, __u64 now)
{
	const struct packet *p = &s->p;
	__u32 at = s->begin + p->headers;

	if (p->key.proto == IPPROTO_UDP) {
		if (p->payload != PROBE_BYTES)
			return;
	} else if (p->key.proto == IPPROTO_ICMP || p->key.proto == IPPROTO_ICMPV6) {
		if (p->payload != PROBE_BYTES + ICMP_HEADER)
			return;
		at += ICMP_HEADER;
	} else {
		return;
	}
	struct {
		__be32 magic;
		struct probe_key key;
	} head;

	if (load(skb, at, &head, sizeof(head)) || head.magic != bpf_htonl(PROBE_MAGIC))
		return;
	if (bpf_map_lookup_elem(&ek_sessions, &head.key.session))
		bpf_map_update_elem(&ek_arrivals, &head.key, &now, BPF_NOEXIST);
}
