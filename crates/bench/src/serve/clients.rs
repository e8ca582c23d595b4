//! What each client may take from a server: connections, and bytes by the hour.
//!
//! Principles: pure; a client is an IPv4 address or an IPv6 /64, because a household has that many;
//! memory is bounded whatever comes. Non-goals: who is allowed (a token says that).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one client.
    pub per_client: usize,
    /// How long a stream may last, s.
    pub seconds: u16,
    /// What a client may move in an hour, bytes, both ways together; unused hours do not add up.
    pub bytes_per_hour: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1000,
            per_client: 64,
            seconds: 120,
            // Ten minutes at 1 Gbit/s, some forty tests at 100 Mbit/s.
            bytes_per_hour: 75_000_000_000,
        }
    }
}

/// So many clients are remembered. Those that took nothing lately are forgotten first.
const REMEMBERED: usize = 16_384;
const HOUR: f64 = 3600.0;

#[derive(Debug)]
struct Client {
    open: usize,
    /// Bytes that it may still move.
    left: f64,
    at: Duration,
}

/// Everybody who is or was connected lately.
#[derive(Debug)]
pub struct Clients {
    limits: Limits,
    open: usize,
    by: HashMap<IpAddr, Client>,
}

/// The client that an address belongs to.
pub(super) fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        },
    }
}

impl Clients {
    /// Nobody is connected.
    pub fn new(limits: Limits) -> Self {
        Clients {
            limits,
            open: 0,
            by: HashMap::new(),
        }
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether one more connection of `peer` is taken. If so, it counts until [`Self::closed`].
    pub fn admit(&mut self, peer: IpAddr, now: Duration) -> Result<(), &'static str> {
        if self.open >= self.limits.connections {
            return Err("the server has as many connections as it takes; try again later");
        }
        if self.by.len() >= REMEMBERED {
            let full = self.limits.bytes_per_hour as f64;
            self.by
                .retain(|_, c| c.open > 0 || c.left + refill(c, now, full) < full);
        }
        if self.by.len() >= REMEMBERED {
            return Err("the server has as many clients as it remembers; try again later");
        }
        let fresh = Client {
            open: 0,
            left: self.limits.bytes_per_hour as f64,
            at: now,
        };
        let c = self.by.entry(client(peer)).or_insert(fresh);
        if c.open >= self.limits.per_client {
            return Err("this address has as many connections as one may have");
        }
        c.open += 1;
        self.open += 1;
        Ok(())
    }

    /// A connection of `peer` was closed.
    pub fn closed(&mut self, peer: IpAddr) {
        if let Some(c) = self.by.get_mut(&client(peer)) {
            c.open = c.open.saturating_sub(1);
            self.open = self.open.saturating_sub(1);
        }
    }

    /// `peer` moved so many bytes; returns how many it may still move.
    pub fn spend(&mut self, peer: IpAddr, bytes: u64, now: Duration) -> u64 {
        let full = self.limits.bytes_per_hour as f64;
        let Some(c) = self.by.get_mut(&client(peer)) else {
            return 0;
        };
        c.left = (c.left + refill(c, now, full)).min(full) - bytes as f64;
        c.at = c.at.max(now);
        c.left.max(0.0) as u64
    }
}

fn refill(c: &Client, now: Duration, full: f64) -> f64 {
    now.saturating_sub(c.at).as_secs_f64() / HOUR * full
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connections: 3,
        per_client: 2,
        seconds: 10,
        bytes_per_hour: 3600,
    };
    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn connections_are_counted_by_client() {
        let mut clients = Clients::new(LIMITS);
        let [a, same, b]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "10.0.0.1"].map(|a| a.parse().unwrap());
        assert!(clients.admit(a, ZERO).is_ok() && clients.admit(same, ZERO).is_ok());
        assert!(clients.admit(a, ZERO).is_err(), "its third");
        assert!(clients.admit(b, ZERO).is_ok());
        assert!(clients.admit(b, ZERO).is_err(), "the fourth of all");
        clients.closed(a);
        assert!(
            clients
                .admit("::ffff:10.0.0.1".parse().unwrap(), ZERO)
                .is_ok()
        );
        assert!(clients.admit(b, ZERO).is_err(), "the same address");
        assert_eq!(clients.open(), 3);
    }

    #[test]
    fn bytes_come_back_by_the_hour() {
        let mut clients = Clients::new(LIMITS);
        let a: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(clients.spend(a, 1, ZERO), 0, "nobody");
        clients.admit(a, ZERO).unwrap();
        assert_eq!(clients.spend(a, 3000, ZERO), 600);
        assert_eq!(clients.spend(a, 0, Duration::from_secs(10)), 610);
        assert_eq!(clients.spend(a, 700, Duration::from_secs(10)), 0);
        assert_eq!(clients.spend(a, 0, Duration::from_secs(9999)), 3600);
    }

    #[test]
    fn memory_is_bounded() {
        let mut clients = Clients::new(Limits {
            connections: usize::MAX,
            ..LIMITS
        });
        for i in 0..100_000u32 {
            let a = IpAddr::from(i.to_be_bytes());
            if clients.admit(a, ZERO).is_ok() {
                clients.spend(a, u64::from(i % 2), ZERO);
                clients.closed(a);
            }
        }
        assert!(clients.by.len() <= REMEMBERED);
        // An hour later all have their bytes again, and are forgotten.
        assert!(
            clients
                .admit([9, 9, 9, 9].into(), Duration::from_secs(4000))
                .is_ok()
        );
    }
}
