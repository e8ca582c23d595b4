//! The programs under test on a line, and both ends of connections as packets.

use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::values::{Flow, Key, Line};
use evenkeel_datapath::{Maps, Programs};

pub(crate) use crate::tcp::{ACK, FIN, Form, RST, SYN, Segment};

/// `TC_ACT_UNSPEC`: the next filter decides.
pub(crate) const NEXT: u32 = u32::MAX;

/// NOP NOP TIMESTAMPS.
pub(crate) const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];

/// Lets so many milliseconds pass, or more: the programs' clock is the one that a sleep is counted on
/// (`CLOCK_MONOTONIC`). How much more, no test may assume.
pub(crate) fn pass(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

pub(crate) struct Bench {
    pub(crate) programs: Programs,
    pub(crate) maps: Maps,
}

impl Bench {
    /// For packets of this form, on a line of so many kbit/s.
    pub(crate) fn new(link: u16, kbit: Option<u64>) -> Self {
        let mut programs = Programs::load(link).unwrap_or_else(|e| panic!("{e}"));
        let maps = programs.maps().unwrap();
        let mut bench = Bench { programs, maps };
        bench.line(kbit);
        bench
    }

    pub(crate) fn line(&mut self, kbit: Option<u64>) {
        self.maps
            .set_line(kbit.map(|kbit| line(kbit, Duration::MAX)))
            .unwrap();
    }

    pub(crate) fn run(&self, program: &str, packet: &[u8]) -> Vec<u8> {
        let (returned, after) = self.programs.test_packet(program, packet).unwrap();
        assert_eq!(returned, NEXT, "{program} never decides");
        after
    }

    /// What arrives is never changed.
    pub(crate) fn down(&self, form: Form, segment: &Segment) {
        let packet = form.packet(false, segment);
        assert_eq!(self.run("ek_ingress", &packet), packet, "{segment:?}");
    }

    /// Window that a packet leaves with. Nothing else of it changes, but for the checksum.
    pub(crate) fn up(&self, form: Form, segment: &Segment) -> u16 {
        let before = form.packet(true, segment);
        let mut after = self.run("ek_egress", &before);
        assert_eq!(form.sum(&after), 0xffff, "checksum of {segment:?}");
        let tcp = form.tcp();
        let window = u16::from_be_bytes([after[tcp + 14], after[tcp + 15]]);
        assert!(window <= segment.window, "{window}: {segment:?}");
        assert_eq!(window == 0, segment.window == 0, "{window}: {segment:?}");
        for at in [14, 15, 16, 17] {
            after[tcp + at] = before[tcp + at];
        }
        assert_eq!(after, before, "{segment:?}");
        window
    }

    pub(crate) fn flow(&self, form: Form) -> Flow {
        let (local, remote) = form.ends();
        let key = Key {
            local,
            remote,
            local_port: form.port,
            remote_port: 443,
            proto: 6,
        };
        self.maps.flow(key).unwrap()
    }

    /// Shakes hands; what our SYN or SYN-ACK, with all of a window, promised.
    pub(crate) fn handshake(&self, form: Form, who: &Peers) -> u16 {
        let (first, second) = who.syns();
        if who.incoming {
            self.down(form, &first);
            self.up(form, &second)
        } else {
            let promise = self.up(form, &first);
            self.down(form, &second);
            promise
        }
    }
}

pub(crate) fn line(kbit: u64, lease: Duration) -> Line {
    Line {
        lease,
        rate: Rate::from_kbit(kbit),
        target: Rate::from_kbit(kbit - kbit / 50),
        framing: Framing::new(Mode::None, 14, 64),
        mtu: 1500,
        slack: Duration::ZERO,
        surcharge: 0,
        fills: false,
        lan: true,
    }
}

/// Both ends of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    /// They opened it.
    pub(crate) incoming: bool,
    /// Where they begin to count.
    pub(crate) theirs: u32,
    /// Window scales.
    pub(crate) our_scale: Option<u8>,
    pub(crate) their_scale: Option<u8>,
    /// Of all packets but the SYNs.
    pub(crate) options: Vec<u8>,
    /// Of the SYNs.
    pub(crate) more: Vec<u8>,
}

impl Default for Peers {
    fn default() -> Self {
        Peers {
            incoming: false,
            theirs: 1000,
            our_scale: Some(7),
            their_scale: Some(7),
            options: STAMPS.to_vec(),
            more: vec![2, 4, 5, 180],
        }
    }
}

pub(crate) const OURS: u32 = 0x7fff_fff0;

impl Peers {
    pub(crate) fn syns(&self) -> (Segment, Segment) {
        let options = |scale: Option<u8>| {
            let scale = scale.map(|s| [1, 3, 3, s]);
            [&self.more[..], scale.as_ref().map_or(&[], |s| &s[..])].concat()
        };
        let syn = |seq: u32, ack: Option<u32>, scale| Segment {
            flags: SYN | ack.map_or(0, |_| ACK),
            seq,
            ack: ack.unwrap_or(0),
            window: u16::MAX,
            options: options(scale),
            payload: 0,
        };
        let (us, they) = (self.our_scale, self.their_scale);
        if self.incoming {
            let ack = self.theirs.wrapping_add(1);
            (syn(self.theirs, None, they), syn(OURS, Some(ack), us))
        } else {
            let ack = OURS.wrapping_add(1);
            (syn(OURS, None, us), syn(self.theirs, Some(ack), they))
        }
    }

    /// What our windows are shifted by (RFC 7323, 2.2).
    pub(crate) fn scale(&self) -> u8 {
        self.their_scale.and(self.our_scale).unwrap_or(0)
    }

    /// A number in their sequence, so many bytes after their SYN.
    pub(crate) fn at(&self, offset: i64) -> u32 {
        self.theirs.wrapping_add(1).wrapping_add(offset as u32)
    }

    pub(crate) fn acknowledge(&self, offset: i64, window: u16) -> Segment {
        Segment {
            flags: ACK,
            seq: OURS.wrapping_add(1),
            ack: self.at(offset),
            window,
            options: self.options.clone(),
            payload: 0,
        }
    }

    pub(crate) fn data(&self, offset: i64, payload: usize) -> Segment {
        Segment {
            flags: ACK,
            seq: self.at(offset),
            ack: OURS.wrapping_add(1),
            window: 500,
            options: self.options.clone(),
            payload,
        }
    }
}
