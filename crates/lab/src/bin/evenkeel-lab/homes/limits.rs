//! What must hold in how many homes, for a condition to be as good as one that is told everything.
//!
//! Principle: a limit is a question about one home; how many must say yes stands beside it. Non-goals:
//! how things are measured (`judge`).

use super::judge::{Judged, Kind};

/// A limit.
pub(super) struct Limit {
    pub name: &'static str,
    /// The share of homes in which it must hold.
    pub must: f64,
    holds: fn(&Judged) -> bool,
}

/// All of them.
pub(super) const ALL: [Limit; 7] = [
    Limit {
        name: "increase avg at most 1.5 x + 1 ms",
        must: 0.90,
        holds: |j| is_within(j, 1.5, 1.0),
    },
    Limit {
        name: "increase avg at most 3 x + 5 ms",
        must: 0.99,
        holds: |j| is_within(j, 3.0, 5.0),
    },
    Limit {
        name: "goodput at least 95 %",
        must: 0.90,
        holds: |j| missing(j) <= 0.05,
    },
    Limit {
        name: "goodput at least 85 %",
        must: 0.99,
        holds: |j| missing(j) <= 0.15,
    },
    Limit {
        name: "never below half for 3 s",
        must: 1.0,
        holds: |j| j.value(Kind::Starved) < 3.0,
    },
    Limit {
        name: "no queue over 100 ms for 3 s",
        must: 0.99,
        holds: |j| j.value(Kind::Queued) < 3.0,
    },
    Limit {
        name: "shares within 30 %, calls lose less than 1 %",
        must: 0.99,
        holds: |j| {
            let worst = j.value(Kind::Neighbour).max(j.value(Kind::OwnShare));
            worst <= 0.3 && j.value(Kind::CallLoss) < 0.01
        },
    },
];

/// The average increase beside the oracle's.
fn is_within(judged: &Judged, times: f64, more_ms: f64) -> bool {
    let [own, oracle] = judged.increase_ms;
    own <= times * oracle.max(0.0) + more_ms
}

/// Goodput that is missing in the direction where that is more.
fn missing(judged: &Judged) -> f64 {
    judged.value(Kind::Down).max(judged.value(Kind::Up))
}

/// In which share of homes it holds.
pub(super) fn share<'a>(limit: &Limit, homes: impl Iterator<Item = &'a Judged>) -> f64 {
    let (mut all, mut held) = (0u32, 0u32);
    for judged in homes {
        all += 1;
        held += u32::from((limit.holds)(judged));
    }
    f64::from(held) / f64::from(all.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::judge::Regret;
    use super::*;

    #[test]
    fn a_limit_holds_in_some_homes() {
        let home = |increase_ms, up: f64| Judged {
            condition: "evenkeel-auto".into(),
            increase_ms,
            regrets: vec![Regret {
                kind: Kind::Up,
                value: up,
                limit: 0.15,
            }],
        };
        let homes = [
            home([3.9, 2.0], 0.0),
            home([4.1, 2.0], 0.1),
            home([0.5, -0.2], 0.2),
        ];
        let shares: Vec<f64> = ALL.iter().map(|l| share(l, homes.iter())).collect();
        let third = 1.0 / 3.0;
        for (found, is) in shares
            .iter()
            .zip([2.0 * third, 1.0, third, 2.0 * third, 1.0])
        {
            assert!((found - is).abs() < 1e-9, "{shares:?}");
        }
    }
}
