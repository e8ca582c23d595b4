//! What a condition costs a home, beside the same home under an oracle: regret.
//!
//! Principles: an average can be bought with a bad minute, so the longest time without a share and the
//! longest queue stand beside it; every regret has a limit, and the worst home is the one that is
//! farthest beyond one; a loss counts like a gain of nothing; who shares a line is judged beside the
//! line without a shaper, where everybody's TCP is alike. Non-goals: which homes there are (`draw`),
//! in how many homes a limit must hold (`limits`), tables (`show`).

use evenkeel_core::result::{LineFacts, Run, Series};
use serde::Serialize;

/// Average increase that is far beyond the oracle's: so many times that and so many ms more.
const INCREASE: (f64, f64) = (3.0, 5.0);
/// 99th percentile of the increase, ms, beside [`TAIL_PACKETS`]: a frame interval of a call (RFC 3551,
/// 4.2) that its jitter buffer must hold more.
const TAIL: f64 = 20.0;
/// Full packets on the slower direction that the tail may wait for: a round of a few flows.
const TAIL_PACKETS: f64 = 4.0;
/// Goodput that is missing, as a share: what people see in a speed test that they run twice.
const MISSING: f64 = 0.15;
/// Less than half of what there could be, for so long, s.
const STARVED: f64 = 3.0;
/// A queue for so long, s, of so many ms or of three packets.
const QUEUED: f64 = 3.0;
const QUEUE: f64 = 100.0;
const QUEUE_PACKETS: f64 = 3.0;
/// Queues are looked for from here on, s: what the first load fills before anybody can know.
const FIRST: f64 = 1.0;
/// Packets of a call that are lost, as a share: where concealing them begins to be heard (ITU-T
/// G.113, Appendix I).
const CALL_LOSS: f64 = 0.01;
/// Of what there is without a shaper, the share that may be missing to us or to those beside us while
/// both load the line.
const SHARED: f64 = 0.3;
/// Bytes of IP of a full packet.
const MTU: u32 = 1500;

/// What is regretted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Average increase, ms.
    Increase,
    /// Its 99th percentile, ms.
    Tail,
    /// Download goodput that is missing, as a share.
    Down,
    /// The same from us.
    Up,
    /// Longest time below half of the goodput that there could be, s.
    Starved,
    /// Longest time with a queue, s.
    Queued,
    /// Lost packets of calls, as a share.
    CallLoss,
    /// Goodput that is missing to hosts beside the gateway, beside no shaper, as a share.
    Neighbour,
    /// The same of ours where there are such hosts.
    OwnShare,
}

impl Kind {
    pub(super) const ALL: [Kind; 9] = [
        Kind::Increase,
        Kind::Tail,
        Kind::Down,
        Kind::Up,
        Kind::Starved,
        Kind::Queued,
        Kind::CallLoss,
        Kind::Neighbour,
        Kind::OwnShare,
    ];

    /// For people, with its unit.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Increase => "increase avg, ms",
            Kind::Tail => "increase p99, ms",
            Kind::Down => "download missing, %",
            Kind::Up => "upload missing, %",
            Kind::Starved => "starved, s",
            Kind::Queued => "queued, s",
            Kind::CallLoss => "call loss, %",
            Kind::Neighbour => "neighbour missing, %",
            Kind::OwnShare => "own share missing, %",
        }
    }

    /// What one of its unit is for people.
    pub(super) const fn scale(self) -> f64 {
        match self {
            Kind::Increase | Kind::Tail | Kind::Starved | Kind::Queued => 1.0,
            _ => 100.0,
        }
    }
}

/// How much more of something bad there was than under the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Regret {
    pub kind: Kind,
    pub value: f64,
    /// From here on it is noticed.
    pub limit: f64,
}

impl Regret {
    /// In limits: above 1 it is noticed.
    pub(super) fn times(&self) -> f64 {
        self.value / self.limit
    }
}

/// One condition in one home.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judged {
    pub condition: String,
    /// Average increase, ms: its own and the oracle's.
    pub increase_ms: [f64; 2],
    pub regrets: Vec<Regret>,
}

impl Judged {
    /// Beside `oracle`, and where a line is shared beside `none`, on `line`.
    pub(super) fn of(run: &Run, oracle: &Run, none: Option<&Run>, line: &LineFacts) -> Self {
        let slower = line.up.min(line.down).bps().max(1) as f64;
        let packet = f64::from(line.framing.wire_len(MTU)) * 8000.0 / slower;
        let queue = QUEUE.max(QUEUE_PACKETS * packet);
        let missing = |got: f64, could: f64| {
            if could > 0.0 { 1.0 - got / could } else { 0.0 }
        };
        // Where a line is shared: all that was carried for us, and for those beside us.
        let shared = |run: &Run| Some((run.down_kbit + run.up_kbit, run.beside_kbit?));
        let both = none.and_then(shared).zip(shared(run));
        let regrets = Kind::ALL.map(|kind| {
            let own = oracle.increase_ms.avg.max(0.0);
            let (value, limit) = match kind {
                Kind::Increase => (
                    run.increase_ms.avg - oracle.increase_ms.avg,
                    (INCREASE.0 - 1.0) * own + INCREASE.1,
                ),
                Kind::Tail => (
                    run.increase_ms.p99 - oracle.increase_ms.p99,
                    TAIL + TAIL_PACKETS * packet,
                ),
                Kind::Down => (missing(run.down_kbit, oracle.down_kbit), MISSING),
                Kind::Up => (missing(run.up_kbit, oracle.up_kbit), MISSING),
                Kind::Starved => (starved(&run.series, &oracle.series), STARVED),
                Kind::Queued => (queued(run, queue) - queued(oracle, queue), QUEUED),
                Kind::CallLoss => (call_loss(run) - call_loss(oracle), CALL_LOSS),
                Kind::Neighbour => (
                    both.map_or(0.0, |(none, run)| {
                        missing(run.1.iter().sum(), none.1.iter().sum())
                    }),
                    SHARED,
                ),
                Kind::OwnShare => (
                    both.map_or(0.0, |(none, run)| missing(run.0, none.0)),
                    SHARED,
                ),
            };
            Regret { kind, value, limit }
        });
        Judged {
            condition: run.condition.clone(),
            increase_ms: [run.increase_ms.avg, oracle.increase_ms.avg],
            regrets: regrets.to_vec(),
        }
    }

    /// How much worse something is.
    pub(crate) fn value(&self, kind: Kind) -> f64 {
        let found = self.regrets.iter().find(|r| r.kind == kind);
        found.map_or(0.0, |r| r.value)
    }

    /// The one that is farthest beyond its limit.
    pub(super) fn worst(&self) -> Option<&Regret> {
        let all = self.regrets.iter();
        all.max_by(|a, b| a.times().total_cmp(&b.times()))
    }
}

/// Sums over whole seconds.
fn seconds(series: &[(f64, f64)]) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    let mut before = 0.0;
    for &(end, kbit) in series {
        let at = (0.5 * (before + end)).max(0.0) as usize;
        if sums.len() <= at {
            sums.resize(at + 1, 0.0);
        }
        if let Some(sum) = sums.get_mut(at) {
            *sum += kbit * (end - before);
        }
        before = end;
    }
    sums
}

/// Longest time, s, in which a direction had less than half of what the oracle had; a second in which
/// that had little itself says nothing and ends nothing.
fn starved(run: &Series, oracle: &Series) -> f64 {
    let of = |got: &[(f64, f64)], could: &[(f64, f64)]| {
        let (got, could) = (seconds(got), seconds(could));
        let most = could.iter().copied().fold(0.0, f64::max);
        let (mut longest, mut now) = (0u32, 0u32);
        for (i, could) in could.iter().enumerate() {
            if *could < 0.2 * most || *could <= 0.0 {
                continue;
            }
            let is_short = got.get(i).is_none_or(|g| *g < 0.5 * could);
            now = if is_short { now + 1 } else { 0 };
            longest = longest.max(now);
        }
        f64::from(longest)
    };
    let down = of(&run.down_kbit, &oracle.down_kbit);
    down.max(of(&run.up_kbit, &oracle.up_kbit))
}

/// Longest time, s, in which every probe met more than `queue` ms or was lost, after the first second.
fn queued(run: &Run, queue: f64) -> f64 {
    let mut since: Option<f64> = None;
    let mut longest = 0.0f64;
    let probes = run.series.udp.iter().filter(|p| p.0 >= FIRST);
    for &(at, rtt) in probes {
        if rtt.is_none_or(|ms| ms - run.base_ms > queue) {
            longest = longest.max(at - *since.get_or_insert(at));
        } else {
            since = None;
        }
    }
    longest
}

/// The worst call's.
fn call_loss(run: &Run) -> f64 {
    let calls = run.calls.values().filter(|c| c.sent > 0);
    calls
        .map(|c| c.lost as f64 / c.sent as f64)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::{Framing, Rate};

    use super::*;

    fn line() -> LineFacts {
        LineFacts {
            down: Rate::from_kbit(8_000),
            up: Rate::from_kbit(1_200),
            framing: Framing::default(),
            rtt_ms: 20.0,
            down_buffer_ms: 100.0,
            up_buffer_ms: 100.0,
            varies: false,
            best: None,
        }
    }

    fn run(udp: &[f64], down: &[f64]) -> Run {
        let at = |i: usize| i as f64 * 0.5;
        let mut run = Run {
            base_ms: 10.0,
            ..Run::default()
        };
        run.series.udp = udp
            .iter()
            .enumerate()
            .map(|(i, ms)| (at(i), Some(*ms)))
            .collect();
        run.series.down_kbit = down
            .iter()
            .enumerate()
            .map(|(i, k)| (at(i + 1), *k))
            .collect();
        run.down_kbit = down.iter().sum::<f64>() / down.len().max(1) as f64;
        run
    }

    #[test]
    fn an_oracle_has_no_regrets() {
        let oracle = run(&[10.0, 190.0, 190.0, 190.0], &[800.0; 8]);
        let judged = Judged::of(&oracle, &oracle, None, &line());
        assert!(judged.regrets.iter().all(|r| r.value == 0.0), "{judged:?}");
    }

    #[test]
    fn the_longest_time_counts_and_not_the_sum() {
        let oracle = run(&[10.0; 20], &[800.0; 20]);
        // A queue of 1 s and one of 2 s; no share for 1 s and for 3 s.
        let mut udp = [10.0; 20];
        udp[3..6].fill(190.0);
        udp[10..15].fill(190.0);
        let mut down = [800.0; 20];
        down[2..4].fill(100.0);
        down[10..16].fill(100.0);
        let judged = Judged::of(&run(&udp, &down), &oracle, None, &line());
        for (kind, is) in [
            (Kind::Queued, 2.0),
            (Kind::Starved, 3.0),
            (Kind::Down, 0.35),
        ] {
            let found = judged.value(kind);
            assert!((found - is).abs() < 1e-9, "{kind:?}: {found}");
        }
        assert_eq!(judged.worst().map(|r| r.kind), Some(Kind::Down));
    }

    #[test]
    fn who_shares_a_line_is_judged_beside_no_shaper() {
        let with = |own: f64, beside: Option<[f64; 2]>| Run {
            beside_kbit: beside,
            ..run(&[10.0; 4], &[own; 4])
        };
        let none = with(400.0, Some([300.0, 100.0]));
        let oracle = with(400.0, Some([300.0, 100.0]));
        let ours = with(100.0, Some([500.0, 100.0]));
        let judged = Judged::of(&ours, &oracle, Some(&none), &line());
        assert!((judged.value(Kind::OwnShare) - 0.75).abs() < 1e-9);
        assert!(judged.value(Kind::Neighbour) < 0.0);
        let alone = Judged::of(&with(1.0, None), &oracle, Some(&none), &line());
        assert!(alone.value(Kind::OwnShare).abs() < 1e-9);
    }
}
