//! Other kernels to run a cell on: User Mode Linux, in real and in virtual time.
//!
//! A newcomer's way in: [`find`] says where an engine's kernel is, [`build`] makes the one for
//! virtual time, [`Guests`] boots a guest for one cell and returns what was measured; inside,
//! the same binary does the work by [`run_inside`].
//!
//! Principles: a guest sees this machine's own root, read-only, so nothing is copied into an
//! image; each cell has a freshly booted kernel, so that its result depends on nothing that ran
//! before; whichever way it ends, no process, mount or directory is left. Non-goals: a network
//! to the outside, guests of other architectures, anything but one cell at a time.

mod boot;
pub(crate) mod error;
mod exchange;
mod inside;
mod kernel;
mod scratch;
mod watch;
mod which;

pub use boot::Guests;
pub use error::GuestError;
pub use inside::run_inside;
pub use kernel::{Built, build, find};
pub(crate) use kernel::{cache_dir, checksum};
