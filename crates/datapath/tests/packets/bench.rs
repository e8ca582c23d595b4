//! The programs under test, and packets for them, byte by byte.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::units::PerDirection;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::values::{DirectionConfig, Flow, Key, Line, PriorityMode, Rule};
use evenkeel_datapath::{Maps, Programs};

pub(crate) const US: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const THEM: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;

/// `TC_ACT_UNSPEC`: the next filter decides.
pub(crate) const NEXT: u32 = u32::MAX;

pub(crate) struct Bench {
    pub(crate) programs: Programs,
    pub(crate) maps: Maps,
}

/// Lets so many milliseconds pass, or more: the programs' clock is the one that a sleep is counted on
/// (`CLOCK_MONOTONIC`). How much more, no test may assume.
pub(crate) fn pass(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// What became of a packet.
pub(crate) struct After {
    pub(crate) priority: u32,
}

impl Bench {
    pub(crate) fn new(link_header: u16, mode: PriorityMode) -> Self {
        let mut programs = Programs::load(link_header).unwrap_or_else(|e| panic!("{e}"));
        let mut maps = programs.maps().unwrap();
        let told = |major| DirectionConfig {
            mode,
            major,
            max_packet: None,
            framing: Framing::new(Mode::Atm, 40, 0),
        };
        maps.set_directions(PerDirection {
            up: told(0xec0),
            down: told(0xec1),
        })
        .unwrap();
        Bench { programs, maps }
    }

    pub(crate) fn with_rules(link_header: u16, mode: PriorityMode, rules: &[Rule]) -> Self {
        let mut bench = Bench::new(link_header, mode);
        bench.maps.set_rules(rules).unwrap();
        bench
    }

    pub(crate) fn run(&self, program: &str, packet: &[u8], mark: u32, segments: u32) -> After {
        self.try_run(program, packet, mark, segments)
            .unwrap_or_else(|e| panic!("{program}: {e}"))
    }

    /// The kernel refuses to make a packet of what is shorter than its headers say.
    pub(crate) fn try_run(
        &self,
        program: &str,
        packet: &[u8],
        mark: u32,
        segments: u32,
    ) -> Result<After, evenkeel_datapath::Error> {
        // struct __sk_buff: mark at 8, priority at 32, gso_segs at 164, gso_size at 176.
        let mut context = [0u8; 192];
        context[8..12].copy_from_slice(&mark.to_ne_bytes());
        if segments > 1 {
            context[164..168].copy_from_slice(&segments.to_ne_bytes());
            context[176..180].copy_from_slice(&1448u32.to_ne_bytes());
        }
        let (returned, after, _) = self.programs.test_run(program, packet, &context, 1)?;
        assert_eq!(returned, NEXT, "{program} never decides");
        Ok(After {
            priority: u32::from_ne_bytes(after[32..36].try_into().unwrap()),
        })
    }

    pub(crate) fn up(&self, packet: &[u8]) -> After {
        self.run("ek_egress", packet, 0, 1)
    }

    pub(crate) fn down(&self, packet: &[u8]) -> After {
        self.run("ek_ingress", packet, 0, 1)
    }

    pub(crate) fn flow(&self, key: Key) -> Flow {
        self.maps
            .flow(key)
            .unwrap_or_else(|| panic!("{key:?} is not among {:?}", self.maps.flows().unwrap()))
    }
}

/// A line for windows, of Ethernet frames, all of which they may use.
pub(crate) fn line(kbit: u64) -> Line {
    Line {
        lease: Duration::MAX,
        rate: Rate::from_kbit(kbit),
        target: Rate::from_kbit(kbit),
        framing: Framing::new(Mode::None, 14, 64),
        mtu: 1500,
        slack: Duration::ZERO,
        surcharge: 0,
        fills: false,
        lan: true,
    }
}

pub(crate) fn key(proto: u8, local_port: u16, remote_port: u16) -> Key {
    Key {
        local: US.into(),
        remote: THEM.into(),
        local_port,
        remote_port,
        proto,
    }
}

pub(crate) fn key6(proto: u8, local_port: u16, remote_port: u16) -> Key {
    Key {
        local: us6().into(),
        remote: them6().into(),
        local_port,
        remote_port,
        proto,
    }
}

pub(crate) fn us6() -> Ipv6Addr {
    "2001:db8::2".parse().unwrap()
}

pub(crate) fn them6() -> Ipv6Addr {
    "2001:db8:1::9".parse().unwrap()
}

/// An IPv4 packet; `fragment` is the field with flags and offset.
pub(crate) fn v4(
    from: Ipv4Addr,
    to: Ipv4Addr,
    proto: u8,
    dscp: u8,
    fragment: u16,
    body: &[u8],
) -> Vec<u8> {
    let length = (20 + body.len()) as u16;
    let mut p = vec![0x45, dscp << 2];
    p.extend(length.to_be_bytes());
    p.extend([0x12, 0x34]);
    p.extend(fragment.to_be_bytes());
    p.extend([64, proto, 0, 0]);
    p.extend(from.octets());
    p.extend(to.octets());
    p.extend(body);
    p
}

pub(crate) fn v6(from: Ipv6Addr, to: Ipv6Addr, next: u8, dscp: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60 | dscp >> 2, dscp << 6, 0, 0];
    p.extend((body.len() as u16).to_be_bytes());
    p.extend([next, 64]);
    p.extend(from.octets());
    p.extend(to.octets());
    p.extend(body);
    p
}

pub(crate) fn ethernet(proto: u16, body: &[u8]) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    p.extend(proto.to_be_bytes());
    p.extend(body);
    p
}

pub(crate) fn udp(from: u16, to: u16, payload: usize) -> Vec<u8> {
    let mut p = Vec::new();
    p.extend(from.to_be_bytes());
    p.extend(to.to_be_bytes());
    p.extend(((8 + payload) as u16).to_be_bytes());
    p.extend([0, 0]);
    p.resize(8 + payload, 0xaa);
    p
}

pub(crate) fn tcp(from: u16, to: u16, flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let mut p = Vec::new();
    p.extend(from.to_be_bytes());
    p.extend(to.to_be_bytes());
    p.extend([0; 8]);
    p.push(((20 + options.len()) as u8 / 4) << 4);
    p.push(flags);
    p.extend([1, 0, 0, 0, 0, 0]);
    p.extend(options);
    p.resize(p.len() + payload, 0xaa);
    p
}

/// NOP NOP TIMESTAMPS.
pub(crate) fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut o = vec![1, 1, 8, 10];
    o.extend(value.to_be_bytes());
    o.extend(echo.to_be_bytes());
    o
}

pub(crate) fn up4(body: &[u8], proto: u8) -> Vec<u8> {
    v4(US, THEM, proto, 0, 0, body)
}

pub(crate) fn down4(body: &[u8], proto: u8) -> Vec<u8> {
    v4(THEM, US, proto, 0, 0, body)
}

/// A segment without time stamps.
pub(crate) fn segment(ports: (u16, u16), seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let mut segment = tcp(ports.0, ports.1, ACK, &[], payload);
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    segment[8..12].copy_from_slice(&ack.to_be_bytes());
    segment
}
