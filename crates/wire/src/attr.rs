//! Netlink attributes: a writer that keeps lengths right and a reader that checks them.
//!
//! Principles: numbers are in the host's order unless a caller says otherwise; a malformed
//! attribute ends its list, because nothing after it can be trusted. Non-goal: policies.

use netlink_packet_core::{NLA_F_NESTED, NLA_TYPE_MASK, NlasIterator};

/// Attributes under construction, with or without a message header before them.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts after `head`, whose length is a multiple of four.
    pub fn new(head: Vec<u8>) -> Self {
        Writer { bytes: head }
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// One attribute. A value beyond 64 kB (none of ours) would be cut off at that length.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let value = &value[..value.len().min(usize::from(u16::MAX) - 4)];
        let length = value.len() as u16 + 4;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.pad();
        self
    }

    /// A 32-bit number.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A 32-bit number, if there is one.
    pub fn u32_if(&mut self, kind: u16, value: Option<u32>) -> &mut Self {
        if let Some(value) = value {
            self.u32(kind, value);
        }
        self
    }

    /// A 64-bit number.
    pub fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A text with its terminating zero.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Attributes inside an attribute, unmarked: tc's `TCA_OPTIONS` has no `NLA_F_NESTED`.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Writer)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self
    }

    /// Attributes inside an attribute, marked with `NLA_F_NESTED`.
    pub fn nest_marked(&mut self, kind: u16, fill: impl FnOnce(&mut Writer)) -> &mut Self {
        self.nest(kind | NLA_F_NESTED, fill)
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The attributes in `bytes`, flags removed from their types; ends at the first malformed one.
pub fn attrs(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        use netlink_packet_core::NlaBuffer;
        // `into_inner` is everything from this attribute on; its length was checked.
        let length = usize::from(nla.length());
        let kind = nla.kind() & NLA_TYPE_MASK;
        let rest = NlaBuffer::into_inner(nla);
        (kind, rest.get(4..length).unwrap_or_default())
    })
}

/// The last attribute of that type, as the kernel's own parser takes it.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attrs(bytes)
        .filter(|(k, _)| *k == kind)
        .last()
        .map(|(_, v)| v)
}

/// A 16-bit number at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

/// A 32-bit number at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

/// A 64-bit number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// A text up to its terminating zero.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn literal() {
        let mut w = Writer::default();
        w.text(1, "htb").u32(5, 7).nest(2, |w| {
            w.bytes(3, &[0xab]);
        });
        let bytes = w.finish();
        assert_eq!(
            bytes,
            [
                8, 0, 1, 0, b'h', b't', b'b', 0, // a text with its zero
                8, 0, 5, 0, 7, 0, 0, 0, // a number
                12, 0, 2, 0, 5, 0, 3, 0, 0xab, 0, 0, 0, // the padding belongs to the nest
            ]
        );
        let read: Vec<_> = attrs(&bytes).collect();
        assert_eq!(read[0], (1, &b"htb\0"[..]));
        assert_eq!(find(&bytes, 5).and_then(|v| u32_at(v, 0)), Some(7));
        assert_eq!(find(read[2].1, 3), Some(&[0xab][..]));
        assert_eq!(text(read[0].1), "htb");
    }

    #[test]
    fn impossible_lengths_end_the_list() {
        for bytes in [
            &[3, 0, 1, 0][..],
            &[0, 0, 1, 0],
            &[9, 0, 1, 0, 1, 2, 3, 4],
            &[8, 0, 1],
        ] {
            assert_eq!(attrs(bytes).count(), 0, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_are_read_where_they_are() {
        let bytes: [u8; 10] = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(u16_at(&bytes, 1), Some(u16::from_ne_bytes([2, 3])));
        assert_eq!(u32_at(&bytes, 2), Some(u32::from_ne_bytes([3, 4, 5, 6])));
        let eight = u64::from_ne_bytes([3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(u64_at(&bytes, 2), Some(eight));
        assert_eq!(
            (u16_at(&bytes, 9), u32_at(&bytes, 7), u64_at(&bytes, 3)),
            (None, None, None)
        );
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        let mut w = Writer::new(vec![9; 4]);
        w.u32_if(1, None)
            .u32_if(2, Some(0x0102_0304))
            .u64(3, 0x0102_0304_0506_0708);
        let bytes = w.finish();
        assert_eq!(bytes[..4], [9; 4]);
        let all: Vec<_> = attrs(&bytes[4..]).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(u32_at(all[0].1, 0), Some(0x0102_0304));
        assert_eq!(u64_at(all[1].1, 0), Some(0x0102_0304_0506_0708));
    }

    #[test]
    fn a_marked_nest_has_the_flag_and_its_type_has_not() {
        let mut w = Writer::default();
        w.nest_marked(0x0102, |w| {
            w.u32(1, 7);
        });
        let bytes = w.finish();
        assert_eq!(u16_at(&bytes, 2), Some(0x8102));
        assert_eq!(attrs(&bytes).next().map(|a| a.0), Some(0x0102));
    }

    #[test]
    fn of_several_the_last_counts() {
        let mut w = Writer::default();
        w.u32(1, 7).u32(2, 8).u32(1, 9);
        let bytes = w.finish();
        assert_eq!(find(&bytes, 1).and_then(|v| u32_at(v, 0)), Some(9));
        assert_eq!(find(&bytes, 3), None);
    }

    #[test]
    fn what_is_too_long_is_cut_and_ends_well() {
        let mut w = Writer::default();
        w.bytes(1, &vec![5; 70_000]).u32(2, 7);
        let bytes = w.finish();
        let all: Vec<_> = attrs(&bytes).collect();
        assert_eq!((all[0].1.len(), all[1].0), (65_531, 2));
    }

    #[test]
    fn a_text_may_lack_its_zero() {
        assert_eq!((text(b"htb"), text(b"ht\0b")), ("htb".into(), "ht".into()));
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, at: usize) {
            for (_, value) in attrs(&bytes) { text(value); }
            let _ = (u16_at(&bytes, at), u32_at(&bytes, at), u64_at(&bytes, at));
        }
    }
}
