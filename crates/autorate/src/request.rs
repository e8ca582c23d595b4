//! What is asked of the kernel for a line of which nothing is known.
//!
//! Principle: safe for most lines until something is learned. Non-goals: rates, which the
//! controller finds.

use evenkeel_core::Framing;
use evenkeel_core::Line;
use evenkeel_core::plan::{Choice, Ingress, Mode};
use evenkeel_core::segments::Mss;
use evenkeel_kernel::Request;

/// Framing that suits most lines of today: Ethernet, fibre, cable, and VDSL with PPPoE.
pub const USUAL: Framing = Framing::new(evenkeel_core::framing::Mode::Ptm, 34, 0);

/// To shape `device`, of which nothing is known.
pub fn request(device: &str, mode: Mode) -> Request {
    Request {
        device: device.to_owned(),
        down: Line::OPEN,
        up: Line::OPEN,
        framing: Some(USUAL),
        choice: Choice::Auto,
        ingress: Ingress::Auto,
        mode,
        windows: true,
        lan: true,
        mss: Mss::Auto,
        replace: false,
        rules: Vec::new(),
    }
}
