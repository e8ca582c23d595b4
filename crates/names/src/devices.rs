//! Devices on our side: their addresses, by hardware address, by the name of their lease, or by an address.
//!
//! Principles: a device is what has one hardware address, and all addresses are its that a neighbour's table or a lease
//! gives to it; names come from leases and from `/etc/hosts`. Non-goals: asking devices.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;

use evenkeel_datapath::values::NameKey;
use evenkeel_kernel::{Keys, Session};

use crate::conntrack;

/// Where servers keep leases: dnsmasq (Debian, OpenWrt), ISC dhcpd, Kea.
const DNSMASQ: [&str; 3] = [
    "/var/lib/misc/dnsmasq.leases",
    "/tmp/dhcp.leases",
    "/var/lib/dnsmasq/dnsmasq.leases",
];
const DHCPD: &str = "/var/lib/dhcp/dhcpd.leases";
const KEA: &str = "/var/lib/kea/kea-leases4.csv";
const HOSTS: &str = "/etc/hosts";

/// Somebody on our side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Its hardware address, in lower case, if it is known.
    pub hardware: String,
    /// Its names, in lower case.
    pub names: BTreeSet<String>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Host {
    /// Whether this is its hardware address, in lower case, a name or an address of its.
    pub fn is_called(&self, name: &str) -> bool {
        let address = || name.parse().is_ok_and(|a| self.addresses.contains(&a));
        self.hardware == name || self.names.contains(name) || address()
    }
}

/// A line of a list: a hardware address or none, an address, and a name or none.
type Entry = (String, IpAddr, String);

/// Those that are known.
pub fn hosts() -> Vec<Host> {
    let mut entries: Vec<Entry> = neighbours();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    for path in DNSMASQ {
        entries.extend(dnsmasq(&read(path)));
    }
    entries.extend(dhcpd(&read(DHCPD)));
    entries.extend(kea(&read(KEA)));
    entries.extend(hosts_file(&read(HOSTS)));
    together(entries)
}

/// What each address is called: by a name, or else by its hardware address.
pub fn labels(hosts: &[Host]) -> HashMap<IpAddr, String> {
    let mut labels = HashMap::new();
    for host in hosts {
        let name = host.names.iter().min_by_key(|n| n.len());
        let Some(name) = name.or(Some(&host.hardware).filter(|h| !h.is_empty())) else {
            continue;
        };
        labels.extend(host.addresses.iter().map(|a| (*a, name.clone())));
    }
    labels
}

/// What the names of devices stand for.
pub(crate) fn find(names: &BTreeSet<String>) -> Keys {
    keys(names, &hosts(), &conntrack::insides())
}

fn keys(names: &BTreeSet<String>, hosts: &[Host], connections: &HashMap<NameKey, IpAddr>) -> Keys {
    let mut keys = Keys::new();
    let mut whose: BTreeMap<IpAddr, Vec<&String>> = BTreeMap::new();
    for name in names {
        let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
        addresses.extend(name.parse::<IpAddr>());
        for host in hosts.iter().filter(|h| h.is_called(name)) {
            addresses.extend(&host.addresses);
        }
        let entry: &mut BTreeSet<NameKey> = keys.entry(name.clone()).or_default();
        for address in addresses {
            entry.insert(NameKey::Local(address));
            whose.entry(address).or_default().push(name);
        }
    }
    for (outside, inside) in connections {
        for name in whose.get(inside).into_iter().flatten() {
            if let Some(entry) = keys.get_mut(*name) {
                entry.insert(*outside);
            }
        }
    }
    keys
}

/// Entries of one device become one: by its hardware address, or where that is not known by its address.
fn together(entries: Vec<Entry>) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let (known, unknown): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|e| !e.0.is_empty());
    for (hardware, address, name) in known.into_iter().chain(unknown) {
        let by_address = format!("={address}");
        let key = if hardware.is_empty() {
            by_address.clone()
        } else {
            hardware.clone()
        };
        let place = *places.entry(key).or_insert_with(|| {
            hosts.push(Host {
                hardware,
                ..Host::default()
            });
            hosts.len() - 1
        });
        places.entry(by_address).or_insert(place);
        let host = &mut hosts[place];
        host.addresses.insert(address);
        host.names
            .extend((!name.is_empty() && name != "*").then(|| name.to_lowercase()));
    }
    hosts
}

fn neighbours() -> Vec<Entry> {
    let Ok(mut session) = Session::open() else {
        return Vec::new();
    };
    let links = session.links().unwrap_or_default();
    let mut all = Vec::new();
    for link in links {
        for n in session.neighbours(link.index).unwrap_or_default() {
            if n.hardware.len() == 6
                && n.hardware.iter().any(|b| *b != 0)
                && !n.address.is_multicast()
            {
                let hardware: Vec<String> = n.hardware.iter().map(|b| format!("{b:02x}")).collect();
                all.push((hardware.join(":"), n.address, String::new()));
            }
        }
    }
    all
}

/// `EXPIRES MAC ADDRESS NAME CLIENT-ID`; for IPv6 the second word is an identifier.
fn dnsmasq(text: &str) -> impl Iterator<Item = Entry> {
    text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, hardware, address, name, ..] = words[..] else {
            return None;
        };
        let hardware = if hardware.len() == 17 {
            hardware.to_lowercase()
        } else {
            String::new()
        };
        Some((hardware, address.parse().ok()?, name.to_owned()))
    })
}

/// `lease ADDRESS { hardware ethernet MAC; client-hostname "NAME"; }`, a later one instead of an earlier.
fn dhcpd(text: &str) -> Vec<Entry> {
    let mut all = BTreeMap::new();
    let mut open: Option<Entry> = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("lease ") {
            let address = rest.trim_end_matches('{').trim().parse();
            open = address.ok().map(|a| (String::new(), a, String::new()));
        }
        let Some(entry) = &mut open else { continue };
        if let Some(rest) = line.strip_prefix("hardware ethernet ") {
            entry.0 = rest.trim_end_matches(';').to_lowercase();
        } else if let Some(rest) = line.strip_prefix("client-hostname ") {
            let name = rest.trim_end_matches(';').trim_matches('"');
            name.clone_into(&mut entry.2);
        } else if line == "}" {
            all.extend(open.take().map(|e| (e.1, e)));
        }
    }
    all.into_values().collect()
}

/// `address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,...`
fn kea(text: &str) -> impl Iterator<Item = Entry> {
    text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let name = fields.get(8)?.trim_end_matches('.');
        let name = name.split('.').next().unwrap_or_default();
        Some((
            fields[1].to_lowercase(),
            fields[0].parse().ok()?,
            name.to_owned(),
        ))
    })
}

fn hosts_file(text: &str) -> impl Iterator<Item = Entry> {
    text.lines().flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let address: Option<IpAddr> = words.next().and_then(|w| w.parse().ok());
        let address = address.filter(|a| !a.is_loopback() && !a.is_multicast());
        address
            .into_iter()
            .flat_map(move |a| words.clone().map(move |n| (String::new(), a, n.to_owned())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_device_of_many_lists() {
        let mut entries: Vec<Entry> = dnsmasq(
            "1795392060 02:00:5E:00:53:01 192.168.1.5 TV 01:02\n\
             1795392060 1234567 2001:db8::77 phone 00:01\nduid 00:01:02\n",
        )
        .collect();
        entries.push((
            "02:00:5e:00:53:01".into(),
            "2001:db8::5".parse().unwrap(),
            String::new(),
        ));
        entries.extend(hosts_file(
            "127.0.0.1 localhost\n192.168.1.5 telly telly.lan # in the kitchen\n",
        ));
        let hosts = together(entries);
        assert_eq!(hosts.len(), 2);
        let tv = &hosts[0];
        assert_eq!(
            tv.names,
            ["tv", "telly", "telly.lan"].map(str::to_owned).into()
        );
        assert_eq!(tv.addresses.len(), 2);
        let called = labels(&hosts);
        let name = |a: &str| called[&a.parse().unwrap()].clone();
        assert_eq!(name("2001:db8::5"), "tv");
        assert_eq!(name("2001:db8::77"), "phone");
        let outside = NameKey::Tuple {
            proto: 17,
            local_port: 6,
            remote: "198.51.100.9".parse().unwrap(),
            remote_port: 443,
        };
        let inside: IpAddr = "192.168.1.5".parse().unwrap();
        let connection = &HashMap::from([(outside, inside)]);
        for name in ["tv", "02:00:5e:00:53:01", "192.168.1.5", "2001:db8::5"] {
            let found = keys(&[name.to_owned()].into(), &hosts, connection);
            assert_eq!(found[name].len(), 3, "{name}: {found:?}");
        }
        assert_eq!(
            keys(&["nobody".to_owned()].into(), &hosts, connection)["nobody"].len(),
            0
        );
    }

    #[test]
    fn other_servers_leases() {
        let all = dhcpd(
            "lease 192.168.1.9 {\n  starts 2 2026/11/24;\n  hardware ethernet 02:00:5E:00:53:02;\n  \
             client-hostname \"Old\";\n}\nlease 192.168.1.9 {\n  hardware ethernet 02:00:5e:00:53:03;\n  \
             client-hostname \"New\";\n}\n",
        );
        let address = "192.168.1.9".parse().unwrap();
        assert_eq!(all, [("02:00:5e:00:53:03".into(), address, "New".into())]);
        let all: Vec<_> = kea(
            "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state\n\
             192.168.1.9,02:00:5e:00:53:03,01:02,4000,1795392060,1,0,0,desk.lan.,0,,0\n",
        )
        .collect();
        assert_eq!(all, [("02:00:5e:00:53:03".into(), address, "desk".into())]);
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            let _ = (dnsmasq(&text).count(), dhcpd(&text), kea(&text).count(), hosts_file(&text).count());
        }
    }
}
