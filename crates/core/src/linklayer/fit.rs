//! Delays against what each candidate framing says was on the wire.
//!
//! A train took `u * (bytes on the wire) + x * (time in which it was sent)`: `u` is the time of a byte, `x` the
//! share of the line that others used meanwhile. A burst is sent in no time, so only trains that are spread
//! out tell `x`, and huge packets do so without knowing the overhead.
//!
//! Principles: for each candidate the `u` and `x` that explain the delays best are found by themselves; noise has
//! Student's t distribution with four degrees of freedom, so that one packet of somebody else does not
//! decide; its scale is what the idle line showed, or what is left unexplained, whichever is more; modes
//! begin with equal belief, and so do the candidates of a mode. Non-goals: what to send.

use super::candidates;
use crate::framing::Framing;

/// Degrees of freedom: heavy tails, but a variance.
const NU: f64 = 4.0;
/// The logarithm of how much more a framing is believed in from the start that the other direction has.
const LIKELY: f64 = 6.0;
/// Rounds of reweighting; it settles in three or four.
const ROUNDS: usize = 8;
/// Others leave something of the line.
const OTHERS: f64 = 0.5;
/// What times between packets are right to, as a share: clocks, and the kernel's own queueing.
pub(super) const RELATIVE: f64 = 1e-4;

/// A delay that was seen: `count` packets of each of some sizes took `took` seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Bytes of an IP packet and how many of them.
    pub(super) packets: Vec<(u32, u32)>,
    /// Seconds from the first one's sending to the last one's arrival, beyond an empty line's.
    pub(super) took: f64,
    /// Seconds from the first one's sending to the last one's.
    pub(super) span: f64,
}

impl Point {
    /// Bytes on the wire with this framing.
    pub(super) fn wire(&self, f: Framing) -> f64 {
        let of = |(size, count): &(u32, u32)| f64::from(f.wire_len(*size)) * f64::from(*count);
        self.packets.iter().map(of).sum()
    }
}

/// A candidate and what it makes of the delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fitted {
    pub(super) framing: Framing,
    /// Seconds for each byte on the wire.
    pub(super) per_byte: f64,
    /// The share of the line that others used.
    pub(super) others: f64,
    /// Share of belief.
    pub(super) belief: f64,
}

/// All candidates with their beliefs, the best first, and the scale of the noise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Beliefs {
    pub(super) all: Vec<Fitted>,
    /// Seconds.
    pub(super) scale: f64,
    /// How much larger the unexplained rest is than the idle line's noise.
    pub(super) misfit: f64,
}

impl Fitted {
    /// How long these packets take, sent in `span` seconds.
    pub(super) fn takes(&self, p: &Point) -> f64 {
        self.per_byte * p.wire(self.framing) + self.others * p.span
    }
}

impl Beliefs {
    pub(super) fn best(&self) -> Option<&Fitted> {
        self.all.first()
    }

    /// In the best one's mode.
    pub(super) fn of_mode(&self) -> f64 {
        let Some(best) = self.best() else { return 0.0 };
        let same = |f: &&Fitted| f.framing.mode == best.framing.mode;
        self.all.iter().filter(same).map(|f| f.belief).sum()
    }

    /// In what charges packets of 40 bytes and more as the best one does.
    pub(super) fn same(&self) -> f64 {
        let Some(best) = self.best() else { return 0.0 };
        // Two cells' lengths, and a full packet's: every phase of every mode.
        let same = |f: &Fitted| {
            let like = |l: u32| f.framing.wire_len(l) == best.framing.wire_len(l);
            f.framing.mode == best.framing.mode && like(1500) && (40..136).all(like)
        };
        let beliefs = self.all.iter().filter(|f| f.belief > 1e-9);
        beliefs.filter(|f| same(f)).map(|f| f.belief).sum()
    }

    /// In what has the best one's mode, and an overhead that differs by no more than `bytes`.
    pub(super) fn near(&self, bytes: u16) -> f64 {
        let Some(best) = self.best() else { return 0.0 };
        let near = |f: &&Fitted| {
            f.framing.mode == best.framing.mode
                && f.framing.overhead.abs_diff(best.framing.overhead) <= bytes
        };
        self.all.iter().filter(near).map(|f| f.belief).sum()
    }

    /// The best one; of those that differ from it in the least frame alone, and are still likely, the one
    /// that charges most.
    pub(super) fn cautious(&self) -> Option<Framing> {
        let best = self.best()?.framing;
        let alike = |f: &&Fitted| {
            let same = Framing {
                mpu: best.mpu,
                ..f.framing
            };
            f.belief > 0.02 && same == best
        };
        // Below 40 bytes there are no packets worth the care.
        let most = |f: &Framing| f.wire_len(40);
        let likely = self.all.iter().filter(alike).map(|f| f.framing);
        let more = likely.filter(|f| most(f) > most(&best));
        more.max_by_key(most).or(Some(best))
    }
}

/// A framing and a rate that are on the safe side of all that is still believed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Careful {
    pub(super) framing: Framing,
    /// Seconds for each byte on the wire.
    pub(super) per_byte: f64,
    /// The share of the rate that full packets lose to that.
    pub(super) cost: f64,
}

impl Beliefs {
    /// Of the framings that are still likely the one that, at a rate at which it charges no packet less than
    /// any other likely one does at its own, takes least from full packets of `mtu`.
    pub(super) fn careful(&self, mtu: u32) -> Option<Careful> {
        /// Less belief is none.
        const LIKELY: f64 = 0.01;
        let likely: Vec<&Fitted> = self.all.iter().filter(|f| f.belief > LIKELY).collect();
        let best = self.best()?;
        let sizes = || (40..136).chain([200, 576, 1000, mtu]);
        let takes = |f: &Fitted, l: u32| f.per_byte * f64::from(f.framing.wire_len(l));
        let of = |a: &Fitted| {
            let more = sizes()
                .flat_map(|l| likely.iter().map(move |f| takes(f, l) / takes(a, l)))
                .fold(1.0, f64::max);
            let full = more * takes(a, mtu);
            Careful {
                framing: a.framing,
                per_byte: more * a.per_byte,
                cost: 1.0 - takes(best, mtu) / full,
            }
        };
        let all = likely.iter().take(100).map(|a| of(a));
        all.min_by(|a, b| a.cost.total_cmp(&b.cost))
    }
}

/// The belief in each candidate after `points`. `noise`: scale of the idle line's delays, seconds; `likely`:
/// what the other direction has. Empty without a point.
pub(super) fn beliefs(points: &[Point], noise: f64, likely: Option<Framing>) -> Beliefs {
    let candidates = candidates::all();
    let wires: Vec<Vec<f64>> = candidates
        .iter()
        .map(|f| points.iter().map(|p| p.wire(*f)).collect())
        .collect();
    let at = |scale: f64| -> Vec<(Fitted, f64)> {
        let of = |(f, wire): (&Framing, &Vec<f64>)| {
            let ((per_byte, others), likelihood) = fit(points, wire, scale);
            let known = if likely == Some(*f) { LIKELY } else { 0.0 };
            let prior = candidates::prior(*f) + known;
            let fitted = Fitted {
                framing: *f,
                per_byte,
                others,
                belief: 0.0,
            };
            (fitted, likelihood + prior)
        };
        let mut all: Vec<_> = candidates.iter().zip(&wires).map(of).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    };
    let mut all = at(noise);
    let misfit = all
        .first()
        .map_or(1.0, |best| misfit(points, &best.0, noise));
    let scale = noise * misfit.max(1.0);
    if misfit > 1.2 {
        all = at(scale);
    }
    let most = all.first().map_or(0.0, |a| a.1);
    let sum: f64 = all.iter().map(|a| (a.1 - most).exp()).sum();
    Beliefs {
        all: all
            .into_iter()
            .map(|(f, l)| Fitted {
                belief: (l - most).exp() / sum,
                ..f
            })
            .collect(),
        scale,
        misfit,
    }
}

/// The scale of one delay: noise, a share of the whole, and that others come in packets.
pub(super) fn scale_of(p: &Point, noise: f64, u: f64, others: f64) -> f64 {
    // Full packets and small ones: the variance of what comes at random is its mean times this.
    const PACKET: f64 = 1500.0;
    let comes = (others * p.span * PACKET * u).max(0.0);
    (noise * noise + (RELATIVE * p.took).powi(2) + comes).sqrt()
}

/// Seconds per byte and the others' share that explain `points` best, and the logarithm of how well. That
/// nobody else uses the line is asked by itself: a little more noise for a little traffic is another optimum.
fn fit(points: &[Point], wire: &[f64], noise: f64) -> ((f64, f64), f64) {
    let alone = fit_with(points, wire, noise, 0.0);
    let shared = fit_with(points, wire, noise, OTHERS);
    if shared.1 > alone.1 { shared } else { alone }
}

/// The same with no more than `most` for others.
fn fit_with(points: &[Point], wire: &[f64], noise: f64, most: f64) -> ((f64, f64), f64) {
    let (mut u, mut x) = (start(points, wire), 0.0);
    for _ in 0..ROUNDS {
        // Weighted sums of squares and products of wire, span and delay.
        let (mut ww, mut ws, mut ss, mut wt, mut st) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (p, w) in points.iter().zip(wire) {
            let s = scale_of(p, noise, u, x);
            let r = (p.took - u * w - x * p.span) / s;
            let weight = (NU + 1.0) / (NU + r * r) / (s * s);
            ww += weight * w * w;
            ws += weight * w * p.span;
            ss += weight * p.span * p.span;
            wt += weight * w * p.took;
            st += weight * p.span * p.took;
        }
        if ww <= 0.0 {
            break;
        }
        let det = ww * ss - ws * ws;
        x = if det > 1e-6 * ww * ss {
            ((ww * st - ws * wt) / det).clamp(0.0, most)
        } else {
            0.0
        };
        u = ((wt - x * ws) / ww).max(1e-12);
    }
    let of = |(p, w): (&Point, &f64)| {
        let s = scale_of(p, noise, u, x);
        let r = (p.took - u * w - x * p.span) / s;
        -(NU + 1.0) / 2.0 * (r * r / NU).ln_1p() - s.ln()
    };
    ((u, x), points.iter().zip(wire).map(of).sum())
}

/// The median of seconds per byte.
fn start(points: &[Point], wire: &[f64]) -> f64 {
    let mut ratios: Vec<(f64, f64)> = points
        .iter()
        .zip(wire)
        .filter(|(_, w)| **w > 0.0)
        .map(|(p, w)| (p.took / w, *w))
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = ratios.iter().map(|r| r.1).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (ratio, weight) in ratios {
        sum += weight;
        if sum >= half {
            return ratio;
        }
    }
    1e-9
}

/// The median rest that a candidate leaves, as a multiple of what the noise would leave.
fn misfit(points: &[Point], f: &Fitted, noise: f64) -> f64 {
    /// The median of |t| with four degrees of freedom.
    const MEDIAN: f64 = 0.741;
    // Rate and overhead were fitted: so few points are explained by anything.
    if points.len() < 6 {
        return 1.0;
    }
    let mut rests: Vec<f64> = points
        .iter()
        .map(|p| (p.took - f.takes(p)).abs() / scale_of(p, noise, f.per_byte, f.others))
        .collect();
    rests.sort_by(f64::total_cmp);
    rests[rests.len() / 2] / MEDIAN
}
