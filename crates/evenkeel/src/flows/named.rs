//! What a flow is called: by names, by people, and by its number.
//!
//! Principle: the same flow is called the same as long as it lives.

use std::net::{IpAddr, SocketAddr};

use evenkeel_datapath::values::{Key, NameKey};

/// The protocol number of TCP.
pub(super) const TCP: u8 = 6;

/// What names know a flow by.
pub(crate) fn tuple(key: &Key) -> NameKey {
    NameKey::Tuple {
        proto: key.proto,
        local_port: key.local_port,
        remote: key.remote,
        remote_port: key.remote_port,
    }
}

/// A flow's number: four digits of what it is, so that nobody has to remember any.
pub(super) fn number(key: &Key) -> u16 {
    // FNV-1a.
    let mut hash = 0x811c_9dc5_u32;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    for address in [key.local, key.remote] {
        match address {
            IpAddr::V4(a) => add(&a.octets()),
            IpAddr::V6(a) => add(&a.octets()),
        }
    }
    add(&key.local_port.to_be_bytes());
    add(&key.remote_port.to_be_bytes());
    add(&[key.proto]);
    1000 + (hash % 9000) as u16
}

pub(super) fn proto(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        TCP => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        n => n.to_string(),
    }
}

pub(super) fn end(address: IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        port => SocketAddr::new(address, port).to_string(),
    }
}
