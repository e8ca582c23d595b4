//! `evenkeel line`: what kind of line this is.
//!
//! Principles: what is decided is decided by `evenkeel_core::linklayer`, here are sockets and their order: who
//! is on the way, echoes of many sizes to the nearest that answers, trains up, trains down; nobody is sent
//! trains to who was not named; what the far side, the interface and the router say is told beside what was
//! measured, never instead. Non-goals: printing (`text`), changing anything but the profile.

pub mod device;
pub mod form;
pub mod igd;
mod link;
mod sweep;
pub mod text;
pub mod walk;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::linklayer::Verdict;
use evenkeel_core::linklayer::idle::Stairs;
use evenkeel_core::linklayer::saturation::{Saturation, Settings, Step};
use evenkeel_core::linklayer::survey::survey;
use evenkeel_core::{Direction, PerDirection};
use evenkeel_measure::hops::near;
use evenkeel_sys::clock;

use crate::failed::Failed;
use crate::proto::PORT;
use form::{Answering, DirectionForm, Form, words};
use link::Link;
pub use sweep::Show;

/// Where the way to the Internet leads if nobody is named: only hops on the way are asked.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1));
/// Sizes of IP packets that lines have as their largest: what is not carried whole is none.
const MTUS: [u32; 10] = [1500, 1492, 1488, 1480, 1472, 1460, 1454, 1440, 1400, 1280];

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Any host beyond the line, with a port if it is `evenkeel serve` on another than the usual.
    pub server: Option<String>,
    /// What `evenkeel serve --token` was given.
    pub token: String,
    /// The device that leads there; without it that of the route.
    pub device: Option<String>,
    /// Trains may take what the line carries in so many seconds, each way.
    pub budget: f64,
    /// Nothing is asked of the router.
    pub without_router: bool,
}

/// Finds out.
pub fn run(o: &Options, cancel: &AtomicBool, show: Show<'_>) -> Result<Form, Failed> {
    let server = o.server.as_deref().map(resolve).transpose()?;
    let target = server.unwrap_or(SocketAddr::new(FAR, 0));
    let device = match &o.device {
        Some(name) => name.clone(),
        None => crate::client::device::Device::towards(target)
            .map(|d| d.0)
            .ok_or_else(|| {
                Failed::Usage("there is no route to the Internet: name the device".into())
            })?,
    };
    let facts = device::facts(&device)?;
    let shaper = crate::client::device::Device(device.clone()).shaper();
    if !shaper.is_empty() {
        return Err(Failed::Usage(format!(
            "{device} is shaped by {shaper}, which would be measured rather than the line: {}",
            if shaper == "evenkeel" {
                format!("evenkeel clear {device}, and evenkeel run or shape again afterwards")
            } else {
                format!("remove it first (tc qdisc del dev {device} root)")
            }
        )));
    }
    show("who is on the way");
    let near = near(SocketAddr::new(target.ip(), 0)).ok().flatten();
    stop(cancel)?;
    let echoes_to = near
        .filter(|n| n.answers)
        .map(|n| n.address)
        .or(server.map(|s| s.ip()));
    let mut form = Form::new(&device, facts, near, server);
    if let Some(to) = echoes_to {
        let rounds = if server.is_some() { 3 } else { 24 };
        let mtu = form.device.mtu.min(1500);
        match sweep::sweep(to, mtu, rounds, cancel, show) {
            Ok(swept) => form.echoes(to, &swept),
            // Trains to `evenkeel serve` need no echoes.
            Err(e) if server.is_none() => return Err(e),
            Err(_) => {}
        }
    }
    stop(cancel)?;
    let mut trains = PerDirection::default();
    if let Some(server) = server {
        trains = send_trains(o, server, &mut form, cancel, show)?;
    }
    let stairs = form.stairs().unwrap_or(Stairs::Unknown);
    form.found(&survey(stairs, trains));
    if !o.without_router {
        show("what the router says");
        form.router = igd::ask(&device);
    }
    Ok(form)
}

/// Trains up, and down if somebody is there who sends them.
fn send_trains(
    o: &Options,
    server: SocketAddr,
    form: &mut Form,
    cancel: &AtomicBool,
    show: Show<'_>,
) -> Result<PerDirection<Option<Verdict>>, Failed> {
    let mut link = Link::open(server, &o.token, &form.device.name)?;
    form.answering = Some(if link.serves() {
        Answering::Serves
    } else {
        Answering::Echoes
    });
    let mut verdicts = PerDirection::default();
    let mut found = None;
    for d in Direction::BOTH {
        if d == Direction::Down && !link.serves() {
            continue;
        }
        let largest = form.device.mtu.min(1500);
        let mtu = largest_whole(&mut link, d, largest, cancel)?;
        let mut saturation = Saturation::new(Settings {
            mtu: mtu.unwrap_or(largest),
            smallest: link.headers(),
            budget: o.budget,
            patience: Duration::from_secs_f64(6.0 + 2.0 * o.budget),
        })
        .likely(found);
        while let Step::Send(train, rest) = saturation.next(clock::monotonic()) {
            stop(cancel)?;
            let (trains, spent) = saturation.cost();
            show(&format!(
                "{}: {trains} trains, {spent:.1} s of the line",
                words(d)
            ));
            let seen = link.train(d, &train, rest)?;
            saturation.seen(clock::monotonic(), seen);
        }
        let verdict = saturation.verdict();
        found = found.or(verdict.framing);
        *form.way(d) = Some(DirectionForm::new(&verdict, &saturation, mtu));
        verdicts[d] = Some(verdict);
    }
    Ok(verdicts)
}

/// The largest packet that arrives whole; `None`: none of those that are tried, or nobody counts.
fn largest_whole(
    link: &mut Link,
    d: Direction,
    most: u32,
    cancel: &AtomicBool,
) -> Result<Option<u32>, Failed> {
    if !link.serves() {
        return Ok(Some(most));
    }
    for size in std::iter::once(most).chain(MTUS.into_iter().filter(|m| *m < most)) {
        // One loss may be chance.
        for _ in 0..2 {
            stop(cancel)?;
            if link.arrives(d, size)? {
                return Ok(Some(size));
            }
        }
    }
    Ok(None)
}

fn stop(cancel: &AtomicBool) -> Result<(), Failed> {
    if cancel.load(Ordering::Relaxed) {
        return Err(Failed::Work("interrupted; nothing was changed".into()));
    }
    Ok(())
}

/// A host with or without a port.
fn resolve(host: &str) -> Result<SocketAddr, Failed> {
    let unknown = |e: std::io::Error| Failed::Usage(format!("--server {host}: {e}"));
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, PORT));
    }
    let with_port = host
        .rsplit_once(':')
        .is_some_and(|(_, p)| p.parse::<u16>().is_ok());
    let mut all = if with_port {
        host.to_socket_addrs().map_err(unknown)?.collect::<Vec<_>>()
    } else {
        (host, PORT).to_socket_addrs().map_err(unknown)?.collect()
    };
    // Routers answer by IPv4 more often.
    all.sort_by_key(SocketAddr::is_ipv6);
    all.first()
        .copied()
        .ok_or_else(|| Failed::Usage(format!("--server {host}: it has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_ports() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:44811"),
            ("192.0.2.1:7000", "192.0.2.1:7000"),
            ("2001:db8::1", "[2001:db8::1]:44811"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(resolve(text).unwrap().to_string(), address, "{text}");
        }
        assert!(resolve("no.such.host.invalid").is_err());
    }
}
