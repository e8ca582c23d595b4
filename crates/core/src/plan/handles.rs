//! Fixed numbers and names of what we make, so that our own work is known again.
//!
//! Non-goals: numbers within HTB's tree (`leaf`).

use crate::tc::Protocol;

/// Major number of our root discipline on the WAN device.
pub const EGRESS: u16 = 0xec0;
/// Major number of our root discipline on the IFB.
pub const INGRESS: u16 = 0xec1;
/// Preference of our programs on the WAN device's clsact: high, so that others' filters come
/// first, and before our own, which redirect.
pub const PROGRAM_PREF: u16 = 0xec00;
/// Preferences of our filters there.
pub(super) const CLSACT_PREF: u16 = PROGRAM_PREF + 1;
/// Names of our programs: for what leaves, and for what arrives.
pub const PROGRAMS: [&str; 2] = ["ek_egress", "ek_ingress"];

/// Whether a filter of this preference on a clsact is one of ours.
pub const fn is_our_pref(pref: u16) -> bool {
    pref >= PROGRAM_PREF && pref <= clsact_pref(Protocol::All)
}

/// A preference holds one protocol, so each has its own; the catch-all comes last.
pub(super) const fn clsact_pref(protocol: Protocol) -> u16 {
    CLSACT_PREF
        + match protocol {
            Protocol::Ip => 0,
            Protocol::Ipv6 => 1,
            _ => 2,
        }
}
