//! One direction of a plan, as the backends see it.
//!
//! Non-goals: what hangs there (`cake`, `htb`, `filters`).

use std::time::Duration;

use super::features::Capabilities;
use crate::rules::Limit;
use crate::tc::Dev;
use crate::{Framing, Rate};

/// One direction: where its tree hangs and what it is to carry.
pub(super) struct Side<'a> {
    pub dev: Dev,
    pub major: u16,
    pub rate: Rate,
    pub framing: Framing,
    pub link_header: u16,
    pub mtu: u32,
    pub ingress: bool,
    pub very_asymmetric: bool,
    pub interval: Option<Duration>,
    pub peak: Option<Rate>,
    pub programs: bool,
    pub limits: &'a [Limit],
    pub caps: &'a Capabilities,
}
