//! The device that leads to the far end: its counters, what shapes it, whether it is Wi-Fi.
//!
//! Non-goals: changing anything.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrLike as _;

/// A device by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device(pub String);

/// What it has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received, bytes with their Ethernet headers.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

impl Device {
    /// The one by which packets to `to` leave: that with the address which the kernel would send from.
    pub fn towards(to: SocketAddr) -> Option<Device> {
        let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        let ours = socket.local_addr().ok()?.ip();
        let found = getifaddrs().ok()?.find(|i| {
            let Some(a) = &i.address else { return false };
            let ip: Option<IpAddr> = match a.family() {
                Some(nix::sys::socket::AddressFamily::Inet) => {
                    a.as_sockaddr_in().map(|s| IpAddr::from(s.ip()))
                }
                Some(nix::sys::socket::AddressFamily::Inet6) => {
                    a.as_sockaddr_in6().map(|s| IpAddr::from(s.ip()))
                }
                _ => None,
            };
            ip == Some(ours)
        });
        found.map(|i| Device(i.interface_name))
    }

    /// What it has carried so far, in the calling thread's network namespace. A process that may read nothing of others
    /// asks sysfs, which is of the namespace that mounted it.
    pub fn counters(&self) -> Option<Counters> {
        if let Ok(text) = std::fs::read_to_string("/proc/thread-self/net/dev") {
            return counters(&text, &self.0);
        }
        let dir = Path::new("/sys/class/net").join(&self.0).join("statistics");
        let bytes = |name| {
            std::fs::read_to_string(dir.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        Some(Counters {
            received: bytes("rx_bytes")?,
            sent: bytes("tx_bytes")?,
        })
    }

    /// What shapes it: `evenkeel` if it has a record there, else a queueing discipline that does; empty
    /// if none.
    pub fn shaper(&self) -> String {
        let dir = evenkeel_kernel::StateDir::new(evenkeel_kernel::state::DEFAULT_DIR);
        if dir.load(&self.0).is_ok_and(|s| s.is_some()) {
            return "evenkeel".into();
        }
        let kinds = || {
            let mut session = evenkeel_kernel::Session::open().ok()?;
            let link = session.link(&self.0).ok()??;
            let qdiscs = session.qdiscs(link.index).ok()?;
            let shapes = ["cake", "htb", "tbf", "hfsc"];
            let found = qdiscs
                .into_iter()
                .find(|q| shapes.contains(&q.kind.as_str()));
            found.map(|q| q.kind)
        };
        kinds().unwrap_or_default()
    }

    /// Bytes that wait in our own queues, and packets that these have dropped so far; `None` unless
    /// evenkeel shapes it.
    pub fn own_queue(&self) -> Option<(u64, u64)> {
        let dir = evenkeel_kernel::StateDir::new(evenkeel_kernel::state::DEFAULT_DIR);
        let all = evenkeel_kernel::status(&dir, Some(&self.0)).ok()?;
        let s = all.first()?;
        Some((s.up.backlog + s.down.backlog, s.up.dropped + s.down.dropped))
    }

    /// Radio.
    pub fn is_wifi(&self) -> bool {
        ["wireless", "phy80211"]
            .iter()
            .any(|f| Path::new("/sys/class/net").join(&self.0).join(f).exists())
    }
}

/// A device's line of /proc/net/dev (proc(5)).
fn counters(text: &str, device: &str) -> Option<Counters> {
    let line = text.lines().find_map(|l| {
        let (name, rest) = l.split_once(':')?;
        (name.trim() == device).then_some(rest)
    })?;
    let mut fields = line.split_ascii_whitespace();
    Some(Counters {
        received: fields.next()?.parse().ok()?,
        sent: fields.nth(7)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_net_dev() {
        let text = "Inter-|   Receive  | Transmit\n face |bytes packets\n    lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n  eth0:123 4 0 0 0 0 0 0 456 7 0 0 0 0 0 0\n";
        let found = |d| counters(text, d);
        assert_eq!(
            found("eth0"),
            Some(Counters {
                received: 123,
                sent: 456
            })
        );
        assert_eq!(
            found("lo"),
            Some(Counters {
                received: 10,
                sent: 20
            })
        );
        assert_eq!(found("eth"), None);
        assert_eq!(counters("eth0: 1 x", "eth0"), None);
    }

    #[test]
    fn the_loopback_leads_to_itself() {
        let d = Device::towards("127.0.0.1:9".parse().unwrap()).unwrap();
        assert_eq!(d, Device("lo".into()));
        assert!(d.counters().is_some() && !d.is_wifi());
    }
}
