/* What is known of a flow by the names of its ends: DNS names, devices, programs.
 *
 * Sees: flows that are classified.
 * Principles: however many names there are, a flow asks for each kind once; who knows which address or
 * socket a name stands for fills the table.
 * Non-goals: finding that out.
 */
#pragma once

#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct name_key);
	__type(value, struct name);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} ek_names SEC(".maps");

/* Adds what is said under the key in the scratch, if something is. */
static __always_inline void ask_name(struct scratch *s, const struct config *c, __u8 kind)
{
	struct name *found = &s->found;
	const struct name *n;

	if (!(c->names & 1u << kind))
		return;
	s->name.kind = kind;
	n = bpf_map_lookup_elem(&ek_names, &s->name);
	if (!n)
		return;
	found->sets |= n->sets;
	if (n->tier_at < found->tier_at) {
		found->tier_at = n->tier_at;
		found->tier = n->tier;
		found->cake_knows = 0;
	}
	if (n->limit_at < found->limit_at) {
		found->limit_at = n->limit_at;
		found->limit = n->limit;
	}
	if (n->dscp_at < found->dscp_at) {
		found->dscp_at = n->dscp_at;
		found->set_dscp = n->set_dscp;
	}
}

/* Fills `s->found` with what the names of a flow's ends say. */
static __always_inline void ask_names(struct __sk_buff *skb, const struct config *c,
				      struct scratch *s, int dir, __u64 cgroup)
{
	const struct flow_key *k = &s->p.key;
	struct name_key *n = &s->name;

	__builtin_memset(&s->found, 0, sizeof(s->found));
	s->found.tier_at = NOWHERE;
	s->found.tier = BEST_EFFORT;
	s->found.cake_knows = 1;
	/* Where nothing can be found, nothing is waited for. */
	s->found.limit_at = c->acts ? NOWHERE : 0;
	s->found.dscp_at = s->found.limit_at;
	if (!c->names)
		return;
	__builtin_memset(n, 0, sizeof(*n));
	__builtin_memcpy(n->addr, k->remote, sizeof(n->addr));
	ask_name(s, c, NAME_REMOTE);
	n->local_port = k->local_port;
	n->remote_port = k->remote_port;
	n->proto = k->proto;
	ask_name(s, c, NAME_TUPLE);
	__builtin_memset(n->addr, 0, sizeof(n->addr));
	n->remote_port = 0;
	/* What has come in by no device is this host's own. */
	if (dir == UP && !skb->ingress_ifindex)
		ask_name(s, c, NAME_PORT);
	n->local_port = 0;
	n->proto = 0;
	if (cgroup) {
		n->addr[0] = cgroup;
		n->addr[1] = cgroup >> 32;
		ask_name(s, c, NAME_CGROUP);
	}
	__builtin_memcpy(n->addr, k->local, sizeof(n->addr));
	ask_name(s, c, NAME_LOCAL);
}
