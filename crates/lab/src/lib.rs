//! Emulated lines, experiments, and hosts to run them on.
//!
//! A newcomer's way in: [`Experiment::load`] reads a file, [`run()`] makes every cell of it
//! (condition, load, repeat) on hosts of its own, by a [`Runner`], and returns the result file.
//!
//! Principles: real kernel TCP and real queueing disciplines around a line that is arithmetic;
//! nothing of this machine is touched and nothing is left behind; a spoilt run is void, never
//! published. Non-goals: reports (crate `evenkeel-report`), the command line (the binary here).

pub mod addresses;
pub mod bench;
pub mod capture;
pub mod conditions;
pub mod emulator;
pub mod experiment;
pub mod guest;
pub mod hop;
pub mod metrics;
pub mod net;
pub mod pages;
pub mod peers;
pub mod shared_lan;
pub mod topology;

mod cell;
mod cell_cache;
mod cells;
mod code;
mod engine;
mod error;
mod identity;
mod line;
mod lock;
mod millis;
mod native;
mod progress;
mod run;
mod runner;
mod shaper;
mod state_root;

pub use cell_cache::CellCache;
pub use cells::{Answer, Cell, RunOptions, cells};
pub use code::code_of;
pub use engine::Engine;
pub use error::LabError;
pub use experiment::Experiment;
pub use native::{Native, run_cell};
pub use progress::{Phase, Progress, Stage, Step};
pub use run::run;
pub use runner::Runner;
pub use shaper::{Dropped, Shaper, ShaperError, Site};
pub use state_root::StateRoot;
