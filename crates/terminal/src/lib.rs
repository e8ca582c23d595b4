//! What the command lines of both programs share: printing, signals, waiting, one line for a
//! failure.
//!
//! It is a crate because two binaries (`evenkeel`, `evenkeel-lab`) use it and neither may depend
//! on the other. Principles: nobody minds if nobody reads any more; the first Ctrl-C asks, the
//! second ends; a failure is one line on stderr and an exit code. Non-goals: anything about
//! lines, kernels and experiments.

mod failure;
pub mod live;
#[cfg(any(feature = "manual", test))]
mod manual;
pub mod paint;
mod progress;
pub mod table;
mod usage;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use failure::Failure;
pub use progress::StatusLine;
pub use usage::parse;

/// Prints, and does not mind if nobody reads any more.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::work(format_args!("write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

/// A flag that SIGHUP sets, which asks to read settings again.
pub fn asked_to_reload() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))
        .map_err(Failure::work)?;
    Ok(flag)
}

/// A flag that Ctrl-C sets.
pub fn cancelled_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The first asks to stop; a second one ends the process as it would have.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&cancel))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancel)))
            .map_err(Failure::work)?;
    }
    Ok(cancel)
}
