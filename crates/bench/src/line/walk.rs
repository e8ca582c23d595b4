//! `line --walk`: the overhead in steps of 4 bytes and the rate in steps of 1 %, under load.
//!
//! What the author of seed 002's series did by hand on one line: shape, load, look at the latency, and take the
//! next setting. Principles: the device is shaped by `evenkeel shape`'s own code and cleared at the end, also after
//! Ctrl-C; each step has the same load; the knee is where latency leaves what the cautious end of the walk has.
//! Non-goals: a faster way to the same ([`super::run`]).

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::framing::Framing;
use evenkeel_core::linklayer::knee::knee;
use evenkeel_core::plan::{Choice, Ingress, Mode};
use evenkeel_core::segments::Mss;
use evenkeel_core::units::rounded;
use evenkeel_core::{PerDirection, Rate};
use evenkeel_kernel::{Request, StateDir};
use evenkeel_report::bench::figures::{figures, round_trips, within};
use serde::Serialize;

use super::sweep::Show;
use crate::client::{self, Options, Test};
use crate::failed::Failed;

/// Bytes.
const OVERHEADS: std::ops::RangeInclusive<i16> = 0..=48;
const OVERHEAD_STEP: usize = 4;
/// Percent of the line's rate.
const RATES: std::ops::RangeInclusive<u64> = 90..=105;
/// Lengths of a step's phases.
const IDLE: Duration = Duration::from_millis(700);
const LOAD_S: u16 = 9;
/// Connections begin with more than the line carries: that is not the setting's.
const SETTLES: f64 = 4.0;
const TAIL: Duration = Duration::from_millis(500);
/// Between two probes.
const INTERVAL: Duration = Duration::from_millis(10);
/// Widest bar of the drawing.
const WIDTH: usize = 50;

/// What is walked over, and where.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    /// The device.
    pub device: &'a str,
    /// `evenkeel serve`.
    pub server: &'a str,
    /// What it was started with.
    pub token: &'a str,
    /// The line's rates.
    pub rates: PerDirection<Rate>,
    /// Its framing.
    pub framing: Framing,
    /// Where records of shaped devices are.
    pub state_dir: &'a Path,
    /// Overheads, the largest first, bytes.
    pub overheads: Vec<i16>,
    /// Shares of the rates, the smallest first, percent.
    pub percents: Vec<u64>,
}

/// What is usual: 48 to 0 bytes, and 90 to 105 %.
pub fn usual() -> (Vec<i16>, Vec<u64>) {
    (
        OVERHEADS.rev().step_by(OVERHEAD_STEP).collect(),
        RATES.collect(),
    )
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Taken {
    /// Overhead in bytes, or percent of the rate.
    pub setting: f64,
    /// Round trip under load less that of the idle line, ms: nine of ten are below.
    pub p90_ms: f64,
    /// Goodput, Mbit/s.
    pub down_mbit: f64,
    /// The other way.
    pub up_mbit: f64,
}

/// A walk over one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path1 {
    /// `overhead` or `rate`.
    pub over: &'static str,
    /// In the order in which they were taken, the cautious end first.
    pub steps: Vec<Taken>,
    /// The last good setting.
    pub knee: Option<f64>,
}

/// Walks over both.
pub fn walk(w: &Walk<'_>, cancel: &AtomicBool, show: Show<'_>) -> Result<Vec<Path1>, Failed> {
    let shaped = Shaped {
        dir: StateDir::new(w.state_dir),
        device: w.device,
    };
    let mut steps = Vec::new();
    for overhead in w.overheads.iter().copied() {
        let framing = Framing {
            overhead,
            ..w.framing
        };
        // The rate at which the author stood when he varied it: all of it, or the step would not show.
        let step = take(w, &shaped, framing, 99, f64::from(overhead), cancel, show)?;
        steps.push(step);
    }
    let mut paths = vec![path("overhead", steps)];
    let mut steps = Vec::new();
    for percent in w.percents.iter().copied() {
        steps.push(take(
            w,
            &shaped,
            w.framing,
            percent,
            percent as f64,
            cancel,
            show,
        )?);
    }
    paths.push(path("rate", steps));
    Ok(paths)
}

fn path(over: &'static str, steps: Vec<Taken>) -> Path1 {
    let seen: Vec<(f64, f64)> = steps.iter().map(|s| (s.setting, s.p90_ms)).collect();
    Path1 {
        over,
        knee: knee(&seen),
        steps,
    }
}

/// Shapes so, loads, and looks.
fn take(
    w: &Walk<'_>,
    shaped: &Shaped<'_>,
    framing: Framing,
    percent: u64,
    setting: f64,
    cancel: &AtomicBool,
    show: Show<'_>,
) -> Result<Taken, Failed> {
    show(&format!("framing {framing}, {percent} % of the rate"));
    shaped.set(w.rates.map(|r| r.permille(10 * percent)), framing)?;
    let options = Options {
        to: w.server.to_owned(),
        pings: None,
        irtt_key: None,
        test: Test::RrulBe,
        streams: None,
        seconds: LOAD_S,
        idle: IDLE,
        tail: TAIL,
        interval: Some(INTERVAL),
        token: w.token.to_owned(),
        ca: None,
        label: String::new(),
        command: String::new(),
    };
    let run = client::run(&options, cancel, &mut |_| {})?;
    if cancel.load(Ordering::Relaxed) {
        return Err(Failed::Work(format!(
            "interrupted; {} is as it was",
            w.device
        )));
    }
    let f = figures(&run);
    let settled = within(run.judged(), run.phases.load + SETTLES, run.phases.tail);
    let mut loaded = round_trips(&settled);
    loaded.sort_by(f64::total_cmp);
    let p90 = loaded.get(loaded.len() * 9 / 10).copied();
    let (idle, p90) = (f.idle_ms.zip(p90))
        .ok_or_else(|| Failed::Work(format!("{}: no probe was answered", w.server)))?;
    Ok(Taken {
        setting,
        p90_ms: (p90 - idle.median).max(0.0),
        down_mbit: f.down_mbit.unwrap_or(0.0),
        up_mbit: f.up_mbit.unwrap_or(0.0),
    })
}

/// A device that is shaped meanwhile, and cleared when this is dropped.
struct Shaped<'a> {
    dir: StateDir,
    device: &'a str,
}

impl Shaped<'_> {
    fn set(&self, rates: PerDirection<Rate>, framing: Framing) -> Result<(), Failed> {
        let request = Request {
            device: self.device.to_owned(),
            down: rates.down,
            up: rates.up,
            framing: Some(framing),
            choice: Choice::Auto,
            ingress: Ingress::Auto,
            // What is walked over is the shaper: no headroom beside, no windows that would hide it.
            mode: Mode::Bandwidth,
            windows: false,
            lan: false,
            mss: Mss::Off,
            replace: false,
            rules: Vec::new(),
        };
        let shaped = evenkeel_kernel::shape(&self.dir, &request);
        shaped.map(|_| ()).map_err(|e| Failed::Work(e.to_string()))
    }
}

impl Drop for Shaped<'_> {
    fn drop(&mut self) {
        // One that was never shaped has no record, which is an error here.
        let _ = evenkeel_kernel::clear(&self.dir, self.device);
    }
}

/// For people: each step and a bar of its latency.
pub fn text(paths: &[Path1]) -> String {
    let mut text = String::new();
    for path in paths {
        let unit = if path.over == "rate" { "%" } else { "B" };
        let most = path.steps.iter().map(|s| s.p90_ms).fold(1e-9, f64::max);
        let _ = writeln!(
            text,
            "{}: 90 % of the round trips under load grew by less than",
            path.over
        );
        for s in &path.steps {
            let width = (s.p90_ms / most * WIDTH as f64).round() as usize;
            let knee = if path.knee == Some(s.setting) {
                "  <- knee"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "  {:>4} {unit} {:>9}  {:>6.2} down {:>6.2} up  {}{knee}",
                s.setting,
                rounded::milliseconds(s.p90_ms),
                s.down_mbit,
                s.up_mbit,
                "#".repeat(width),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_drawn_with_their_knee() {
        let step = |setting, p90_ms| Taken {
            setting,
            p90_ms,
            down_mbit: 10.0,
            up_mbit: 1.0,
        };
        let p = path(
            "overhead",
            vec![
                step(48.0, 2.0),
                step(44.0, 2.0),
                step(40.0, 2.0),
                step(36.0, 20.0),
            ],
        );
        assert_eq!(p.knee, Some(40.0));
        let text = text(&[p]);
        assert!(text.contains("40 B") && text.contains("<- knee"), "{text}");
        assert!(text.contains(&"#".repeat(WIDTH)) && !text.contains(&"#".repeat(WIDTH + 1)));
    }
}
