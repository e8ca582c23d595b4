//! Something that happened, with its reason in words, in 252 bytes.
//!
//! Principle: words are cut where there is no room, never in the middle of a character. Non-goals: what is a
//! happening (who records decides).

use serde::{Deserialize, Serialize};

use crate::{HAPPENINGS, Kind, Record};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// The how many-th it is.
    pub number: u64,
    /// When, seconds since 1970.
    pub at: u64,
    /// What kind of thing.
    pub kind: Kind,
    /// In words.
    pub text: String,
}

/// Bytes of words.
const WORDS: usize = 234;

impl Happening {
    /// Its words are cut to what there is room for.
    pub fn new(number: u64, at: u64, kind: Kind, text: &str) -> Self {
        let mut end = text.len().min(WORDS);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut text = text[..end].to_owned();
        if end == WORDS && !text.ends_with('…') {
            // Three bytes for the sign that something is missing.
            while text.len() > WORDS - 3 {
                text.pop();
            }
            text.push('…');
        }
        Happening {
            number,
            at,
            kind,
            text,
        }
    }
}

impl Record for Happening {
    const SIZE: usize = 252;
    const KIND: u32 = 2;
    const SLOTS: u64 = HAPPENINGS;

    fn number(&self) -> u64 {
        self.number
    }

    fn encode(&self, to: &mut [u8]) {
        let mut all = Vec::with_capacity(Self::SIZE);
        all.extend(self.number.to_le_bytes());
        all.extend(self.at.to_le_bytes());
        let words = self.text.as_bytes();
        let length = words.len().min(WORDS);
        all.extend([self.kind as u8, length as u8]);
        all.extend(&words[..length]);
        all.resize(Self::SIZE, 0);
        to.copy_from_slice(&all);
    }

    fn decode(from: &[u8]) -> Option<Self> {
        let (number, rest) = from.split_first_chunk::<8>()?;
        let (at, rest) = rest.split_first_chunk::<8>()?;
        let ([kind, length], rest) = rest.split_first_chunk::<2>()?;
        let words = rest.get(..usize::from(*length))?;
        Some(Happening {
            number: u64::from_le_bytes(*number),
            at: u64::from_le_bytes(*at),
            kind: Kind::of(*kind)?,
            text: std::str::from_utf8(words).ok()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_between_characters() {
        let long = Happening::new(7, 1_700_000_000, Kind::Queue, &"ü".repeat(200));
        assert!(
            long.text.len() <= WORDS && long.text.ends_with('…'),
            "{}",
            long.text
        );
        let mut bytes = [0; Happening::SIZE];
        long.encode(&mut bytes);
        assert_eq!(bytes[..8], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..18], [3, long.text.len() as u8]);
        assert_eq!(Happening::decode(&bytes), Some(long));
        bytes[16] = 200;
        assert_eq!(Happening::decode(&bytes), None);
        bytes[16] = 3;
        bytes[17] = 255;
        assert_eq!(Happening::decode(&bytes), None);
    }
}
