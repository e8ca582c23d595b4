//! Which addresses were given for the names that rules have.
//!
//! Principles: a rule's name stands for what is below it as well; addresses are kept for an hour after they held last,
//! since connections live longer than what they were looked up by; bounded for each name, the oldest go first.
//! Non-goals: names that no rule has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use evenkeel_datapath::values::NameKey;
use evenkeel_kernel::Keys;
use evenkeel_wire::dns;

/// Kept after it held last.
const KEPT: Duration = Duration::from_secs(3600);
/// An answer holds no longer than this.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Addresses of one name.
const EACH: usize = 256;
/// Addresses of all names: the programs have room for twice as many.
const ALL: usize = 65_536;

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// By the name as rules have it; how long each address is kept.
    names: BTreeMap<String, HashMap<IpAddr, Duration>>,
}

impl Book {
    pub(crate) fn new(names: BTreeSet<String>) -> Self {
        let mut book = Book::default();
        book.names
            .extend(names.into_iter().map(|n| (n, HashMap::new())));
        book
    }

    /// Takes what a name server answered; whether an address is new.
    pub(crate) fn heard(&mut self, payload: &[u8], now: Duration) -> bool {
        if self.names.is_empty() {
            return false;
        }
        let Some(answer) = dns::answer(payload) else {
            return false;
        };
        let mut room = ALL.saturating_sub(self.names.values().map(HashMap::len).sum());
        let mut news = false;
        for name in ends_of(&answer.name) {
            let Some(known) = self.names.get_mut(name) else {
                continue;
            };
            for (address, holds) in &answer.addresses {
                let until = now + KEPT + (*holds).min(LONGEST);
                let is_new = !known.contains_key(address);
                if is_new && (known.len() >= EACH || room == 0) {
                    let oldest = known.iter().min_by_key(|(_, until)| **until);
                    let Some(oldest) = oldest.map(|o| *o.0) else {
                        continue;
                    };
                    known.remove(&oldest);
                    room += 1;
                }
                room -= usize::from(is_new);
                news |= is_new;
                known.insert(*address, until);
            }
        }
        news
    }

    /// What the names stand for.
    pub(crate) fn keys(&mut self, now: Duration) -> Keys {
        let mut keys = Keys::new();
        for (name, addresses) in &mut self.names {
            addresses.retain(|_, until| *until > now);
            if !addresses.is_empty() {
                let all = addresses.keys().map(|a| NameKey::Remote(*a));
                let entry: &mut BTreeSet<NameKey> = keys.entry(name.clone()).or_default();
                entry.extend(all);
            }
        }
        keys
    }
}

/// A name, and what it is below: `a.b.c`, `b.c`, `c`.
fn ends_of(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |n| n.split_once('.').map(|(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(labels: &[&str], last: u8, seconds: u8) -> Vec<u8> {
        let mut b = vec![0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        for label in labels {
            b.push(label.len() as u8);
            b.extend(label.as_bytes());
        }
        b.extend([
            0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, seconds, 0, 4, 192, 0, 2, last,
        ]);
        b
    }

    #[test]
    fn what_is_below_a_name_counts_and_ends() {
        let mut book = Book::new(["example.org".to_owned(), "video.example.org".to_owned()].into());
        let second = Duration::from_secs(1);
        assert!(book.heard(&answer(&["CDN", "video", "example", "org"], 7, 60), second));
        assert!(!book.heard(
            &answer(&["cdn", "video", "example", "org"], 7, 60),
            2 * second
        ));
        assert!(!book.heard(&answer(&["example", "net"], 8, 60), second));
        assert!(!book.heard(&answer(&["badexample", "org"], 8, 60), second));
        let seven = BTreeSet::from([NameKey::Remote([192, 0, 2, 7].into())]);
        let all = book.keys(2 * second);
        assert_eq!(all["example.org"], seven);
        assert_eq!(all["video.example.org"], seven);
        assert!(book.keys(KEPT + 100 * second).is_empty());
    }

    #[test]
    fn no_name_has_more_than_its_part() {
        let mut book = Book::new(["org".to_owned()].into());
        for n in 0..=255u8 {
            book.heard(&answer(&["a", "org"], n, 0), Duration::from_secs(n.into()));
        }
        assert_eq!(book.names["org"].len(), EACH);
        let mut other = answer(&["a", "org"], 1, 0);
        let at = other.len() - 2;
        other[at] = 3;
        assert!(book.heard(&other, Duration::from_secs(300)));
        assert_eq!(book.names["org"].len(), EACH);
        let oldest = IpAddr::from([192, 0, 2, 0]);
        assert!(!book.names["org"].contains_key(&oldest));
    }
}
