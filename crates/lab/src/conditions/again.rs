//! evenkeel told nothing, on a line that it has followed before: `run` with the profile of the same
//! load a while ago.
//!
//! Principles: the profile is made by the daemon itself under the same load on the same line, as long
//! as that still stands at its first steps; then it is stopped and started again, as after an update.
//! Non-goals: profiles that are wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel_autorate::{Ended, Event, Order, Settings};
use evenkeel_core::PerDirection;
use evenkeel_core::control::Bounds;
use evenkeel_core::plan::Mode;
use evenkeel_core::result::{ConditionFacts, LineFacts};
use evenkeel_kernel::StateDir;

use super::drops::dropped;
use crate::shaper::{Dropped, Shaper, ShaperError, Site};

/// The condition.
pub(super) struct Again {
    state: PathBuf,
    device: String,
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<Ended, evenkeel_autorate::Error>>>,
}

impl Again {
    pub(super) fn new(state: &Path) -> Self {
        Again {
            state: state.to_owned(),
            device: String::new(),
            stop: Arc::default(),
            running: None,
        }
    }

    fn profiles(&self) -> PathBuf {
        self.state.join("profiles")
    }
}

impl Shaper for Again {
    fn name(&self) -> &'static str {
        "evenkeel-auto-again"
    }

    fn facts(&self, _: &LineFacts, _: u16) -> ConditionFacts {
        ConditionFacts {
            name: self.name().to_owned(),
            about: "evenkeel run with the profile of an earlier time on this line".to_owned(),
            told: "nothing".to_owned(),
            down: None,
            up: None,
        }
    }

    fn prepare(&mut self) -> Result<bool, ShaperError> {
        match fs::remove_dir_all(self.profiles()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(true),
        }
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        self.device.clone_from(&site.wan);
        self.stop = Arc::default();
        let settings = Settings {
            request: evenkeel_autorate::request(&site.wan, Mode::Ping),
            bounds: PerDirection::<Bounds>::default(),
            targets: Vec::new(),
            budget: None,
            expected: PerDirection::default(),
            cooperate: None,
            use_profile: true,
            profile_dir: self.profiles(),
            state: StateDir::new(&self.state),
        };
        let order = Order {
            stop: Arc::clone(&self.stop),
            ..Order::default()
        };
        let running = std::thread::Builder::new()
            .name("run".into())
            .spawn(move || evenkeel_autorate::run(settings, &order, &mut |_: &Event| {}))?;
        self.running = Some(running);
        Ok(())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        dropped(&StateDir::new(&self.state), &self.device)
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.running.take().map(JoinHandle::join) {
            Some(Ok(done)) => {
                done?;
                Ok(())
            }
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}
