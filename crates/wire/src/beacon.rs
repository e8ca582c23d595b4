//! Beacons: what evenkeels on one LAN tell one another, in datagrams that who has no key cannot make.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `EvKl` |
//! | 4 | version, 1 |
//! | 5 | bit 0: a gateway, which shapes for those behind it |
//! | 6..8 | zero |
//! | 8..16 | the host's number |
//! | 16..24 | its steady clock, us |
//! | 24..32 | its wall clock, ms since 1970 |
//! | 32..64 | upload: capacity and four demands in kbit/s (0: not known; all ones: all there is), 20 bytes; carried bytes, 8; thousandths, 2; zero, 2 |
//! | 64..96 | download, the same |
//! | 96..112 | the first half of HMAC-SHA-256 (RFC 2104, 5) of all before |
//!
//! Numbers are in network order. Principles: one size; what is not as it should be is refused before it is looked at
//! further; the key is compared in constant time. Non-goals: secrecy, and what follows from a beacon
//! (`evenkeel_core::sharing`).

use evenkeel_core::sharing::{Demand, Report, Said};
use evenkeel_core::{PerDirection, Rate};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a beacon.
pub const LEN: usize = 112;
const MAGIC: [u8; 4] = *b"EvKl";
const VERSION: u8 = 1;
/// Where the code begins.
const SEALED: usize = 96;
const GATEWAY: u8 = 1;
/// A demand for all there is.
const ALL: u32 = u32::MAX;

/// What a group has in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Of the hosts behind one gateway, known by its hardware address, on one network, who share a secret if they have
    /// one.
    pub fn new(gateway: &[u8], network: &[u8], secret: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [b"evenkeel beacon 1", gateway, network, secret.as_bytes()] {
            // Lengths first, so that two parts are never one.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Key(hash.finalize().into())
    }

    fn code(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut code =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        code.update(bytes);
        code
    }
}

/// Why a datagram is no beacon of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not one at all.
    #[error("it is no beacon")]
    NoBeacon,
    /// One of another version.
    #[error("it is of version {0}, and {VERSION} is known here")]
    Version(u8),
    /// Of another group, or forged.
    #[error("it is not of this group")]
    Foreign,
}

/// The datagram that tells `report` to who has the key.
pub fn seal(report: &Report, key: &Key) -> [u8; LEN] {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend(MAGIC);
    bytes.extend([VERSION, u8::from(report.is_gateway) * GATEWAY, 0, 0]);
    for number in [report.id, report.clock_us, report.wall_ms] {
        bytes.extend(number.to_be_bytes());
    }
    for said in report.said.iter() {
        bytes.extend(kbit(said.capacity.unwrap_or_default()).to_be_bytes());
        for demand in said.demand.0 {
            bytes.extend(kbit(demand).to_be_bytes());
        }
        bytes.extend(said.carried.to_be_bytes());
        bytes.extend(said.permille.to_be_bytes());
        bytes.extend([0, 0]);
    }
    let code = key.code(&bytes).finalize().into_bytes();
    let mut sealed = [0; LEN];
    for (to, from) in sealed.iter_mut().zip(bytes.iter().chain(&code)) {
        *to = *from;
    }
    sealed
}

/// What a datagram says, if it is of the group.
pub fn open(datagram: &[u8], key: &Key) -> Result<Report, Refused> {
    let Ok(bytes) = <&[u8; LEN]>::try_from(datagram) else {
        return Err(Refused::NoBeacon);
    };
    if bytes[..4] != MAGIC {
        return Err(Refused::NoBeacon);
    }
    if bytes[4] != VERSION {
        return Err(Refused::Version(bytes[4]));
    }
    let code = key.code(&bytes[..SEALED]);
    code.verify_truncated_left(&bytes[SEALED..])
        .map_err(|_| Refused::Foreign)?;
    let mut rest = Fields(&bytes[8..SEALED]);
    let (id, clock_us, wall_ms) = (rest.u64(), rest.u64(), rest.u64());
    let [up, down] = [(); 2].map(|()| rest.said());
    Ok(Report {
        id,
        clock_us,
        wall_ms,
        is_gateway: bytes[5] & GATEWAY != 0,
        said: PerDirection { up, down },
    })
}

/// What is left to be read; it is long enough, since a beacon has one size.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk::<N>() else {
            return [0; N];
        };
        self.0 = rest;
        *first
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    fn kbit(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn said(&mut self) -> Said {
        let capacity = self.kbit();
        let demand = [(); 4].map(|()| match self.kbit() {
            ALL => Rate::MAX,
            kbit => Rate::from_kbit(kbit.into()).min(Rate::MAX),
        });
        let carried = self.u64();
        let permille = u16::from_be_bytes(self.take());
        let _zero: [u8; 2] = self.take();
        Said {
            capacity: (capacity != 0).then(|| Rate::from_kbit(capacity.into())),
            carried,
            permille,
            demand: Demand(demand),
        }
    }
}

fn kbit(rate: Rate) -> u32 {
    if rate >= Rate::MAX {
        return ALL;
    }
    u32::try_from(rate.kbit()).unwrap_or(ALL)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report() -> Report {
        let said = |n: u64| Said {
            capacity: (n != 2).then(|| Rate::from_kbit(40_000 * n)),
            carried: 1 << 40 | n,
            permille: 700,
            demand: Demand([
                Rate::from_kbit(100),
                Rate::default(),
                Rate::MAX,
                Rate::from_kbit(n),
            ]),
        };
        Report {
            id: 0x0102_0304_0506_0708,
            clock_us: 5_000_000,
            wall_ms: 1_795_000_000_000,
            is_gateway: true,
            said: PerDirection {
                up: said(1),
                down: said(2),
            },
        }
    }

    fn key() -> Key {
        Key::new(&[2, 0, 0, 0, 0, 1], &[192, 168, 1, 0, 24], "")
    }

    #[test]
    fn what_is_sealed_is_read() {
        let sealed = seal(&report(), &key());
        assert_eq!(open(&sealed, &key()), Ok(report()));
        assert_eq!(
            &sealed[..16],
            b"EvKl\x01\x01\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08"
        );
    }

    /// By another implementation of HMAC-SHA-256 (Python's hmac and hashlib).
    #[test]
    fn the_code_is_hmac() {
        let sealed = seal(&Report::default(), &Key([7; 32]));
        let code = 0xfc59_d9de_cc25_dc05_1568_1480_a45f_f123_u128;
        assert_eq!(sealed[SEALED..], code.to_be_bytes());
    }

    #[test]
    fn who_has_another_key_is_foreign() {
        let sealed = seal(&report(), &key());
        for other in [
            Key::new(&[2, 0, 0, 0, 0, 2], &[192, 168, 1, 0, 24], ""),
            Key::new(&[2, 0, 0, 0, 0, 1], &[192, 168, 2, 0, 24], ""),
            Key::new(&[2, 0, 0, 0, 0, 1], &[192, 168, 1, 0, 24], "secret"),
            Key::new(&[2, 0, 0, 0, 0, 1, 192], &[168, 1, 0, 24], ""),
        ] {
            assert_eq!(open(&sealed, &other), Err(Refused::Foreign));
        }
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(at in 0usize..LEN, by in 1u8..) {
            let mut sealed = seal(&report(), &key());
            sealed[at] ^= by;
            prop_assert!(open(&sealed, &key()).is_err());
        }

        #[test]
        fn whatever_comes_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(open(&bytes, &key()).is_err());
        }
    }
}
