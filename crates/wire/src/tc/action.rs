//! Actions on filters (`TCA_ACT_*`, include/uapi/linux/pkt_cls.h and tc_act/*.h).
//!
//! Principle: a list that holds an action we do not know is not decoded in part, because half of
//! a list is another list. Non-goals: sharing an action by its index, action statistics.

use evenkeel_core::tc::{Action, Dev, Handle, HtbLink, LinkLayer, Verdict};

use super::names::Names;
use super::rtm::{TCA_KIND, TCA_OPTIONS};
use super::ticks::{TABLE_MTU, cell_log, link, rate, rate_table, rate64, ratespec, ticks};
use crate::attr::{Writer, attrs, find, text, u32_at, u64_at};
use crate::error::EncodeError;

// Each action's parameters: TCA_GACT_PARMS, TCA_MIRRED_PARMS, TCA_SKBEDIT_PARMS.
const PARMS: u16 = 2;
const SKBEDIT_PRIORITY: u16 = 3;
// TCA_POLICE_*: its parameters are the odd one out.
const POLICE_TBF: u16 = 1;
const POLICE_RATE: u16 = 2;
const POLICE_RESULT: u16 = 5;
const POLICE_RATE64: u16 = 8;

// TC_ACT_* that are no verdict of ours.
const PIPE: i32 = 3;
const STOLEN: i32 = 4;
/// `TCA_EGRESS_REDIR` (tc_mirred.h).
const EGRESS_REDIR: u32 = 1;

/// TC_ACT_*
fn code(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Continue => -1,
        Verdict::Ok => 0,
        Verdict::Reclassify => 1,
        Verdict::Drop => 2,
        Verdict::Pipe => PIPE,
    }
}

fn verdict(code: u32) -> Option<Verdict> {
    Some(match code as i32 {
        -1 => Verdict::Continue,
        0 => Verdict::Ok,
        1 => Verdict::Reclassify,
        2 => Verdict::Drop,
        PIPE => Verdict::Pipe,
        _ => return None,
    })
}

/// `tc_gen`: index, capab, action, refcnt, bindcnt.
fn generic(action: i32) -> Vec<u8> {
    [0, 0, action, 0, 0].map(i32::to_ne_bytes).concat()
}

/// The list under `kind`, numbered from 1 as tc does.
pub(super) fn encode(
    w: &mut Writer,
    kind: u16,
    actions: &[Action],
    names: &Names<'_>,
) -> Result<(), EncodeError> {
    if actions.is_empty() {
        return Ok(());
    }
    let mut list = Writer::default();
    for (i, action) in actions.iter().enumerate() {
        let mut body = Writer::default();
        let name = one(&mut body, action, names)?;
        let body = body.finish();
        list.nest(i as u16 + 1, |w| {
            w.text(TCA_KIND, name);
            w.bytes(TCA_OPTIONS | netlink_packet_core::NLA_F_NESTED, &body);
        });
    }
    w.bytes(kind, &list.finish());
    Ok(())
}

fn one(w: &mut Writer, action: &Action, names: &Names<'_>) -> Result<&'static str, EncodeError> {
    Ok(match action {
        Action::Redirect { dev } => {
            let mut parms = generic(STOLEN);
            parms.extend(EGRESS_REDIR.to_ne_bytes());
            parms.extend(names.index(dev)?.to_ne_bytes());
            w.bytes(PARMS, &parms);
            "mirred"
        }
        Action::Gact(verdict) => {
            w.bytes(PARMS, &generic(code(*verdict)));
            "gact"
        }
        Action::Skbedit { priority } => {
            w.bytes(PARMS, &generic(PIPE));
            w.u32(SKBEDIT_PRIORITY, priority.0);
            "skbedit"
        }
        Action::Police {
            rate,
            burst,
            mtu,
            layer,
            exceed,
            conform,
        } => {
            // struct tc_police: index, action, limit, burst, mtu, rate, peakrate, refcnt,
            // bindcnt, capab.
            let mut parms = Vec::new();
            parms.extend(0u32.to_ne_bytes());
            parms.extend(code(*exceed).to_ne_bytes());
            for field in [0, ticks(*rate, *burst), mtu.unwrap_or(0)] {
                parms.extend(field.to_ne_bytes());
            }
            let cell_log = cell_log(mtu.unwrap_or(TABLE_MTU));
            let link = HtbLink {
                layer: *layer,
                ..HtbLink::default()
            };
            let mut spec = ratespec(*rate, link);
            spec[0] = cell_log;
            parms.extend(spec);
            parms.resize(56, 0);
            w.bytes(POLICE_TBF, &parms);
            w.bytes(POLICE_RATE, &rate_table(*rate, cell_log));
            if let Some(rate) = rate64(*rate) {
                w.u64(POLICE_RATE64, rate);
            }
            if *conform != Verdict::Ok {
                w.u32(POLICE_RESULT, code(*conform) as u32);
            }
            "police"
        }
    })
}

/// `None` if any action is one that we cannot say.
pub(super) fn decode(list: &[u8]) -> Option<Vec<Action>> {
    attrs(list)
        .map(|(_, action)| {
            let options = find(action, TCA_OPTIONS)?;
            let parms = || find(options, PARMS);
            Some(match text(find(action, TCA_KIND)?).as_str() {
                "mirred" if u32_at(parms()?, 20)? == EGRESS_REDIR => Action::Redirect {
                    dev: Dev::Index(u32_at(parms()?, 24)?),
                },
                "gact" => Action::Gact(verdict(u32_at(parms()?, 8)?)?),
                "skbedit" => Action::Skbedit {
                    priority: Handle(u32_at(find(options, SKBEDIT_PRIORITY)?, 0)?),
                },
                "police" => police(options)?,
                _ => return None,
            })
        })
        .collect()
}

fn police(options: &[u8]) -> Option<Action> {
    let parms = find(options, POLICE_TBF)?;
    let wide = find(options, POLICE_RATE64).and_then(|v| u64_at(v, 0));
    let rate = rate(parms, 20, wide)?;
    let conform = find(options, POLICE_RESULT).and_then(|v| u32_at(v, 0));
    Some(Action::Police {
        rate,
        burst: super::ticks::bytes(rate, u32_at(parms, 12)?),
        mtu: Some(u32_at(parms, 16)?).filter(|v| *v != 0),
        // Nothing told and Ethernet are charged alike.
        layer: match link(parms, 20)?.layer {
            LinkLayer::Atm => LinkLayer::Atm,
            LinkLayer::Ethernet | LinkLayer::Unaware => LinkLayer::Ethernet,
        },
        exceed: verdict(u32_at(parms, 4)?)?,
        conform: verdict(conform.unwrap_or(0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mirroring is not redirecting, though both are `mirred`: the list is not ours.
    #[test]
    fn what_is_mirrored_is_not_redirected() {
        let list = |eaction: u32| {
            let mut w = Writer::default();
            w.nest(1, |w| {
                w.text(TCA_KIND, "mirred");
                w.nest(TCA_OPTIONS, |w| {
                    let mut parms = generic(STOLEN);
                    parms.extend(eaction.to_ne_bytes());
                    parms.extend(7u32.to_ne_bytes());
                    w.bytes(PARMS, &parms);
                });
            });
            w.finish()
        };
        let dev = Dev::Index(7);
        assert_eq!(decode(&list(1)), Some(vec![Action::Redirect { dev }]));
        // TCA_EGRESS_MIRROR, TCA_INGRESS_REDIR
        assert_eq!((decode(&list(2)), decode(&list(3))), (None, None));
    }
}
