//! The hosts of a lab: servers - provider - LINE - gateway (masquerading) - clients.
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

use crate::addresses::{GATEWAY_IP, PROVIDER_IP, server_address};
use crate::emulator::Ends;
use crate::error::LabError;
use crate::experiment::{Device, Experiment};
use crate::net;

/// The WAN device in the gateway's namespace.
pub const WAN: &str = "wan";
/// The other end of the line, in the provider's namespace.
const LINE: &str = "line";
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
}

impl Topology {
    /// Makes and connects all hosts; the line's ends are the emulator's.
    pub fn build(experiment: &Experiment) -> Result<(Self, Ends), LabError> {
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
        };
        for (i, server) in this.servers.iter().enumerate() {
            let near = Ipv4Addr::new(198, 18, i as u8, 1);
            let device = format!("srv{}", i + 1);
            connect(&this.provider, &device, near, server, server_address(i))?;
        }
        for (i, client) in this.clients.iter().enumerate() {
            let near = Ipv4Addr::new(192, 168, i as u8 + 1, 1);
            let far = Ipv4Addr::new(192, 168, i as u8 + 1, 2);
            connect(&this.gateway, &lan_device(i), near, client, far.into())?;
        }
        let kind = match experiment.line.device {
            Device::Tun => TunKind::Tun,
            Device::Tap => TunKind::Tap,
        };
        let end = |device: &str, ip: Ipv4Addr, peer: Ipv4Addr, default: bool| {
            let tun = Tun::open(device, kind)?;
            net::add_address(device, ip.into(), 30)?;
            net::up(device, Some(RING))?;
            if default {
                net::add_default_route(peer.into())?;
            }
            Ok::<_, Error>(tun)
        };
        let ends = Ends {
            provider: this
                .provider
                .run(|| end(LINE, PROVIDER_IP, GATEWAY_IP, false))??,
            gateway: this
                .gateway
                .run(|| end(WAN, GATEWAY_IP, PROVIDER_IP, true))??,
            kind,
        };
        this.gateway.run(|| masquerade(WAN, WAN))??;
        if experiment.line.double_nat {
            this.provider.run(|| masquerade("srv*", "srv+"))??;
        }
        Ok((this, ends))
    }

    /// Packets that did not fit into the emulator's devices.
    pub fn ring_drops(&self) -> Result<u64, Error> {
        let provider = self.provider.run(|| net::dropped(LINE))??;
        Ok(provider + self.gateway.run(|| net::dropped(WAN))??)
    }
}

/// A pair of devices between router `near` and a host whose way out it is.
fn connect(
    near: &Netns,
    device: &str,
    near_ip: Ipv4Addr,
    far: &Netns,
    far_ip: IpAddr,
) -> Result<(), LabError> {
    const HOST: &str = "eth0";
    near.run(|| {
        net::add_veth(device, HOST, far)?;
        net::add_address(device, near_ip.into(), 24)?;
        no_offloads(device)?;
        net::up(device, None)
    })??;
    far.run(|| {
        net::add_address(HOST, far_ip, 24)?;
        no_offloads(HOST)?;
        net::up(HOST, None)?;
        net::add_default_route(near_ip.into())
    })??;
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
fn prepare(name: &str) -> Result<(), Error> {
    net::up("lo", None)?;
    set_sysctl(
        "net.ipv4.ip_forward",
        if name == "gateway" || name == "provider" {
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
fn masquerade(nft: &str, iptables: &str) -> Result<(), LabError> {
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
