//! Method A: echoes of many sizes on an idle line.
//!
//! A packet in cells takes as many cells as it needs, so the round trip is stairs of 48 bytes over the
//! size, and where a step is says the overhead modulo 48, which AAL5's trailer makes unique. A line
//! without cells is straight. Nothing else can be seen in this way.
//!
//! Principles: the smallest round trip of each size, since queues only ever add; sizes in steps of 5 or
//! 29 bytes, which have no factor in common with 48, so that 48 sizes are all phases; stairs and straight
//! line are both fitted, and who wins must explain so much more that 48 chances to do so do not matter;
//! as soon as one does, it is over. The gate that keeps straight lines straight: the height of steps is no
//! parameter, it follows from the mean slope. Non-goals: overheads without cells ([`super::saturation`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Bytes of the IP packet of the smallest echo: header, echo header, and whose it is.
pub const FROM: u32 = 40;
/// Sizes of one round.
const SIZES: u32 = 48;
/// The first rounds' step, and that of later ones; both coprime with 48.
const STEPS: [u32; 2] = [5, 29];
/// Rounds with the first step; later ones alternate.
const NEAR: u32 = 2;
/// Rounds in all.
const MOST: u32 = 24;
/// The logarithm of how much better one must explain the round trips than the other: 1 in 1e5, and 48 chances.
const GATE: f64 = 15.4;
/// The same of the best phase over the next one.
const ONLY: f64 = 12.0;
/// A slope below this (s per byte there and back) is none of ADSL2+, whose 24 and 3.5 Mbit/s (ITU-T
/// G.992.5) make 2.6 us.
const FASTEST_ADSL: f64 = 2.2e-6;
/// Losses in a row after which the hop is left alone. One that leaves more than half unanswered limits them.
const SILENT: u32 = 12;

/// What the sizes say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stairs {
    /// Cells, with this overhead; seconds per byte there and back.
    Cells {
        /// Bytes.
        overhead: i16,
        /// Seconds for each byte on the wire, both ways together.
        per_byte: f64,
    },
    /// No cells.
    Straight {
        /// Seconds for each byte, both ways together.
        per_byte: f64,
    },
    /// So fast that it is no ADSL; whether there are cells all the same was not seen.
    Fast,
    /// Nothing is known.
    Unknown,
}

/// The sweep.
#[derive(Debug, Clone)]
pub struct Sweep {
    largest: u32,
    /// Smallest round trip of each size, s, and how often it was seen.
    least: BTreeMap<u32, (f64, u32)>,
    asked: u32,
    answered: u32,
    silent: u32,
    most: u32,
    found: Stairs,
    /// By how much the better one is better.
    margin: f64,
}

impl Sweep {
    /// Of IP packets of `largest` bytes at most.
    pub fn new(largest: u32) -> Self {
        Sweep {
            largest,
            least: BTreeMap::new(),
            asked: 0,
            answered: 0,
            silent: 0,
            most: MOST,
            found: Stairs::Unknown,
            margin: 0.0,
        }
    }

    /// The same in no more than so many rounds of 48 echoes.
    #[must_use]
    pub fn at_most(mut self, rounds: u32) -> Self {
        self.most = rounds.min(MOST);
        self
    }

    /// The size of the IP packet of the next echo; `None`: it is over.
    pub fn next(&self) -> Option<u32> {
        let round = self.asked / SIZES;
        let limits = self.asked >= 2 * SILENT && 2 * self.answered < self.asked;
        if self.found != Stairs::Unknown || round >= self.most || self.silent >= SILENT || limits {
            return None;
        }
        let step = STEPS[usize::from(round >= NEAR && round.is_multiple_of(2))];
        // 17 has no factor in common with 48: neighbours are not sent one after the other.
        let place = self.asked % SIZES * 17 % SIZES;
        let size = FROM + step * place;
        // Past the largest it goes back by whole cells.
        let over = size.saturating_sub(self.largest).div_ceil(48) * 48;
        Some((size - over).max(FROM))
    }

    /// What became of it.
    pub fn seen(&mut self, size: u32, rtt: Option<Duration>) {
        self.asked += 1;
        match rtt {
            Some(rtt) => {
                let rtt = rtt.as_secs_f64();
                let least = self.least.entry(size).or_insert((rtt, 0));
                *least = (least.0.min(rtt), least.1 + 1);
                self.answered += 1;
                self.silent = 0;
            }
            None => self.silent += 1,
        }
        // One of each may be chance: a hop that was busy.
        if self.asked.is_multiple_of(SIZES) && self.asked >= 2 * SIZES {
            self.judge();
        }
    }

    /// What is known.
    pub fn found(&self) -> Stairs {
        self.found
    }

    /// The logarithm of how much better what was found explains the round trips than the other.
    pub fn margin(&self) -> f64 {
        self.margin
    }

    /// Echoes sent, and answered.
    pub fn counts(&self) -> (u32, u32) {
        (self.asked, self.answered)
    }

    /// The smallest round trip of each size: bytes, seconds.
    pub fn minima(&self) -> Vec<(u32, f64)> {
        self.least.iter().map(|(s, l)| (*s, l.0)).collect()
    }

    /// The smallest of all.
    pub fn base(&self) -> Option<Duration> {
        let least = self.least.values().map(|l| l.0).min_by(f64::total_cmp);
        least.map(Duration::from_secs_f64)
    }

    fn judge(&mut self) {
        let points: Vec<(f64, f64)> = self
            .minima()
            .iter()
            .map(|(s, l)| (f64::from(*s), *l))
            .collect();
        // A phase or two may be missing, not more.
        if points.len() < SIZES as usize - 2 {
            return;
        }
        let Some(straight) = line(&points, |l| l) else {
            return;
        };
        let stairs = |overhead: i16| move |l: f64| ((l + f64::from(overhead)) / 48.0).ceil() * 53.0;
        let mut all: Vec<(i16, Fitted)> = (8..=55i16)
            .filter_map(|o| Some((o, line(&points, stairs(o))?)))
            .collect();
        all.sort_by(|a, b| a.1.rest.total_cmp(&b.1.rest));
        let [(overhead, cells), (_, next), ..] = &all[..] else {
            return;
        };
        let overhead = *overhead;
        let n = points.len() as f64;
        self.margin = (n / 2.0 * (straight.rest / cells.rest).ln()).abs();
        // Steps must stand out of what is left unexplained, too.
        let stands_out = 53.0 * cells.slope > 4.0 * (cells.rest / n).sqrt();
        // Where sizes are missing, more than one phase may do.
        let only = n / 2.0 * (next.rest / cells.rest).ln() > ONLY;
        if self.margin < GATE {
            // A line too fast to be ADSL has a slope that is known well enough.
            let error = (straight.rest / n / straight.spread).sqrt();
            if straight.slope + 4.0 * error < FASTEST_ADSL && error < FASTEST_ADSL / 8.0 {
                self.found = Stairs::Fast;
            }
            return;
        }
        if cells.rest < straight.rest {
            if stands_out && only && cells.slope > 0.0 {
                self.found = Stairs::Cells {
                    overhead,
                    per_byte: cells.slope,
                };
            }
        } else if straight.slope > 0.0 {
            self.found = Stairs::Straight {
                per_byte: straight.slope,
            };
        }
    }
}

/// A line through points.
struct Fitted {
    slope: f64,
    /// Squares of what is left, those of far-off points bounded.
    rest: f64,
    /// Squares of the abscissas around their mean.
    spread: f64,
}

/// The line through `points` over `of` their size. Points that are three times as far off as most pull no
/// more than that.
fn line(points: &[(f64, f64)], of: impl Fn(f64) -> f64) -> Option<Fitted> {
    let mut weights = vec![1.0; points.len()];
    let mut fitted = None;
    for _ in 0..4 {
        let sum: f64 = weights.iter().sum();
        let mean = |f: &dyn Fn(&(f64, f64)) -> f64| {
            points
                .iter()
                .zip(&weights)
                .map(|(p, w)| w * f(p))
                .sum::<f64>()
                / sum
        };
        let (mx, my) = (mean(&|p| of(p.0)), mean(&|p| p.1));
        let spread = mean(&|p| (of(p.0) - mx).powi(2)) * sum;
        let across = mean(&|p| (of(p.0) - mx) * (p.1 - my)) * sum;
        if spread <= 0.0 {
            return None;
        }
        let slope = across / spread;
        let rests: Vec<f64> = points
            .iter()
            .map(|p| (p.1 - my - slope * (of(p.0) - mx)).abs())
            .collect();
        let mut sorted = rests.clone();
        sorted.sort_by(f64::total_cmp);
        // A cell's step at least, and a clock's: what is off by no more than that is evidence.
        let far = (3.0 * 1.4826 * sorted[sorted.len() / 2])
            .max(60.0 * slope.abs())
            .max(1e-6);
        let rest = rests
            .iter()
            .map(|r| r.min(far).powi(2))
            .sum::<f64>()
            .max(1e-13);
        fitted = Some(Fitted {
            slope,
            rest,
            spread,
        });
        weights = rests.iter().map(|r| (far / r.max(far)).min(1.0)).collect();
    }
    fitted
}
