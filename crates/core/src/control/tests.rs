//! What a hop may do that is no queue of ours.
//!
//! Principles: bytes and answers are given one by one, so that the hop may do what no fluid does. Non-goals:
//! lines that carry what is sent (`crate::fluid`).

use super::*;
use crate::Framing;
use crate::framing::Mode;

fn duration(t: f64) -> Duration {
    Duration::from_secs_f64(t)
}

/// All rates that are set while 2.6 Mbit/s pass a line that carries more, and the hop stalls for so long, s. `queued`:
/// what came to it meanwhile is answered at its end.
fn stalled(up: bool, stamps: bool, stall: f64, queued: bool) -> Vec<Action> {
    let framing = Framing::new(Mode::None, 38, 84);
    let settings = Settings::new(PerDirection::default(), framing, 1500);
    let mut c = Controller::new(settings, Duration::ZERO);
    let (mut pace, mut next, mut bytes) = (0.1, 0.0, 0.0);
    let mut back: Vec<(f64, f64)> = Vec::new();
    let mut set = Vec::new();
    for n in 0..30_000 {
        let t = f64::from(n) * 0.001;
        bytes += if t > 3.0 { 2.6e6 / 8.0 * 0.001 } else { 0.0 };
        let (there, here) = if up {
            (bytes, 0.03 * bytes)
        } else {
            (0.03 * bytes, bytes)
        };
        let counted = Counted {
            up: there,
            down: here,
            packets: None,
        };
        if t >= next {
            next = t + pace;
            c.counted(duration(t), counted);
            c.probed(duration(t));
            let came = t + 0.020 + 1e-5 * f64::from(n * 7919 % 13);
            let stalls = (15.0..15.0 + stall).contains(&came);
            back.push(match (stalls, queued) {
                (false, _) => (t, came),
                (true, true) => (t, 15.0 + stall + 1e-4 * (came - 15.0)),
                (true, false) => (t, came + 0.9 * stall),
            });
        }
        back.sort_by(|a, b| b.1.total_cmp(&a.1));
        while let Some((left, came)) = back.pop_if(|b| b.1 <= t) {
            let far = ((left + 0.5 * (came - left)) * 1e3).floor() * 1e-3;
            c.counted(duration(t), counted);
            c.answered(
                duration(t),
                Answered {
                    sent: duration(left),
                    came: duration(came),
                    left_unseen: false,
                    one_way: stamps.then_some(OneWay {
                        there: far - left,
                        back: came - far,
                    }),
                },
            );
        }
        while let Some(action) = c.poll() {
            match action {
                Action::Pace(every) => pace = every.as_secs_f64(),
                Action::Shape { targets, .. }
                    if targets.iter().flatten().all(|t| t.opening.is_some()) => {}
                Action::Shape { .. } => set.push(action),
                Action::Noticed(_) => {}
            }
        }
    }
    set
}

#[test]
fn a_hop_that_stalls_once_is_no_evidence() {
    for up in [true, false] {
        for stamps in [true, false] {
            for stall in [0.03, 0.06, 0.12, 0.25] {
                for queued in [true, false] {
                    let set = stalled(up, stamps, stall, queued);
                    assert!(set.is_empty(), "{up} {stamps} {stall} {queued}: {set:?}");
                }
            }
        }
    }
}

/// A rise that means something, s, after 5 s of a line with so little on it, bit/s, where large probes told of `likely`, bit/s.
fn rise_beside(background: f64, likely: Option<u64>) -> f64 {
    let framing = Framing::new(Mode::None, 38, 84);
    let settings = Settings::new(PerDirection::default(), framing, 1500);
    let mut c = Controller::new(settings, Duration::ZERO);
    if let Some(likely) = likely.map(Rate::from_bps) {
        c.large_probes_told(SerializationRate {
            at_least: likely,
            likely,
        });
    }
    for n in 0..50 {
        let t = f64::from(n) * 0.1;
        let bytes = background / 8.0 * t;
        c.counted(
            duration(t),
            Counted {
                up: bytes,
                down: bytes,
                packets: None,
            },
        );
        c.probed(duration(t));
        let came = duration(t + 0.020 + 1e-5 * f64::from(n % 7));
        c.answered(
            came,
            Answered {
                sent: duration(t),
                came,
                left_unseen: false,
                one_way: None,
            },
        );
    }
    c.base.rise()
}

#[test]
fn how_delays_wander_is_learned_beside_a_little_traffic_on_a_line_that_carries_much() {
    for (background, likely, learned) in [
        (100e3, None, true),
        (160e3, None, false),
        (160e3, Some(40_000_000), true),
        (160e3, Some(1_000_000), false),
        (3e6, Some(40_000_000), false),
    ] {
        let rise = rise_beside(background, likely);
        assert_eq!(rise < 0.002, learned, "{background} {likely:?}: {rise}");
    }
}

/// A line of so much down, bytes/s, that is used in full, and `up`, of which so much is known, at 10 s.
fn line(down: f64, up: Option<f64>) -> Controller {
    let framing = Framing::new(Mode::None, 38, 84);
    let settings = Settings::new(PerDirection::default(), framing, 1500);
    let mut c = Controller::new(settings, Duration::ZERO);
    c.directions[DOWN].believe(down, 0.0);
    if let Some(up) = up {
        c.directions[UP].believe(up, 0.0);
    }
    for n in 0..=100 {
        let t = 9.0 + f64::from(n) * 0.01;
        c.directions[DOWN].meter.note(t, down * t);
    }
    c
}

#[test]
fn a_packet_in_front_explains_what_delays_wander_by() {
    let unexplained = |up: Option<f64>| {
        let mut c = line(1e7, up);
        c.base.wanders(0.030);
        c.context(UP, 10.0).unexplained
    };
    // 0.32 Mbit/s: a packet takes 38 ms.
    assert!(unexplained(Some(40_000.0)) < 1e-9);
    let fast = unexplained(Some(1e6));
    assert!((0.015..0.020).contains(&fast), "{fast}");
    assert!(unexplained(None) < 1e-9, "nothing is known");
}

#[test]
fn a_queue_within_the_ticks_of_far_sides_clocks_is_none_while_both_directions_are_used() {
    let rise = |off: f64, stamps: bool, used: bool| {
        let mut c = line(1e7, Some(1e6));
        (c.told_apart, c.clocks_off) = (10.0, off);
        c.offsets = stamps.then_some((0.0, 0.0));
        let now = if used { 10.0 } else { 11.0 };
        c.directions[DOWN].meter.note(now, 1e7 * 10.0);
        c.told_apart = now;
        c.context(UP, now).rise
    };
    let least = rise(0.0, false, true);
    for (off, stamps, used, more, what) in [
        (0.002, false, true, 0.002, "two ticks of 1 ms"),
        (0.000_002, false, true, 0.000_002, "two ticks of 1 us"),
        (0.002, true, true, 0.0, "what is probed stamps"),
        (0.002, false, false, 0.0, "nothing comes"),
    ] {
        let got = rise(off, stamps, used) - least;
        assert!((got - more).abs() < 1e-9, "{what}: {got}");
    }
}

/// How far apart two probes may be while both directions are used, if hops stamp, and if only clocks do that are off by so much.
#[test]
fn clocks_are_off_between_two_probes_as_well() {
    let apart = |offsets: Option<(f64, f64)>, off: f64| {
        let framing = Framing::new(Mode::None, 38, 84);
        let settings = Settings::new(PerDirection::default(), framing, 1500);
        let mut c = Controller::new(settings, Duration::ZERO);
        for n in 0..2000 {
            let bytes = f64::from(n) * 1000.0;
            let counted = Counted {
                up: bytes,
                down: bytes,
                packets: None,
            };
            c.counted(duration(f64::from(n) * 0.001), counted);
        }
        c.directions[DOWN].capacity = Some((1e6, 2.0));
        (c.offsets, c.clocks_off, c.told_apart) = (offsets, off, 2.0);
        c.context(UP, 2.0).apart
    };
    let stamped = apart(Some((0.0, 0.0)), 0.0);
    for off in [0.0, 0.002, 0.008] {
        // A packet of 1538 bytes towards us takes 1.5 ms.
        let more = apart(None, off) - stamped;
        assert!((more - off - 0.0015).abs() < 1e-4, "{off}: {more}");
    }
}
