/* Tells the queueing discipline how urgent a packet is: CAKE's tin, HTB's class of the tier, or one of
 * the classes that heavy flows have for themselves.
 *
 * Sees: every IP packet in both directions, before the shaper.
 * Principles: only `skb->priority` is set; CAKE gets a hint only where it would not find out by itself.
 * Non-goals: rules (classify.h).
 */
#pragma once

#include <linux/in.h>

#include "flow.h"
#include "packet.h"

/* A flow of a call or a game is below so many bytes in a second. */
#define SMALL_RATE (128 * 1024)
/* A bucket that nobody used for so long is free. */
#define BUCKET_IDLE (SECOND / 2)

/* Who has a heavy bucket. */
struct bucket {
	__u64 last_used; /* ns */
	__u32 owner;     /* flow_hash */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(max_entries, 2 * TIERS * HEAVY_BUCKETS);
} ek_buckets SEC(".maps");

/* The bucket of a heavy flow: its own while there are enough. */
static __always_inline __u32 heavy_bucket(struct direction_state *d, int dir, __u32 tier,
					  __u32 hash, __u64 now)
{
	__u32 base = ((dir & 1) * TIERS + (tier & (TIERS - 1))) * HEAVY_BUCKETS;
	__u32 at;
	struct bucket *b;

	if (d->heavy == 2) {
		at = base + (d->bucket & (HEAVY_BUCKETS - 1));
		b = bpf_map_lookup_elem(&ek_buckets, &at);
		if (b) {
			if (b->owner == hash || now - b->last_used < BUCKET_IDLE) {
				b->last_used = now;
				return at - base;
			}
		}
	}
	__u32 chosen = hash & (HEAVY_BUCKETS - 1);

	for (__u32 i = 0; i < HEAVY_BUCKETS; i++) {
		__u32 n = (hash + i) & (HEAVY_BUCKETS - 1);

		at = base + n;
		b = bpf_map_lookup_elem(&ek_buckets, &at);
		if (b && now - b->last_used > BUCKET_IDLE) {
			chosen = n;
			break;
		}
	}
	at = base + chosen;
	b = bpf_map_lookup_elem(&ek_buckets, &at);
	if (b) {
		b->last_used = now;
		b->owner = hash;
	}
	d->bucket = chosen;
	d->heavy = 2;
	return chosen;
}

/* Sets a packet's priority, and counts it in its tier. While it is `quiet` a call is found without rules
 * by CAKE's backend as well, and what nobody calls urgent is bulk.
 */
static __always_inline void set_priority(struct __sk_buff *skb, const struct direction_config *c,
					 int quiet, struct flow *f, const struct packet *p, int dir,
					 __u64 now, struct counts *counts)
{
	struct direction_state *d = &f->dir[dir & 1];
	__u32 tier = f->tier & (TIERS - 1), minor;
	int cake_knows = f->cake_knows;

	if (c->mode == PRIORITY_CAKE_TIN && !quiet) {
		/* CAKE finds small flows and sparse acknowledgements by itself. */
		cake_knows |= p->key.proto == IPPROTO_TCP && p->payload == 0;
	} else if (p->key.proto == IPPROTO_TCP && p->payload == 0) {
		/* Whatever it acknowledges must not wait for it. */
		tier = VOICE;
	} else {
		/* A call or a game. */
		f->small = f->reason == REASON_DEFAULT && p->key.proto == IPPROTO_UDP &&
			   p->length < SMALL_BYTES * p->segments &&
			   d->second_bytes < SMALL_RATE &&
			   d->second_bytes < SMALL_BYTES * d->second_packets;
		if (f->small)
			tier = VOICE;
		else if (quiet && tier == BEST_EFFORT)
			tier = BULK;
	}
	cake_knows &= !quiet;
	counts->tier_packets[dir & 1][tier] += p->segments;
	counts->tier_bytes[dir & 1][tier] += p->length;

	if (f->limit && (c->mode == PRIORITY_TIER_CLASS || c->mode == PRIORITY_BUCKET_CLASS)) {
		skb->priority = c->major | (LIMIT_CLASS + LIMIT_STEP * f->limit + 1 + tier);
		return;
	}
	switch (c->mode) {
	case PRIORITY_CAKE_TIN:
		if (cake_knows)
			return;
		/* sch_cake: tin_order[minor - 1], bulk_order being 1, 0, 2, 3. */
		minor = TIERS - tier;
		break;
	case PRIORITY_TIER_CLASS:
		minor = (tier + 1) << 4;
		break;
	case PRIORITY_BUCKET_CLASS:
		if (d->heavy && p->payload)
			minor = heavy_bucket(d, dir, tier, flow_hash(&p->key), now);
		else
			minor = HEAVY_BUCKETS + (flow_hash(&p->key) & (LIGHT_BUCKETS - 1));
		minor += (tier + 1) << 8;
		break;
	default:
		return;
	}
	skb->priority = c->major | minor;
}
