//! A right edge that was shown stays, whatever happens to the connection.

use std::time::Duration;

use crate::bench::{Bench, Form, Peers, STAMPS, line};
use crate::receiver::{Random, Receiver};

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
