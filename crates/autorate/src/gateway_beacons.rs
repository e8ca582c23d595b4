//! A gateway tells those behind it that it shapes for them.
//!
//! Principles: on each network of its own beside the line, with the key that hosts there derive from what they see of it, by
//! IPv4 and by IPv6, where it passes those on; seldom, since nothing follows at once; networks that are not there or cannot
//! be told are left out. Non-goals: what the hosts do about it (`cooperation`).

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::sharing::Report;
use evenkeel_kernel::Session;
use evenkeel_sys::ifreq::hardware_address;
use evenkeel_sys::{LinkGroup, clock};
use evenkeel_wire::beacon::{Key, seal};

use crate::cooperation::{Cooperate, GROUP, GROUP_IPV6, TOS};
use crate::lan_identity::{hardware_text, ipv6_links, networks};

/// From one beacon to the next.
const EACH: Duration = Duration::from_millis(1500);

/// Those networks.
pub(crate) struct GatewayBeacons {
    lans: Vec<(LinkGroup, Key)>,
    id: u64,
    next: Duration,
}

impl GatewayBeacons {
    /// On all networks of this machine but that of `wan`; none where it passes nothing on.
    pub(crate) fn start(wan: &str, with: &Cooperate, id: u64) -> Self {
        GatewayBeacons {
            lans: lans(wan, with),
            id,
            next: Duration::ZERO,
        }
    }

    /// Tells them, if it is time.
    pub(crate) fn tell(&mut self, now: Duration) {
        if now < self.next {
            return;
        }
        self.next = now + EACH;
        let report = Report {
            id: self.id,
            clock_us: now.as_micros() as u64,
            wall_ms: clock::realtime().as_millis() as u64,
            is_gateway: true,
            ..Report::default()
        };
        for (lan, key) in &self.lans {
            // A network that is gone has nobody to tell.
            let _ = lan.send(&seal(&report, key));
        }
    }
}

/// What a file below /proc says, or nothing.
fn proc(file: &str) -> String {
    fs::read_to_string(format!("/proc/{file}")).unwrap_or_default()
}

fn lans(wan: &str, with: &Cooperate) -> Vec<(LinkGroup, Key)> {
    let mut all: Vec<(String, Vec<u8>, SocketAddr)> = Vec::new();
    if proc("sys/net/ipv4/ip_forward").trim() == "1" {
        let networks = networks(&proc("thread-self/net/route")).into_iter();
        all.extend(networks.map(|(device, network)| (device, network, GROUP)));
    }
    if proc("sys/net/ipv6/conf/all/forwarding").trim() == "1" {
        let links = ipv6_links(&proc("thread-self/net/if_inet6")).into_iter();
        all.extend(links.map(|device| (device, Vec::new(), GROUP_IPV6)));
    }
    let links = Session::open().and_then(|mut s| s.links());
    let links = links.unwrap_or_default();
    let one = |(device, network, group): (String, Vec<u8>, SocketAddr)| {
        let index = links.iter().find(|l| l.name == device)?.index;
        let hardware = hardware_address(&device).ok()?;
        let key = Key::new(hardware_text(&hardware).as_bytes(), &network, &with.secret);
        Some((LinkGroup::join(&device, index, group, TOS).ok()?, key))
    };
    let beside = all.into_iter().filter(|(device, ..)| device != wan);
    beside.filter_map(one).collect()
}
