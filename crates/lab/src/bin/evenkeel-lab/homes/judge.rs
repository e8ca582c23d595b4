//! What a condition costs a home, beside the same home under `evenkeel` that was told its line: regret.
//!
//! Principles: an average can be bought with a bad minute, so the longest time without a share and the
//! longest queue stand beside it; every regret has a limit beyond which a person notices, so that the
//! worst home is the one that is farthest beyond one; a loss counts like a gain of nothing. Non-goals:
//! which homes there are (`draw`), tables (`show`).

use evenkeel_core::result::{LineFacts, Run, Series};
use serde::Serialize;

/// Average increase, ms, beside [`AVERAGE_PACKETS`]: where DSLReports' and LibreQoS' grade A+ ends.
const INCREASE: f64 = 5.0;
/// 99th percentile of the increase, ms, beside [`TAIL_PACKETS`]: a frame interval of a call (RFC 3551,
/// 4.2) that its jitter buffer must hold more.
const TAIL: f64 = 20.0;
/// Full packets on the slower direction that the average may wait for: one is always under way.
const AVERAGE_PACKETS: f64 = 1.0;
/// The same for the tail: a round of a few flows.
const TAIL_PACKETS: f64 = 4.0;
/// Goodput that is missing, as a share: what people see in a speed test that they run twice.
const MISSING: f64 = 0.2;
/// Less than half of what there could be, for so long, s, as `lab lines` counts it.
const STARVED: f64 = 3.0;
/// A queue for so long, s, of so many ms or of three packets, as `lab lines` counts it.
const QUEUED: f64 = 2.0;
const QUEUE: f64 = 50.0;
const QUEUE_PACKETS: f64 = 3.0;
/// Packets of a call that are lost, as a share: where concealing them begins to be heard (ITU-T
/// G.113, Appendix I).
const CALL_LOSS: f64 = 0.01;
/// Bytes of IP of a full packet.
const MTU: u32 = 1500;

/// What is regretted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
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
}

impl Kind {
    pub(super) const ALL: [Kind; 7] = [
        Kind::Increase,
        Kind::Tail,
        Kind::Down,
        Kind::Up,
        Kind::Starved,
        Kind::Queued,
        Kind::CallLoss,
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
        }
    }

    /// What one of its unit is for people.
    pub(super) const fn scale(self) -> f64 {
        match self {
            Kind::Down | Kind::Up | Kind::CallLoss => 100.0,
            _ => 1.0,
        }
    }
}

/// How much more of something bad there was than under the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Regret {
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
pub(super) struct Judged {
    pub condition: String,
    pub regrets: Vec<Regret>,
}

impl Judged {
    /// Beside `oracle`, on `line`.
    pub(super) fn of(run: &Run, oracle: &Run, line: &LineFacts) -> Self {
        let slower = line.up.min(line.down).bps().max(1) as f64;
        let packet = f64::from(line.framing.wire_len(MTU)) * 8000.0 / slower;
        let queue = QUEUE.max(QUEUE_PACKETS * packet);
        let missing = |got: f64, could: f64| {
            if could > 0.0 { 1.0 - got / could } else { 0.0 }
        };
        let regrets = Kind::ALL.map(|kind| {
            let (value, limit) = match kind {
                Kind::Increase => (
                    run.increase_ms.avg - oracle.increase_ms.avg,
                    INCREASE + AVERAGE_PACKETS * packet,
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
            };
            Regret { kind, value, limit }
        });
        Judged {
            condition: run.condition.clone(),
            regrets: regrets.to_vec(),
        }
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

/// Longest time, s, in which every probe met more than `queue` ms or was lost.
fn queued(run: &Run, queue: f64) -> f64 {
    let mut since: Option<f64> = None;
    let mut longest = 0.0f64;
    for &(at, rtt) in &run.series.udp {
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

    fn value(judged: &Judged, kind: Kind) -> f64 {
        let found = judged.regrets.iter().find(|r| r.kind == kind);
        found.map_or(f64::NAN, |r| r.value)
    }

    #[test]
    fn an_oracle_has_no_regrets() {
        let oracle = run(&[10.0, 90.0, 90.0, 90.0], &[800.0; 8]);
        let judged = Judged::of(&oracle, &oracle, &line());
        assert!(judged.regrets.iter().all(|r| r.value == 0.0), "{judged:?}");
    }

    #[test]
    fn the_longest_time_counts_and_not_the_sum() {
        let oracle = run(&[10.0; 20], &[800.0; 20]);
        // A queue of 1 s and one of 2 s; no share for 1 s and for 3 s.
        let mut udp = [10.0; 20];
        udp[2..5].fill(90.0);
        udp[10..15].fill(90.0);
        let mut down = [800.0; 20];
        down[2..4].fill(100.0);
        down[10..16].fill(100.0);
        let judged = Judged::of(&run(&udp, &down), &oracle, &line());
        for (kind, is) in [
            (Kind::Queued, 2.0),
            (Kind::Starved, 3.0),
            (Kind::Down, 0.35),
        ] {
            let found = value(&judged, kind);
            assert!((found - is).abs() < 1e-9, "{kind:?}: {found}");
        }
        assert_eq!(judged.worst().map(|r| r.kind), Some(Kind::Down));
    }

    #[test]
    fn a_packet_that_takes_long_is_an_excuse() {
        let oracle = run(&[10.0; 4], &[800.0; 4]);
        let limit = |judged: &Judged| judged.regrets.first().map_or(0.0, |r| r.limit);
        let slow = Judged::of(&oracle, &oracle, &line());
        assert!((limit(&slow) - 15.0).abs() < 1e-9, "{}", limit(&slow));
    }
}
