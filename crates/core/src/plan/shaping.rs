//! From a line, a policy and, where a process follows the line, its targets to what shapers and
//! receive windows are set to.
//!
//! Principles: everything that the kernel is set to for a line is computed here, and whoever
//! simulates a shaper (`fluid`) takes it from here; shares of the line are in ten-thousandths,
//! measured on emulated lines, with the reasons in docs/decisions. Non-goals: which
//! disciplines do it, the line's own rates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::policy::Policy;
use super::target::Target;
use crate::line::Line;
use crate::segments::{Longest, Mss};
use crate::{PerDirection, Rate};

/// How far above the capacity of a volatile line the shaper towards us is where windows hold its
/// senders, thousandths: what it drops there takes seconds to come back, so that it is there only
/// for what breaks every bound.
const DISTANT: u32 = 4000;
/// CAKE's interval if nothing is said (sch_cake.c, `cake_init`).
pub const INTERVAL: Duration = Duration::from_millis(100);
/// CAKE's interval towards us while windows hold: they make a queue go away by themselves, and what
/// is dropped for it meanwhile slows senders for seconds.
const INTERVAL_BEHIND_WINDOWS: Duration = Duration::from_millis(400);
/// CAKE's interval from us grows by so many times the slack: CoDel would otherwise take what wanders
/// for a queue, and its target is a twentieth of the interval.
const INTERVAL_PER_SLACK: u32 = 10;
/// The same on a volatile line.
const INTERVAL_PER_SLACK_VOLATILE: u32 = 30;
/// The same while pulses are sent: what waits at our shaper makes nobody else wait, and is there to be
/// sent when the line carries more.
const INTERVAL_PER_SLACK_PULSES: u32 = 200;

/// The same while a line of which nothing is known is opened by steps: a signal would end the senders' slow start
/// (tc-cake's `interplanetary`).
const INTERVAL_OPENING: Duration = Duration::from_secs(1000);

/// How long IP packets of new TCP connections may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segments {
    /// From us.
    pub up: Longest,
    /// Towards us.
    pub down: Longest,
}

/// What shaping has to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The line.
    pub line: Line,
    /// The device's MTU, bytes of IP.
    pub mtu: u32,
    /// Our eBPF programs are there.
    pub programs: bool,
    /// Arrivals are policed rather than shaped.
    pub policed: bool,
    /// What it likely carries from us while that is not known.
    pub likely: Option<Rate>,
}

/// What shapers and windows are set to; rates are of the link layer, in whole kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaping {
    /// The shaper from us.
    pub up: Rate,
    /// The shaper towards us; the line's own rate where arrivals are policed.
    pub down: Rate,
    /// What receive windows aim at, if they are bounded.
    pub windows: Option<Rate>,
    /// What the shaper towards us counts beside the bytes of senders that no window holds,
    /// ten-thousandths.
    pub surcharge: u32,
    /// By how much round trips may be longer than the base without a window shrinking.
    pub slack: Duration,
    /// CAKE's intervals; `None`: its own default. Once it has another, it keeps that.
    pub intervals: PerDirection<Option<Duration>>,
    /// The most that the line carried from us of late; `None`: that is not known, or there is no limit to what may wait at the
    /// shaper.
    pub peak: Option<Rate>,
    /// How long packets of new connections may be.
    pub segments: Segments,
}

impl Shaping {
    /// For a line that was told.
    ///
    /// From us the queue is all ours as soon as we send less than the line takes; the rest is
    /// for clocks that differ. Towards us the queue moves to our side only as far as we are
    /// slower than the line, and one that was built there drains at the difference. Where
    /// senders are held by their windows no queue is built, and the shaper is there for the
    /// others: it is a little slower than the line, and the windows aim a little below it. Where
    /// arrivals are policed there is no shaper that windows have to stay below, only room for a
    /// queue to drain, and from us only clocks are left room for.
    pub fn told(policy: &Policy, given: &Given) -> Self {
        let &Given {
            line,
            mtu,
            policed,
            likely,
            ..
        } = given;
        let mss = if given.programs { policy.mss } else { Mss::Off };
        let longest = |rate| mss.longest(rate, line.framing, mtu, policed);
        let segments = Segments {
            // The first upload may be there for long, and keeps what it began with (decision 0111).
            up: longest(likely.unwrap_or(line.up)),
            down: longest(line.down),
        };
        let packet = segments.down.packet(mtu);
        let windows = (policy.windows && given.programs).then_some(packet);
        let share = Shares::of(policy.mode, &line, windows, policed);
        Shaping {
            up: whole_kbit(line.up.per_ten_thousand(share.up)),
            down: if policed {
                line.down
            } else {
                whole_kbit(line.down.per_ten_thousand(share.down))
            },
            windows: windows.map(|_| whole_kbit(line.down.per_ten_thousand(share.windows))),
            surcharge: match (policy.mode, windows) {
                (Mode::Ping, Some(packet)) if !policed => surcharge(&line, packet),
                _ => 0,
            },
            // Where nothing can be kept waiting here, a packet of each flow waits at the provider,
            // or the line is not filled.
            slack: if policed {
                let packet = line.framing.wire_len(packet);
                line.down.time_for(packet.into()).unwrap_or_default()
            } else {
                Duration::ZERO
            },
            intervals: PerDirection::default(),
            peak: None,
            segments,
        }
    }

    /// The same while a process follows the line.
    #[must_use]
    pub fn followed(self, targets: PerDirection<Option<Target>>) -> Self {
        let part =
            |rate: Rate, permille: u32| whole_kbit(rate.permille(permille.into())).max(Rate::MIN);
        let permille = targets.map(|t| t.map_or(1000, |t| t.permille));
        let slack = targets.map(|t| Duration::from_micros(t.map_or(0, |t| t.slack_us).into()));
        let is_distant = targets.down.is_some_and(|t| t.volatile) && self.windows.is_some();
        let per_slack = match targets.up {
            Some(Target { pulses: true, .. }) => INTERVAL_PER_SLACK_PULSES,
            Some(Target { volatile: true, .. }) => INTERVAL_PER_SLACK_VOLATILE,
            _ => INTERVAL_PER_SLACK,
        };
        Shaping {
            up: match targets.up {
                Some(t) if t.opening.is_some() => whole_kbit(t.capacity).max(Rate::MIN),
                _ => part(self.up, permille.up),
            },
            down: part(self.down, if is_distant { DISTANT } else { permille.down }),
            windows: self.windows.map(|w| part(w, permille.down)),
            // The shaper that would hold what knows no windows is too far away.
            surcharge: if is_distant { 0 } else { self.surcharge },
            slack: self.slack.max(slack.down),
            intervals: PerDirection {
                up: Some(if targets.up.is_some_and(|t| t.opening.is_some()) {
                    INTERVAL_OPENING
                } else {
                    INTERVAL + per_slack * slack.up
                }),
                down: self.windows.map(|_| INTERVAL_BEHIND_WINDOWS),
            },
            peak: targets.up.filter(|t| t.opening.is_none()).map(Target::peak),
            segments: self.segments,
        }
    }
}

/// Shares of a line that are used, ten-thousandths.
struct Shares {
    up: u64,
    down: u64,
    windows: u64,
}

impl Shares {
    /// `windows`: they are bounded on downloads in packets of so many bytes.
    fn of(mode: Mode, line: &Line, windows: Option<u32>, policed: bool) -> Self {
        let (up, down, windows) = match (mode, windows) {
            // Where a packet takes long, whole segments leave room enough by themselves.
            (Mode::Ping, Some(packet)) if policed && packet_us(line, packet) > 2000 => {
                (9990, 10_000, 10_000)
            }
            (Mode::Ping, Some(_)) if policed => (9990, 10_000, 9980),
            (Mode::Ping, Some(packet)) => {
                let spare = spare_for_windows(line, packet);
                (9950, 9990 - spare, 9965 - spare)
            }
            (Mode::Ping, None) => (9950, 9600, 0),
            (Mode::Bandwidth, Some(_)) => (10_000, 10_000, 10_000),
            (Mode::Bandwidth, None) => (10_000, 9900, 0),
        };
        Shares { up, down, windows }
    }
}

/// How much slower than the others those are shaped that no window holds, in ten-thousandths: the
/// queue has to be at the shaper, and what a start left at the provider has to drain, which takes
/// the longer the longer a packet takes.
fn surcharge(line: &Line, packet: u32) -> u32 {
    480 + (packet_us(line, packet) / 25).min(300) as u32
}

/// How long the line takes for a packet.
fn packet_us(line: &Line, packet: u32) -> u64 {
    let took = line.down.time_for(line.framing.wire_len(packet).into());
    took.map_or(u64::MAX, |t| t.as_micros() as u64)
}

/// Ten-thousandths that windows and the shaper behind them leave of a line beyond what they leave
/// of a fast one: the longer it takes for a packet the more, up to 1.1 %, because whole segments are
/// granted and one too many then lasts long.
fn spare_for_windows(line: &Line, packet: u32) -> u64 {
    (packet_us(line, packet).saturating_sub(100) / 5).min(110)
}

/// Rates are told and shown in kbit/s.
const fn whole_kbit(rate: Rate) -> Rate {
    Rate::from_kbit(rate.kbit())
}

#[cfg(test)]
mod tests;
