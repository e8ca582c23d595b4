//! Queueing disciplines and HTB classes with the options evenkeel uses.
//!
//! Principle: what is `None` is left to the kernel and is neither sent nor printed.
//! Non-goals: options that only hardware or testers want.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LinkLayer, time};
use crate::framing::Mode;
use crate::{Framing, Rate};

/// A queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qdisc {
    /// sch_cake: shaper, tins, flow and host isolation, AQM in one.
    Cake(Cake),
    /// sch_htb's root.
    Htb(HtbRoot),
    /// sch_fq_codel.
    FqCodel(FqCodel),
    /// sch_sfq.
    Sfq(Sfq),
    /// sch_tbf: as a leaf it splits super-packets.
    Tbf(Tbf),
    /// A FIFO bounded in bytes.
    Bfifo {
        /// Bytes; the kernel's default is one queue length times MTU.
        limit: Option<u32>,
    },
    /// A FIFO bounded in packets.
    Pfifo {
        /// Packets; the kernel's default is the device's queue length.
        limit: Option<u32>,
    },
    /// The hook for filters on what arrives.
    Ingress,
    /// The hooks for filters on what arrives and what leaves.
    Clsact,
}

/// CAKE's options. Framing is always relative to the IP packet (`CAKE_FLAG_OVERHEAD` set, never
/// `raw`), and autorate is always off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cake {
    /// Zero: unlimited. `None` on a change keeps what is set.
    pub bandwidth: Option<Rate>,
    /// How packets are sorted into tins.
    pub diffserv: Option<Diffserv>,
    /// Between whom the rate is shared fairly.
    pub flow_mode: Option<FlowMode>,
    /// Look through NAT for the hosts.
    pub nat: Option<bool>,
    /// Clear DSCP on the way out.
    pub wash: Option<bool>,
    /// Count dropped packets too: they came over the line.
    pub ingress: Option<bool>,
    /// Thin out empty TCP ACKs.
    pub ack_filter: Option<AckFilter>,
    /// Split super-packets.
    pub split_gso: Option<bool>,
    /// The AQM's interval (`rtt`).
    pub rtt: Option<Duration>,
    /// The AQM's target. `None` with an `rtt`: a twentieth of it, as tc does.
    pub target: Option<Duration>,
    /// Bytes of memory that the queue may take.
    pub memlimit: Option<u32>,
    /// Bits of the packet's mark that choose the tin.
    pub fwmark: Option<u32>,
    /// What a packet takes on the line.
    pub framing: Option<Framing>,
}

/// `CAKE_DIFFSERV_*` (pkt_sched.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Diffserv {
    /// Bulk, best effort, voice.
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
    /// Eight tins.
    Diffserv8,
    /// One tin.
    Besteffort,
    /// By the old precedence bits.
    Precedence,
}

/// `CAKE_FLOW_*` (pkt_sched.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowMode {
    /// One queue.
    Flowblind,
    /// By source address.
    Srchost,
    /// By destination address.
    Dsthost,
    /// By pair of addresses.
    Hosts,
    /// By 5-tuple.
    Flows,
    /// By 5-tuple, fair between source hosts first.
    DualSrchost,
    /// By 5-tuple, fair between destination hosts first.
    DualDsthost,
    /// Both at once.
    TripleIsolate,
}

/// `CAKE_ACK_*` (pkt_sched.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckFilter {
    /// Every ACK goes out.
    Off,
    /// Thin out what is clearly redundant.
    On,
    /// Thin out more.
    Aggressive,
}

/// HTB's root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HtbRoot {
    /// Minor of the class for what no filter names; 0: such packets pass unshaped.
    pub default: u32,
    /// Divides a class's rate into its quantum; tc's and the kernel's default is 10.
    pub r2q: Option<u32>,
    /// Packets of the queue for what passes unshaped.
    pub direct_qlen: Option<u32>,
}

/// A class of HTB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HtbClass {
    /// What the class gets.
    pub rate: Rate,
    /// What it may borrow up to.
    pub ceil: Rate,
    /// Bytes it may send at once at `ceil` after a pause.
    pub burst: u32,
    /// Bytes it may send at once beyond `ceil`.
    pub cburst: u32,
    /// Bytes it may send in a row when several borrow.
    pub quantum: Option<u32>,
    /// Lower borrows first; 0..=7.
    pub prio: Option<u32>,
    /// How a frame is charged.
    pub link: HtbLink,
}

/// How HTB charges a frame, after super-packets were split (`psched_l2t_ns`): length of the skb
/// plus `overhead`, `mpu` at least, then cells. Sent in the `tc_ratespec` of both rate and ceil.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HtbLink {
    /// Bytes added to each frame.
    pub overhead: u16,
    /// Least size after that.
    pub mpu: u16,
    /// Cells or not; `Unaware` is sent as Ethernet.
    pub layer: LinkLayer,
}

impl HtbClass {
    /// A class with bursts of 1 ms of its rates, but two full Ethernet frames at least (see
    /// [`HtbClass::burst_for`]).
    pub fn new(rate: Rate, ceil: Rate) -> Self {
        HtbClass {
            rate,
            ceil,
            burst: Self::burst_for(rate),
            cburst: Self::burst_for(ceil),
            quantum: None,
            prio: None,
            link: HtbLink::default(),
        }
    }

    /// max(2 MTU, 1 ms x rate): with less, 900 Mbit/s is not reached; with more, queues grow.
    pub fn burst_for(rate: Rate) -> u32 {
        let millisecond = rate.bytes_in(Duration::from_millis(1));
        u32::try_from(millisecond).unwrap_or(u32::MAX).max(2 * 1514)
    }
}

/// fq_codel's options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FqCodel {
    /// Packets.
    pub limit: Option<u32>,
    /// Number of queues; only when created.
    pub flows: Option<u32>,
    /// Bytes per round and queue.
    pub quantum: Option<u32>,
    /// Standing delay that is tolerated.
    pub target: Option<Duration>,
    /// Time above target before the first drop or mark.
    pub interval: Option<Duration>,
    /// Mark rather than drop.
    pub ecn: Option<bool>,
    /// Mark everything that waited longer.
    pub ce_threshold: Option<Duration>,
    /// Bytes of memory that the queue may take.
    pub memory_limit: Option<u32>,
    /// Packets dropped at a time when the limit is exceeded.
    pub drop_batch: Option<u32>,
}

/// SFQ's options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sfq {
    /// Bytes per round and flow.
    pub quantum: Option<u32>,
    /// Seconds between changes of the hash; 0: never.
    pub perturb: Option<u32>,
    /// Packets in all.
    pub limit: Option<u32>,
    /// Buckets, a power of two.
    pub divisor: Option<u32>,
    /// Number of flows.
    pub flows: Option<u32>,
    /// Packets per flow.
    pub depth: Option<u32>,
    /// Drop the oldest packet of a flow rather than the newest.
    pub headdrop: bool,
}

/// TBF's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tbf {
    /// Rate of the bucket.
    pub rate: Rate,
    /// Bytes of the bucket; a longer super-packet is split into its segments.
    pub burst: u32,
    /// Bytes that may wait.
    pub limit: u32,
}

impl Qdisc {
    /// The kernel's name of the kind (`TCA_KIND`).
    pub const fn kind(&self) -> &'static str {
        match self {
            Qdisc::Cake(_) => "cake",
            Qdisc::Htb(_) => "htb",
            Qdisc::FqCodel(_) => "fq_codel",
            Qdisc::Sfq(_) => "sfq",
            Qdisc::Tbf(_) => "tbf",
            Qdisc::Bfifo { .. } => "bfifo",
            Qdisc::Pfifo { .. } => "pfifo",
            Qdisc::Ingress => "ingress",
            Qdisc::Clsact => "clsact",
        }
    }

    /// What a reader of the printed command must know: what tc(8) cannot say.
    pub fn note(&self) -> Option<String> {
        match self {
            Qdisc::Cake(cake) => cake.note(),
            _ => None,
        }
    }
}

impl Cake {
    /// The target that is sent: given, or a twentieth of the given `rtt` as tc does.
    pub fn target_sent(&self) -> Option<Duration> {
        let twentieth = |rtt: Duration| {
            let micros = u64::try_from(rtt.as_micros() / 20).unwrap_or(u64::MAX);
            Duration::from_micros(micros.max(1))
        };
        self.target.or(self.rtt.map(twentieth))
    }

    fn note(&self) -> Option<String> {
        let target = self.target?;
        let by_rtt = Cake {
            target: None,
            ..self.clone()
        };
        (by_rtt.target_sent() != Some(target))
            .then(|| format!("with a target of {}, which tc cannot say", time(target)))
    }
}

impl Diffserv {
    /// tc-cake(8)'s keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            Diffserv::Diffserv3 => "diffserv3",
            Diffserv::Diffserv4 => "diffserv4",
            Diffserv::Diffserv8 => "diffserv8",
            Diffserv::Besteffort => "besteffort",
            Diffserv::Precedence => "precedence",
        }
    }
}

impl FlowMode {
    /// tc-cake(8)'s keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            FlowMode::Flowblind => "flowblind",
            FlowMode::Srchost => "srchost",
            FlowMode::Dsthost => "dsthost",
            FlowMode::Hosts => "hosts",
            FlowMode::Flows => "flows",
            FlowMode::DualSrchost => "dual-srchost",
            FlowMode::DualDsthost => "dual-dsthost",
            FlowMode::TripleIsolate => "triple-isolate",
        }
    }
}

impl AckFilter {
    /// tc-cake(8)'s keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            AckFilter::Off => "no-ack-filter",
            AckFilter::On => "ack-filter",
            AckFilter::Aggressive => "ack-filter-aggressive",
        }
    }
}

/// Appends ` name value` for what is set.
fn option(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {name} {value}"),
        None => Ok(()),
    }
}

/// Appends ` on` or ` off`, the option's two keywords.
fn switch(f: &mut fmt::Formatter<'_>, value: Option<bool>, on: &str, off: &str) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {}", if value { on } else { off }),
        None => Ok(()),
    }
}

impl fmt::Display for Qdisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Qdisc::Cake(cake) => cake.fmt(f),
            Qdisc::Htb(htb) => htb.fmt(f),
            Qdisc::FqCodel(fq) => fq.fmt(f),
            Qdisc::Sfq(sfq) => sfq.fmt(f),
            Qdisc::Tbf(tbf) => tbf.fmt(f),
            Qdisc::Bfifo { limit } | Qdisc::Pfifo { limit } => option(f, "limit", *limit),
            Qdisc::Ingress | Qdisc::Clsact => Ok(()),
        }
    }
}

impl fmt::Display for Cake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bandwidth {
            Some(rate) if rate.bps() == 0 => f.write_str(" unlimited")?,
            rate => option(f, "bandwidth", rate)?,
        }
        let word = |f: &mut fmt::Formatter<'_>, w: Option<&str>| match w {
            Some(w) => write!(f, " {w}"),
            None => Ok(()),
        };
        word(f, self.diffserv.map(Diffserv::keyword))?;
        word(f, self.flow_mode.map(FlowMode::keyword))?;
        switch(f, self.nat, "nat", "nonat")?;
        switch(f, self.wash, "wash", "nowash")?;
        switch(f, self.ingress, "ingress", "egress")?;
        word(f, self.ack_filter.map(AckFilter::keyword))?;
        switch(f, self.split_gso, "split-gso", "no-split-gso")?;
        option(f, "rtt", self.rtt.map(time))?;
        if let Some(framing) = self.framing {
            let mode = match framing.mode {
                Mode::None => "noatm",
                Mode::Atm => "atm",
                Mode::Ptm => "ptm",
            };
            write!(
                f,
                " {mode} overhead {} mpu {}",
                framing.overhead, framing.mpu
            )?;
        }
        option(f, "memlimit", self.memlimit)?;
        option(f, "fwmark", self.fwmark.map(|m| format!("{m:#x}")))
    }
}

impl fmt::Display for HtbRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " default {:#x}", self.default)?;
        option(f, "r2q", self.r2q)?;
        option(f, "direct_qlen", self.direct_qlen)
    }
}

impl fmt::Display for HtbClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "htb rate {} ceil {}", self.rate, self.ceil)?;
        write!(f, " burst {} cburst {}", self.burst, self.cburst)?;
        let link = self.link;
        option(f, "overhead", (link.overhead > 0).then_some(link.overhead))?;
        option(f, "mpu", (link.mpu > 0).then_some(link.mpu))?;
        option(
            f,
            "linklayer",
            (link.layer == LinkLayer::Atm).then_some("atm"),
        )?;
        option(f, "quantum", self.quantum)?;
        option(f, "prio", self.prio)
    }
}

impl fmt::Display for FqCodel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        option(f, "limit", self.limit)?;
        option(f, "flows", self.flows)?;
        option(f, "quantum", self.quantum)?;
        option(f, "target", self.target.map(time))?;
        option(f, "interval", self.interval.map(time))?;
        option(f, "ce_threshold", self.ce_threshold.map(time))?;
        option(f, "memory_limit", self.memory_limit)?;
        option(f, "drop_batch", self.drop_batch)?;
        switch(f, self.ecn, "ecn", "noecn")
    }
}

impl fmt::Display for Sfq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        option(f, "limit", self.limit)?;
        option(f, "perturb", self.perturb)?;
        option(f, "quantum", self.quantum)?;
        option(f, "flows", self.flows)?;
        option(f, "divisor", self.divisor)?;
        option(f, "depth", self.depth)?;
        f.write_str(if self.headdrop { " headdrop" } else { "" })
    }
}

impl fmt::Display for Tbf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            " rate {} burst {} limit {}",
            self.rate, self.burst, self.limit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_a_millisecond_or_two_frames() {
        for (kbit, bytes) in [(1000, 3028), (24_000, 3028), (100_000, 12_500)] {
            assert_eq!(HtbClass::burst_for(Rate::from_kbit(kbit)), bytes);
        }
        assert_eq!(HtbClass::burst_for(Rate::from_bps(u64::MAX)), u32::MAX);
    }

    /// As tc: a twentieth of the interval, unless it is given.
    #[test]
    fn cakes_target_follows_the_interval() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        let sent = |rtt, target| {
            let cake = Cake {
                rtt,
                target,
                ..Cake::default()
            };
            cake.target_sent()
        };
        assert_eq!(sent(Some(ms(100)), None), Some(ms(5)));
        assert_eq!(sent(Some(us(10)), None), Some(us(1)));
        assert_eq!(sent(Some(ms(100)), Some(ms(7))), Some(ms(7)));
        assert_eq!(sent(None, None), None);
    }

    #[test]
    fn a_class_says_only_the_link_layer_that_it_has() {
        let class = |overhead, mpu, layer| HtbClass {
            rate: Rate::from_kbit(1000),
            ceil: Rate::from_kbit(2000),
            burst: 1600,
            cburst: 1700,
            quantum: None,
            prio: None,
            link: HtbLink {
                overhead,
                mpu,
                layer,
            },
        };
        let head = "htb rate 1mbit ceil 2mbit burst 1600 cburst 1700";
        for (link, tail) in [
            ((0, 0, LinkLayer::Ethernet), ""),
            ((1, 0, LinkLayer::Ethernet), " overhead 1"),
            ((0, 64, LinkLayer::Ethernet), " mpu 64"),
            ((44, 0, LinkLayer::Atm), " overhead 44 linklayer atm"),
        ] {
            let text = class(link.0, link.1, link.2).to_string();
            assert_eq!(text, format!("{head}{tail}"));
        }
    }

    #[test]
    fn a_rate_of_nought_is_none_for_cake() {
        for (rate, text) in [
            (Rate::from_kbit(0), " unlimited"),
            (Rate::from_kbit(5), " bandwidth 5kbit"),
        ] {
            let cake = Cake {
                bandwidth: Some(rate),
                ..Cake::default()
            };
            assert!(cake.to_string().starts_with(text), "{cake}");
        }
    }
}
