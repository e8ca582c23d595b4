//! Answers of name servers (RFC 1035, 4.1): which addresses were given for which name.
//!
//! Principles: what was asked is what the answer is about, whatever aliases lie between; only answers without an error
//! count; what is cut off ends there, and what was read before it counts. Non-goals: asking, other records, DNSSEC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Length of the header.
const HEADER: usize = 12;
/// More jumps in a name than this are a loop; a name has 127 labels at most.
const JUMPS: usize = 128;
/// Types of records.
const A: u16 = 1;
const AAAA: u16 = 28;
/// The Internet's class.
const IN: u16 = 1;

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name that was asked for, in lower case, without a dot at its end.
    pub name: String,
    /// Its addresses, and how long they hold.
    pub addresses: Vec<(IpAddr, Duration)>,
}

/// Reads a UDP payload. `None`: it is no answer, or an error.
pub fn answer(bytes: &[u8]) -> Option<Answer> {
    let word = |at: usize| {
        let two = bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([two[0], two[1]]))
    };
    let flags = word(2)?;
    // QR is set, it is a standard query's, and RCODE is NOERROR.
    if flags & 0x8000 == 0 || flags & 0x7800 != 0 || flags & 0xf != 0 || word(4)? != 1 {
        return None;
    }
    let (name, mut at) = name(bytes, HEADER)?;
    at += 4;
    let mut addresses = Vec::new();
    for _ in 0..word(6)? {
        let Some(record) = record(bytes, at) else {
            break;
        };
        at = record.end;
        if record.class != IN {
            continue;
        }
        let address = match record.kind {
            A => <[u8; 4]>::try_from(record.data).map(|a| Ipv4Addr::from(a).into()),
            AAAA => <[u8; 16]>::try_from(record.data).map(|a| Ipv6Addr::from(a).into()),
            _ => continue,
        };
        if let Ok(address) = address {
            addresses.push((address, record.holds));
        }
    }
    Some(Answer { name, addresses })
}

/// A resource record.
struct Record<'a> {
    kind: u16,
    class: u16,
    holds: Duration,
    data: &'a [u8],
    end: usize,
}

fn record(bytes: &[u8], at: usize) -> Option<Record<'_>> {
    let (_, at) = name(bytes, at)?;
    let head: &[u8; 10] = bytes.get(at..)?.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
    let seconds = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    Some(Record {
        kind: u16::from_be_bytes([head[0], head[1]]),
        class: u16::from_be_bytes([head[2], head[3]]),
        // A set top bit means none (RFC 2181, 8).
        holds: Duration::from_secs(if seconds >> 31 == 0 {
            seconds.into()
        } else {
            0
        }),
        data: bytes.get(at + 10..at + 10 + length)?,
        end: at + 10 + length,
    })
}

/// The name at `at`, and what follows it.
fn name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut end = None;
    for _ in 0..JUMPS {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some((name, end.unwrap_or(at + 1))),
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|b| char::from(b.to_ascii_lowercase())));
                if name.len() > 512 {
                    return None;
                }
                at += 1 + length;
            }
            0xc0.. => {
                end = end.or(Some(at + 2));
                at = (length & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer for Www.Example.org: an alias, then an address of each family.
    fn literal() -> Vec<u8> {
        let mut b = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 0];
        b.extend(b"\x03Www\x07Example\x03org\x00\x00\x01\x00\x01");
        // www.example.org CNAME cdn.example.org: "cdn", then a pointer to "Example" at 16.
        b.extend(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x06\x03cdn\xc0\x10");
        // cdn.example.org, at 45, A and AAAA.
        b.extend(b"\xc0\x2d\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc6\x33\x64\x09");
        b.extend(b"\xc0\x2d\x00\x1c\x00\x01\x80\x00\x00\x00\x00\x10\x20\x01\x0d\xb8");
        b.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        b
    }

    #[test]
    fn an_alias_and_two_addresses() {
        let all = answer(&literal()).unwrap();
        assert_eq!(all.name, "www.example.org");
        assert_eq!(
            all.addresses,
            [
                ("198.51.100.9".parse().unwrap(), Duration::from_secs(300)),
                ("2001:db8::7".parse().unwrap(), Duration::ZERO),
            ]
        );
        // Cut off in the last record: the one before it counts.
        assert_eq!(answer(&literal()[..80]).unwrap().addresses.len(), 1);
    }

    #[test]
    fn what_is_no_answer() {
        for (at, byte) in [(2, 0x01), (3, 0x83), (2, 0x89), (5, 0), (5, 2)] {
            let mut b = literal();
            b[at] = byte;
            assert_eq!(answer(&b), None, "{at}");
        }
        // A name that points at itself.
        let mut b = literal();
        b[12] = 0xc0;
        b[13] = 12;
        assert_eq!(answer(&b), None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>, at in 0..100usize, byte: u8) {
            let _ = answer(&bytes);
            let mut b = literal();
            let at = at.min(b.len() - 1);
            b[at] = byte;
            let _ = answer(&b);
        }
    }
}
