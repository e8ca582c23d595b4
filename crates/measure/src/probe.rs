//! The judged probe: UDP, and ICMP echoes in turn with it.
//!
//! Principles: each stands in the middle between two of the other ([`crate::prober`] has how they
//! are sent and stamped). Non-goals: probes of other kinds.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_sys::{Error, clock};

use crate::prober::{self, Kind, Opened};
pub use crate::prober::{STRAGGLERS, Sample, Samples};

/// A clock that moved this much against the steady one was stepped.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// What to probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeConfig {
    /// Address and port of an [`crate::echo::Echo`]; ICMP echo goes to the same address.
    pub target: SocketAddr,
    /// From one probe to the next of its kind.
    pub interval: Duration,
    /// Send ICMP echoes between the UDP probes.
    pub icmp: bool,
}

/// What the prober saw.
#[derive(Debug, Clone, Default)]
pub struct ProbeOutcome {
    /// The judged probe.
    pub udp: Samples,
    /// ICMP echo; empty if not asked for.
    pub icmp: Samples,
    /// The wall clock was stepped meanwhile: nothing of this counts.
    pub clock_stepped: bool,
    /// Real-time priority was granted.
    pub realtime: bool,
}

/// A running prober.
#[derive(Debug)]
pub struct Prober(prober::Prober);

impl Prober {
    /// Starts to probe, in the calling thread's network namespace.
    pub fn start(config: ProbeConfig) -> Result<Self, Error> {
        Self::start_with(config, None)
    }

    /// The same with somebody who knows when answers arrive.
    pub fn start_with(
        config: ProbeConfig,
        arrivals: Option<Box<dyn Arrivals>>,
    ) -> Result<Self, Error> {
        let session = clock::realtime().as_nanos() as u32;
        let mut opened = Opened::none();
        for icmp in [false, true] {
            if config.icmp || !icmp {
                let kind = Kind {
                    icmp,
                    tos: 0,
                    interval: config.interval,
                    bytes: 0,
                };
                opened.add(config.target, session, kind)?;
            }
        }
        opened.start(arrivals, None).map(Prober)
    }

    /// Sends no more, waits for what is under way and returns everything.
    pub fn finish(self) -> Result<ProbeOutcome, Error> {
        let outcome = self.0.finish()?;
        let mut kinds = outcome.kinds.into_iter();
        Ok(ProbeOutcome {
            udp: kinds.next().unwrap_or_default(),
            icmp: kinds.next().unwrap_or_default(),
            clock_stepped: outcome.clock_step > CLOCK_STEP,
            realtime: outcome.realtime,
        })
    }
}
