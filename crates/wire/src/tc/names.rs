//! Devices by name: messages bear only their numbers.
//!
//! Principle: whoever encodes says how a name is looked up; nothing here asks the kernel. Non-goal:
//! names of links that are to be made (`crate::link`).

use evenkeel_core::tc::Dev;

use crate::error::EncodeError;

/// Finds devices by name.
pub(super) struct Names<'a>(pub(super) &'a dyn Fn(&str) -> Option<u32>);

impl Names<'_> {
    pub(super) fn index(&self, dev: &Dev) -> Result<u32, EncodeError> {
        match dev {
            Dev::Index(index) => Ok(*index),
            Dev::Name(name) => (self.0)(name).ok_or_else(|| EncodeError::NoDevice(name.clone())),
        }
    }
}
