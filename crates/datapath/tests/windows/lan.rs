//! A window follows what its way behind us carries, and is left alone where that is switched off.

use std::time::Duration;

use evenkeel_datapath::values::{Flow, Line};

use crate::bench::{Bench, Form, Peers, line, pass};

const SEGMENT: i64 = 1448;
/// So fast that no flow of these reaches its share.
const KBIT: u64 = 200_000;

/// A download whose data is acknowledged at once some times, and then after 40 ms each time; without time
/// stamps, so that sequence numbers tell round trips.
fn slows(form: Form, lan: bool) -> (Flow, Flow) {
    let mut bench = Bench::new(form.link, None);
    let told = Line {
        lan,
        ..line(KBIT, Duration::MAX)
    };
    bench.maps.set_line(Some(told)).unwrap();
    let who = Peers {
        options: Vec::new(),
        ..Peers::default()
    };
    bench.handshake(form, &who);
    let mut at = 0;
    let mut takes = |segments, ms| {
        for _ in 0..segments {
            bench.down(form, &who.data(at, SEGMENT as usize));
            at += SEGMENT;
        }
        pass(ms);
        bench.up(form, &who.acknowledge(at, u16::MAX));
    };
    (0..12).for_each(|_| takes(8, 1));
    let before = bench.flow(form);
    (0..8).for_each(|_| takes(8, 40));
    (before, bench.flow(form))
}

#[test]
fn a_window_follows_what_its_way_carries() {
    for form in Form::all() {
        let (before, after) = slows(form, true);
        assert_eq!(before.lan.window, None, "{form:?}: {before:?}");
        assert!(before.direction.down.heavy, "{form:?}: {before:?}");
        let bound = after.lan.window.unwrap_or_else(|| panic!("{after:?}"));
        assert!(after.lan.queue >= Duration::from_millis(20), "{after:?}");
        // Eight segments came in 40 ms or more: less than 3 Mbit/s.
        assert!(after.lan.rate.kbit() < 3000, "{after:?}");
        assert!(bound < before.grant.window.unwrap(), "{before:?} {after:?}");
        // Less while the base is looked for.
        assert!(after.grant.window.unwrap() <= bound, "{after:?}");
    }
}

#[test]
fn switched_off_it_is_left_alone() {
    let (_, after) = slows(Form::all()[0], false);
    assert_eq!((after.lan.window, after.lan.base), (None, None));
}
