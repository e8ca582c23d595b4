//! Receive windows as the programs in this kernel bound them (`BPF_PROG_TEST_RUN`): what leaves
//! is compared byte by byte with what came, and its checksum is computed anew.
//!
//! Principles: a receiver is modelled in offsets that do not wrap, packets carry them wrapped; what
//! is random comes from a number that a failure names. Non-goals: rates, which need a line (the
//! lab's). They need root and a kernel with eBPF.

use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::layout::{Flow, Key, Line};
use evenkeel_datapath::{Maps, Programs};

mod tcp;
use tcp::{ACK, FIN, Form, RST, SYN, Segment};

/// `TC_ACT_UNSPEC`: the next filter decides.
const NEXT: u32 = u32::MAX;
/// NOP NOP TIMESTAMPS.
const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];

struct Bench {
    programs: Programs,
    maps: Maps,
}

impl Bench {
    /// For packets of this form, on a line of so many kbit/s.
    fn new(link: u16, kbit: Option<u64>) -> Self {
        let mut programs = Programs::load(link).unwrap_or_else(|e| panic!("{e}"));
        let maps = programs.maps().unwrap();
        let mut bench = Bench { programs, maps };
        bench.line(kbit);
        bench
    }

    fn line(&mut self, kbit: Option<u64>) {
        self.maps
            .set_line(kbit.map(|kbit| line(kbit, Duration::MAX)))
            .unwrap();
    }

    fn run(&self, program: &str, packet: &[u8]) -> Vec<u8> {
        let (returned, after) = self.programs.test_packet(program, packet).unwrap();
        assert_eq!(returned, NEXT, "{program} never decides");
        after
    }

    /// What arrives is never changed.
    fn down(&self, form: Form, segment: &Segment) {
        let packet = form.packet(false, segment);
        assert_eq!(self.run("ek_ingress", &packet), packet, "{segment:?}");
    }

    /// Window that a packet leaves with. Nothing else of it changes, but for the checksum.
    fn up(&self, form: Form, segment: &Segment) -> u16 {
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

    fn flow(&self, form: Form) -> Flow {
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
    fn handshake(&self, form: Form, who: &Peers) -> u16 {
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

fn line(kbit: u64, lease: Duration) -> Line {
    Line {
        lease,
        rate: Rate::from_kbit(kbit),
        target: Rate::from_kbit(kbit - kbit / 50),
        framing: Framing::new(Mode::None, 14, 64),
        mtu: 1500,
    }
}

/// Both ends of a connection.
#[derive(Debug, Clone)]
struct Peers {
    /// They opened it.
    incoming: bool,
    /// Where they begin to count.
    theirs: u32,
    /// Window scales.
    our_scale: Option<u8>,
    their_scale: Option<u8>,
    /// Of all packets but the SYNs.
    options: Vec<u8>,
    /// Of the SYNs.
    more: Vec<u8>,
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

const OURS: u32 = 0x7fff_fff0;

impl Peers {
    fn syns(&self) -> (Segment, Segment) {
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
    fn scale(&self) -> u8 {
        self.their_scale.and(self.our_scale).unwrap_or(0)
    }

    /// A number in their sequence, so many bytes after their SYN.
    fn at(&self, offset: i64) -> u32 {
        self.theirs.wrapping_add(1).wrapping_add(offset as u32)
    }

    fn acknowledge(&self, offset: i64, window: u16) -> Segment {
        Segment {
            flags: ACK,
            seq: OURS.wrapping_add(1),
            ack: self.at(offset),
            window,
            options: self.options.clone(),
            payload: 0,
        }
    }

    fn data(&self, offset: i64, payload: usize) -> Segment {
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

/// xorshift64.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    fn scale(&mut self) -> Option<u8> {
        (self.below(5) > 0).then(|| self.below(15) as u8)
    }

    fn kbit(&mut self) -> u64 {
        [200, 2000, 20_000, 200_000, 1_000_000][self.below(5) as usize]
    }
}

/// A receiver behind us, in offsets from their first byte.
struct Receiver<'a> {
    bench: &'a mut Bench,
    form: Form,
    who: Peers,
    /// All before it has arrived.
    next: i64,
    /// Behind the last that has arrived or was lost.
    high: i64,
    /// Rightmost edge that was let through.
    edge: i64,
    /// Windows are bounded, and have been since the latest packet that left.
    bounded: bool,
    seen: bool,
    /// Packets whose window was changed.
    changed: u32,
}

impl Receiver<'_> {
    /// Lets a packet leave, and looks at the edge that it shows.
    fn offer(&mut self, segment: &Segment, at: i64) {
        let window = self.bench.up(self.form, segment);
        let scale = self.who.scale();
        let [own, after] = [segment.window, window].map(|w| at + (i64::from(w) << scale));
        if !self.bounded {
            assert_eq!(window, segment.window, "{segment:?}");
        }
        if segment.window == 0 {
            return;
        }
        if self.seen {
            assert!(
                after == own || after >= self.edge,
                "{after} is left of {}, the receiver's own is {own}: {segment:?} of {:?}",
                self.edge,
                self.who
            );
            self.edge = self.edge.max(after);
        } else {
            // What was let through before is not known but by this.
            assert_eq!(after, own, "{segment:?}");
            self.edge = after;
            self.seen = self.bounded;
        }
        self.changed += u32::from(window != segment.window);
    }

    fn acknowledge(&mut self, at: i64, random: &mut Random) {
        let window = match random.below(8) {
            0 => 0,
            1 => random.below(20) as u16,
            2 | 3 => random.below(0x1_0000) as u16,
            _ => u16::MAX,
        };
        let mut segment = self.who.acknowledge(at, window);
        if self.high > self.next && random.below(2) == 0 {
            // SACK of what lies behind the hole.
            segment.options = vec![1, 1, 5, 10];
            segment
                .options
                .extend(self.who.at(self.high - 1).to_be_bytes());
            segment.options.extend(self.who.at(self.high).to_be_bytes());
        }
        if random.below(10) == 0 {
            // With data of ours, or a keep-alive.
            segment.payload = random.below(100) as usize;
            segment.seq = segment.seq.wrapping_sub(random.below(2) as u32);
        }
        if random.below(50) == 0 {
            segment.flags |= FIN;
        }
        self.offer(&segment, at);
    }

    fn step(&mut self, random: &mut Random) {
        let length = if random.below(4) > 0 {
            1400
        } else {
            1 + random.below(1460)
        };
        match random.below(24) {
            0..8 => {
                let data = self.who.data(self.high, length as usize);
                self.bench.down(self.form, &data);
                if self.next == self.high {
                    self.next += length as i64;
                }
                self.high += length as i64;
            }
            8 => self.high += length as i64,
            9 | 10 => {
                let data = self.who.data(self.next, length as usize);
                self.bench.down(self.form, &data);
                self.next = self.high;
            }
            // Reordered.
            11 => self.acknowledge((self.next - length as i64).max(0), random),
            // A keep-alive, or a probe of a window of zero.
            12 => self.bench.down(self.form, &self.who.data(self.next - 1, 0)),
            13 => self.bench.down(self.form, &self.who.data(self.next, 1)),
            // Copies of the SYNs that were on their way for long.
            14 if self.seen && random.below(4) == 0 => {
                self.bench.handshake(self.form, &self.who);
            }
            15 if random.below(8) == 0 => {
                let mut reset = self.who.acknowledge(self.next, 300);
                reset.flags |= RST;
                assert_eq!(self.bench.up(self.form, &reset), 300);
            }
            _ => self.acknowledge(self.next, random),
        }
    }

    fn line(&mut self, kbit: Option<u64>) {
        self.bench.line(kbit);
        self.bounded = kbit.is_some();
        self.seen &= self.bounded;
    }
}

#[test]
fn a_right_edge_never_moves_left() {
    for form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        let mut changed = 0;
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let who = Peers {
                incoming: random.below(2) == 0,
                // They begin anywhere, or so that they soon wrap.
                theirs: (random.below(1 << 32) as u32)
                    .max(0u32.wrapping_sub(random.below(300_000) as u32) * (seed as u32 & 1)),
                our_scale: random.scale(),
                their_scale: random.scale(),
                options: if random.below(2) == 0 {
                    STAMPS.to_vec()
                } else {
                    Vec::new()
                },
                ..Peers::default()
            };
            println!("{form:?}, seed {seed}: {who:?}");
            // Ports are used again, by whom the flow's entry remembers.
            let form = Form {
                port: 100 + (seed % 7) as u16,
                ..form
            };
            let bounded = seed % 5 > 0;
            bench.line(bounded.then(|| random.kbit()));
            let promise = bench.handshake(form, &who);
            if random.below(3) == 0 {
                assert_eq!(bench.handshake(form, &who), promise);
            }
            let mut receiver = Receiver {
                bench: &mut bench,
                form,
                who,
                next: 0,
                high: 0,
                edge: promise.into(),
                bounded,
                seen: bounded,
                changed: 0,
            };
            for _ in 0..6 {
                for _ in 0..60 {
                    receiver.step(&mut random);
                }
                receiver.line((random.below(8) > 0).then(|| random.kbit()));
            }
            changed += receiver.changed;
        }
        // Most of them offer all they have, and are held back.
        assert!(changed > 1000, "{form:?}: {changed}");
    }
}

#[test]
fn the_first_acknowledgement_keeps_what_the_syn_promised() {
    for form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        let scales = [None, Some(0), Some(2), Some(7), Some(14)];
        for (i, scale) in scales.into_iter().enumerate() {
            for (kbit, segments) in [(200, 2), (12_000, 10), (1_000_000, 10)] {
                for incoming in [false, true] {
                    bench.line(Some(kbit));
                    let form = Form {
                        port: kbit as u16 ^ (i as u16) << 1 ^ u16::from(incoming),
                        ..form
                    };
                    let who = Peers {
                        incoming,
                        theirs: 0xffff_ff00,
                        our_scale: scale,
                        ..Peers::default()
                    };
                    let promise = bench.handshake(form, &who);
                    assert_eq!(promise, segments * 1448, "{who:?}");
                    let window = bench.up(form, &who.acknowledge(0, u16::MAX));
                    let edge = u32::from(window) << who.scale();
                    assert!(edge >= promise.into(), "{edge} < {promise}: {who:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_granted_are_whole_segments() {
    for form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        let mut port = 1;
        for kbit in [200, 5000, 100_000] {
            for segment in [88u32, 536, 1220, 1448] {
                for (scale, incoming) in [(0, false), (2, true), (7, false), (10, true)] {
                    port += 1;
                    let form = Form { port, ..form };
                    let who = Peers {
                        incoming,
                        our_scale: Some(scale),
                        ..Peers::default()
                    };
                    bench.line(Some(kbit));
                    bench.handshake(form, &who);
                    bench.up(form, &who.acknowledge(0, u16::MAX));
                    // All that was promised without knowing the segment is past after this.
                    let promised = bench.flow(form).grant.edge.wrapping_sub(who.at(0));
                    let mut at = 0;
                    while at <= promised.into() {
                        bench.down(form, &who.data(at, segment as usize));
                        at += i64::from(segment);
                    }
                    // A window is kept for a millisecond.
                    std::thread::sleep(Duration::from_millis(2));
                    let window = bench.up(form, &who.acknowledge(at, u16::MAX));
                    let granted = bench.flow(form).grant.window.unwrap();
                    let what = format!("{granted} and {window} for {who:?} with {segment}");
                    assert_eq!(granted % segment, 0, "{what}");
                    assert!(granted >= 2 * segment, "{what}");
                    let units = granted.div_ceil(1 << scale).min(u16::MAX.into());
                    assert_eq!(u32::from(window), units, "{what}");
                }
            }
        }
    }
}

#[test]
fn who_opens_its_windows_before_they_are_bounded_keeps_them() {
    for form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        let who = Peers::default();
        assert_eq!(bench.handshake(form, &who), u16::MAX);
        bench.up(form, &who.acknowledge(0, 1000));
        for round in 0..3 {
            let begin = round * 1_000_000;
            bench.line(Some(2000));
            let first = bench.up(form, &who.acknowledge(begin, 1000));
            assert_eq!(first, 1000, "its edge is not known before");
            bench.down(form, &who.data(begin, 1280));
            let second = bench.up(form, &who.acknowledge(begin + 1280, 1000));
            assert_eq!(second, 990, "the edge stays where it was");
            let end = begin + 128_000;
            let third = bench.up(form, &who.acknowledge(end, 1000));
            assert!(third < 500, "{third}: it has used up what it had");
            // The lease ends.
            let over = line(2000, Duration::from_nanos(1));
            bench.maps.set_line(Some(over)).unwrap();
            assert_eq!(bench.up(form, &who.acknowledge(end, 1000)), 1000);
        }
    }
}

#[test]
fn a_syn_that_comes_again_moves_nothing() {
    for form in Form::all() {
        let bench = Bench::new(form.link, Some(2000));
        for incoming in [false, true] {
            let port = form.port + 10 * u16::from(incoming);
            let form = Form { port, ..form };
            let who = Peers {
                incoming,
                ..Peers::default()
            };
            bench.handshake(form, &who);
            bench.up(form, &who.acknowledge(0, u16::MAX));
            for i in 0..40 {
                bench.down(form, &who.data(i * 1448, 1448));
            }
            // Said twice, because something is lost: all that is behind it may come again.
            bench.up(form, &who.acknowledge(1448, u16::MAX));
            bench.up(form, &who.acknowledge(1448, u16::MAX));
            let edge = bench.flow(form).grant.edge;
            let (first, second) = who.syns();
            bench.down(form, if incoming { &first } else { &second });
            let window = bench.up(form, &who.acknowledge(2 * 1448, u16::MAX));
            let now = who.at(2 * 1448).wrapping_add(u32::from(window) << 7);
            assert!(
                now.wrapping_sub(edge) < 1 << 7,
                "{now} instead of {edge}: {who:?}"
            );
        }
    }
}

#[test]
fn ports_that_are_used_again_begin_anew() {
    for mut form in Form::all() {
        let bench = Bench::new(form.link, Some(2000));
        for (before, incoming) in [(false, false), (false, true), (true, false), (true, true)] {
            for ahead in [0x1000_0000, 0x9000_0000u32] {
                form.port += 1;
                let mut who = Peers {
                    incoming: before,
                    ..Peers::default()
                };
                bench.handshake(form, &who);
                bench.down(form, &who.data(0, 1448));
                bench.up(form, &who.acknowledge(1448, u16::MAX));
                who.incoming = incoming;
                who.theirs = who.theirs.wrapping_sub(ahead);
                bench.handshake(form, &who);
                bench.up(form, &who.acknowledge(0, u16::MAX));
                let right = bench.flow(form).grant.edge.wrapping_sub(who.at(0));
                assert!(right < 100_000, "{right}: {who:?} after {before}");
            }
        }
    }
}

#[test]
fn what_is_left_alone() {
    const MPTCP: [u8; 4] = [30, 4, 1, 0x81];
    let all = |bench: &Bench, form: Form, who: &Peers, what: &str| {
        for i in 0..20 {
            bench.down(form, &who.data(i * 1448, 1448));
            let ack = who.acknowledge((i + 1) * 1448, u16::MAX);
            assert_eq!(bench.up(form, &ack), u16::MAX, "{what}, {form:?}");
        }
    };
    for mut form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        for incoming in [false, true] {
            let who = Peers {
                incoming,
                ..Peers::default()
            };
            let (first, second) = who.syns();

            bench.line(Some(200));
            form.port += 1;
            all(&bench, form, &who, "seen from its middle");
            assert!(!bench.flow(form).from_start);

            form.port += 1;
            bench.up(form, if incoming { &second } else { &first });
            all(&bench, form, &who, "one SYN not seen");

            form.port += 1;
            let multipath = Peers {
                more: MPTCP.to_vec(),
                ..who.clone()
            };
            assert_eq!(bench.handshake(form, &multipath), u16::MAX);
            all(&bench, form, &multipath, "multipath TCP");
            assert!(bench.flow(form).mptcp);

            form.port += 1;
            bench.handshake(form, &who);
            let mut reset = who.acknowledge(0, u16::MAX);
            reset.flags |= RST;
            assert_eq!(bench.up(form, &reset), u16::MAX);

            form.port += 1;
            bench.line(None);
            assert_eq!(bench.handshake(form, &who), u16::MAX);
            all(&bench, form, &who, "no line");
            assert_eq!(bench.flow(form).grant.window, None);

            form.port += 1;
            let over = line(200, Duration::from_nanos(1));
            bench.maps.set_line(Some(over)).unwrap();
            assert_eq!(bench.handshake(form, &who), u16::MAX);
            all(&bench, form, &who, "the lease is over");
        }
        bench.line(Some(200));
        for ours in [true, false] {
            let mut udp = form.headers(ours, 17, 1008);
            udp.extend([1; 1008]);
            let program = if ours { "ek_egress" } else { "ek_ingress" };
            assert_eq!(bench.run(program, &udp), udp);
        }
    }
}
