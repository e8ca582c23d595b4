//! Counters of disciplines and classes (`TCA_STATS2`, include/uapi/linux/gen_stats.h), and what
//! CAKE, HTB and fq_codel add.
//!
//! Principles: a counter that this kernel does not report is zero or empty; the names are the
//! kernel's. Non-goals: rates estimated by the kernel, single flows' statistics.

use std::time::Duration;

use evenkeel_core::Rate;

use crate::attr::{attrs, find, u32_at, u64_at};

// TCA_STATS_*
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const APP: u16 = 4;
const PKT64: u16 = 8;

/// What every discipline and class counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Bytes as the discipline counts them: with a size table or CAKE's framing, line bytes.
    pub bytes: u64,
    /// Packets (segments of a super-packet each count).
    pub packets: u64,
    /// Packets waiting.
    pub qlen: u32,
    /// Bytes waiting.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets handed back by the device.
    pub requeues: u32,
    /// Times that a packet had to wait for the rate.
    pub overlimits: u32,
    /// What the kind adds.
    pub app: AppStats,
}

/// What the kind adds (`TCA_STATS_APP`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AppStats {
    /// Nothing.
    #[default]
    None,
    /// CAKE's.
    Cake(CakeStats),
    /// An HTB class's.
    Htb(HtbStats),
    /// fq_codel's.
    FqCodel(FqCodelStats),
    /// Another kind's bytes.
    Raw(Vec<u8>),
}

/// `TCA_CAKE_STATS_*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CakeStats {
    /// What autorate believes; the rate where it is off.
    pub capacity: Rate,
    /// Bytes.
    pub memory_limit: u32,
    /// Bytes, at most so far.
    pub memory_used: u32,
    /// Bytes before the network header, on average.
    pub avg_netoff: u32,
    /// Shortest packet seen, at the network layer.
    pub min_netlen: u32,
    /// Longest packet seen, at the network layer.
    pub max_netlen: u32,
    /// Shortest packet seen, with framing.
    pub min_adjlen: u32,
    /// Longest packet seen, with framing.
    pub max_adjlen: u32,
    /// From the lowest tier to the highest, in CAKE's order.
    pub tins: Vec<CakeTin>,
}

/// `TCA_CAKE_TIN_STATS_*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // The names are the kernel's.
pub struct CakeTin {
    /// The tin's share: above it, it gives way.
    pub threshold: Rate,
    pub sent_packets: u32,
    pub sent_bytes: u64,
    pub dropped_packets: u32,
    pub dropped_bytes: u64,
    pub acks_dropped_packets: u32,
    pub ecn_marked_packets: u32,
    pub backlog_packets: u32,
    pub backlog_bytes: u32,
    pub target: Duration,
    pub interval: Duration,
    /// Sojourn times, smoothed.
    pub peak_delay: Duration,
    pub avg_delay: Duration,
    pub base_delay: Duration,
    pub way_indirect_hits: u32,
    pub way_misses: u32,
    pub way_collisions: u32,
    pub sparse_flows: u32,
    pub bulk_flows: u32,
    pub unresponsive_flows: u32,
    pub max_skblen: u32,
    pub flow_quantum: u32,
}

/// `struct tc_htb_xstats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HtbStats {
    /// Packets sent at its own rate.
    pub lends: u32,
    /// Packets sent at a parent's.
    pub borrows: u32,
    /// Packets too long for the rate table (old kernels).
    pub giants: u32,
    /// Rate tokens, in 64 ns.
    pub tokens: i32,
    /// Ceil tokens, in 64 ns.
    pub ctokens: i32,
}

/// `struct tc_fq_codel_qd_stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FqCodelStats {
    /// Longest packet seen.
    pub maxpacket: u32,
    /// Packets dropped because the limit was exceeded.
    pub drop_overlimit: u32,
    /// Packets marked.
    pub ecn_mark: u32,
    /// Flows that were new.
    pub new_flow_count: u32,
    /// New flows waiting.
    pub new_flows_len: u32,
    /// Old flows waiting.
    pub old_flows_len: u32,
    /// Packets marked above `ce_threshold`.
    pub ce_mark: u32,
    /// Bytes in use.
    pub memory_usage: u32,
    /// Packets dropped because of memory.
    pub drop_overmemory: u32,
}

impl Stats {
    /// From `TCA_STATS2` of a discipline or class of that kind.
    pub fn decode(kind: &str, bytes: &[u8]) -> Self {
        let mut stats = Stats::default();
        for (attr, v) in attrs(bytes) {
            match attr {
                // struct gnet_stats_basic: the 32-bit count gives way to PKT64 below.
                BASIC => {
                    stats.bytes = u64_at(v, 0).unwrap_or(0);
                    stats.packets = u64::from(u32_at(v, 8).unwrap_or(0));
                }
                QUEUE => {
                    let field = |i: usize| u32_at(v, 4 * i).unwrap_or(0);
                    stats.qlen = field(0);
                    stats.backlog = field(1);
                    stats.drops = field(2);
                    stats.requeues = field(3);
                    stats.overlimits = field(4);
                }
                APP => stats.app = AppStats::decode(kind, v),
                _ => {}
            }
        }
        if let Some(packets) = find(bytes, PKT64).and_then(|v| u64_at(v, 0)) {
            stats.packets = packets;
        }
        stats
    }
}

impl AppStats {
    fn decode(kind: &str, v: &[u8]) -> Self {
        let field = |i: usize| u32_at(v, 4 * i).unwrap_or(0);
        match kind {
            "cake" => AppStats::Cake(CakeStats::decode(v)),
            "htb" => AppStats::Htb(HtbStats {
                lends: field(0),
                borrows: field(1),
                giants: field(2),
                tokens: field(3) as i32,
                ctokens: field(4) as i32,
            }),
            // The first field is the type: 0 is the discipline, 1 one of its flows.
            "fq_codel" if u32_at(v, 0) == Some(0) => AppStats::FqCodel(FqCodelStats {
                maxpacket: field(1),
                drop_overlimit: field(2),
                ecn_mark: field(3),
                new_flow_count: field(4),
                new_flows_len: field(5),
                old_flows_len: field(6),
                ce_mark: field(7),
                memory_usage: field(8),
                drop_overmemory: field(9),
            }),
            _ => AppStats::Raw(v.to_vec()),
        }
    }
}

/// A rate in byte/s.
fn rate(v: &[u8]) -> Rate {
    Rate::from_bps(u64_at(v, 0).unwrap_or(0).saturating_mul(8))
}

impl CakeStats {
    fn decode(bytes: &[u8]) -> Self {
        let mut stats = CakeStats::default();
        for (attr, v) in attrs(bytes) {
            let number = u32_at(v, 0).unwrap_or(0);
            match attr {
                2 => stats.capacity = rate(v),
                3 => stats.memory_limit = number,
                4 => stats.memory_used = number,
                5 => stats.avg_netoff = number,
                6 => stats.min_netlen = number,
                7 => stats.max_netlen = number,
                8 => stats.min_adjlen = number,
                9 => stats.max_adjlen = number,
                // A list, numbered from 1.
                10 => stats.tins = attrs(v).map(|(_, tin)| CakeTin::decode(tin)).collect(),
                _ => {}
            }
        }
        stats
    }
}

impl CakeTin {
    fn decode(bytes: &[u8]) -> Self {
        let mut tin = CakeTin::default();
        for (attr, v) in attrs(bytes) {
            let number = u32_at(v, 0).unwrap_or(0);
            let wide = u64_at(v, 0).unwrap_or(0);
            let time = Duration::from_micros(u64::from(number));
            match attr {
                2 => tin.sent_packets = number,
                3 => tin.sent_bytes = wide,
                4 => tin.dropped_packets = number,
                5 => tin.dropped_bytes = wide,
                6 => tin.acks_dropped_packets = number,
                8 => tin.ecn_marked_packets = number,
                10 => tin.backlog_packets = number,
                11 => tin.backlog_bytes = number,
                12 => tin.threshold = rate(v),
                13 => tin.target = time,
                14 => tin.interval = time,
                15 => tin.way_indirect_hits = number,
                16 => tin.way_misses = number,
                17 => tin.way_collisions = number,
                18 => tin.peak_delay = time,
                19 => tin.avg_delay = time,
                20 => tin.base_delay = time,
                21 => tin.sparse_flows = number,
                22 => tin.bulk_flows = number,
                23 => tin.unresponsive_flows = number,
                24 => tin.max_skblen = number,
                25 => tin.flow_quantum = number,
                _ => {}
            }
        }
        tin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Writer;
    use proptest::prelude::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn literal_htb() {
        // As a class of Linux 6.18 reports: basic, queue, then xstats.
        let mut w = Writer::default();
        w.bytes(
            BASIC,
            &[0x10, 0x27, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        );
        w.bytes(
            QUEUE,
            &[
                1, 0, 0, 0, 0xea, 5, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0,
            ],
        );
        w.bytes(
            APP,
            &[
                5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0,
            ],
        );
        assert_eq!(
            Stats::decode("htb", &w.finish()),
            Stats {
                bytes: 10_000,
                packets: 7,
                qlen: 1,
                backlog: 1514,
                drops: 2,
                requeues: 0,
                overlimits: 9,
                app: AppStats::Htb(HtbStats {
                    lends: 5,
                    borrows: 2,
                    giants: 0,
                    tokens: -1,
                    ctokens: 8
                }),
            }
        );
    }

    #[test]
    fn cake_tins() {
        let mut w = Writer::default();
        w.bytes(BASIC, &[0; 16]).u64(PKT64, 1 << 40);
        w.nest(APP, |w| {
            w.u64(2, 4_875_000).u32(9, 1590);
            w.nest(10, |w| {
                for tin in 1..=4u16 {
                    w.nest(tin, |w| {
                        w.u32(2, u32::from(tin))
                            .u64(3, 1 << 33)
                            .u32(18, 250)
                            .u64(12, 125);
                    });
                }
            });
        });
        let stats = Stats::decode("cake", &w.finish());
        assert_eq!(stats.packets, 1 << 40);
        let AppStats::Cake(cake) = stats.app else {
            panic!("{stats:?}")
        };
        assert_eq!(cake.capacity, Rate::from_kbit(39_000));
        assert_eq!(cake.max_adjlen, 1590);
        assert_eq!(cake.tins.len(), 4);
        assert_eq!(cake.tins[3].sent_packets, 4);
        assert_eq!(cake.tins[0].sent_bytes, 1 << 33);
        assert_eq!(cake.tins[0].peak_delay, Duration::from_micros(250));
        assert_eq!(cake.tins[0].threshold, Rate::from_kbit(1));
    }

    /// Every number of `TCA_CAKE_STATS_*` and `TCA_CAKE_TIN_STATS_*` is its own field: here the field
    /// of number n is n.
    #[test]
    fn every_field_of_cake() {
        let mut w = Writer::default();
        w.nest(APP, |w| {
            (3..=9).for_each(|n| {
                w.u32(n, n.into());
            });
            w.nest(10, |w| {
                w.nest(1, |w| {
                    for n in 2..=25 {
                        match n {
                            3 | 5 | 12 => w.u64(n, n.into()),
                            n => w.u32(n, n.into()),
                        };
                    }
                });
            });
        });
        let AppStats::Cake(cake) = Stats::decode("cake", &w.finish()).app else {
            panic!("not CAKE's")
        };
        let us = Duration::from_micros;
        let tin = CakeTin {
            threshold: Rate::from_bps(8 * 12),
            sent_packets: 2,
            sent_bytes: 3,
            dropped_packets: 4,
            dropped_bytes: 5,
            acks_dropped_packets: 6,
            ecn_marked_packets: 8,
            backlog_packets: 10,
            backlog_bytes: 11,
            target: us(13),
            interval: us(14),
            peak_delay: us(18),
            avg_delay: us(19),
            base_delay: us(20),
            way_indirect_hits: 15,
            way_misses: 16,
            way_collisions: 17,
            sparse_flows: 21,
            bulk_flows: 22,
            unresponsive_flows: 23,
            max_skblen: 24,
            flow_quantum: 25,
        };
        let expected = CakeStats {
            capacity: Rate::default(),
            memory_limit: 3,
            memory_used: 4,
            avg_netoff: 5,
            min_netlen: 6,
            max_netlen: 7,
            min_adjlen: 8,
            max_adjlen: 9,
            tins: vec![tin],
        };
        assert_eq!(cake, expected);
    }

    /// `struct tc_fq_codel_xstats` is a discipline's or one of its flows'.
    #[test]
    fn every_field_of_fq_codel() {
        let app = |kind: u32| {
            let mut w = Writer::default();
            let fields: Vec<u8> = (0..10)
                .flat_map(|n| if n == 0 { kind } else { n }.to_ne_bytes())
                .collect();
            w.bytes(APP, &fields);
            Stats::decode("fq_codel", &w.finish()).app
        };
        let expected = FqCodelStats {
            maxpacket: 1,
            drop_overlimit: 2,
            ecn_mark: 3,
            new_flow_count: 4,
            new_flows_len: 5,
            old_flows_len: 6,
            ce_mark: 7,
            memory_usage: 8,
            drop_overmemory: 9,
        };
        assert_eq!(app(0), AppStats::FqCodel(expected));
        assert!(matches!(app(1), AppStats::Raw(_)), "a flow's");
    }

    #[test]
    fn unknown_kinds_keep_their_bytes() {
        let mut w = Writer::default();
        w.bytes(APP, &[1, 2, 3]);
        assert_eq!(
            Stats::decode("hfsc", &w.finish()).app,
            AppStats::Raw(vec![1, 2, 3])
        );
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, app: Vec<u8>, tin: Vec<u8>) {
            let mut w = Writer::default();
            w.bytes(APP, &app);
            w.nest(APP, |w| { w.nest(10, |w| { w.bytes(1, &tin); }); });
            let nested = w.finish();
            for kind in ["cake", "htb", "fq_codel", "other"] {
                Stats::decode(kind, &bytes);
                Stats::decode(kind, &nested);
            }
        }
    }
}
