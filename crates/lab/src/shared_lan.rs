//! Hosts on one LAN behind a plain router: server - provider - LINE - router - switch - hosts.
//!
//! Principles: the router is a cheap one: it translates addresses of IPv4 and routes those of IPv6, and has an evenkeel only if
//! somebody starts one; the switch is ours, between TAP devices, so that it can lose beacons, unplug a host or split the LAN; each
//! host is a network namespace. Non-goals: one host alone, or behind a gateway of ours (`topology`); both kinds of IP at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use evenkeel_core::pipe::SplitMix64;
use evenkeel_sys::netns::set_sysctl;
use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Error, Netns};

use crate::addresses::{GATEWAY_IP, PROVIDER_IP, server_address};
use crate::emulator::{Emulator, Ends};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::net;
use crate::topology::{connect, end, masquerade, prepare};

/// The router on the LAN.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The networks of IPv6, of server, line and LAN: out of the block for benchmarks (RFC 5180, section 8).
const IPV6_SERVER: u16 = 1;
const IPV6_LINE: u16 = 2;
const IPV6_LAN: u16 = 3;
/// The first host has this as the last part of its address.
const FIRST: u8 = 10;
/// Frames read from one port before the others have their turn.
const BATCH: usize = 32;
/// Bytes of a frame's addresses (IEEE 802.3).
const ADDRESSES: usize = 12;
/// The first byte of the address of a group.
const IS_GROUP: u8 = 1;
/// Of IPv4 groups (RFC 1112, 6.4).
const IPV4_GROUP: [u8; 3] = [0x01, 0x00, 0x5e];
/// The address of the group that beacons go to by IPv6, ff02::114 (RFC 2464, section 7); who asks for neighbours is not meant.
const IPV6_BEACONS: [u8; 6] = [0x33, 0x33, 0, 0, 0x01, 0x14];

/// The hosts, their line and their switch. All of it ends with this.
#[derive(Debug)]
pub struct SharedLan {
    /// In the Internet.
    pub server: Netns,
    /// Those on the LAN, in the order of their addresses.
    pub hosts: Vec<Netns>,
    /// What is between them.
    pub switch: Switch,
    /// Their line.
    pub line: Emulator,
    /// The router; its device towards the line is `wan`.
    pub router: Netns,
    _provider: Netns,
}

/// The name of a host's device, from 0: where maps of programs are looked for by name each has its own.
pub fn device(host: usize) -> String {
    format!("pc{host}")
}

/// A host's address.
pub fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 77, FIRST + host as u8)
}

/// By which IP all of them talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// IPv4, which the router translates.
    Ipv4,
    /// IPv6 alone.
    Ipv6,
}

impl By {
    /// The server.
    pub fn server(self) -> IpAddr {
        match self {
            By::Ipv4 => server_address(0),
            By::Ipv6 => ipv6(IPV6_SERVER, 2).into(),
        }
    }

    /// The first hop beyond the line.
    pub fn provider(self) -> IpAddr {
        match self {
            By::Ipv4 => PROVIDER_IP.into(),
            By::Ipv6 => ipv6(IPV6_LINE, 1).into(),
        }
    }
}

fn ipv6(network: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, network, 0, 0, 0, host)
}

/// IPv6 in a new namespace, from a thread inside it: on at once, and nothing by itself.
fn prepare_ipv6(forwards: bool) -> Result<(), Error> {
    for (key, value) in [
        ("conf.all.disable_ipv6", "0"),
        ("conf.default.disable_ipv6", "0"),
        ("conf.default.accept_dad", "0"),
        ("conf.default.accept_ra", "0"),
        ("conf.all.forwarding", if forwards { "1" } else { "0" }),
        ("icmp.ratelimit", "0"),
    ] {
        set_sysctl(&format!("net.ipv6.{key}"), value)?;
    }
    Ok(())
}

impl SharedLan {
    /// The same by IPv6 alone: the router is known by its address of the link, as from its advertisements.
    pub fn build_ipv6(experiment: &Experiment, hosts: usize) -> Result<Self, LabError> {
        let host = |name: &str, forwards| {
            let ns = Netns::new(name)?;
            ns.run(|| prepare(name).and_then(|()| prepare_ipv6(forwards)))??;
            Ok::<_, Error>(ns)
        };
        let (server, provider, router) = (
            host("server 1", false)?,
            host("provider", true)?,
            host("box", true)?,
        );
        let by = By::Ipv6;
        connect(
            &provider,
            "srv1",
            ipv6(IPV6_SERVER, 1),
            &server,
            by.server(),
        )?;
        let ours = ipv6(IPV6_LINE, 2);
        let line = |name: &str, own: IpAddr, far: IpAddr| {
            let tun = end(name, TunKind::Tun, own, 64, None)?;
            net::add_default_route(far)?;
            Ok::<_, Error>(tun)
        };
        let ends = Ends {
            provider: provider.run(|| line("line", by.provider(), ours.into()))??,
            gateway: router.run(|| line("wan", ours.into(), by.provider()))??,
            kind: TunKind::Tun,
        };
        let tap = |name: &str, host| end(name, TunKind::Tap, ipv6(IPV6_LAN, host), 64, None);
        let mut ports = vec![router.run(|| tap("lan", 1))??];
        let way_out = router.run(|| net::link_address("lan"))??;
        let mut all = Vec::new();
        for i in 0..hosts {
            let ns = host(&format!("host {i}"), false)?;
            let name = device(i);
            ports.push(ns.run(|| tap(&name, u16::from(FIRST) + i as u16))??);
            ns.run(|| net::add_default_route_on(&name, way_out))??;
            all.push(ns);
        }
        let hosts = (all, server, provider, router);
        SharedLan::start(experiment, ends, ports, hosts)
    }

    /// Begins to pass packets on.
    fn start(
        experiment: &Experiment,
        ends: Ends,
        ports: Vec<Tun>,
        (hosts, server, provider, router): (Vec<Netns>, Netns, Netns, Netns),
    ) -> Result<Self, LabError> {
        Ok(SharedLan {
            line: Emulator::start(ends, experiment.line_config(1))?,
            switch: Switch::start(ports)?,
            hosts,
            server,
            _provider: provider,
            router,
        })
    }

    /// So many hosts on the line of an experiment.
    pub fn build(experiment: &Experiment, hosts: usize) -> Result<Self, LabError> {
        let host = |name: &str| {
            let ns = Netns::new(name)?;
            ns.run(|| prepare(name))??;
            Ok::<_, Error>(ns)
        };
        let (server, provider, router) = (host("server 1")?, host("provider")?, host("box")?);
        let near = Ipv4Addr::new(198, 18, 0, 1);
        connect(&provider, "srv1", near, &server, server_address(0))?;
        let tun = TunKind::Tun;
        let ends = Ends {
            provider: provider.run(|| end("line", tun, PROVIDER_IP, 30, None))??,
            gateway: router.run(|| end("wan", tun, GATEWAY_IP, 30, Some(PROVIDER_IP)))??,
            kind: tun,
        };
        router.run(|| masquerade("wan", "wan"))??;
        let tap = TunKind::Tap;
        let mut ports = vec![router.run(|| end("lan", tap, ROUTER, 24, None))??];
        let mut all = Vec::new();
        for i in 0..hosts {
            let ns = host(&format!("host {i}"))?;
            let port = || end(&device(i), tap, address(i), 24, Some(ROUTER));
            ports.push(ns.run(port)??);
            all.push(ns);
        }
        let hosts = (all, server, provider, router);
        SharedLan::start(experiment, ends, ports, hosts)
    }
}

/// What a switch does to frames.
#[derive(Debug)]
struct Faults {
    /// Of frames to groups of IPv4 and to that of beacons, thousandths.
    lost: AtomicU32,
    /// Ports without a cable, a bit each.
    unplugged: AtomicU64,
    /// Ports of the other part while the LAN is split: frames to groups do not pass from one to the other.
    apart: AtomicU64,
}

/// A switch. It stops when dropped.
#[derive(Debug)]
pub struct Switch {
    faults: Arc<Faults>,
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Switch {
    /// Between these, the first of them the router's.
    fn start(ports: Vec<Tun>) -> Result<Self, Error> {
        let faults = Arc::new(Faults {
            lost: AtomicU32::new(0),
            unplugged: AtomicU64::new(0),
            apart: AtomicU64::new(0),
        });
        let stop = Arc::new(Waker::new()?);
        let (own, until) = (Arc::clone(&faults), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("switch".into())
            .spawn(move || carry(&ports, &own, &until))
            .map_err(|e| Error::io("start the switch's thread", &e))?;
        Ok(Switch {
            faults,
            stop,
            thread: Some(thread),
        })
    }

    /// From now on so many of a thousand frames to groups get lost, for each of those who would hear them.
    pub fn lose(&self, permille: u32) {
        self.faults.lost.store(permille, Ordering::Relaxed);
    }

    /// Pulls the cable of a host.
    pub fn unplug(&self, host: usize) {
        self.faults.unplugged.fetch_or(2 << host, Ordering::Relaxed);
    }

    /// These hear nothing of what the others send to groups, and the others nothing of theirs; with nobody all is as
    /// before.
    pub fn split(&self, hosts: &[usize]) {
        let apart = hosts.iter().fold(0, |bits, host| bits | 2 << host);
        self.faults.apart.store(apart, Ordering::Relaxed);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A switch that failed has been noticed by who needed it.
            let _ = thread.join();
        }
    }
}

/// Carries frames until woken.
fn carry(ports: &[Tun], faults: &Faults, stop: &Waker) -> Result<(), Error> {
    let poller = Poller::new()?;
    for (port, i) in ports.iter().zip(0..) {
        poller.add(port, i, Interest::Read)?;
    }
    poller.add(stop, u64::MAX, Interest::Read)?;
    let mut places: Vec<Option<[u8; 6]>> = vec![None; ports.len()];
    let mut luck = SplitMix64::new(1);
    let (mut ready, mut frame) = (Vec::new(), vec![0; 65_536]);
    loop {
        poller.wait(&mut ready)?;
        for r in &ready {
            if r.token == u64::MAX {
                return Ok(());
            }
            let from = r.token as usize;
            for _ in 0..BATCH {
                let Some(n) = ports[from].read(&mut frame)? else {
                    break;
                };
                pass(ports, from, &frame[..n], &mut places, faults, &mut luck)?;
            }
        }
    }
}

/// Passes a frame on to where it is wanted.
fn pass(
    ports: &[Tun],
    from: usize,
    frame: &[u8],
    places: &mut [Option<[u8; 6]>],
    faults: &Faults,
    luck: &mut SplitMix64,
) -> Result<(), Error> {
    let unplugged = faults.unplugged.load(Ordering::Relaxed);
    if frame.len() < ADDRESSES || unplugged >> from & 1 != 0 {
        return Ok(());
    }
    let (mut to, mut source) = ([0; 6], [0; 6]);
    to.copy_from_slice(&frame[..6]);
    source.copy_from_slice(&frame[6..ADDRESSES]);
    places[from] = Some(source);
    let is_group = to[0] & IS_GROUP != 0;
    let known = places.iter().position(|p| *p == Some(to));
    let apart = faults.apart.load(Ordering::Relaxed);
    let lost = f64::from(faults.lost.load(Ordering::Relaxed)) / 1e3;
    for (i, port) in ports.iter().enumerate() {
        let is_there = i != from && unplugged >> i & 1 == 0;
        let is_wanted = is_group || known.is_none_or(|k| k == i);
        let is_group_ip = to.starts_with(&IPV4_GROUP) || to == IPV6_BEACONS;
        let is_lost = is_group_ip && ((apart >> i ^ apart >> from) & 1 != 0 || luck.unit() < lost);
        if is_there && is_wanted && !is_lost {
            // A device that is full loses it, as a switch does.
            let _ = port.write(frame)?;
        }
    }
    Ok(())
}
