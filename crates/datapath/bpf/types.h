/* What the programs and their loader agree on: keys and values of the maps that the loader opens, and
 * the numbers that stand in them. `layout.c` names them to build.rs, which makes Rust of them.
 *
 * Sees: no packets.
 * Principles: fixed widths and explicit padding, which build.rs insists on; host byte order, but for
 * `__be16` and `__be32`, which stand as on the wire; constants are enumerators, because BTF knows
 * those and no macros.
 * Non-goals: what only the programs know, which stands beside what uses it.
 */
#pragma once

#include <linux/types.h>

/* Directions, as seen from the WAN device. */
enum direction {
	UP = 0,   /* egress: from us */
	DOWN = 1, /* ingress: towards us */
};

/* Tiers, most urgent first, as evenkeel_core::Tier. */
enum tier {
	VOICE = 0,
	VIDEO = 1,
	BEST_EFFORT = 2,
	BULK = 3,
	TIERS = 4, /* how many there are */
};

/* How a tier is told to the queueing discipline. */
enum priority_mode {
	PRIORITY_NONE = 0,         /* not at all: flows are counted */
	PRIORITY_CAKE_TIN = 1,     /* a tin, where CAKE would not find it by itself */
	PRIORITY_TIER_CLASS = 2,   /* HTB: a class per tier */
	PRIORITY_BUCKET_CLASS = 3, /* HTB: classes per tier, one for each heavy flow */
};

enum limits {
	/* Rules of one set, and two sets: one is used while the other is written. */
	MAX_RULES = 128,
	/* Classes of a tier: heavy flows have one each while there are enough, light ones share. */
	HEAVY_BUCKETS = 16,
	LIGHT_BUCKETS = 4,
	/* Histograms of round trips: four steps in each doubling, from 64 us on. */
	RTT_STEPS = 80,
	/* So many round trips are kept for the controller. */
	RTT_SAMPLES = 64,
	/* So many answers of name servers are kept, and of each so much: EDNS of nearly all resolvers. */
	DNS_ANSWERS = 64,
	DNS_BYTES = 1232,
	/* HTB: minor of a ceiling's class is this plus eight times its number, of its tiers' one more each. */
	LIMIT_CLASS = 0x1000,
	LIMIT_STEP = 8,
};

/* Framing of the line, as Framing's modes. */
enum framing_mode {
	FRAMING_NONE = 0,
	FRAMING_ATM = 1,
	FRAMING_PTM = 2,
};

struct framing {
	__u32 mode; /* enum framing_mode */
	__s32 overhead;
	__u32 mpu;
};

struct direction_config {
	__u32 mode;       /* enum priority_mode */
	__u32 major;      /* of the root discipline, as in tcm_handle */
	__u32 max_packet; /* bytes of the IP packets of new TCP connections; 0: not bounded */
	struct framing framing;
};

struct config {
	__u64 quiet_until; /* until then what is no call waits behind everything else, ns */
	__u32 generation; /* changes with the rules */
	__u32 first_rule; /* where the set of this generation begins */
	__u32 rules;      /* how many there are */
	__u32 names;      /* 1 << enum name_kind, of those that there are */
	__u8 acts;        /* there are ceilings or marks */
	__u8 asks_dns;    /* what name servers answer is to be kept */
	__u8 pad[2];
	__u8 tier_limit[TIERS]; /* of flows that have none of their own, as in struct name */
	__u8 tier_dscp[TIERS];
	struct direction_config dir[2];
	__u32 pad2;
};

/* Which conditions a rule has; all of them must hold. */
enum rule_flags {
	RULE_PROTO = 1 << 0,
	RULE_DSCP = 1 << 1,
	RULE_MARK = 1 << 2,
	RULE_LOCAL_PORT = 1 << 3,
	RULE_REMOTE_PORT = 1 << 4,
	RULE_ANY_PORT = 1 << 5,
	RULE_LOCAL_ADDR = 1 << 6,
	RULE_REMOTE_ADDR = 1 << 7,
	RULE_CGROUP = 1 << 8,
	RULE_TIER = 1 << 9, /* it says a tier */
	/* CAKE does as much by itself: no hint. */
	RULE_CAKE_KNOWS = 1 << 15,
};

struct rule {
	__u16 conditions; /* enum rule_flags */
	__u8 tier;
	__u8 proto;
	__u8 dscp;
	__u8 cgroup_level; /* how far below the root */
	__u16 port_low, port_high;
	__u8 limit;    /* number of its ceiling, from 1; 0: none */
	__u8 set_dscp; /* that it writes, plus 1; 0: none */
	__u32 mark, mark_mask;
	__be32 addr[4], mask[4];
	__u32 position; /* in the whole list, from 1 */
	__u64 cgroup;   /* of the control group or of one above it */
	__u64 sets;     /* names that must stand for a flow's ends, a bit each */
};

/* Why a flow is in its tier: the position of a rule, or one of these. */
enum reason {
	REASON_HAND = 0,         /* somebody put this one flow there */
	REASON_DEFAULT = 0xffff, /* no rule holds, nothing known of it */
};

/* What is known by a name: a key has what its kind names, the rest is zero. */
enum name_kind {
	NAME_REMOTE = 0, /* addr: the far side */
	NAME_LOCAL = 1,  /* addr: ours, where no address translation hides it */
	NAME_CGROUP = 2, /* addr: number of a control group, in host byte order */
	NAME_TUPLE = 3,  /* addr: the far side; ports, proto: one flow */
	NAME_PORT = 4,   /* local_port, proto: a socket of this host */
};

struct name_key {
	__be32 addr[4];
	__be16 local_port, remote_port;
	__u8 proto;
	__u8 kind; /* enum name_kind */
	__u8 pad[2];
};

enum positions {
	NOWHERE = 0x7fffffff,
};

/* What is said of flows with that name: by the first rule that says a tier, by the first that has a
 * ceiling, and by the first that writes a mark.
 */
struct name {
	__u64 sets; /* of rules that ask more, a bit each */
	__u32 tier_at, limit_at, dscp_at; /* positions of rules; NOWHERE: none */
	__u8 tier;
	__u8 limit;
	__u8 set_dscp;
	__u8 cake_knows;
};

/* An answer of a name server: a UDP payload, cut off where it is longer. */
struct dns_answer {
	__u32 length;
	__u8 bytes[DNS_BYTES];
};

struct flow_key {
	__be32 local[4], remote[4]; /* IPv4: ::ffff:a.b.c.d */
	__be16 local_port, remote_port;
	__u8 proto;
	__u8 pad[3];
};

/* What is known of one direction of a flow. */
struct direction_state {
	__u64 bytes;        /* of IP packets, every segment with its headers */
	__u64 packets;      /* segments */
	__u64 last_seen;    /* time of the latest, ns; 0: none yet */
	__u64 second_start; /* begin of the current interval of a second, ns */
	__u64 awaited_at;   /* when what is awaited below was first sent; 0: nothing is */
	__u32 second_bytes, second_packets; /* in the current interval */
	__u32 awaited;      /* TCP time stamp whose echo is; without stamps the end of data whose acknowledgement is */
	__u32 latest;       /* the latest time stamp sent, or the highest end of data */
	__u32 rtt;          /* round trip beyond us in this direction, latest, us; 0: none yet */
	__u32 rtt_min;      /* the smallest */
	__u32 rtt_count;
	__u8 heavy;            /* moved much in the last whole interval; 2: and has a bucket */
	__u8 bucket;           /* if it has one */
	__u8 window_scale;     /* that it offered, plus 1; 0: none or not seen */
	__u8 awaited_with_data; /* what is awaited was sent with payload */
	__u32 highest_end;      /* TCP: of data so far, a sequence number; 0: none yet */
	__u32 pad;
};

/* How many answers of what a flow sent are waited for at once, so that a controller hears of a long queue several
 * times in each round trip; a power of two.
 */
#define AWAITED 8

/* One of them. */
struct awaited {
	__u32 what;    /* as direction_state.awaited */
	__u32 sent_at; /* us */
};

/* What the windows are told of the line. */
struct line {
	__u64 lease;     /* time until which windows are bounded, ns; 0: they are not */
	__u32 rate;      /* towards us, bytes per second at the link layer */
	__u32 target;    /* of it, for all flows together */
	__u32 packet;    /* bytes of a full packet at the link layer */
	__u32 packet_ns; /* how long the line takes for it */
	struct framing framing;
	__u32 segment;   /* TCP's payload in a full packet */
	__u32 slack;     /* round trips may be so much beyond the least without it meaning much, us */
	__u32 surcharge; /* counted beside what comes of unresponsive flows, 1/10000 */
	__u32 fills;     /* the line is to be full, though a short queue stands */
	__u32 lan;       /* queues behind us are held short as well */
};

enum grant_flags {
	GRANT_EDGE_KNOWN = 1 << 0,     /* the right edge is known */
	GRANT_DATA_SEEN = 1 << 1,      /* data has arrived */
	GRANT_WINDOW_LIMITED = 1 << 2, /* it uses all it is granted */
	GRANT_SLOW_START = 1 << 3,     /* its rate still grows */
	GRANT_HOST_KNOWN = 1 << 4,     /* host is known */
	GRANT_LAN_BOUND = 1 << 5,      /* its window is what its way on our side carries */
};

/* What a flow is granted, and what it made of it. Edges and ends are TCP sequence numbers. */
struct grant {
	__u64 interval_start; /* ns */
	__u64 computed_at;    /* the window, ns; of an unresponsive flow: when it was slowed last */
	__u32 moved_at[4];    /* times of acknowledgements that moved the right edge, us */
	__u32 moved_from[4];  /* where it was before */
	__u16 moves, moves_answered; /* how many were noted, and how many of them are done with */
	__u32 right_edge;     /* of the window that was let through */
	__u32 interval_edge;  /* the same at the beginning of the interval */
	__u32 data_end;       /* of the latest data */
	__u32 last_ack;
	__u32 segment, segment_wire; /* payload of a full one, and its bytes at the link layer */
	__u32 window;         /* bytes */
	__u32 share;          /* bytes per second at the link layer */
	__u32 rate;           /* reached in the latest interval, the same */
	__u32 interval_bytes; /* in the current one, the same */
	__s32 window_slack;   /* the window is of a round trip longer by this, us */
	__u32 rtt_recent, rtt_base; /* least window RTT, us: of late, ever */
	__u32 window_rtt;     /* from an edge that moved to the first data beyond it, latest, us */
	__u32 reserved_until; /* number of the first slot that is not reserved */
	__u32 reserved_weight, reserved_rate; /* what is reserved: one or the other */
	__u16 syn_window;     /* that its SYN offered, bytes */
	__u8 host;
	__u8 flags;           /* enum grant_flags */
	__u32 reserved;       /* since its latest interval */
	__u32 ack_delay;      /* what acknowledgements take beyond the least round trip, us */
	__u32 rtt_count;      /* of the round trips that were looked at */
	__u32 intervals;
	__u32 peer_isn;       /* initial sequence number of the far side */
	__u32 window_left;    /* left edge of the latest window */
	__u32 past_shares[2]; /* share at the end of the latest interval, and of the one before */
	__u32 pad;
};

/* A flow's way on our side, from us to its host and back. */
struct lan {
	__u64 begun;      /* the current look at it, ns */
	__u64 base_since; /* when base was looked for last, ns */
	__u32 acked;      /* what was acknowledged when the look began: a TCP sequence number */
	__u32 least;      /* least round trip since then, us */
	__u32 most;       /* and the longest */
	__u32 sum;        /* of all of them */
	__u32 base;       /* a usual one without a queue, us; 0: not known yet */
	__u32 base_next;  /* sum of those of looks for it */
	__u32 rtt_count;  /* of the round trips that were looked at */
	__u32 window;     /* what it may have on its way because of that, bytes; 0: it is not bounded */
	__u32 rate;       /* acknowledged at the latest look, bytes of payload per second */
	__u32 queue;      /* what stood there then, us */
	__u32 scatter;    /* round trips beyond the least of their look, smoothed, us */
	__u32 dip;        /* the smaller window while the base is looked for, bytes */
	__u8 samples;     /* of the current look */
	__u8 looking;     /* for base: so many more looks with the smaller window */
	__u8 was_cut;     /* the latest look made the window smaller */
	__u8 pad;
	__u32 pad2;
};

enum flow_flags {
	FLOW_SYN_UP = 1 << 0,
	FLOW_SYN_DOWN = 1 << 1,
	FLOW_CLOSED = 1 << 2,
	FLOW_MPTCP = 1 << 3,
};

struct flow {
	struct direction_state dir[2];
	struct grant grant;
	struct lan lan;
	__u64 first_seen;   /* ns */
	__u64 cgroup;
	__u64 syn_at;       /* time of the SYN or SYN-ACK whose answer is waited for, ns */
	__u64 queued_until; /* so long packets that arrived may wait in our queue, ns; not of TCP */
	struct awaited awaited[AWAITED]; /* of what we send, a ring; while it moves much */
	__u32 generation;
	__u32 mark;
	__u16 reason;       /* number of a rule, or enum reason */
	__u8 tier;
	__u8 cake_knows;
	__u8 dscp;
	__u8 flags;         /* enum flow_flags */
	__u8 small;         /* its latest packet went first because the flow is small and regular */
	__u8 limit;         /* number of its ceiling, from 1; 0: none */
	__u8 set_dscp;      /* that is written into what leaves, plus 1; 0: none */
	__u8 awaited_first; /* position of the oldest in the ring */
	__u8 awaited_count;
	__u8 awaited_data;  /* a bit for each that was sent with payload */
	__u8 pad[4];
};

/* A round trip beyond us that is worth a probe's, for whoever has none answered. */
struct rtt_sample {
	__u64 answered_at;     /* ns */
	__be32 remote[4];      /* as in flow_key */
	__u32 rtt_us;          /* from before our own queue on */
	__u32 tsval;           /* of the answer: when it was sent, by the far side's clock (RFC 7323) */
	__be16 local_port, remote_port;
	__u8 may_have_queued;  /* what was answered may have waited there */
	__u8 has_tsval;
	__u8 pad[2];
};

/* What was counted; one value per CPU. */
struct counts {
	__u64 packets[2]; /* super-packets count once */
	__u64 segments[2];
	__u64 bytes[2];
	__u64 wire_bytes[2]; /* what they take on the line, each segment framed by itself */
	__u64 other[2];  /* not IP, or cut off: not classified */
	__u64 new_flows;
	__u64 full;      /* no entry was to be had */
	__u64 slowed;    /* dropped: of unresponsive flows, beyond their share */
	__u64 bypassed;  /* small ones that arrived and did not go to our queue */
	__u64 payload[2]; /* bytes of TCP, and of them those that were retransmitted */
	__u64 retransmitted[2];
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

/* Where one of evenkeel's own probers sends from. */
struct probe_sender {
	__u8 proto; /* UDP, or ICMP for both versions of it */
	__u8 pad;
	__be16 port; /* ICMP: identifier */
};

enum probe_number {
	UNNUMBERED = 0xffffffff,
};

/* One of its probes. */
struct probe_key {
	struct probe_sender sender;
	__be32 number; /* ICMP: sequence; UDP: at the head of the payload, or UNNUMBERED */
};
