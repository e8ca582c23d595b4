//! Load on the line that is not ours: another host before the bottleneck.
//!
//! Principles: a delay that stays for seconds while little of the line is used by us is not our
//! queue; the controller takes what stays on an idle line for the base, so what counts is the
//! delay against the base of before; said once when it is sure, and once when it has gone; rates
//! stay. Non-goals: a queue beside a load of ours (the controller sees that cuts do not help),
//! whose it is, and telling it from a longer way.

use std::fmt;
use std::time::Duration;

use evenkeel_core::control::{DirectionView, View};

/// So long it stands before it is believed.
const STANDS: Duration = Duration::from_secs(2);
/// So long it is away before it has gone.
const GONE: Duration = Duration::from_secs(3);
/// What stays for so long is a longer way.
const FORGET: Duration = Duration::from_secs(600);
/// A queue, ms, and by how much it exceeds what counts as one.
const QUEUE: f64 = 5.0;
const CLEAR: f64 = 2.0;
/// Less of a direction's capacity is little, and less than this where it is not known, bit/s.
const LITTLE: f64 = 0.25;
const LITTLE_RATE: f64 = 64_000.0;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News {
    /// It is there.
    Queue {
        /// So long, ms.
        queue_ms: f64,
        /// Share of the line that we use, of the direction that we use most.
        used: Option<f64>,
    },
    /// It has gone.
    Gone,
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Queue { queue_ms, used } => {
                write!(f, "a queue of {queue_ms:.1} ms that is not ours: we use ")?;
                match used {
                    Some(used) => write!(f, "{:.0} % of the line", used * 100.0)?,
                    None => write!(f, "next to nothing")?,
                }
                write!(f, "; another host loads it, or the way has become longer")
            }
            News::Gone => write!(f, "the queue that was not ours has gone"),
        }
    }
}

/// Watches for it.
#[derive(Debug, Default)]
pub(crate) struct CrossTraffic {
    /// Base round trip without it, and from which rise on a delay was a queue then, ms: the
    /// controller soon takes it for the line's noise.
    calm: Option<(f64, f64)>,
    /// Seen without a break since.
    since: Option<Duration>,
    /// Seen last.
    last: Duration,
    told: bool,
}

impl CrossTraffic {
    /// What `view` says now, twice a second or so.
    pub(crate) fn look(&mut self, view: &View, now: Duration) -> Option<News> {
        let used = |way: &DirectionView| {
            let rate = way.throughput.bps() as f64;
            match way.capacity {
                Some(c) => (rate < LITTLE * c.bps() as f64, Some(rate / c.bps() as f64)),
                None => (rate < LITTLE_RATE, None),
            }
        };
        let (down, up) = (used(&view.down), used(&view.up));
        let base = view.base_ms?;
        let delay = base + view.down.queue_ms + view.up.queue_ms;
        let (calm, rise) = self.calm.unwrap_or((base, view.rise_ms));
        let queue_ms = delay - calm.min(base);
        let stands = queue_ms > QUEUE.max(CLEAR * rise);
        if stands && down.0 && up.0 {
            self.last = now;
            let since = *self.since.get_or_insert(now);
            if !self.told && now.saturating_sub(since) >= STANDS {
                self.told = true;
                let used = [down.1, up.1].into_iter().flatten().reduce(f64::max);
                return Some(News::Queue { queue_ms, used });
            }
            if now.saturating_sub(since) >= FORGET {
                *self = CrossTraffic::default();
            }
        } else if !self.told {
            self.since = None;
            if !stands {
                self.calm = Some((base, view.rise_ms));
            }
        } else if now.saturating_sub(self.last) >= GONE {
            *self = CrossTraffic::default();
            return Some(News::Gone);
        }
        None
    }

    /// Since when it stands, if it does.
    pub(crate) fn since(&self) -> Option<Duration> {
        self.since.filter(|_| self.told)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::Rate;

    use super::*;

    fn view(queue_ms: f64, kbit: u64, capacity: Option<u64>) -> View {
        let way = |kbit, queue_ms| DirectionView {
            capacity: capacity.map(Rate::from_kbit),
            age_s: 0.0,
            throughput: Rate::from_kbit(kbit),
            queue_ms,
            unshaped_queue_ms: 0.0,
        };
        View {
            base_ms: Some(10.0),
            rise_ms: 2.0,
            up: way(10, 0.0),
            down: way(kbit, queue_ms),
        }
    }

    /// Looks each half second; what was told when.
    fn told(looks: impl IntoIterator<Item = View>) -> Vec<(usize, String)> {
        let mut cross = CrossTraffic::default();
        let told = (0..).zip(looks).filter_map(|(i, view)| {
            let now = Duration::from_millis(500) * i as u32;
            Some((i, cross.look(&view, now)?.to_string()))
        });
        told.collect()
    }

    #[test]
    fn a_queue_without_load_is_somebody_elses() {
        let bloat = view(40.0, 2000, Some(20_000));
        let calm = view(0.1, 2000, Some(20_000));
        let looks = [vec![calm; 4], vec![bloat; 10], vec![calm; 10]].concat();
        let said = told(looks);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[0].0, 8);
        assert!(said[0].1.contains("40.0 ms") && said[0].1.contains("10 % of the line"));
        assert_eq!((said[1].0, said[1].1.contains("has gone")), (19, true));
        // One look without it is no end, and one with it no begin.
        let broken = (0..20).map(|i| if i % 3 == 0 { calm } else { bloat });
        assert_eq!(told(broken), []);
    }

    #[test]
    fn ours_is_not() {
        assert_eq!(told([view(40.0, 6000, Some(20_000)); 20]), []);
        assert_eq!(told([view(40.0, 100, None); 20]), []);
        assert_eq!(told([view(3.9, 0, Some(20_000)); 20]), []);
        assert!(told([view(40.0, 10, None); 20])[0].1.contains("nothing"));
    }

    #[test]
    fn what_the_controller_takes_for_the_base_is_still_there() {
        let calm = view(0.0, 10, None);
        let taken = View {
            base_ms: Some(50.0),
            rise_ms: 60.0,
            ..calm
        };
        let looks = [vec![calm; 4], vec![view(40.0, 10, None); 2], vec![taken; 8]].concat();
        let said = told([looks, vec![calm; 10]].concat());
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].1.contains("40.0 ms"), "{said:?}");
        assert_eq!(said[1].0, 19);
        // A base that wanders by little is no load.
        let wanders = (0..40).map(|i| View {
            base_ms: Some(10.0 + f64::from(i)),
            ..calm
        });
        assert_eq!(told(wanders), []);
        // A longer way is one after some time, without another word.
        assert_eq!(told([vec![calm; 4], vec![taken; 2000]].concat()).len(), 1);
    }
}
