//! What kernels can do, and the ways to shape that follow from it.
//!
//! Principles: a way is had if everything that it cannot do without is there; the best comes
//! first. Non-goals: finding out what a kernel can do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Something a kernel has or lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// sch_cake.
    Cake,
    /// sch_htb.
    Htb,
    /// sch_fq_codel.
    FqCodel,
    /// sch_tbf.
    Tbf,
    /// sch_ingress's clsact.
    Clsact,
    /// cls_u32.
    U32,
    /// cls_u32's match on marks.
    U32Mark,
    /// cls_matchall.
    Matchall,
    /// act_mirred.
    Mirred,
    /// act_skbedit.
    Skbedit,
    /// The ifb driver.
    Ifb,
    /// Our own eBPF programs, and cls_bpf to attach them.
    Bpf,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 12] = [
        Feature::Cake,
        Feature::Htb,
        Feature::FqCodel,
        Feature::Tbf,
        Feature::Clsact,
        Feature::U32,
        Feature::U32Mark,
        Feature::Matchall,
        Feature::Mirred,
        Feature::Skbedit,
        Feature::Ifb,
        Feature::Bpf,
    ];

    /// The kernel's configuration option that brings it.
    pub const fn config(self) -> &'static str {
        match self {
            Feature::Cake => "CONFIG_NET_SCH_CAKE",
            Feature::Htb => "CONFIG_NET_SCH_HTB",
            Feature::FqCodel => "CONFIG_NET_SCH_FQ_CODEL",
            Feature::Tbf => "CONFIG_NET_SCH_TBF",
            Feature::Clsact => "CONFIG_NET_SCH_INGRESS",
            Feature::U32 => "CONFIG_NET_CLS_U32",
            Feature::U32Mark => "CONFIG_CLS_U32_MARK",
            Feature::Matchall => "CONFIG_NET_CLS_MATCHALL",
            Feature::Mirred => "CONFIG_NET_ACT_MIRRED",
            Feature::Skbedit => "CONFIG_NET_ACT_SKBEDIT",
            Feature::Ifb => "CONFIG_IFB",
            Feature::Bpf => "CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Feature::Cake => "CAKE",
            Feature::Htb => "HTB",
            Feature::FqCodel => "fq_codel",
            Feature::Tbf => "TBF",
            Feature::Clsact => "clsact",
            Feature::U32 => "the u32 classifier",
            Feature::U32Mark => "u32's match on marks",
            Feature::Matchall => "the matchall classifier",
            Feature::Mirred => "the mirred action",
            Feature::Skbedit => "the skbedit action",
            Feature::Ifb => "IFB devices",
            Feature::Bpf => "eBPF",
        })
    }
}

/// What this kernel can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities(pub BTreeSet<Feature>);

impl Capabilities {
    /// Whether it has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }
}

/// A way to shape, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// CAKE on the WAN device and, with `ingress`, on an IFB.
    Cake,
    /// HTB's tiers with fq_codel leaves.
    HtbFqCodel,
    /// HTB's tiers with short FIFOs, one for each heavy flow, or flows spread over them by a hash
    /// where there is no eBPF.
    HtbBuckets,
}

impl Backend {
    /// All of them, best first.
    pub const ALL: [Backend; 3] = [Backend::Cake, Backend::HtbFqCodel, Backend::HtbBuckets];

    /// What it cannot do without, beside what every backend needs for downloads.
    pub(super) fn needs(self) -> &'static [Feature] {
        match self {
            Backend::Cake => &[Feature::Cake],
            Backend::HtbFqCodel => &[Feature::Htb, Feature::FqCodel, Feature::Tbf, Feature::U32],
            Backend::HtbBuckets => &[Feature::Htb, Feature::Tbf, Feature::U32],
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Cake => "CAKE",
            Backend::HtbFqCodel => "HTB with fq_codel",
            Backend::HtbBuckets => "HTB with hash buckets",
        })
    }
}

/// What the user wants for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that the kernel has.
    #[default]
    Auto,
    /// CAKE or nothing.
    Cake,
    /// HTB, with fq_codel if the kernel has it.
    Htb,
    /// HTB with FIFOs of our own, as on kernels that have nothing else.
    Bare,
}

impl FromStr for Choice {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Choice::Auto),
            "cake" => Ok(Choice::Cake),
            "htb" => Ok(Choice::Htb),
            "bare" => Ok(Choice::Bare),
            _ => Err(format!("{s:?} is none of auto, cake, htb, bare")),
        }
    }
}
