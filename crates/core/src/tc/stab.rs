//! Size tables (`TCA_STAB`): the kernel looks up how long a packet counts.
//!
//! Principle: the table carries all of [`Framing`], PTM and overheads below the link header
//! included, which neither HTB's own `overhead` nor tc's `stab` can say. Its values are
//! `Framing::wire_len`'s. Non-goals: super-packets (split them before they are counted: TBF as a
//! leaf sets each segment's length anew, without the table) and tables below the root, which
//! newer kernels refuse.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Framing;
use crate::framing::Mode;

/// `TC_LINKLAYER_*` (pkt_sched.h). For a size table the kernel only keeps it to report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum LinkLayer {
    /// Not told (`TC_LINKLAYER_UNAWARE`); evenkeel's mark for PTM, for which tc has no word.
    #[default]
    Unaware,
    /// As is (`TC_LINKLAYER_ETHERNET`).
    Ethernet,
    /// Cells (`TC_LINKLAYER_ATM`).
    Atm,
}

/// A size table: `struct tc_sizespec` and its data. The fields mean what they mean to
/// `__qdisc_calculate_pkt_len` (net/sched/sch_api.c), see [`Stab::lookup`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Stab {
    /// A slot spans `1 << cell_log` bytes.
    pub cell_log: u8,
    /// Entries are in units of `1 << size_log` bytes.
    pub size_log: u8,
    /// Added to length plus overhead to find the slot, not to the result.
    pub cell_align: i16,
    /// Bytes added to the skb's length first.
    pub overhead: i32,
    /// Told to the kernel for its reports only.
    pub linklayer: LinkLayer,
    /// Told to the kernel for its reports only (the table holds the minimum).
    pub mpu: u32,
    /// Told to the kernel for its reports only.
    pub mtu: u32,
    /// One entry per slot; `tsize` is its length.
    pub data: Vec<u16>,
}

impl Stab {
    /// Slots of [`Stab::from_framing`]: one per byte up to 2047.
    pub const SLOTS: usize = 2048;

    /// The table in which entry `i` is the bytes on the line of an skb of `i` bytes that starts
    /// with `link_header_len` bytes of link header (Ethernet 14, TUN and ppp 0).
    ///
    /// `overhead` tells the kernel's reports the truth, and `cell_align` takes it out of the
    /// slot again: slot = len + overhead - overhead.
    pub fn from_framing(framing: Framing, link_header_len: u16) -> Self {
        let header = u32::from(link_header_len);
        // Framing keeps overhead in -64..=256 and a link header is short: no value is cut.
        let relative = i32::from(framing.overhead) - i32::from(link_header_len);
        let relative = relative.clamp(-i32::from(i16::MAX), i32::from(i16::MAX));
        Stab {
            cell_log: 0,
            size_log: 0,
            cell_align: -(relative as i16),
            overhead: relative,
            linklayer: match framing.mode {
                Mode::None => LinkLayer::Ethernet,
                Mode::Atm => LinkLayer::Atm,
                Mode::Ptm => LinkLayer::Unaware,
            },
            mpu: u32::from(framing.mpu),
            mtu: Self::SLOTS as u32 - 1,
            data: (0..Self::SLOTS as u32)
                .map(|i| u16::try_from(framing.wire_len(i.saturating_sub(header))))
                .map(|v| v.unwrap_or(u16::MAX))
                .collect(),
        }
    }

    /// What the kernel counts for an skb of `len` bytes: `__qdisc_calculate_pkt_len`, step by
    /// step. Beyond the table it extrapolates from the last entry.
    pub fn lookup(&self, len: u32) -> u32 {
        let mut pkt_len = i64::from(len) + i64::from(self.overhead);
        let tsize = self.data.len() as i64;
        if tsize > 0 {
            let slot = (pkt_len + i64::from(self.cell_align)).max(0) >> self.cell_log.min(30);
            let at = |i: i64| {
                let entry = usize::try_from(i).ok().and_then(|i| self.data.get(i));
                i64::from(entry.copied().unwrap_or(0))
            };
            pkt_len = if slot < tsize {
                at(slot)
            } else {
                at(tsize - 1) * (slot / tsize) + at(slot % tsize)
            };
            pkt_len <<= self.size_log.min(30);
        }
        u32::try_from(pkt_len.max(1)).unwrap_or(u32::MAX)
    }

    /// What a reader of the printed command must know: tc(8) cannot write this table.
    pub fn note(&self) -> Option<&'static str> {
        (self.linklayer == LinkLayer::Unaware)
            .then_some("the size table also counts PTM's 64b/65b, which tc's stab cannot say")
    }
}

impl fmt::Display for Stab {
    /// tc's words. For none and ATM framing tc's own table gives the same length to every
    /// packet up to the table's end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stab mtu {} tsize {}", self.mtu, self.data.len())?;
        if self.mpu != 0 {
            write!(f, " mpu {}", self.mpu)?;
        }
        write!(f, " overhead {}", self.overhead)?;
        match self.linklayer {
            LinkLayer::Atm => f.write_str(" linklayer atm"),
            LinkLayer::Ethernet | LinkLayer::Unaware => f.write_str(" linklayer ethernet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::PRESETS;
    use proptest::prelude::*;

    #[test]
    fn every_preset_counts_what_the_line_carries() {
        for (name, framing) in PRESETS {
            for header in [0, 14, 18] {
                let stab = Stab::from_framing(framing, header);
                assert_eq!(stab.data.len(), 2048);
                for ip in 20..(2048 - u32::from(header)) {
                    let skb = ip + u32::from(header);
                    assert_eq!(stab.lookup(skb), framing.wire_len(ip), "{name} {ip}");
                    assert_eq!(u32::from(stab.data[skb as usize]), framing.wire_len(ip));
                }
            }
        }
    }

    /// Beyond the table: the last entry once per table length, and the rest.
    #[test]
    fn extrapolates_as_the_kernel_does() {
        let stab = Stab::from_framing(Framing::new(Mode::Atm, 40, 0), 14);
        let whole = u32::from(stab.data[2047]);
        let rest = u32::from(stab.data[9000 % 2048]);
        assert_eq!(stab.lookup(9000), 4 * whole + rest);
        // Coarse tables: slots of 16 bytes, units of 4.
        let coarse = Stab {
            cell_log: 4,
            size_log: 2,
            cell_align: -1,
            data: vec![10, 20, 30],
            ..Stab::default()
        };
        assert_eq!([1, 16, 17, 33].map(|l| coarse.lookup(l)), [40, 40, 80, 120]);
        assert_eq!(coarse.lookup(49), (30 + 10) * 4);
        assert_eq!(
            Stab {
                overhead: 4,
                ..Stab::default()
            }
            .lookup(100),
            104
        );
        assert_eq!(
            Stab {
                overhead: -40,
                ..Stab::default()
            }
            .lookup(20),
            1
        );
    }

    /// pppoa-vcmux on Ethernet: 10 - 14 = -4, which HTB's unsigned overhead cannot say.
    #[test]
    fn prints_as_tc() {
        let adsl = Stab::from_framing(Framing::new(Mode::Atm, 10, 0), 14);
        assert_eq!(
            adsl.to_string(),
            "stab mtu 2047 tsize 2048 overhead -4 linklayer atm"
        );
        assert_eq!(adsl.note(), None);
        let vdsl = Stab::from_framing(Framing::new(Mode::Ptm, 30, 64), 0);
        assert_eq!(
            vdsl.to_string(),
            "stab mtu 2047 tsize 2048 mpu 64 overhead 30 linklayer ethernet"
        );
        assert!(vdsl.note().is_some());
    }

    proptest! {
        #[test]
        fn lookup_never_panics(
            cell_log: u8, size_log: u8, cell_align: i16, overhead: i32, len: u32,
            data in proptest::collection::vec(any::<u16>(), 0..20),
        ) {
            Stab { cell_log, size_log, cell_align, overhead, data, ..Stab::default() }.lookup(len);
        }
    }
}
