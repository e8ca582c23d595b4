//! The hosts of a lab: servers - provider - LINE - gateway (masquerading) - clients. Where the
//! provider's box stands in front: servers - provider - LINE - box (masquerading) - gateway -
//! clients, and hosts beside the gateway behind the box. Some clients are behind a line of their
//! own, as one of radio is.
//!
//! Principles: each is a network namespace without a name, so nothing outlives this process;
//! every run gets new ones, so that no run knows of another; hosts send packets of at most the
//! MTU, as on a wire. Non-goals: IPv6 (switched off, the line stays silent when nobody sends).

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use evenkeel_sys::ifreq::{Offload, set_offload};
use evenkeel_sys::netns::set_sysctl;
use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Error, Netns, sched};

use crate::addresses::{BOX_IP, GATEWAY_IP, PROVIDER_IP, server_address};
use crate::emulator::Ends;
use crate::error::LabError;
use crate::experiment::{Device, Experiment};
use crate::net;

/// The WAN device in the gateway's namespace.
pub const WAN: &str = "wan";
/// The other end of the line, in the provider's namespace.
const LINE: &str = "line";
/// A host's device towards the router.
const HOST: &str = "eth0";
/// A TUN device holds 500 packets unless told otherwise and then drops: not our queue.
const RING: u32 = 10_000;

/// The hosts.
#[derive(Debug)]
pub struct Topology {
    /// In the order of the experiment.
    pub servers: Vec<Netns>,
    /// Between servers and line.
    pub provider: Netns,
    /// Between line and clients.
    pub gateway: Netns,
    /// In the order of their numbers.
    pub clients: Vec<Netns>,
    /// In front of the gateway, if there is one.
    pub front: Option<Netns>,
    /// Hosts behind the box in front, beside the gateway.
    pub beside: Vec<Netns>,
}

/// Between what the emulators of a lab are.
#[derive(Debug)]
pub struct AllEnds {
    /// The line's.
    pub line: Ends,
    /// Those of lines to clients, with the client's number from 0.
    pub radio: Vec<(usize, Ends)>,
}

impl Topology {
    /// Makes and connects all hosts; the line's ends are the emulator's.
    pub fn build(experiment: &Experiment) -> Result<(Self, AllEnds), LabError> {
        let host = |name: &str| {
            let ns = Netns::new(name)?;
            ns.run(|| prepare(name))??;
            Ok::<_, Error>(ns)
        };
        let this = Topology {
            servers: experiment
                .servers
                .iter()
                .map(|s| host(&format!("server {}", s.name)))
                .collect::<Result<_, _>>()?,
            provider: host("provider")?,
            gateway: host("gateway")?,
            clients: (1..=experiment.clients)
                .map(|i| host(&format!("client {i}")))
                .collect::<Result<_, _>>()?,
            front: experiment
                .line
                .box_in_front
                .then(|| host("box"))
                .transpose()?,
            beside: (1..=experiment.beside)
                .map(|i| host(&format!("beside {i}")))
                .collect::<Result<_, _>>()?,
        };
        for (i, server) in this.servers.iter().enumerate() {
            let near = Ipv4Addr::new(198, 18, i as u8, 1);
            let device = format!("srv{}", i + 1);
            connect(&this.provider, &device, near, server, server_address(i))?;
            let spec = &experiment.servers[i];
            server.run(|| tcp_options(spec.time_stamps, spec.sack))??;
        }
        let radio = this.connect_clients(experiment)?;
        let line = this.connect_line(experiment)?;
        if experiment.line.double_nat {
            this.provider.run(|| masquerade("srv*", "srv+"))??;
        }
        Ok((this, AllEnds { line, radio }))
    }

    /// Clients behind the gateway, some of them over radio.
    fn connect_clients(&self, experiment: &Experiment) -> Result<Vec<(usize, Ends)>, LabError> {
        let mut radio = Vec::new();
        for (i, client) in self.clients.iter().enumerate() {
            let near = Ipv4Addr::new(192, 168, i as u8 + 1, 1);
            let far = Ipv4Addr::new(192, 168, i as u8 + 1, 2);
            let device = lan_device(i);
            if experiment.radio.iter().all(|r| r.client != i + 1) {
                connect(&self.gateway, &device, near, client, far.into())?;
                continue;
            }
            let kind = TunKind::Tap;
            let ends = Ends {
                provider: self.gateway.run(|| end(&device, kind, near, 24, None))??,
                gateway: client.run(|| end(HOST, kind, far, 24, Some(near)))??,
                kind,
            };
            radio.push((i, ends));
        }
        Ok(radio)
    }

    /// The line, from the provider to the gateway or to the box in front of it.
    fn connect_line(&self, experiment: &Experiment) -> Result<Ends, LabError> {
        let kind = match experiment.line.device {
            Device::Tun => TunKind::Tun,
            Device::Tap => TunKind::Tap,
        };
        let customer = self.front.as_ref().unwrap_or(&self.gateway);
        let near = self.line_device();
        let provider = || end(LINE, kind, PROVIDER_IP, 30, None);
        let ours = || end(near, kind, GATEWAY_IP, 30, Some(PROVIDER_IP));
        let ends = Ends {
            provider: self.provider.run(provider)??,
            gateway: customer.run(ours)??,
            kind,
        };
        self.gateway.run(|| masquerade(WAN, WAN))??;
        let Some(front) = &self.front else {
            return Ok(ends);
        };
        front.run(|| masquerade(near, near))??;
        let hosts =
            std::iter::once((&self.gateway, WAN)).chain(self.beside.iter().map(|b| (b, HOST)));
        for (i, (host, device)) in hosts.enumerate() {
            let [a, b, c, _] = BOX_IP.octets();
            let near = Ipv4Addr::new(a, b, c + i as u8, 1);
            let far = Ipv4Addr::new(a, b, c + i as u8, 2);
            let name = format!("home{i}");
            connect_by(front, &name, near.into(), host, device, far.into())?;
        }
        Ok(ends)
    }

    /// The line's device on this side.
    fn line_device(&self) -> &'static str {
        if self.front.is_some() { LINE } else { WAN }
    }

    /// Packets that did not fit into the emulator's devices.
    pub fn ring_drops(&self) -> Result<u64, Error> {
        let provider = self.provider.run(|| net::dropped(LINE))??;
        let customer = self.front.as_ref().unwrap_or(&self.gateway);
        Ok(provider + customer.run(|| net::dropped(self.line_device()))??)
    }
}

/// A pair of devices between router `near` and a host whose way out it is.
pub(crate) fn connect(
    near: &Netns,
    device: &str,
    near_ip: impl Into<IpAddr>,
    far: &Netns,
    far_ip: IpAddr,
) -> Result<(), LabError> {
    connect_by(near, device, near_ip.into(), far, HOST, far_ip)
}

/// The same with a name for the host's device.
fn connect_by(
    near: &Netns,
    device: &str,
    near_ip: IpAddr,
    far: &Netns,
    far_device: &str,
    far_ip: IpAddr,
) -> Result<(), LabError> {
    let prefix = if near_ip.is_ipv4() { 24 } else { 64 };
    near.run(|| {
        net::add_veth(device, far_device, far)?;
        net::add_address(device, near_ip, prefix)?;
        no_offloads(device)?;
        net::up(device, None)
    })??;
    far.run(|| {
        net::add_address(far_device, far_ip, prefix)?;
        no_offloads(far_device)?;
        net::up(far_device, None)?;
        net::add_default_route(near_ip)
    })??;
    Ok(())
}

/// An end of an emulated line, from a thread inside its host.
pub(crate) fn end(
    device: &str,
    kind: TunKind,
    ip: impl Into<IpAddr>,
    prefix: u8,
    way_out: Option<Ipv4Addr>,
) -> Result<Tun, Error> {
    let tun = Tun::open(device, kind)?;
    net::add_address(device, ip.into(), prefix)?;
    net::up(device, Some(RING))?;
    if let Some(peer) = way_out {
        net::add_default_route(peer.into())?;
    }
    Ok(tun)
}

/// What a host's TCP can do, from a thread inside it.
fn tcp_options(time_stamps: bool, sack: bool) -> Result<(), Error> {
    for (key, on) in [("tcp_timestamps", time_stamps), ("tcp_sack", sack)] {
        if !on {
            set_sysctl(&format!("net.ipv4.{key}"), "0")?;
        }
    }
    Ok(())
}

/// The gateway's device towards client `i` (from 0).
pub fn lan_device(i: usize) -> String {
    format!("lan{}", i + 1)
}

fn no_offloads(device: &str) -> Result<(), Error> {
    [Offload::Tso, Offload::Gso, Offload::Gro]
        .into_iter()
        .try_for_each(|o| set_offload(device, o, false))
}

/// Settings of a new namespace, from a thread inside it.
pub(crate) fn prepare(name: &str) -> Result<(), Error> {
    net::up("lo", None)?;
    set_sysctl(
        "net.ipv4.ip_forward",
        if ["gateway", "provider", "box"].contains(&name) {
            "1"
        } else {
            "0"
        },
    )?;
    // Connections must not learn from one another.
    set_sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
    // The kernel's usual bounds, whatever this machine has.
    set_sysctl("net.ipv4.tcp_rmem", "4096 131072 6291456")?;
    set_sysctl("net.ipv4.tcp_wmem", "4096 16384 4194304")?;
    set_sysctl("net.ipv4.ping_group_range", "0 2147483647")?;
    set_sysctl("net.ipv4.icmp_ratelimit", "0")?;
    // What some kernels have only for the whole machine, or not at all.
    for (key, value) in [
        ("net.ipv4.icmp_msgs_per_sec", "100000"),
        ("net.ipv6.conf.all.disable_ipv6", "1"),
        ("net.ipv6.conf.default.disable_ipv6", "1"),
    ] {
        let _ = set_sysctl(key, value);
    }
    Ok(())
}

/// Source NAT on what leaves by a device, from a thread inside the router: by nftables, or where
/// the kernel has none (Debian's User Mode Linux) by the older tables. Each has its own way to say
/// which devices.
pub(crate) fn masquerade(nft: &str, iptables: &str) -> Result<(), LabError> {
    let rules = format!(
        "table ip lab {{ chain out {{ type nat hook postrouting priority 100; oifname \"{nft}\" masquerade; }}; }}"
    );
    let older = [
        "-t",
        "nat",
        "-A",
        "POSTROUTING",
        "-o",
        iptables,
        "-j",
        "MASQUERADE",
    ];
    let Err(by_nft) = tool("nft", &["-f", "-"], &rules) else {
        return Ok(());
    };
    let Err(by_iptables) = tool("iptables-legacy", &older, "") else {
        return Ok(());
    };
    Err(LabError::Tool {
        tool: "nft",
        package: "nftables",
        why: format!("{by_nft}; run iptables-legacy instead (package iptables): {by_iptables}"),
    })
}

/// Runs `program` with `input`; its words if it fails.
fn tool(program: &str, arguments: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = sched::die_with_thread(&mut command)
        .spawn()
        .map_err(|e| e.to_string())?;
    if let Some(mut to) = child.stdin.take() {
        // A program that does not read says why on its error output.
        let _ = to.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
