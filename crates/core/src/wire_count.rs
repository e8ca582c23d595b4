//! Bytes on the line of packets of which only the sum and the number are known.
//!
//! A device counts bytes and packets as they leave and arrive; what they take on the line depends on the length of each
//! one, by up to a cell a packet (`Framing`). Our programs see the lengths, but before our queue rather than behind
//! it. So the device says how much passes, and the programs what packets like these take beyond what is expected of
//! their sum: half a cell each is expected of cells, but full packets of connections are bounded so that they fill
//! theirs (`segments`), and empty acknowledgements fill two.
//!
//! Principles: pure; sums only grow, whatever is corrected. Non-goals: reading counters; what the line's overhead is
//! (`linklayer`).

use crate::framing::Framing;

/// The programs' figures are taken each so many packets: enough for a mean, and few enough for a change of what
/// passes to be seen within a quarter of a second of 1 Mbit/s.
const ENOUGH: f64 = 32.0;

/// A device whose counter goes back by more packets than this counts anew, as some do when their link comes up again; so
/// many beacons are never under way.
const BEGINS_ANEW: f64 = 100.0;

/// What has passed so far, of IP packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Passed {
    /// Bytes.
    pub bytes: f64,
    /// Packets.
    pub packets: f64,
}

/// What the programs saw so far, packet by packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Framed {
    /// IP packets of them.
    pub passed: Passed,
    /// Their bytes on the line.
    pub wire_bytes: f64,
}

/// Bytes on the line of one direction so far.
#[derive(Debug, Clone, Copy)]
pub struct WireCount {
    framing: Framing,
    passed: Passed,
    framed: Option<Framed>,
    /// What a packet takes beyond what is expected, bytes on the line.
    beyond: f64,
    wire_bytes: f64,
}

impl WireCount {
    /// Nothing has passed yet.
    pub fn new(framing: Framing) -> Self {
        WireCount {
            framing,
            passed: Passed::default(),
            framed: None,
            beyond: 0.0,
            wire_bytes: 0.0,
        }
    }

    /// What single packets took: as the programs counted, which are told the same framing. To be said before
    /// [`WireCount::passed`].
    pub fn framed(&mut self, framed: Framed) {
        let Some(before) = self.framed else {
            self.framed = Some(framed);
            return;
        };
        let of = difference(framed.passed, before.passed);
        if of.packets < 0.0 {
            // The programs are others.
            self.framed = Some(framed);
        } else if of.packets >= ENOUGH {
            let expected = self.framing.wire_bytes(of.bytes, of.packets);
            self.beyond = (framed.wire_bytes - before.wire_bytes - expected) / of.packets;
            self.framed = Some(framed);
        }
    }

    /// What the device counted, without what is none of the line's; returns the bytes on the line. Of that, what is taken
    /// off before it leaves is made up for by what leaves later: nothing that passes meanwhile is lost.
    pub fn passed(&mut self, passed: Passed) -> f64 {
        let of = difference(passed, self.passed);
        if of.packets > 0.0 && of.bytes > 0.0 {
            let expected = self.framing.wire_bytes(of.bytes, of.packets);
            self.wire_bytes += (expected + self.beyond * of.packets).max(of.bytes);
            self.passed = passed;
        } else if of.packets < -BEGINS_ANEW {
            self.passed = passed;
        }
        self.wire_bytes
    }
}

fn difference(now: Passed, before: Passed) -> Passed {
    Passed {
        bytes: now.bytes - before.bytes,
        packets: now.packets - before.packets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(sum: &mut Framed, framing: Framing, length: u32) {
        sum.passed.bytes += f64::from(length);
        sum.passed.packets += 1.0;
        sum.wire_bytes += f64::from(framing.wire_len(length));
    }

    /// Packets of 1064 bytes fill 23 cells with 40 bytes of overhead, acknowledgements of 52 take two.
    #[test]
    fn packets_that_fill_their_cells_are_counted_so() {
        let framing: Framing = "atm:40".parse().unwrap();
        let mut count = WireCount::new(framing);
        let (mut seen, mut exact) = (Framed::default(), 0.0);
        for i in 0..4000 {
            let before = seen.wire_bytes;
            add(&mut seen, framing, if i % 3 == 0 { 52 } else { 1064 });
            if i >= 1000 {
                exact += seen.wire_bytes - before;
            }
            if i % 10 == 0 || i == 999 {
                count.framed(seen);
            }
            if i == 999 {
                count.passed(seen.passed);
            }
        }
        let from = count.wire_bytes;
        let counted = count.passed(seen.passed) - from;
        assert!(
            (counted / exact - 1.0).abs() < 0.002,
            "{counted} of {exact}"
        );
        // Half a cell each would be 2.6 % more.
        let expected = framing.wire_bytes(2000.0 * 1064.0 + 1000.0 * 52.0, 3000.0);
        assert!(expected / exact > 1.02, "{expected} of {exact}");
    }

    /// A light packet that is none of the line's is taken off as it is sent, and leaves one full packet later.
    #[test]
    fn what_is_taken_off_before_it_leaves_loses_nothing() {
        let framing: Framing = "ptm:34".parse().unwrap();
        let mut count = WireCount::new(framing);
        let (mut left, mut taken_off) = (Passed::default(), Passed::default());
        let mut look = |left: Passed, taken_off: Passed| count.passed(difference(left, taken_off));
        let full = f64::from(framing.wire_len(1000));
        for n in 1..=200 {
            taken_off.bytes += 140.0;
            taken_off.packets += 1.0;
            left.bytes += 1000.0;
            left.packets += 1.0;
            look(left, taken_off);
            left.bytes += 140.0;
            left.packets += 1.0;
            let counted = look(left, taken_off);
            let exact = f64::from(n) * full;
            assert!(
                (counted - exact).abs() < f64::from(n),
                "{n}: {counted} of {exact}"
            );
        }
        // A counter that begins anew is followed from there.
        let before = look(left, taken_off);
        look(Passed::default(), Passed::default());
        let one = Passed {
            bytes: 1000.0,
            packets: 1.0,
        };
        let counted = look(one, Passed::default()) - before;
        assert!((counted - full).abs() < 1.0, "{counted}");
    }

    #[test]
    fn without_programs_it_is_what_is_expected() {
        let framing: Framing = "atm:40".parse().unwrap();
        let mut count = WireCount::new(framing);
        let passed = Passed {
            bytes: 150_000.0,
            packets: 100.0,
        };
        let counted = count.passed(passed);
        assert!((counted - framing.wire_bytes(150_000.0, 100.0)).abs() < 1e-6);
    }

    proptest! {
        /// Programs that are put in anew, or other packets on the device than in the programs: never less than before,
        /// and never less than the packets themselves.
        #[test]
        fn it_only_grows(steps in prop::collection::vec((0u32..3000, 40u32..1500, 0u32..3000, 40u32..1500, any::<bool>()), 1..40)) {
            let framing: Framing = "atm:32".parse().unwrap();
            let mut count = WireCount::new(framing);
            let (mut seen, mut passed, mut last) = (Framed::default(), Passed::default(), 0.0);
            for (n, length, m, of, anew) in steps {
                if anew {
                    seen = Framed::default();
                }
                for _ in 0..n {
                    add(&mut seen, framing, length);
                }
                count.framed(seen);
                passed.packets += f64::from(m);
                passed.bytes += f64::from(m) * f64::from(of);
                let counted = count.passed(passed);
                prop_assert!(counted >= last && counted >= passed.bytes);
                last = counted;
            }
        }
    }
}
