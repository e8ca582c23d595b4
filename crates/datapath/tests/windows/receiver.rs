//! A receiver that does at random what receivers do, and its edges held to the rule.

use crate::bench::{Bench, FIN, Form, Peers, RST, Segment};

/// xorshift64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    pub(crate) fn scale(&mut self) -> Option<u8> {
        (self.below(5) > 0).then(|| self.below(15) as u8)
    }

    pub(crate) fn kbit(&mut self) -> u64 {
        [200, 2000, 20_000, 200_000, 1_000_000][self.below(5) as usize]
    }
}

/// A receiver behind us, in offsets from their first byte.
pub(crate) struct Receiver<'a> {
    pub(crate) bench: &'a mut Bench,
    pub(crate) form: Form,
    pub(crate) who: Peers,
    /// All before it has arrived.
    pub(crate) next: i64,
    /// Behind the last that has arrived or was lost.
    pub(crate) high: i64,
    /// Rightmost edge that was let through.
    pub(crate) edge: i64,
    /// Windows are bounded, and have been since the latest packet that left.
    pub(crate) bounded: bool,
    pub(crate) seen: bool,
    /// Packets whose window was changed.
    pub(crate) changed: u32,
}

impl Receiver<'_> {
    /// Lets a packet leave, and looks at the edge that it shows.
    pub(crate) fn offer(&mut self, segment: &Segment, at: i64) {
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

    pub(crate) fn acknowledge(&mut self, at: i64, random: &mut Random) {
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

    pub(crate) fn step(&mut self, random: &mut Random) {
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

    pub(crate) fn line(&mut self, kbit: Option<u64>) {
        self.bench.line(kbit);
        self.bounded = kbit.is_some();
        self.seen &= self.bounded;
    }
}
