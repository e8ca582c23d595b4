/* What the programs and their loader (src/layout.rs) agree on: every value in a map.
 *
 * Principles: fixed widths, explicit padding, host byte order but for addresses and ports, which
 * stand as on the wire. Each struct has its twin in layout.rs; a map opens only with its size.
 */
#pragma once

#include <linux/types.h>

/* Directions, as seen from the WAN device. */
#define UP 0   /* egress: from us */
#define DOWN 1 /* ingress: towards us */

/* Tiers, most urgent first, as evenkeel_core::Tier. */
#define VOICE 0
#define VIDEO 1
#define BEST_EFFORT 2
#define BULK 3
#define TIERS 4

/* How a tier is handed to the queueing discipline. */
#define HAND_NOTHING 0 /* count only */
#define HAND_CAKE 1    /* a tin, where CAKE would not find it by itself */
#define HAND_TIERS 2   /* HTB: a class per tier */
#define HAND_BUCKETS 3 /* HTB: classes per tier, one for each heavy flow */

/* Buckets of a tier: heavy flows have one each while there are enough, light ones share. */
#define HEAVY_BUCKETS 16
#define LIGHT_BUCKETS 4

struct side {
	__u32 hand;
	__u32 major; /* of the root discipline */
	__u32 longest; /* bytes of TCP's IP packets this way; 0: not bounded */
};

struct config {
	__u32 generation;  /* changes with the rules */
	__u32 first_rule;  /* where the set of this generation begins */
	__u32 rules;       /* how many there are */
	struct side side[2];
};

#define RULE_PROTO (1 << 0)
#define RULE_DSCP (1 << 1)
#define RULE_MARK (1 << 2)
#define RULE_LOCAL_PORT (1 << 3)
#define RULE_REMOTE_PORT (1 << 4)
#define RULE_ANY_PORT (1 << 5)
#define RULE_LOCAL_ADDR (1 << 6)
#define RULE_REMOTE_ADDR (1 << 7)
#define RULE_CGROUP (1 << 8)
/* CAKE does as much by itself: no hint. */
#define RULE_CAKE_KNOWS (1 << 15)

/* Rules of one set, and two sets: one is used while the other is written. */
#define MAX_RULES 128

struct rule {
	__u16 what; /* RULE_...; all of them must hold */
	__u8 tier;
	__u8 proto;
	__u8 dscp;
	__u8 cgroup_level; /* how far below the root */
	__u16 port_low, port_high;
	__u16 pad;
	__u32 mark, mark_mask;
	__u32 addr[4], mask[4];
	__u32 pad2;
	__u64 cgroup; /* of the control group or of one above it */
};

/* Why a flow is in its tier, beside the number of a rule. */
#define WHY_DEFAULT 0xffff /* no rule holds, nothing known of it */

struct flow_key {
	__u32 local[4], remote[4]; /* IPv4: ::ffff:a.b.c.d */
	__u16 local_port, remote_port;
	__u8 proto;
	__u8 pad[3];
};

/* What is known of one direction of a flow. */
struct way {
	__u64 bytes;   /* of IP packets, every segment with its headers */
	__u64 packets; /* segments */
	__u64 last;    /* time of the latest, ns; 0: none yet */
	__u64 window;  /* start of the current window of a second */
	__u64 stamped; /* when the time stamp below was first seen; 0: nothing is waited for */
	__u32 window_bytes, window_packets;
	__u32 stamp;      /* TCP time stamp whose echo is waited for */
	__u32 last_stamp; /* the latest one seen */
	__u32 rtt;        /* round trip beyond us in this direction, latest, us; 0: none yet */
	__u32 rtt_min;    /* the smallest */
	__u32 rtt_count;
	__u8 heavy;  /* moved much in the last whole window */
	__u8 bucket; /* if heavy */
	__u8 scale;  /* window scale it offered, plus 1; 0: none or not seen */
	__u8 stamp_data; /* what bore the stamp that is waited for had payload */
};

/* Framing of the line, as Framing's modes. */
#define FRAMING_NONE 0
#define FRAMING_ATM 1
#define FRAMING_PTM 2

struct framing {
	__u32 mode; /* FRAMING_... */
	__s32 overhead;
	__u32 mpu;
};

/* What the windows are told of the line. */
struct line {
	__u64 lease;     /* time until which windows are bounded, ns; 0: they are not */
	__u32 rate;      /* towards us, bytes per second at the link layer */
	__u32 target;    /* of it, for all flows together */
	__u32 packet;    /* bytes of a full packet at the link layer */
	__u32 packet_ns; /* how long the line takes for it */
	struct framing framing;
	__u32 segment; /* TCP's payload in a full packet */
	__u32 slack;   /* round trips may be so much beyond the least without it meaning much, us */
	__u32 surcharge; /* counted beside what comes of flows without windows, 1/10000 */
	__u32 fills;     /* the line is to be full, though a short queue stands */
	__u32 pad;
};

/* Who is active in a slot of time. */
struct pool_slot {
	__u32 slot;
	__u32 hosts;   /* with flows that take all they get */
	__u32 limited; /* what the other hosts take, bytes per second */
};

/* The line as a whole. */
struct pool {
	__u64 arrived, others, light; /* bytes: all, of what knows no windows, of light TCP flows */
	__u64 arrived_before, others_before, light_before;
	__u64 step;    /* time of the latest look */
	__u64 full_at; /* when it was used to the full, or nobody asked for more */
	__u64 busy;    /* until when a line a little slower would be busy with what came */
	__u64 bounded; /* when a flow last used up its window */
	__u64 tightest; /* when a flow last had the smallest window there is */
	__u64 pass_busy; /* until when the line's part for small packets is used up */
	__u32 all, other, light_rate; /* the same as smoothed rates, bytes per second */
	__u32 now;     /* the first of them of late */
	__u32 full;    /* whether the line is used to the full */
	__u32 queue;   /* round trips beyond the least, us, smoothed */
	__u32 boost;   /* of shares, thousandths beyond them */
	__u32 owed;    /* of the surcharge, bytes */
	struct pool_slot slot[8];
};

struct host_slot {
	__u32 slot;
	__u32 weight;  /* of flows that take all they get */
	__u32 limited; /* what the others take, bytes per second */
};

struct host {
	struct host_slot slot[8];
};

/* What a flow is granted, and what it made of it. */
struct grant {
	__u64 since;  /* begin of the current interval, ns */
	__u64 fresh;  /* when the window was computed; of a flow without: when it was slowed last */
	__u32 asked[4];      /* times of acknowledgements that moved the edge, us */
	__u32 asked_edge[4]; /* where it was before */
	__u16 ask, answered; /* how many were noted, and how many of them are done with */
	__u32 edge;   /* right edge of the window that was let through */
	__u32 edge_before; /* the same at the beginning of the interval */
	__u32 seen;   /* end of the latest data */
	__u32 acked;
	__u32 segment, wire; /* payload of a full one, and its bytes at the link layer */
	__u32 window; /* bytes */
	__u32 share;  /* bytes per second at the link layer */
	__u32 rate;   /* reached in the latest interval */
	__u32 bytes;  /* in the current one */
	__s32 extra;  /* allowance, us */
	__u32 least, base; /* least round trips beyond us, us: of late, ever */
	__u32 turn;   /* latest round trip of a moved edge, us */
	__u32 paid;   /* number of the first slot that is not paid */
	__u32 weight, limited; /* what was paid: one or the other */
	__u16 promise; /* window of its SYN */
	__u8 host;
	__u8 flags; /* GRANT_... */
	__u32 settled; /* paid since its latest interval */
	__u32 usual;   /* round trips beyond the least that acknowledgements take, us */
	__u32 samples; /* of round trips that were looked at */
	__u32 rounds;  /* intervals */
	__u32 origin;  /* where the far side begins to count */
	__u32 from;    /* where the latest window began */
	__u32 shares[2]; /* share at the end of the latest interval, and of the one before */
	__u32 pad;
};

#define GRANT_EDGE (1 << 0)  /* edge is known */
#define GRANT_SEEN (1 << 1)  /* data has arrived */
#define GRANT_BOUND (1 << 2) /* it uses all it is granted */
#define GRANT_RAMPS (1 << 3) /* its rate still grows */
#define GRANT_HOST (1 << 4)  /* host is known */

struct flow {
	struct way way[2];
	struct grant grant;
	__u64 first; /* ns */
	__u64 cgroup;
	__u64 syn; /* time of the SYN or SYN-ACK whose answer is waited for */
	__u64 queued_until; /* so long packets that arrived may wait in our queue; not of TCP */
	__u32 generation;
	__u32 mark;
	__u16 why; /* number of the rule, or WHY_... */
	__u8 tier;
	__u8 cake_knows;
	__u8 dscp;
	__u8 seen; /* FLOW_... */
	__u8 small; /* its latest packet went first because the flow is small and regular */
	__u8 pad;
};

#define FLOW_SYN_UP (1 << 0)
#define FLOW_SYN_DOWN (1 << 1)
#define FLOW_CLOSED (1 << 2)
#define FLOW_MPTCP (1 << 3)

/* Who has a heavy bucket. */
struct bucket {
	__u64 last; /* ns */
	__u32 owner;
	__u32 pad;
};

/* Histograms of round trips: four steps in each doubling, from 64 us on. */
#define RTT_STEPS 80

/* So many of the next are kept. */
#define TRIPS 64

/* A round trip beyond us that is worth a probe's, for whoever has none answered. */
struct trip {
	__u64 came;       /* when the answer did, ns */
	__u32 remote[4];  /* as in flow_key */
	__u32 took;       /* us, from before our own queue on */
	__u32 waits;      /* what it answers may have waited there */
};

/* What was counted on the way; one value per CPU. */
struct counts {
	__u64 packets[2]; /* super-packets count once */
	__u64 segments[2];
	__u64 bytes[2];
	__u64 other[2];    /* not IP, or cut off: not classified */
	__u64 new_flows;
	__u64 full;        /* no entry was to be had */
	__u64 slowed;      /* dropped: of flows that know no windows, beyond their share */
	__u64 passed;      /* small ones that arrived and did not go to our queue */
	__u64 tier_packets[2][TIERS];
	__u64 tier_bytes[2][TIERS];
};

/* What the policer is told. */
struct policer {
	__u64 cost[3]; /* of a byte on the line at 98, 99 and 100 % of its rate, ns << 20; 0: off */
	__u64 burst;   /* what may come at once, ns of the line */
	__u64 target;  /* how long packets may wait at the provider, ns */
	__u32 heavy;   /* bytes of a flow in a second from which it can be told to slow down */
	__u32 mark;    /* fwmark above 98 %; 0: none */
	struct framing framing;
	__u32 pad;
};

/* What the policer did; packets, one value per CPU. */
struct policed {
	__u64 marked;  /* congestion experienced */
	__u64 flagged; /* with the fwmark */
	__u64 large;   /* dropped: long ones */
	__u64 small;   /* dropped: others, when all long ones were dropped already */
	__u64 acks;    /* dropped: empty acknowledgements, when everything else was */
	__u64 bytes;   /* dropped, on the line */
};

/* Where one of evenkeel's own probers sends from; as on the wire. */
struct probe_sender {
	__u8 proto; /* UDP, or ICMP for both versions of it */
	__u8 pad;
	__be16 port; /* ICMP: identifier */
};

/* One of its probes. */
struct probe_key {
	struct probe_sender sender;
	__be32 number; /* ICMP: sequence; UDP: at the head of the payload, or UNNUMBERED */
};

#define UNNUMBERED 0xffffffff

/* The ports of a packet's first fragment, for the others. */
struct fragment_key {
	__u32 source[4], destination[4];
	__u32 id;
	__u32 proto;
};
