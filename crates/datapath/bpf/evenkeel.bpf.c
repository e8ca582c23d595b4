// SPDX-License-Identifier: GPL-2.0
/* evenkeel's programs on the WAN device: which flow a packet belongs to, how urgent that is, how long
 * its round trips take, and what is done about downloads.
 *
 * Sees: every packet of the device: ek_egress those that leave, before the shaper; ek_ingress those
 * that arrive, before the IFB. Both hang at clsact.
 * Principles: one table of flows for both directions; rules are asked once per flow and again when
 * mark, DSCP or the rules change; packets are changed only in the segment size that their SYN announces
 * (mss.h), in the window that they offer (window.h), in their ECN field (police.h), in the DSCP of what leaves
 * where a rule says so (dscp.h) and, behind their
 * end, by a surcharge (unresponsive.h); they are dropped only by police.h, if it is told a rate, and by
 * unresponsive.h; whatever cannot be parsed passes as it is.
 * Non-goals: payload; keeping state for what the LRU has forgotten.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "dns.h"
#include "dscp.h"
#include "flow.h"
#include "framing.h"
#include "ifb_bypass.h"
#include "ingress_control.h"
#include "mss.h"
#include "packet.h"
#include "parse.h"
#include "police.h"
#include "priority.h"
#include "probe_stamps.h"
#include "retransmissions.h"
#include "rtt.h"
#include "types.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct config);
	__uint(max_entries, 1);
} ek_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct counts);
	__uint(max_entries, 1);
} ek_counts SEC(".maps");

/* What becomes of a packet: TC_ACT_UNSPEC (the next filter decides), TC_ACT_OK (on to the stack, past
 * the IFB) or TC_ACT_SHOT.
 */
static __always_inline int run(struct __sk_buff *skb, int dir)
{
	__u32 zero = 0;
	struct config *c = bpf_map_lookup_elem(&ek_config, &zero);
	struct counts *counts = bpf_map_lookup_elem(&ek_counts, &zero);
	struct scratch *s = bpf_map_lookup_elem(&ek_scratch, &zero);

	if (!c || !counts || !s)
		return TC_ACT_UNSPEC;
	if (!parse_packet(skb, dir, s)) {
		counts->other[dir & 1]++;
		return TC_ACT_UNSPEC;
	}
	__u64 now = bpf_ktime_get_ns();
	struct packet *p = &s->p;

	s->now = now;
	int at_once = dir == DOWN && stamp_probe_answer(skb, s, now);

	barrier();
	counts->packets[dir & 1]++;
	counts->segments[dir & 1] += p->segments;
	counts->bytes[dir & 1] += p->length;
	counts->wire_bytes[dir & 1] += wire_bytes(skb, &c->dir[dir & 1].framing, p);
	struct flow *f = find_or_make_flow(skb, c, s, dir, now, counts);

	if (!f)
		return TC_ACT_UNSPEC;
	account(&f->dir[dir & 1], p, now);
	if (p->key.proto == IPPROTO_TCP) {
		count_retransmissions(&f->dir[dir & 1], p, dir, counts);
		measure_rtt(f, p, dir, now);
	}
	set_priority(skb, &c->dir[dir & 1], now < c->quiet_until, f, p, dir, now, counts);
	clamp_mss(skb, s, c->dir[!(dir & 1)].max_packet);
	if (dir == UP && f->set_dscp && f->set_dscp - 1 != p->dscp)
		write_dscp(skb, s->ip_at, (f->set_dscp - 1) & 63);
	if (dir == DOWN)
		keep_dns_answer(skb, c, s, f);
	barrier();
	if (control_ingress(skb, f, p, dir, s->now)) {
		counts->slowed += p->segments;
		return TC_ACT_SHOT;
	}
	barrier();
	if (dir == UP)
		return TC_ACT_UNSPEC;
	if (at_once || bypasses_ifb(skb, &c->dir[DOWN], f, p, s->now)) {
		counts->bypassed++;
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
