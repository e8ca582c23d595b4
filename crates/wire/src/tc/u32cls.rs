//! cls_u32 (`TCA_U32_*`, `struct tc_u32_sel`; net/sched/cls_u32.c).
//!
//! Principle: of `struct tc_u32_sel` only values, masks and `offmask` are in network order.
//! Non-goals: performance counters, skip_sw and skip_hw.

use evenkeel_core::tc::{Handle, HashKey, Mark, Offset, U32, U32Handle, U32Key, VarOffset};

use super::action;
use super::names::Names;
use crate::attr::{Writer, find, u16_at, u32_at};
use crate::error::EncodeError;

// TCA_U32_*
const CLASSID: u16 = 1;
const HASH: u16 = 2;
const LINK: u16 = 3;
const DIVISOR: u16 = 4;
const SEL: u16 = 5;
const ACT: u16 = 7;
const MARK: u16 = 10;

// TC_U32_*
const TERMINAL: u8 = 1;
const OFFSET: u8 = 2;
const VAROFFSET: u8 = 4;
const EAT: u8 = 8;

/// Length of `struct tc_u32_sel` before its keys.
const HEAD: usize = 16;
/// Length of `struct tc_u32_key`: mask, val, off, offmask.
const KEY: usize = 16;
/// `offmask` of a key that counts from the next header: all of the found offset is added.
const NEXTHDR: u32 = u32::MAX;
/// `nkeys` is a byte, and the kernel takes no more than 128 (`TC_U32_MAXDEPTH` is another).
const MAX_KEYS: usize = 128;

/// In tc's order.
pub(super) fn encode(w: &mut Writer, u32: &U32, names: &Names<'_>) -> Result<(), EncodeError> {
    if let Some(mark) = u32.mark {
        w.bytes(
            MARK,
            &[mark.val, mark.mask, 0].map(u32::to_ne_bytes).concat(),
        );
    }
    w.u32_if(DIVISOR, u32.divisor);
    w.u32_if(LINK, u32.link.map(|l| l.0));
    w.u32_if(CLASSID, u32.classid.map(|c| c.0));
    action::encode(w, ACT, &u32.actions, names)?;
    w.u32_if(HASH, u32.ht.map(|h| h.0));
    if u32.divisor.is_none() {
        w.bytes(SEL, &selector(u32)?);
    }
    Ok(())
}

/// flags, offshift, nkeys, pad, offmask (be16), off, offoff, hoff, hmask (be32), keys.
fn selector(u32: &U32) -> Result<Vec<u8>, EncodeError> {
    // A rule without a key takes one that always matches, as tc would.
    const ALWAYS: U32Key = U32Key {
        val: 0,
        mask: 0,
        off: 0,
        nexthdr: false,
    };
    let keys = match u32.keys.as_slice() {
        [] => &[ALWAYS][..],
        keys if keys.len() > MAX_KEYS => return Err(EncodeError::TooManyKeys(keys.len())),
        keys => keys,
    };
    let offset = u32.offset.unwrap_or_default();
    let var = offset.var.unwrap_or(VarOffset {
        at: 0,
        mask: 0,
        shift: 0,
    });
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let ends = u32.classid.is_some() || !u32.actions.is_empty();
    let flags = flag(ends, TERMINAL)
        | flag(offset.plus.is_some(), OFFSET)
        | flag(offset.var.is_some(), VAROFFSET)
        | flag(offset.eat, EAT);
    let hash = u32.hashkey.unwrap_or(HashKey { mask: 0, at: 0 });

    let mut sel = vec![flags, var.shift, keys.len() as u8, 0];
    sel.extend(var.mask.to_be_bytes());
    sel.extend(offset.plus.unwrap_or(0).to_ne_bytes());
    sel.extend(var.at.to_ne_bytes());
    sel.extend(hash.at.to_ne_bytes());
    sel.extend(hash.mask.to_be_bytes());
    for key in keys {
        sel.extend(key.mask.to_be_bytes());
        sel.extend((key.val & key.mask).to_be_bytes());
        sel.extend(key.off.to_ne_bytes());
        sel.extend(if key.nexthdr { NEXTHDR } else { 0 }.to_ne_bytes());
    }
    Ok(sel)
}

/// `None` if it has what we cannot say.
pub(super) fn decode(options: &[u8]) -> Option<U32> {
    let number = |kind| find(options, kind).and_then(|v| u32_at(v, 0));
    let mut u32 = U32 {
        divisor: number(DIVISOR),
        ht: number(HASH).map(U32Handle),
        link: number(LINK).map(U32Handle),
        classid: number(CLASSID).map(Handle),
        mark: find(options, MARK).and_then(|v| {
            Some(Mark {
                val: u32_at(v, 0)?,
                mask: u32_at(v, 4)?,
            })
        }),
        ..U32::default()
    };
    if let Some(list) = find(options, ACT) {
        u32.actions = action::decode(list)?;
    }
    if let Some(sel) = find(options, SEL) {
        decode_selector(&mut u32, sel)?;
    }
    Some(u32)
}

fn decode_selector(u32: &mut U32, sel: &[u8]) -> Option<()> {
    let &[flags, shift, nkeys, _] = sel.first_chunk::<4>()?;
    let off = u16_at(sel, 6)?;
    let at = u16_at(sel, 8)? as i16;
    let offset = Offset {
        plus: (flags & OFFSET != 0).then_some(off),
        var: (flags & VAROFFSET != 0).then_some(VarOffset {
            at,
            mask: u16::from_be(u16_at(sel, 4)?),
            shift,
        }),
        eat: flags & EAT != 0,
    };
    u32.offset = Some(offset).filter(|o| *o != Offset::default());
    let mask = u32::from_be(u32_at(sel, 12)?);
    u32.hashkey = (mask != 0).then_some(HashKey {
        mask,
        at: u16_at(sel, 10)? as i16,
    });
    let keys = sel.get(HEAD..HEAD + KEY * usize::from(nkeys))?;
    for key in keys.chunks_exact(KEY) {
        u32.keys.push(U32Key {
            mask: u32::from_be(u32_at(key, 0)?),
            val: u32::from_be(u32_at(key, 4)?),
            off: u32_at(key, 8)? as i32,
            nexthdr: match u32_at(key, 12)? {
                0 => false,
                NEXTHDR => true,
                _ => return None,
            },
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_128_keys() {
        let key = U32Key {
            val: 0,
            mask: 0,
            off: 0,
            nexthdr: false,
        };
        let rule = |keys| U32 {
            keys: vec![key; keys],
            ..U32::default()
        };
        let sent = selector(&rule(128)).unwrap();
        assert_eq!((sent.len(), sent[2]), (HEAD + 128 * KEY, 128));
        assert_eq!(selector(&rule(129)), Err(EncodeError::TooManyKeys(129)));
    }
}
