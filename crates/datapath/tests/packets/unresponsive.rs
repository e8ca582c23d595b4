//! What the shaper counts of heavy flows that know no windows.

use evenkeel_core::Framing;
use evenkeel_core::framing::Mode;
use evenkeel_datapath::values::{Line, PriorityMode};

use crate::bench::{Bench, NEXT, UDP, down4, line, udp};

const PAYLOAD: usize = 1350;
const PACKET: usize = 20 + 8 + PAYLOAD;
const PACKETS: usize = 200;

/// A line so fast that nothing stands in front of it.
fn fast(framing: Framing, surcharge: u32) -> Line {
    Line {
        framing,
        surcharge,
        ..line(30_000_000)
    }
}

/// Lengths of a heavy flow's packets as they go on.
fn lengths(b: &Bench, port: u16) -> Vec<usize> {
    let packet = down4(&udp(port, 9, PAYLOAD), UDP);
    let all = (0..PACKETS).map(|_| {
        let (becomes, after) = b.programs.test_packet("ek_ingress", &packet).unwrap();
        assert_eq!(becomes, NEXT);
        assert_eq!(after[..packet.len()], packet, "what is IP's stays");
        after.len()
    });
    // It becomes heavy with the first 64 kB.
    let all: Vec<_> = all.collect();
    assert_eq!(all[..40], [PACKET; 40]);
    all[60..].to_vec()
}

#[test]
fn they_weigh_more() {
    let none = Framing::new(Mode::None, 14, 64);
    let atm = Framing::new(Mode::Atm, 40, 0);
    for (framing, surcharge) in [(none, 500), (atm, 500), (atm, 716), (none, 0)] {
        let mut b = Bench::new(0, PriorityMode::CakeTin);
        b.maps.set_line(Some(fast(framing, surcharge))).unwrap();
        let on_the_line = |len: usize| f64::from(framing.wire_len(len as u32));
        let all = lengths(&b, 443);
        let counted: f64 = all.iter().map(|l| on_the_line(*l)).sum();
        let more = counted / on_the_line(PACKET) / all.len() as f64 - 1.0;
        let wanted = f64::from(surcharge) / 1e4;
        assert!((more - wanted).abs() < 2e-3, "{more} for {wanted}");
    }
}

#[test]
fn a_super_packet_is_left_as_it_is() {
    let mut b = Bench::new(0, PriorityMode::CakeTin);
    let none = Framing::new(Mode::None, 14, 64);
    b.maps.set_line(Some(fast(none, 500))).unwrap();
    lengths(&b, 443);
    // struct __sk_buff: gso_segs at 164, gso_size at 176.
    let mut context = [0u8; 192];
    context[164..168].copy_from_slice(&2u32.to_ne_bytes());
    context[176..180].copy_from_slice(&(PAYLOAD as u32).to_ne_bytes());
    let packet = down4(&udp(443, 9, 2 * PAYLOAD), UDP);
    let ran = b.programs.test_run_out("ek_ingress", &packet, &context);
    assert_eq!(ran.unwrap().packet, packet);
}
