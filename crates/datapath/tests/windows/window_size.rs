//! How large windows are made, and which are left alone.

use std::time::Duration;

use crate::bench::{Bench, Form, Peers, RST, line, pass};

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
                    pass(2);
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
fn a_window_opens_as_fast_as_it_is_used() {
    const SEGMENT: i64 = 1448;
    for form in Form::all() {
        let mut bench = Bench::new(form.link, Some(2000));
        let who = Peers::default();
        // It may be longer; the shortest so far makes the window.
        let round_trip = || pass(30);
        let (first, second) = who.syns();
        bench.up(form, &first);
        round_trip();
        bench.down(form, &second);
        bench.up(form, &who.acknowledge(0, u16::MAX));
        let mut at = 0;
        let mut takes = |bench: &Bench, segments: i64| {
            round_trip();
            for _ in 0..segments {
                bench.down(form, &who.data(at, SEGMENT as usize));
                at += SEGMENT;
            }
            bench.up(form, &who.acknowledge(at, u16::MAX));
            let grant = bench.flow(form).grant;
            let open = i64::from(grant.edge.wrapping_sub(who.at(at)));
            (open, i64::from(grant.window.unwrap()))
        };
        // Its rate does not grow.
        for _ in 0..8 {
            takes(&bench, 5);
        }
        bench.line(Some(100_000));
        let (first, window) = takes(&bench, 5);
        assert!(window > 50 * SEGMENT, "{window}");
        assert!(
            first < window / 3 && first >= 2 * SEGMENT,
            "{first} of {window}"
        );
        assert!(first % SEGMENT < 1 << who.scale(), "{first}");
        let (mut open, mut window) = (first, window);
        let mut rounds = 0;
        while open < window {
            let (next, granted) = takes(&bench, open / SEGMENT);
            // A shorter round trip than the handshake's makes the window smaller.
            assert!(next > open.min(granted - 1), "{next} after {open}");
            (open, window) = (next, granted);
            rounds += 1;
        }
        assert!(rounds <= 3, "{rounds}");
        // A receiver that was full goes on, though nothing was acknowledged since.
        let all = i64::from(bench.flow(form).grant.edge.wrapping_sub(who.at(at)));
        bench.down(form, &who.data(at, 1));
        at += all;
        bench.up(form, &who.acknowledge(at, 1));
        let again = bench.up(form, &who.acknowledge(at, u16::MAX));
        let again = i64::from(again) << who.scale();
        assert!(again >= 2 * SEGMENT, "{again}");
    }
}

#[test]
fn what_is_on_its_way_when_windows_are_first_bounded_measures_no_round_trip() {
    for form in Form::all() {
        let mut bench = Bench::new(form.link, None);
        let who = Peers {
            options: Vec::new(),
            ..Peers::default()
        };
        let (first, second) = who.syns();
        bench.up(form, &first);
        pass(30);
        bench.down(form, &second);
        bench.up(form, &who.acknowledge(0, u16::MAX));
        bench.line(Some(100_000));
        // Whoever sends this knew an edge that we have not seen.
        bench.up(form, &who.acknowledge(0, 1000));
        bench.down(form, &who.data(0, 1280));
        pass(2);
        bench.up(form, &who.acknowledge(1280, u16::MAX));
        let window = bench.flow(form).grant.window.unwrap();
        // 100 Mbit/s for 30 ms are 375 kB.
        assert!(window > 300_000, "{window}");
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
