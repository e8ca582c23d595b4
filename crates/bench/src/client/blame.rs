//! Who is to blame for an increase: this machine's own queue, the LAN, the access line, or what is
//! beyond it.
//!
//! Principles: echo requests to the first hop and to the first one beyond the access line run through
//! all phases; each part has what the delay grew by between its ends; where a hop does not answer, the
//! parts around it are one. Non-goals: more hops than these two.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_measure::hops::{first_hops, near};
use evenkeel_report::bench::figures::{round_trips, within};
use evenkeel_report::bench::form::{Bench, Check, Phases, Probes, Verdict};
use evenkeel_sys::PacketOptions;

use super::prober::{Kind, Prober};

/// Hops are probed so often: routers answer echo requests beside their work.
const INTERVAL: Duration = Duration::from_millis(100);
/// An increase below this has nobody to blame, ms.
const WORTH_A_WORD: f64 = 2.0;

/// The hops of a path that matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hops {
    /// The first one, if it is before the access line.
    pub lan: Option<IpAddr>,
    /// The first one beyond the access line.
    pub near: Option<IpAddr>,
}

/// Mean increases of a loaded line, ms; absent where nothing answers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Increases {
    /// In this machine's own queueing discipline.
    pub own: Option<f64>,
    /// To the first hop, if that is before the access line.
    pub lan: Option<f64>,
    /// To the first hop beyond the access line.
    pub near: Option<f64>,
    /// To the far end.
    pub end: f64,
}

/// The parts of the way and what each adds, ms, in order.
pub fn parts(i: Increases) -> Vec<(&'static str, f64)> {
    let mut parts = Vec::new();
    let mut before = 0.0;
    let names = match (i.lan.is_some(), i.near.is_some()) {
        (true, true) => ["the LAN", "the access line", "beyond the access line"],
        (true, false) => ["the LAN", "", "the access line or beyond it"],
        (false, true) => ["", "the LAN or the access line", "beyond the access line"],
        (false, false) => ["", "", "the LAN, the access line or beyond it"],
    };
    if let Some(own) = i.own {
        parts.push(("this machine's own queue", own.max(0.0)));
        before = own.max(0.0);
    }
    for (name, at) in [
        (names[0], i.lan),
        (names[1], i.near),
        (names[2], Some(i.end)),
    ] {
        if let Some(at) = at {
            parts.push((name, (at - before).max(0.0)));
            before = before.max(at);
        }
    }
    parts
}

/// The part that adds most; `None` if all of them together are not worth a word.
pub fn guilty(i: Increases) -> Option<(&'static str, f64)> {
    let worst = parts(i).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    worst.filter(|_| i.end >= WORTH_A_WORD)
}

/// Hops under observation.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    found: Arc<Mutex<Vec<(bool, Prober)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks for the hops on the way to `target`, and probes them. `zero` is the wall clock at the
    /// run's beginning. Where that is not permitted, nothing is watched.
    pub fn start(target: SocketAddr, zero: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let found = Arc::new(Mutex::new(Vec::new()));
        let (stopped, theirs) = (Arc::clone(&stop), Arc::clone(&found));
        let thread = std::thread::Builder::new()
            .name("hops".into())
            .spawn(move || {
                let hops = find(target, &stopped);
                for (is_near, hop) in [(false, hops.lan), (true, hops.near)] {
                    let Some(hop) = hop.filter(|_| !stopped.load(Ordering::Relaxed)) else {
                        continue;
                    };
                    let kind = Kind::echo(INTERVAL);
                    let session = zero.as_nanos() as u32 ^ u32::from(is_near);
                    let hop = SocketAddr::new(hop, 0);
                    if let Ok(p) = Prober::start(hop, session, &[kind], zero, None) {
                        theirs
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((is_near, p));
                    }
                }
            });
        Watch {
            stop,
            found,
            thread: thread.ok(),
        }
    }

    /// Ends it; what it says of a run.
    pub fn finish(mut self, b: &Bench) -> Option<Check> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut lan, mut near) = (None, None);
        for (is_near, prober) in found {
            let seen = prober
                .finish()
                .ok()
                .and_then(|o| o.probes.into_iter().next());
            let grew = seen.and_then(|p| grew(&p, b.phases));
            *(if is_near { &mut near } else { &mut lan }) = grew;
        }
        let judged = b.judged()?;
        let end = grew(judged, b.phases)?;
        let own = |from: f64, to: f64| {
            let inside = within(Some(judged), from, to);
            let waits: Vec<f64> = inside.iter().filter_map(|p| p.own).collect();
            (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64)
        };
        let own = own(b.phases.load, b.phases.tail)
            .zip(own(0.0, b.phases.load))
            .map(|(l, i)| l - i);
        Some(said(Increases {
            own,
            lan,
            near,
            end,
        }))
    }
}

fn said(i: Increases) -> Check {
    let list: Vec<String> = parts(i)
        .iter()
        .map(|(name, ms)| format!("{name} {ms:.1} ms"))
        .collect();
    let says = match guilty(i) {
        Some((name, ms)) => format!(
            "most of the increase is made by {name} ({ms:.1} of {:.1} ms): {}",
            i.end,
            list.join(", ")
        ),
        None => format!(
            "the increase of {:.1} ms is not worth blame: {}",
            i.end.max(0.0),
            list.join(", ")
        ),
    };
    Check {
        name: "Blame".into(),
        verdict: Verdict::Ok,
        says,
    }
}

/// How much the mean round trip grew under load.
fn grew(p: &Probes, phases: Phases) -> Option<f64> {
    let mean = |from: f64, to: f64| {
        let inside = within(Some(p), from, to);
        let any = inside.iter().any(|p| p.rtt.is_some());
        let all = round_trips(&inside);
        any.then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    Some(mean(phases.load, phases.tail)? - mean(0.0, phases.load)?)
}

fn find(target: SocketAddr, stop: &AtomicBool) -> Hops {
    let timeout = Duration::from_millis(800);
    let first = first_hops(target, PacketOptions::default(), 1, timeout, stop).ok();
    let first = first.and_then(|r| r.hops.first()?.addresses.first().copied());
    let beyond = near(target).ok().flatten();
    let near_ttl = beyond.map_or(u8::MAX, |n| n.ttl);
    let is_end = |a: &IpAddr| *a != target.ip();
    Hops {
        lan: first.filter(is_end).filter(|_| near_ttl > 1),
        near: beyond
            .filter(|n| n.answers)
            .map(|n| n.address)
            .filter(is_end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_four_is_blamed() {
        let i = |own, lan, near, end| Increases {
            own: Some(own),
            lan: Some(lan),
            near: Some(near),
            end,
        };
        for (increases, who) in [
            (i(90.0, 91.0, 92.0, 93.0), "this machine's own queue"),
            (i(0.1, 60.0, 61.0, 61.0), "the LAN"),
            (i(0.1, 0.3, 100.0, 101.0), "the access line"),
            (i(0.1, 0.3, 0.5, 80.0), "beyond the access line"),
        ] {
            assert_eq!(guilty(increases).map(|g| g.0), Some(who), "{increases:?}");
        }
        assert_eq!(guilty(i(0.1, 0.2, 0.3, 1.9)), None);
        let unknown = Increases {
            end: 50.0,
            ..Increases::default()
        };
        assert_eq!(
            guilty(unknown),
            Some(("the LAN, the access line or beyond it", 50.0))
        );
        let no_lan = Increases {
            near: Some(49.0),
            end: 50.0,
            ..Increases::default()
        };
        assert_eq!(guilty(no_lan), Some(("the LAN or the access line", 49.0)));
    }
}
