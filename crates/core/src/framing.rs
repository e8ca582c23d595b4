//! Framing: how many bytes a packet really takes on the line.
//!
//! Principles: everything is relative to the IP packet, as in DESIGN's vocabulary; the
//! arithmetic is `sch_cake`'s (`cake_calc_overhead`), so that what we tell CAKE and what we
//! compute for HTB's size table are the same number. Non-goals: super-packets (they are split
//! before they are counted) and frame check sequences nobody sends.
//!
//! Spelling: `MODE[:OVERHEAD[:mpuN]]` with mode `none`, `atm` or `ptm`, or a keyword of tc-cake(8).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the line cuts or stretches a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Frames go out as they are (Ethernet, DOCSIS, fibre).
    #[default]
    None,
    /// AAL5 over ATM: 48 bytes of payload in each cell of 53, the last one padded (ADSL).
    Atm,
    /// 64b/65b of PTM: one byte more for each started 64 (VDSL2).
    Ptm,
}

/// Framing of a line, relative to the IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Framing {
    /// Cells or stretching.
    pub mode: Mode,
    /// Bytes added to each IP packet before `mode` applies; -64..=256 as in sch_cake.
    pub overhead: i16,
    /// Least size of a frame after `overhead`, before `mode`; 0..=256.
    pub mpu: u16,
}

/// Why a text is not a framing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a framing: {why} (write a mode with overhead like ptm:30, atm:40, none:18:mpu64, or a keyword like {KEYWORDS})"
)]
pub struct FramingError {
    text: String,
    why: String,
}

/// Some keywords, for error texts.
const KEYWORDS: &str = "docsis, ethernet, bridged-ptm, pppoe-llcsnap";

/// tc-cake(8)'s keywords. Relative to the IP packet, which is what CAKE does once it is given
/// any of them.
pub const PRESETS: [(&str, Framing); 13] = [
    ("conservative", Framing::new(Mode::Atm, 48, 0)),
    ("ipoa-vcmux", Framing::new(Mode::Atm, 8, 0)),
    ("ipoa-llcsnap", Framing::new(Mode::Atm, 16, 0)),
    ("bridged-vcmux", Framing::new(Mode::Atm, 24, 0)),
    ("bridged-llcsnap", Framing::new(Mode::Atm, 32, 0)),
    ("pppoa-vcmux", Framing::new(Mode::Atm, 10, 0)),
    ("pppoa-llc", Framing::new(Mode::Atm, 14, 0)),
    ("pppoe-vcmux", Framing::new(Mode::Atm, 32, 0)),
    ("pppoe-llcsnap", Framing::new(Mode::Atm, 40, 0)),
    ("pppoe-ptm", Framing::new(Mode::Ptm, 30, 0)),
    ("bridged-ptm", Framing::new(Mode::Ptm, 22, 0)),
    ("docsis", Framing::new(Mode::None, 18, 64)),
    ("ethernet", Framing::new(Mode::None, 38, 84)),
];

impl Framing {
    /// A framing as given; nothing is checked.
    pub const fn new(mode: Mode, overhead: i16, mpu: u16) -> Self {
        Framing {
            mode,
            overhead,
            mpu,
        }
    }

    /// Bytes on the line for an IP packet of `ip_len` bytes (`cake_calc_overhead`).
    pub fn wire_len(self, ip_len: u32) -> u32 {
        let framed = i64::from(ip_len) + i64::from(self.overhead);
        let len = framed.max(i64::from(self.mpu)).max(0) as u64;
        let wire = match self.mode {
            Mode::None => len,
            Mode::Atm => len.div_ceil(48) * 53,
            Mode::Ptm => len + len.div_ceil(64),
        };
        u32::try_from(wire).unwrap_or(u32::MAX)
    }

    /// Bytes on the line for `packets` IP packets of `ip_bytes` together, whose single lengths
    /// are not known: exact but for the padding of cells, of which half a cell each is expected.
    pub fn wire_bytes(self, ip_bytes: f64, packets: f64) -> f64 {
        let framed =
            (ip_bytes + packets * f64::from(self.overhead)).max(packets * f64::from(self.mpu));
        match self.mode {
            Mode::None => framed,
            Mode::Atm => (framed / 48.0 + 0.5 * packets) * 53.0,
            Mode::Ptm => framed * (65.0 / 64.0),
        }
    }

    /// What TCP can carry at most: payload bytes per line byte for full packets of `mtu` with
    /// IPv4 and TCP time stamps (52 bytes of headers).
    pub fn efficiency(self, mtu: u32) -> f64 {
        f64::from(mtu.saturating_sub(52)) / f64::from(self.wire_len(mtu).max(1))
    }

    /// The keyword of tc-cake(8) for this framing, if there is one.
    pub fn keyword(self) -> Option<&'static str> {
        PRESETS
            .iter()
            .find(|(_, f)| *f == self)
            .map(|(name, _)| *name)
    }
}

impl fmt::Display for Framing {
    /// `mode:overhead`, and `:mpuN` if there is one. Never a keyword, so that it compares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::None => "none",
            Mode::Atm => "atm",
            Mode::Ptm => "ptm",
        };
        let mut text = format!("{mode}:{}", self.overhead);
        if self.mpu != 0 {
            text += &format!(":mpu{}", self.mpu);
        }
        f.pad(&text)
    }
}

impl FromStr for Framing {
    type Err = FramingError;

    fn from_str(text: &str) -> Result<Self, FramingError> {
        let err = |why: String| FramingError {
            text: text.to_owned(),
            why,
        };
        let lower = text.trim().to_ascii_lowercase();
        let mut parts = lower.split(':');
        let head = parts.next().unwrap_or_default();
        if let Some((_, preset)) = PRESETS.iter().find(|(name, _)| *name == head) {
            let mut tags = 0;
            for part in parts {
                if part != "ether-vlan" || tags == 2 {
                    return Err(err(format!(
                        "{part:?} after a keyword (only ether-vlan, at most twice)"
                    )));
                }
                tags += 1;
            }
            return Ok(Framing {
                overhead: preset.overhead + 4 * tags,
                ..*preset
            });
        }
        let mode = match head {
            "none" => Mode::None,
            "atm" => Mode::Atm,
            "ptm" => Mode::Ptm,
            other => return Err(err(format!("{other:?} is neither a mode nor a keyword"))),
        };
        let mut framing = Framing::new(mode, 0, 0);
        if let Some(part) = parts.next() {
            framing.overhead = part
                .parse()
                .ok()
                .filter(|v| (-64..=256).contains(v))
                .ok_or_else(|| err(format!("overhead {part:?} is not a number from -64 to 256")))?;
        }
        if let Some(part) = parts.next() {
            framing.mpu = part
                .strip_prefix("mpu")
                .and_then(|v| v.parse().ok())
                .filter(|v| *v <= 256)
                .ok_or_else(|| err(format!("{part:?} is not mpu0 to mpu256")))?;
        }
        match parts.next() {
            Some(rest) => Err(err(format!("{rest:?} is too much"))),
            None => Ok(framing),
        }
    }
}

impl Serialize for Framing {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Framing {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_packets_of_unknown_lengths() {
        for (name, framing) in PRESETS {
            let lengths = [1500, 1500, 1500, 40, 576, 1500, 1500, 120];
            let exact: u32 = lengths.iter().map(|l| framing.wire_len(*l)).sum();
            let bytes: u32 = lengths.iter().sum();
            let near = framing.wire_bytes(f64::from(bytes), lengths.len() as f64);
            assert!(
                (near / f64::from(exact) - 1.0).abs() < 0.02,
                "{name}: {near} {exact}"
            );
        }
    }
    use proptest::prelude::*;

    /// `cake_calc_overhead` of sch_cake.c, transcribed with its own integer arithmetic.
    #[expect(clippy::manual_div_ceil, reason = "as the kernel writes it")]
    fn sch_cake(len: u32, mode: Mode, overhead: i32, mpu: u32) -> u32 {
        let mut len = len.wrapping_add_signed(overhead);
        if len < mpu {
            len = mpu;
        }
        match mode {
            Mode::Atm => {
                len += 47;
                len /= 48;
                len * 53
            }
            Mode::Ptm => len + (len + 63) / 64,
            Mode::None => len,
        }
    }

    #[test]
    fn equals_sch_cake_for_every_length() {
        for (name, f) in PRESETS {
            for len in 20..=65535 {
                let cake = sch_cake(len, f.mode, i32::from(f.overhead), u32::from(f.mpu));
                assert_eq!(f.wire_len(len), cake, "{name} {len}");
            }
        }
        for overhead in [-20, -4, 0, 1, 47, 48, 256] {
            for mpu in [0, 64, 84, 256] {
                for mode in [Mode::None, Mode::Atm, Mode::Ptm] {
                    for len in 20..=65535 {
                        let f = Framing::new(mode, overhead, mpu);
                        let cake = sch_cake(len, mode, i32::from(overhead), u32::from(mpu));
                        assert_eq!(f.wire_len(len), cake, "{f} {len}");
                    }
                }
            }
        }
    }

    /// Seed 003: the overhead depends on the payload, through cells of 53 bytes and Ethernet's
    /// minimum of 64. PPPoE over LLC/SNAP over ATM: 8 (AAL5) + 10 (LLC/SNAP, pad) + 14
    /// (Ethernet) + 8 (PPPoE, PPP) = 40 before the IP packet.
    #[test]
    fn overhead_depends_on_the_payload() {
        let adsl: Framing = "pppoe-llcsnap".parse().unwrap();
        for (ip, cells) in [
            (40, 2),    // empty ACK: 80 bytes need two cells, 106 on the wire for 40
            (52, 2),    // with time stamps: 92
            (56, 2),    // 96 fills two cells to the last byte
            (57, 3),    // one byte more costs a whole cell
            (576, 13),  // 616
            (1492, 32), // 1532, four bytes short of 32 cells' 1536
            (1500, 33), // 1540
        ] {
            assert_eq!(adsl.wire_len(ip), cells * 53, "{ip}");
        }
        // Ethernet's minimum: an ACK of 40 takes 84 with preamble and gap, as does one of 46.
        let ethernet: Framing = "ethernet".parse().unwrap();
        assert_eq!([40, 46, 47].map(|l| ethernet.wire_len(l)), [84, 84, 85]);
        let docsis: Framing = "docsis".parse().unwrap();
        assert_eq!([40, 46, 47].map(|l| docsis.wire_len(l)), [64, 64, 65]);
        // VDSL2: 1492 + 30 = 1522, and 24 bytes of 64b/65b.
        let vdsl: Framing = "pppoe-ptm".parse().unwrap();
        assert_eq!(vdsl.wire_len(1492), 1546);
    }

    #[test]
    fn spellings() {
        for (text, expected) in [
            ("atm:40", Framing::new(Mode::Atm, 40, 0)),
            ("ptm:30", Framing::new(Mode::Ptm, 30, 0)),
            ("none:18:mpu64", Framing::new(Mode::None, 18, 64)),
            ("none", Framing::default()),
            ("PPPoA-VCmux", Framing::new(Mode::Atm, 10, 0)),
            ("none:-4", Framing::new(Mode::None, -4, 0)),
            ("ethernet:ether-vlan", Framing::new(Mode::None, 42, 84)),
            (
                "bridged-ptm:ether-vlan:ether-vlan",
                Framing::new(Mode::Ptm, 30, 0),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "adsl",
            "atm:",
            "atm:x",
            "atm:300",
            "ptm:30:64",
            "ptm:30:mpu999",
            "none:1:mpu2:3",
            "docsis:7",
        ] {
            assert!(text.parse::<Framing>().is_err(), "{text}");
        }
        assert_eq!(
            "pppoe-llcsnap".parse::<Framing>().unwrap().keyword(),
            Some("pppoe-llcsnap")
        );
    }

    #[test]
    fn files_have_texts() {
        let framing: Framing = serde_json::from_str("\"ptm:30:mpu64\"").unwrap();
        assert_eq!(framing, Framing::new(Mode::Ptm, 30, 64));
        assert_eq!(serde_json::to_string(&framing).unwrap(), "\"ptm:30:mpu64\"");
        assert!(serde_json::from_str::<Framing>("\"adsl\"").is_err());
    }

    /// Worked by hand: ten packets of 1500 bytes, and ten that a minimum makes longer.
    #[test]
    fn many_packets_of_one_length() {
        for (text, ip, wire) in [
            ("none:18", 15_000.0, 15_180.0),
            ("ptm:24", 15_000.0, 15_240.0 * 65.0 / 64.0),
            ("atm:36", 15_000.0, (320.0 + 5.0) * 53.0),
            ("none:4:mpu64", 400.0, 640.0),
        ] {
            let framing: Framing = text.parse().unwrap();
            let got = framing.wire_bytes(ip, 10.0);
            assert!((got - wire).abs() < 1e-6, "{text}: {got}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back(mode in 0..3, overhead in -64i16..=256, mpu in 0u16..=256) {
            let mode = [Mode::None, Mode::Atm, Mode::Ptm][mode as usize];
            let f = Framing::new(mode, overhead, mpu);
            prop_assert_eq!(f.to_string().parse(), Ok(f));
        }

        #[test]
        fn never_panics(text in ".{0,40}", len: u32) {
            if let Ok(f) = text.parse::<Framing>() { f.wire_len(len); }
        }

        #[test]
        fn grows_with_length(len in 0u32..70_000, overhead in -64i16..=256, mpu in 0u16..=256, mode in 0..3) {
            let f = Framing::new([Mode::None, Mode::Atm, Mode::Ptm][mode as usize], overhead, mpu);
            prop_assert!(f.wire_len(len) <= f.wire_len(len + 1));
        }
    }
}
