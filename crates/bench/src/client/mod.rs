//! `evenkeel bench`: what a line does to latency under load.
//!
//! `run` is one run; `far_end` says whom it speaks with, `loading` and `probing` what goes over the
//! line, `checks` and `blame` what the result is worth. Non-goals: figures (`evenkeel_report::bench`),
//! the command line.

mod afterwards;
pub mod blame;
pub mod checks;
pub mod compare;
pub mod device;
mod far_end;
mod household;
pub mod iperf;
pub mod irtt;
pub mod load;
mod loading;
mod options;
pub mod own;
mod pace;
pub mod prober;
mod probing;
mod run;

pub use crate::failed::Failed;
pub use options::{Now, Options, Test};
pub use run::run;
