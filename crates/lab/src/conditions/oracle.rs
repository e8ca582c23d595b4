//! evenkeel told what nobody can know: what the line carries at each moment.
//!
//! Principles: the same call as `evenkeel shape`, made again in place whenever the emulated line
//! carries something else, so that what is left is what shaping itself costs; it learns of a change
//! as soon as the line's thread wakes, a probe's interval late at most. Non-goals: knowing what
//! comes; a share of the line that is somebody else's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::plan::{Choice, Ingress, Mode};
use evenkeel_core::result::{ConditionFacts, LineFacts};
use evenkeel_core::segments::Mss;
use evenkeel_core::{PerDirection, Rate};
use evenkeel_kernel::{Request, StateDir, clear, shape};

use super::drops::dropped;
use crate::emulator::Rates;
use crate::shaper::{Dropped, Shaper, ShaperError, Site};

/// From one look at the line to the next: of the order of a probe's interval.
const LOOK: Duration = Duration::from_millis(10);
/// What is told in an outage: `shape` takes nothing lower.
const LEAST: Rate = Rate::from_kbit(64);

/// The condition.
pub(super) struct Oracle {
    state: PathBuf,
    device: String,
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<(), evenkeel_kernel::Error>>>,
}

impl Oracle {
    pub(super) fn new(state: &Path) -> Self {
        Oracle {
            state: state.to_owned(),
            device: String::new(),
            stop: Arc::default(),
            running: None,
        }
    }

    fn dir(&self) -> StateDir {
        StateDir::new(&self.state)
    }

    /// Ends the thread that looks.
    fn end(&mut self) -> Result<(), ShaperError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.running.take().map(JoinHandle::join) {
            Some(Ok(done)) => Ok(done?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

/// What is asked for where the line carries `rates`.
fn request(site: &Site, rates: PerDirection<Rate>) -> Request {
    Request {
        device: site.wan.clone(),
        down: rates.down.max(LEAST),
        up: rates.up.max(LEAST),
        framing: Some(site.line.framing),
        choice: Choice::Auto,
        ingress: Ingress::Auto,
        mode: Mode::Ping,
        windows: true,
        lan: true,
        mss: Mss::Auto,
        replace: false,
        rules: Vec::new(),
    }
}

/// Shapes again whenever `rates` are others.
fn follow(
    dir: &StateDir,
    site: &Site,
    rates: &Rates,
    mut told: PerDirection<Rate>,
    stop: &AtomicBool,
) -> Result<(), evenkeel_kernel::Error> {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = rates.now();
        if now != told {
            shape(dir, &request(site, now))?;
            told = now;
        }
    }
    Ok(())
}

impl Shaper for Oracle {
    fn name(&self) -> &'static str {
        "evenkeel-oracle"
    }

    fn facts(&self, line: &LineFacts, _: u16) -> ConditionFacts {
        ConditionFacts {
            name: self.name().to_owned(),
            about: "evenkeel shape: told again whenever the line carries something else".to_owned(),
            told: format!("the line's rates at each moment, {}", line.framing),
            down: None,
            up: None,
        }
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        self.device.clone_from(&site.wan);
        self.stop = Arc::default();
        let told = site.rates.now();
        shape(&self.dir(), &request(site, told))?;
        if !site.line.varies {
            return Ok(());
        }
        let (dir, site, stop) = (self.dir(), site.clone(), Arc::clone(&self.stop));
        let running = std::thread::Builder::new()
            .name("oracle".into())
            .spawn(move || follow(&dir, &site, &site.rates, told, &stop))?;
        self.running = Some(running);
        Ok(())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        // What it does from here on would be in nobody's way, but locks the record.
        self.end()?;
        dropped(&self.dir(), &self.device)
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        self.end()?;
        clear(&self.dir(), &self.device)?;
        Ok(())
    }
}
