//! Handles: the names of queueing disciplines and classes (`include/uapi/linux/pkt_sched.h`).
//!
//! Principle: printed and read as tc does, in hexadecimal. Non-goal: handles of u32 filters,
//! which have three parts ([`super::U32Handle`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `major:minor`, 16 bits each. Minor 0 is the queueing discipline itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

/// Why a text is not a handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a handle (write 1:10, ffff:, root, ingress or none; digits are hexadecimal)")]
pub struct HandleError(String);

impl Handle {
    /// No handle: the kernel picks (`TC_H_UNSPEC`).
    pub const NONE: Handle = Handle(0);
    /// Parent of a device's egress discipline (`TC_H_ROOT`).
    pub const ROOT: Handle = Handle(0xFFFF_FFFF);
    /// Parent of `ingress` and `clsact` (`TC_H_INGRESS`, `TC_H_CLSACT`).
    pub const INGRESS: Handle = Handle(0xFFFF_FFF1);
    /// Parent of filters on clsact's ingress (`TC_H_CLSACT | TC_H_MIN_INGRESS`).
    pub const CLSACT_INGRESS: Handle = Handle(0xFFFF_FFF2);
    /// Parent of filters on clsact's egress (`TC_H_CLSACT | TC_H_MIN_EGRESS`).
    pub const CLSACT_EGRESS: Handle = Handle(0xFFFF_FFF3);
    /// The handle that `ingress` and `clsact` always have.
    pub const INGRESS_QDISC: Handle = Handle(0xFFFF_0000);

    /// `major:`.
    pub const fn qdisc(major: u16) -> Self {
        Handle((major as u32) << 16)
    }

    /// `major:minor`.
    pub const fn class(major: u16, minor: u16) -> Self {
        Handle((major as u32) << 16 | minor as u32)
    }

    /// The half that names the discipline.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The half that names the class; 0 for the discipline itself.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Handle {
    /// As tc: `root`, `none`, `1:`, `1:10`; clsact's hooks stay numbers (`ffff:fff2`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Handle::ROOT => "root".to_owned(),
            Handle::NONE => "none".to_owned(),
            Handle::INGRESS => "ingress".to_owned(),
            h if h.minor() == 0 => format!("{:x}:", h.major()),
            h if h.major() == 0 => format!(":{:x}", h.minor()),
            h => format!("{:x}:{:x}", h.major(), h.minor()),
        };
        f.pad(&text)
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        let part = |s: &str| match s {
            "" => Some(0),
            s if s.starts_with('+') => None,
            s => u16::from_str_radix(s, 16).ok(),
        };
        match text {
            "root" => return Ok(Handle::ROOT),
            "none" => return Ok(Handle::NONE),
            "ingress" | "clsact" => return Ok(Handle::INGRESS),
            ":" => return Err(HandleError(text.to_owned())),
            _ => {}
        }
        text.split_once(':')
            .and_then(|(major, minor)| Some(Handle::class(part(major)?, part(minor)?)))
            .ok_or_else(|| HandleError(text.to_owned()))
    }
}

impl Serialize for Handle {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Handle {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_tc_prints() {
        for (handle, text) in [
            (Handle::class(1, 0x10), "1:10"),
            (Handle::qdisc(0xffff), "ffff:"),
            (Handle::ROOT, "root"),
            (Handle::INGRESS, "ingress"),
            (Handle::CLSACT_EGRESS, "ffff:fff3"),
            (Handle::NONE, "none"),
            (Handle::class(0, 3), ":3"),
        ] {
            assert_eq!(handle.to_string(), text);
            assert_eq!(text.parse(), Ok(handle));
        }
        for text in ["", "1", ":", "1:2:3", "g:", "10000:", "+1:"] {
            assert!(text.parse::<Handle>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back(h: u32) {
            prop_assert_eq!(Handle(h).to_string().parse(), Ok(Handle(h)));
        }
    }
}
