//! What the user wants of a plan.
//!
//! Non-goals: what follows from it (`shaping`), what a kernel can do of it (`features`).

use super::features::{Capabilities, Choice, Feature};
use super::mode::Mode;
use crate::line::Line;
use crate::police::Policer;
use crate::rules::Limit;
use crate::segments::Mss;

/// What the user wants for arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ingress {
    /// Shaped on an IFB, policed where the kernel cannot have one.
    #[default]
    Auto,
    /// Shaped on an IFB or nothing.
    Ifb,
    /// Policed by our program, for CPUs to which the way over an IFB is too much.
    Police {
        /// fwmark of what comes above 98 % and cannot be marked by ECN; 0: none.
        mark: u32,
    },
}

impl Ingress {
    /// The policer, if arrivals are policed.
    pub(super) fn policer(self, caps: &Capabilities, line: &Line, mtu: u32) -> Option<Policer> {
        let mark = match self {
            Ingress::Police { mark } => mark,
            Ingress::Auto if !caps.has(Feature::Ifb) && caps.has(Feature::Bpf) => 0,
            Ingress::Auto | Ingress::Ifb => return None,
        };
        Some(Policer::new(line, mtu, mark))
    }
}

/// What is wanted of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// What matters more.
    pub mode: Mode,
    /// Which disciplines.
    pub choice: Choice,
    /// What becomes of arrivals.
    pub ingress: Ingress,
    /// Bound receive windows, where the kernel takes eBPF.
    pub windows: bool,
    /// Bound the segments of new TCP connections, where the kernel takes eBPF.
    pub mss: Mss,
    /// Ceilings and guarantees, in the order of their numbers. They are classes of HTB's, of flows that our programs
    /// send there.
    pub limits: Vec<Limit>,
}
