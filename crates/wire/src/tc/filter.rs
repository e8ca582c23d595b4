//! cls_matchall and cls_bpf (`TCA_MATCHALL_*`, `TCA_BPF_*`, include/uapi/linux/pkt_cls.h), and
//! which codec is whose.
//!
//! Non-goals: classic BPF, offload flags.

use evenkeel_core::tc::{Bpf, FilterKind, Handle, Matchall};

use super::names::Names;
use super::{action, u32cls};
use crate::attr::{Writer, find, text, u32_at};
use crate::error::EncodeError;

const MATCHALL_CLASSID: u16 = 1;
const MATCHALL_ACT: u16 = 2;

const BPF_ACT: u16 = 1;
const BPF_CLASSID: u16 = 3;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const BPF_ID: u16 = 11;
/// `TCA_BPF_FLAG_ACT_DIRECT`
const ACT_DIRECT: u32 = 1;

pub(super) fn encode(
    w: &mut Writer,
    kind: &FilterKind,
    names: &Names<'_>,
) -> Result<(), EncodeError> {
    match kind {
        FilterKind::U32(u32) => u32cls::encode(w, u32, names)?,
        FilterKind::Matchall(matchall) => {
            w.u32_if(MATCHALL_CLASSID, matchall.classid.map(|c| c.0));
            action::encode(w, MATCHALL_ACT, &matchall.actions, names)?;
        }
        FilterKind::Bpf(bpf) => {
            w.u32_if(BPF_CLASSID, bpf.classid.map(|c| c.0));
            w.u32(BPF_FD, bpf.fd as u32);
            w.text(BPF_NAME, &bpf.name);
            w.u32_if(BPF_FLAGS, bpf.direct_action.then_some(ACT_DIRECT));
        }
    }
    Ok(())
}

/// `None` if the kind is not ours or it has what we cannot say.
pub(super) fn decode(kind: &str, options: &[u8]) -> Option<FilterKind> {
    let number = |kind| find(options, kind).and_then(|v| u32_at(v, 0));
    Some(match kind {
        "u32" => FilterKind::U32(u32cls::decode(options)?),
        "matchall" => FilterKind::Matchall(Matchall {
            classid: number(MATCHALL_CLASSID).map(Handle),
            actions: match find(options, MATCHALL_ACT) {
                Some(list) => action::decode(list)?,
                None => Vec::new(),
            },
        }),
        "bpf" if find(options, BPF_ACT).is_none() => FilterKind::Bpf(Bpf {
            fd: number(BPF_FD).map_or(-1, |fd| fd as i32),
            id: number(BPF_ID),
            name: find(options, BPF_NAME).map(text).unwrap_or_default(),
            classid: number(BPF_CLASSID).map(Handle),
            direct_action: number(BPF_FLAGS).unwrap_or(0) & ACT_DIRECT != 0,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut w = Writer::default();
        fill(&mut w);
        w.finish()
    }

    /// `tcf_bpf_dump` reports the program's number, and no descriptor.
    #[test]
    fn a_reported_program_has_a_number() {
        let reported = options(|w| {
            w.text(BPF_NAME, "ek_ingress").u32(BPF_ID, 42);
            w.u32(BPF_FLAGS, ACT_DIRECT);
        });
        let bpf = Bpf {
            fd: -1,
            id: Some(42),
            name: "ek_ingress".into(),
            classid: None,
            direct_action: true,
        };
        assert_eq!(decode("bpf", &reported), Some(FilterKind::Bpf(bpf)));
    }

    #[test]
    fn a_program_with_actions_is_not_ours() {
        let foreign = options(|w| {
            w.text(BPF_NAME, "x").nest(BPF_ACT, |_| {});
        });
        assert_eq!(decode("bpf", &foreign), None);
        assert_eq!(decode("flower", &[]), None);
    }
}
