//! Connections whose addresses this machine translates, as the kernel lists them (`/proc/net/nf_conntrack`).
//!
//! Principle: on the outside a connection of a device is known by what translation leaves: the far side, and the port
//! that it was given. Non-goals: connections that are not translated, whose device's address is seen outside.

use std::collections::HashMap;
use std::net::IpAddr;

use evenkeel_datapath::values::NameKey;

/// One that is translated: who began it, and how it is seen outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) inside: IpAddr,
    pub(crate) outside: NameKey,
}

const LIST: &str = "/proc/thread-self/net/nf_conntrack";

/// The list; nothing where the kernel has none.
pub(crate) fn list() -> String {
    std::fs::read_to_string(LIST).unwrap_or_default()
}

/// Who began each connection that is translated, by what it is outside.
pub fn insides() -> HashMap<NameKey, IpAddr> {
    translated(&list()).map(|t| (t.outside, t.inside)).collect()
}

/// All in a listing.
pub(crate) fn translated(text: &str) -> impl Iterator<Item = Translated> {
    text.lines().filter_map(one)
}

fn one(line: &str) -> Option<Translated> {
    // `ipv4 2 tcp 6 431999 ESTABLISHED src= dst= sport= dport= src= dst= sport= dport= [ASSURED] ...`
    let mut words = line.split_ascii_whitespace();
    let proto = words.nth(3)?.parse().ok()?;
    let mut addresses = Vec::new();
    let mut ports = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("src" | "dst", v)) => addresses.push(v.parse::<IpAddr>().ok()?),
            Some(("sport" | "dport", v)) => ports.push(v.parse::<u16>().ok()?),
            _ => {}
        }
    }
    let [inside, _, remote, outside] = addresses[..] else {
        return None;
    };
    let [_, _, remote_port, local_port] = ports[..] else {
        return None;
    };
    (inside != outside).then_some(Translated {
        inside,
        outside: NameKey::Tuple {
            proto,
            local_port,
            remote,
            remote_port,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_that_is_translated() {
        let text = "ipv4     2 tcp      6 431999 ESTABLISHED src=192.168.1.5 dst=198.51.100.9 sport=5555 dport=443 \
                    src=198.51.100.9 dst=203.0.113.1 sport=443 dport=61000 [ASSURED] mark=0 zone=0 use=2\n\
                    ipv6     10 udp      17 29 src=2001:db8::5 dst=2001:db8:1::9 sport=5555 dport=443 \
                    src=2001:db8:1::9 dst=2001:db8::5 sport=443 dport=5555 mark=0 zone=0 use=2\n\
                    ipv4     2 icmp     1 29 src=192.168.1.5 dst=198.51.100.9 type=8 code=0 id=1 \
                    src=198.51.100.9 dst=203.0.113.1 type=0 code=0 id=1 mark=0 use=2\n";
        let all: Vec<_> = translated(text).collect();
        let outside = NameKey::Tuple {
            proto: 6,
            local_port: 61000,
            remote: "198.51.100.9".parse().unwrap(),
            remote_port: 443,
        };
        let inside = "192.168.1.5".parse().unwrap();
        assert_eq!(all, [Translated { inside, outside }]);
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            let _ = translated(&text).count();
        }
    }
}
