/* Answers of name servers, for whoever has rules about names.
 *
 * Sees: UDP from port 53 that arrives, where somebody asks for it.
 * Principles: only what answers: something went to that server from that port before; a copy, the packet
 * passes as it is; what nobody fetches in time is lost.
 * Non-goals: what stands in it; TCP, TLS and HTTPS, which few resolvers use for this and which do not show it.
 */
#pragma once

#include <linux/in.h>

#include <bpf/bpf_endian.h>

#include "packet.h"

/* A DNS header. */
#define DNS_HEADER 12

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, struct dns_answer);
	__uint(max_entries, DNS_ANSWERS);
} ek_dns SEC(".maps");

/* Where one is copied to. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct dns_answer);
	__uint(max_entries, 1);
} ek_dns_copy SEC(".maps");

/* Keeps a packet that arrived, if it is one. */
static __always_inline void keep_dns_answer(struct __sk_buff *skb, const struct config *c,
					    const struct scratch *s, const struct flow *f)
{
	const struct packet *p = &s->p;
	__u32 zero = 0, length;
	struct dns_answer *d;

	if (p->key.proto != IPPROTO_UDP || p->key.remote_port != bpf_htons(53) || !c->asks_dns)
		return;
	if (p->segments != 1 || !f->dir[UP].last_seen)
		return;
	d = bpf_map_lookup_elem(&ek_dns_copy, &zero);
	if (!d)
		return;
	length = p->payload;
	if (length < DNS_HEADER)
		return;
	if (length > DNS_BYTES)
		length = DNS_BYTES;
	if (bpf_skb_load_bytes(skb, s->ip_at + p->headers, d->bytes, length))
		return;
	d->length = length;
	bpf_map_push_elem(&ek_dns, d, 0);
}
