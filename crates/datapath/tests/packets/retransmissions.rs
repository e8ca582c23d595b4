//! Bytes of payload, and those that were retransmitted.

use evenkeel_core::units::Direction;
use evenkeel_datapath::values::PriorityMode;

use crate::bench::{ACK, Bench, RST, SYN, TCP, down4, segment, tcp, up4};

#[test]
fn what_passes_below_the_highest_end_was_retransmitted() {
    let b = Bench::new(0, PriorityMode::None);
    let counted = |d: Direction| {
        let counts = b.maps.counts().unwrap().direction[d];
        (counts.payload, counts.retransmitted)
    };
    // Sequence numbers that wrap.
    let begin = u32::MAX - 1500;
    b.up(&up4(&tcp(1, 2, SYN, &[], 0), TCP));
    for (from, length, all, again, why) in [
        (0, 1000, 1000, 0, "new"),
        (1000, 1000, 2000, 0, "new, beyond the end of numbers"),
        (2000, 0, 2000, 0, "empty"),
        (0, 1000, 3000, 1000, "the first again"),
        (1500, 1000, 4000, 1500, "half of it again"),
        (3500, 500, 4500, 1500, "one was lost before it came to us"),
        (2500, 1000, 5500, 2500, "it is sent again"),
        (4000, 10, 5510, 2500, "new"),
    ] {
        b.up(&up4(
            &segment((1, 2), begin.wrapping_add(from), 1, length),
            TCP,
        ));
        assert_eq!(counted(Direction::Up), (all, again), "{why}");
    }
    assert_eq!(counted(Direction::Down), (0, 0));
    b.down(&down4(&segment((2, 1), 7000, 1, 500), TCP));
    b.down(&down4(&segment((2, 1), 7000, 1, 500), TCP));
    assert_eq!(counted(Direction::Down), (1000, 500));
    // Another connection of the same ports begins elsewhere.
    b.down(&down4(&tcp(2, 1, RST | ACK, &[], 0), TCP));
    b.down(&down4(&segment((2, 1), 10, 1, 500), TCP));
    assert_eq!(counted(Direction::Down), (1500, 500));
}
