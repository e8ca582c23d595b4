//! Where the queue of a flow stands: behind the gateway, on the line, or beyond it.
//!
//! Principles: round trips on both sides of the device, as the programs saw them, tell it; scatter is no
//! queue, so that little is not named; what is held short is named all the same. Non-goals: holding it
//! (`lan.h` of the programs).

use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_datapath::Maps;
use evenkeel_datapath::values::Flow;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Round trips that are longer by less than this may have met aggregation, or a busy host.
const NAMED: Duration = Duration::from_millis(10);

/// Where a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Behind the gateway, towards the host: its window holds it short.
    Lan,
    /// Behind the gateway, from the host: it waits in the host, where nothing of ours is.
    LanUpload,
    /// On the line, or in our own shaper in front of it.
    Line,
    /// Beyond the line: it does not reach its share, and waits all the same.
    Beyond,
}

impl Place {
    /// In a word or three.
    pub const fn words(self) -> &'static str {
        match self {
            Place::Lan => "LAN",
            Place::LanUpload => "LAN, its upload",
            Place::Line => "line",
            Place::Beyond => "beyond",
        }
    }
}

/// A queue that a flow waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Where.
    pub place: Place,
    /// How much longer its round trips are for it.
    pub delay: Duration,
}

/// The queue that a flow waits in, if one stands.
pub fn queue(flow: &Flow) -> Option<Queue> {
    let of = |place, delay| Some(Queue { place, delay });
    let (up, down) = (&flow.direction.up, &flow.direction.down);
    let longer = |latest: Option<Duration>, least: Option<Duration>| {
        latest
            .zip(least)
            .map_or(Duration::ZERO, |(a, b)| a.saturating_sub(b))
    };
    let near = longer(down.rtt, down.rtt_min);
    if down.heavy && flow.lan.window.is_some() {
        return of(Place::Lan, flow.lan.queue);
    }
    if down.heavy && flow.lan.queue >= NAMED {
        return of(Place::Lan, flow.lan.queue);
    }
    if up.heavy && !down.heavy && near >= NAMED {
        return of(Place::LanUpload, near);
    }
    let far = longer(up.rtt, up.rtt_min);
    if !(up.heavy || down.heavy) || far < NAMED {
        return None;
    }
    let reaches = flow.grant.reached.bps() >= flow.grant.share.bps() / 8 * 7;
    if up.heavy || reaches {
        return of(Place::Line, far);
    }
    of(Place::Beyond, far)
}

/// Queues behind the gateway that are held short now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LanQueues {
    /// Flows whose way on the LAN holds them.
    pub flows: usize,
    /// What these ways carry together, payload.
    pub rate: Rate,
    /// The longest of their queues, ms.
    pub queue_ms: f64,
    /// Uploads that wait in their hosts, which nobody here can shorten.
    pub uploads: usize,
}

/// Those of a device's flows that have moved of late; `None`: there is none.
pub(crate) fn queues(maps: &Maps) -> Result<Option<LanQueues>, Error> {
    let flows = maps.flows()?;
    Ok(of_flows(flows.iter().map(|f| &f.1)))
}

/// Older than this, what a flow waited in is history.
const LIVE: Duration = Duration::from_secs(2);

fn of_flows<'a>(flows: impl Iterator<Item = &'a Flow> + Clone) -> Option<LanQueues> {
    let last = |f: &Flow| f.direction.iter().map(|d| d.last).max().unwrap_or_default();
    // The latest packet of all is as good as a clock, and is the programs' own.
    let clock = flows.clone().map(last).max().unwrap_or_default();
    let live = flows.filter(|f| !f.closed && clock.saturating_sub(last(f)) <= LIVE);
    let mut found = LanQueues {
        flows: 0,
        rate: Rate::default(),
        queue_ms: 0.0,
        uploads: 0,
    };
    for flow in live {
        match queue(flow) {
            Some(Queue {
                place: Place::Lan,
                delay,
            }) => {
                found.flows += 1;
                found.rate = Rate::from_bps(found.rate.bps() + flow.lan.rate.bps());
                found.queue_ms = found.queue_ms.max(delay.as_secs_f64() * 1000.0);
            }
            Some(Queue {
                place: Place::LanUpload,
                ..
            }) => found.uploads += 1,
            _ => {}
        }
    }
    (found.flows + found.uploads > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::classify::Tier;
    use evenkeel_core::units::PerDirection;
    use evenkeel_datapath::values::{DirectionState, Grant, Lan, Reason};

    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A download whose round trips took so long of late beyond us and on our side, at least 20 and 2 ms.
    fn download(far: u64, near: u64) -> Flow {
        let side = |rtt, least, heavy| DirectionState {
            rtt: Some(ms(rtt)),
            rtt_min: Some(ms(least)),
            heavy,
            last: ms(5000),
            ..DirectionState::default()
        };
        Flow {
            direction: PerDirection {
                up: side(far, 20, false),
                down: side(near, 2, true),
            },
            grant: Grant {
                share: Rate::from_kbit(50_000),
                reached: Rate::from_kbit(20_000),
                ..Grant::default()
            },
            lan: Lan::default(),
            first: Duration::ZERO,
            cgroup: 0,
            mark: 0,
            reason: Reason::Default,
            tier: Tier::BestEffort,
            limit: None,
            dscp: 0,
            closed: false,
            from_start: true,
            mptcp: false,
        }
    }

    fn held(near: u64) -> Flow {
        let lan = Lan {
            base: Some(ms(2)),
            queue: ms(near - 2),
            rate: Rate::from_kbit(24_000),
            window: Some(80_000),
        };
        Flow {
            lan,
            ..download(21, near)
        }
    }

    #[test]
    fn each_place_is_named() {
        let name = |f: &Flow| queue(f).map(|q| (q.place, q.delay.as_millis()));
        assert_eq!(name(&download(21, 3)), None);
        assert_eq!(
            name(&held(6)),
            Some((Place::Lan, 4)),
            "held short, and said"
        );
        assert_eq!(name(&download(60, 3)), Some((Place::Beyond, 40)));
        let mut line = download(60, 3);
        line.grant.reached = Rate::from_kbit(48_000);
        assert_eq!(name(&line), Some((Place::Line, 40)));
        let mut upload = download(21, 90);
        (upload.direction.up.heavy, upload.direction.down.heavy) = (true, false);
        assert_eq!(name(&upload), Some((Place::LanUpload, 88)));
        let mut light = download(60, 90);
        light.direction.down.heavy = false;
        assert_eq!(name(&light), None, "who moves little fills no queue");
    }

    #[test]
    fn what_is_held_is_summed_up() {
        let mut old = held(30);
        for d in [&mut old.direction.up, &mut old.direction.down] {
            d.last = ms(1000);
        }
        let flows = [held(6), held(9), old, download(21, 3)];
        let found = of_flows(flows.iter()).unwrap();
        assert_eq!(
            (found.flows, found.rate.kbit(), found.uploads),
            (2, 48_000, 0)
        );
        assert!((found.queue_ms - 7.0).abs() < 1e-9, "{found:?}");
        assert_eq!(of_flows([download(21, 3)].iter()), None);
    }
}
