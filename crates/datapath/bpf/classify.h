/* Which tier a flow is in, by the rules.
 *
 * Sees: the first packet of every flow in either direction, and on egress those with another mark or
 * DSCP than the latest; every flow once more when the rules have changed.
 * Principles: rules are asked in order, the first that holds and has a tier decides the tier, the first that
 * has a ceiling the ceiling; a rule that has only a name is found by it (names.h), and its place in the list
 * counts as well.
 * Non-goals: how a flow behaves (flow.h), what the queueing discipline is told (priority.h).
 */
#pragma once

#include <bpf/bpf_endian.h>

#include "names.h"
#include "packet.h"

/* Set by the loader: whether the kernel can tell control groups. */
const volatile __u8 with_cgroups = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct rule);
	__uint(max_entries, 2 * MAX_RULES);
} ek_rules SEC(".maps");

static __always_inline int address_matches(const __be32 a[4], const struct rule *r)
{
	return (a[0] & r->mask[0]) == r->addr[0] && (a[1] & r->mask[1]) == r->addr[1] &&
	       (a[2] & r->mask[2]) == r->addr[2] && (a[3] & r->mask[3]) == r->addr[3];
}

static __always_inline int port_matches(__be16 port, const struct rule *r)
{
	__u16 p = bpf_ntohs(port);

	return p >= r->port_low && p <= r->port_high;
}

/* Whether every condition holds that the rule has. */
static __always_inline int rule_matches(struct __sk_buff *skb, const struct rule *r,
					const struct packet *p, int dir)
{
	const struct flow_key *k = &p->key;

	if (r->conditions & RULE_PROTO && r->proto != k->proto)
		return 0;
	if (r->conditions & RULE_DSCP && r->dscp != p->dscp)
		return 0;
	if (r->conditions & RULE_MARK && (skb->mark & r->mark_mask) != r->mark)
		return 0;
	if (r->conditions & RULE_LOCAL_PORT && !port_matches(k->local_port, r))
		return 0;
	if (r->conditions & RULE_REMOTE_PORT && !port_matches(k->remote_port, r))
		return 0;
	if (r->conditions & RULE_ANY_PORT && !port_matches(k->local_port, r) &&
	    !port_matches(k->remote_port, r))
		return 0;
	if (r->conditions & RULE_LOCAL_ADDR && !address_matches(k->local, r))
		return 0;
	if (r->conditions & RULE_REMOTE_ADDR && !address_matches(k->remote, r))
		return 0;
	if (r->conditions & RULE_CGROUP) {
		if (!with_cgroups || dir != UP)
			return 0;
		if (bpf_skb_ancestor_cgroup_id(skb, r->cgroup_level) != r->cgroup)
			return 0;
	}
	return 1;
}

/* What is gained by asking the rule at `position`: nothing where earlier ones have said all. */
static __always_inline int says_more(const struct name *found, __u32 position)
{
	return position < found->tier_at || position < found->limit_at || position < found->dscp_at;
}

/* Takes what a rule that holds says, if no earlier one has. */
static __always_inline void take(struct name *found, const struct rule *r)
{
	if (r->conditions & RULE_TIER && r->position < found->tier_at) {
		found->tier_at = r->position;
		found->tier = r->tier & (TIERS - 1);
		found->cake_knows = !!(r->conditions & RULE_CAKE_KNOWS);
	}
	if (r->limit && r->position < found->limit_at) {
		found->limit_at = r->position;
		found->limit = r->limit;
	}
	if (r->set_dscp && r->position < found->dscp_at) {
		found->dscp_at = r->position;
		found->set_dscp = r->set_dscp;
	}
}

/* Asks names and rules, in order; the first that says something decides it. */
static __always_inline void classify(struct __sk_buff *skb, const struct config *c,
				     struct scratch *s, int dir, struct flow *f)
{
	const struct packet *p = &s->p;
	struct name *found = &s->found;

	f->generation = c->generation;
	f->mark = dir == UP ? skb->mark : f->mark;
	f->dscp = p->dscp;
	ask_names(skb, c, s, dir, f->cgroup);
	for (__u32 i = 0; i < MAX_RULES; i++) {
		if (i >= c->rules)
			break;
		__u32 at = c->first_rule + i;
		const struct rule *r = bpf_map_lookup_elem(&ek_rules, &at);

		if (!r || !says_more(found, r->position))
			break;
		if ((found->sets & r->sets) == r->sets && rule_matches(skb, r, p, dir))
			take(found, r);
	}
	f->tier = found->tier & (TIERS - 1);
	f->reason = found->tier_at < REASON_DEFAULT ? found->tier_at : REASON_DEFAULT;
	f->cake_knows = found->cake_knows;
	f->limit = found->limit ? found->limit : c->tier_limit[f->tier & (TIERS - 1)];
	f->set_dscp = found->set_dscp ? found->set_dscp : c->tier_dscp[f->tier & (TIERS - 1)];
}
