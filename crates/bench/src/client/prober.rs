//! The probes of a run, on its own time axis, and the latest of them for whoever shows them.
//!
//! Principles: kinds stand in results in the order that they were asked for; who may not send echo
//! requests goes without. Non-goals: sending and stamping (`evenkeel_measure::prober`), figures.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_measure::prober::{self, Opened, Sample};
use evenkeel_report::bench::form::{Probe, Probes};
use evenkeel_sys::Error;

use super::irtt;

/// A kind of probe.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Echo requests, rather than UDP.
    pub icmp: bool,
    /// DSCP in the upper six bits.
    pub tos: u8,
    /// What results call it.
    pub mark: &'static str,
    /// From one to the next.
    pub interval: Duration,
    /// Bytes of payload of UDP, where it is more than a probe needs.
    pub bytes: usize,
}

impl Kind {
    /// A call: 50 packets of 200 bytes a second, as the voice codec G.711 makes them, each way.
    pub const CALL: Kind = Kind {
        icmp: false,
        tos: 0,
        mark: "CALL",
        interval: Duration::from_millis(20),
        bytes: 172,
    };

    /// Echo requests without a mark.
    pub const fn echo(interval: Duration) -> Self {
        Kind {
            icmp: true,
            tos: 0,
            mark: "BE",
            interval,
            bytes: 0,
        }
    }
}

/// The latest round trip of the judged kind, for whoever shows it.
#[derive(Debug, Default)]
pub struct Latest {
    /// Round trips since somebody looked, us.
    since: Mutex<Vec<u64>>,
}

impl Latest {
    /// The median of those that came since the last call, ms.
    pub fn take(&self) -> Option<f64> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = std::mem::take(&mut *since);
        all.sort_unstable();
        all.get(all.len() / 2).map(|us| *us as f64 / 1000.0)
    }

    /// One came.
    pub(crate) fn heard(&self, rtt: Duration) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() < 10_000 {
            since.push(rtt.as_micros() as u64);
        }
    }
}

/// A running prober.
#[derive(Debug)]
pub struct Prober {
    probes: prober::Prober,
    /// What results call those that are probed: kind and mark.
    names: Vec<(&'static str, &'static str)>,
    /// The run's beginning, wall clock.
    zero: Duration,
    /// What the judged kind sees now.
    pub latest: Arc<Latest>,
}

/// What a prober saw.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By kind, in the order of the kinds.
    pub probes: Vec<Probes>,
    /// How far the wall clock was stepped meanwhile.
    pub clock_step: Duration,
}

impl Prober {
    /// Probes `target`, in the calling thread's network namespace. `zero` is the wall clock at the
    /// run's beginning; `session` stands in the packets. Pings of an irtt server are the judged ones.
    pub fn start(
        target: SocketAddr,
        session: u32,
        kinds: &[Kind],
        zero: Duration,
        irtt: Option<irtt::Session>,
    ) -> Result<Self, Error> {
        let mut opened = Opened::none();
        let mut names = Vec::new();
        if let Some(i) = irtt {
            let asked = prober::Kind {
                icmp: false,
                tos: 0,
                interval: i.interval,
                bytes: 0,
            };
            opened.add_formed((i.socket, i.sent), asked, Box::new(i.form))?;
            names.push(("irtt", "BE"));
        }
        for kind in kinds {
            let asked = prober::Kind {
                icmp: kind.icmp,
                tos: kind.tos,
                interval: kind.interval,
                bytes: kind.bytes,
            };
            match opened.add(target, session, asked) {
                Ok(()) => names.push((if kind.icmp { "ICMP" } else { "UDP" }, kind.mark)),
                // Not everybody may send echo requests.
                Err(e) if kind.icmp && !names.is_empty() && e.is_permission() => {}
                Err(e) => return Err(e),
            }
        }
        let latest = Arc::new(Latest::default());
        let shown = Arc::clone(&latest);
        let heard = move |kind, rtt| {
            if kind == 0 {
                shown.heard(rtt);
            }
        };
        Ok(Prober {
            probes: opened.start(None, Some(Box::new(heard)))?,
            names,
            zero,
            latest,
        })
    }

    /// Sends no more, waits for what is under way and returns everything.
    pub fn finish(self) -> Result<Outcome, Error> {
        let seen = self.probes.finish()?;
        let kinds = self.names.iter().zip(seen.kinds);
        let probes = kinds.map(|((name, mark), samples)| {
            let probes = samples.probes.iter().map(|s| on_axis(s, self.zero));
            Probes::new(name, mark, probes.collect())
        });
        Ok(Outcome {
            probes: probes.collect(),
            clock_step: seen.clock_step,
        })
    }
}

fn on_axis(s: &Sample, zero: Duration) -> Probe {
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    let ns = |d: Duration| d.as_nanos() as i128;
    Probe {
        t: s.sent.saturating_sub(zero).as_secs_f64(),
        rtt: s.rtt.map(ms),
        up: s.there.map(|at| (ns(at) - ns(s.sent)) as f64 / 1e6),
        own: s.own.map(ms),
    }
}
