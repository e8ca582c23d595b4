//! A network device, as operations name it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dev {
    /// By name, as a plan does.
    Name(String),
    /// By number, as a dump does. Prints as `if5`, which iproute2 reads.
    Index(u32),
}

impl From<&str> for Dev {
    fn from(name: &str) -> Self {
        Dev::Name(name.to_owned())
    }
}

impl From<String> for Dev {
    fn from(name: String) -> Self {
        Dev::Name(name)
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dev::Name(name) => f.pad(name),
            Dev::Index(index) => f.pad(&format!("if{index}")),
        }
    }
}
