//! The control socket: a Unix socket through which a running daemon is asked and told things.
//!
//! A newcomer's way in: [`Request`] is what can be asked, [`Server`] hears it, [`ask`] asks it. Principles: one line
//! of JSON each way; what a peer may do follows from who the kernel says it is, never from what it says; lines, clients
//! and waiting are bounded, so that nobody keeps the daemon from its work. Non-goals: what a request does (who serves),
//! HTTP (a program of its own).

mod client;
mod line;
mod request;
mod right;
mod server;

pub use client::{Refused, ask};
pub use line::{LONGEST_REPLY, LONGEST_REQUEST};
pub use request::{Reply, Request, parse};
pub use right::{Right, Rights};
pub use server::{Answer, CLIENTS, Server};
