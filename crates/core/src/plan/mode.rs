//! What matters more, ping or bandwidth, and the rates that follow from it.
//!
//! Principles: shares of the line, in ten-thousandths; measured on emulated lines, with the
//! reasons in docs/decisions.md. Non-goals: the line's own rates.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Line, Tuning};
use crate::Rate;

/// What matters more when both cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ping time: a little headroom keeps the queue where we control it.
    #[default]
    Ping,
    /// Bandwidth: no headroom; temporary rises of the ping are accepted.
    Bandwidth,
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "ping" => Ok(Mode::Ping),
            "bandwidth" => Ok(Mode::Bandwidth),
            _ => Err(format!("{s:?} is neither ping nor bandwidth")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Ping => "ping",
            Mode::Bandwidth => "bandwidth",
        })
    }
}

impl Mode {
    /// The rates that a line of `up` and `down` is shaped to, and what receive windows aim at
    /// where they are bounded on downloads in packets of so many bytes.
    ///
    /// From us the queue is all ours as soon as we send less than the line takes; the rest is
    /// for clocks that differ. Towards us the queue moves to our side only as far as we are
    /// slower than the line, and one that was built there drains at the difference. Where
    /// senders are held by their windows no queue is built, and the shaper is there for the
    /// others: it is a little slower than the line, and the windows aim a little below it. Where
    /// arrivals are policed there is no shaper that windows have to stay below, only room for a
    /// queue to drain, and from us only clocks are left room for.
    pub fn shaped(self, line: &Line, windows: Option<u32>, policed: bool) -> Shaped {
        let (from, towards, aim) = match (self, windows) {
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
        Shaped {
            up: whole_kbit(line.up.per_ten_thousand(from)),
            down: if policed {
                line.down
            } else {
                whole_kbit(line.down.per_ten_thousand(towards))
            },
            windows: windows.map(|_| whole_kbit(line.down.per_ten_thousand(aim))),
            surcharge: match (self, windows) {
                (Mode::Ping, Some(packet)) if !policed => surcharge(line, packet),
                _ => 0,
            },
        }
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

/// What a line is shaped to, at the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaped {
    /// From us.
    pub up: Rate,
    /// Towards us; the line's own rate where arrivals are policed.
    pub down: Rate,
    /// What receive windows aim at, if they are bounded.
    pub windows: Option<Rate>,
    /// What the shaper towards us counts beside the bytes of senders that no window holds,
    /// ten-thousandths.
    pub surcharge: u32,
}

impl Shaped {
    pub(super) fn tuned(self, tuning: Tuning) -> Self {
        let part =
            |rate: Rate, permille: u32| whole_kbit(rate.permille(permille.into())).max(Rate::MIN);
        Shaped {
            up: part(self.up, tuning.up),
            down: part(self.down, tuning.down),
            windows: self.windows.map(|w| part(w, tuning.windows)),
            surcharge: self.surcharge,
        }
    }
}

/// Rates are told and shown in kbit/s.
const fn whole_kbit(rate: Rate) -> Rate {
    Rate::from_kbit(rate.kbit())
}
