//! Tests of shaping: which rates, windows, intervals and lengths of packets follow from a line and its targets.

use super::*;
use crate::Framing;
use crate::plan::tests::{caps, device, vdsl};
use crate::plan::*;
use crate::tc::*;

#[test]
fn rates_follow_the_mode() {
    let p = plan(&caps(Backend::Cake), &device(14), vdsl(), Policy::default()).unwrap();
    assert!(p.egress < p.line.up && p.ingress < p.line.down);
    let p = plan(
        &caps(Backend::Cake),
        &device(14),
        vdsl(),
        Policy {
            mode: Mode::Bandwidth,
            choice: Choice::Auto,
            ingress: Ingress::Auto,
            ..Policy::default()
        },
    )
    .unwrap();
    assert_eq!(p.egress, p.line.up);
}

/// CAKE from us and towards us where such a target is followed from us.
fn cakes(up: Target) -> [Cake; 2] {
    let line = vdsl();
    let targets = PerDirection {
        up: Some(up),
        down: Some(steady(line.down)),
    };
    let policy = Policy {
        windows: true,
        ..Policy::default()
    };
    let caps = caps(Backend::Cake);
    let p = plan_followed(&caps, &device(14), line.framing, policy, targets).unwrap();
    [Dev::from("wan"), Dev::from(p.ifb.as_str())].map(|dev| {
        let cake = p.setup.iter().find_map(|op| match op {
            Op::QdiscReplace(q) if q.dev == dev => match &q.qdisc {
                Qdisc::Cake(cake) => Some(cake.clone()),
                _ => None,
            },
            _ => None,
        });
        cake.unwrap()
    })
}

/// A line that carries so much, and whose delays wander by 5 ms.
fn steady(capacity: Rate) -> Target {
    Target {
        capacity,
        permille: 1000,
        peak_permille: 1000,
        slack_us: 5000,
        volatile: false,
        pulses: false,
        opening: None,
    }
}

#[test]
fn cake_has_the_interval_of_its_direction() {
    let ms = |n| Some(Duration::from_millis(n));
    let cakes = cakes(steady(vdsl().up));
    assert_eq!(cakes.map(|c| c.rtt), [ms(150), ms(400)]);
}

#[test]
fn a_line_that_is_followed_holds_two_seconds_of_it() {
    let memlimits = |target| cakes(target).map(|c| c.memlimit);
    let of = |mbit: u64| steady(Rate::from_kbit(1000 * mbit));
    let held = memlimits(of(1))[0].unwrap();
    // An skb takes twice the 250 kB of two seconds.
    assert_eq!(held, 500_000);
    assert_eq!(memlimits(of(1))[1], None);
    // CAKE's own limit is less there: 4 MB, or the 150 ms of its interval four times over.
    assert_eq!(memlimits(of(20))[0], Some(4 << 20));
    // It is of the most that the line carried of late, and a cut takes nothing away.
    let fell = Target {
        permille: 100,
        peak_permille: 3000,
        ..of(1)
    };
    assert_eq!(memlimits(fell)[0], Some(1_500_000));
    let held = memlimits(of(100))[0].unwrap();
    assert!((7_400_000..=7_500_000).contains(&held), "{held}");
    // Some packets of each flow have room on the slowest lines.
    let slow = steady(Rate::from_kbit(64));
    assert_eq!(memlimits(slow)[0], Some(65_536));
    // Where nothing may be signalled a limit that it had is taken back.
    let opening = Target {
        opening: Some(Likely(None)),
        ..of(1)
    };
    assert_eq!(memlimits(opening)[0], Some(0));
}

#[test]
fn a_volatile_line_is_shaped_from_afar_where_windows_hold() {
    let target = Target {
        capacity: Rate::from_kbit(50_000),
        permille: 900,
        peak_permille: 1000,
        slack_us: 20_000,
        volatile: true,
        pulses: false,
        opening: None,
    };
    let targets = PerDirection::of(|_| Some(target));
    let of = |windows| {
        let policy = Policy {
            windows,
            ..Policy::default()
        };
        let caps = caps(Backend::Cake);
        let p = plan_followed(&caps, &device(14), vdsl().framing, policy, targets).unwrap();
        (
            p.egress.kbit(),
            p.ingress.kbit(),
            p.windows.map(Rate::kbit),
            p.surcharge,
        )
    };
    // Towards us 4 x 99.61 % of 50 Mbit/s, windows 90 % of 99.36 %; from us 90 % of 99.5 %.
    assert_eq!(of(true), (44_775, 199_220, Some(44_712), 0));
    // Without windows nothing but the shaper holds downloads: 90 % of 96 %.
    assert_eq!(of(false), (44_775, 43_200, None, 0));
}

/// What windows aim at where arrivals are policed, in thousandths of a line whose packets take so long.
#[test]
fn policed_lines_are_filled() {
    let shaping = |kbit, policed, windows| {
        let given = Given {
            line: Line {
                down: Rate::from_kbit(kbit),
                framing: Framing::default(),
                ..vdsl()
            },
            mtu: 1500,
            programs: true,
            policed,
            likely: None,
        };
        let policy = Policy {
            windows,
            mss: crate::segments::Mss::Off,
            ..Policy::default()
        };
        Shaping::told(&policy, &given)
    };
    // 1500 bytes take 2 ms at 6 Mbit/s.
    for (kbit, share) in [(5990, 10_000), (6000, 9980), (60_000, 9980)] {
        let s = shaping(kbit, true, true);
        let line = Rate::from_kbit(kbit);
        let aim = Rate::from_kbit(line.per_ten_thousand(share).kbit());
        assert_eq!(
            (s.windows, s.down, s.surcharge),
            (Some(aim), line, 0),
            "{kbit}"
        );
    }
    let s = shaping(60_000, true, false);
    assert_eq!((s.windows, s.up.kbit()), (None, 39_942));
}

/// A first upload's packets are as short as on a line of what is likely; what is let out at first says nothing of it.
#[test]
fn a_first_upload_has_short_packets() {
    let longest = |kbit, opening: Option<Option<u64>>| {
        let target = Target {
            opening: opening.map(|likely| Likely(likely.map(Rate::from_kbit))),
            capacity: Rate::from_kbit(kbit),
            permille: 1000,
            peak_permille: 1000,
            slack_us: 0,
            volatile: false,
            pulses: false,
        };
        let targets = PerDirection {
            up: Some(target),
            down: None,
        };
        let (caps, framing) = (caps(Backend::Cake), "ptm:34".parse().unwrap());
        let p = plan_followed(&caps, &device(14), framing, Policy::default(), targets).unwrap();
        (p.segments.up.0, p.segments.down.0)
    };
    let known = longest(512, None);
    assert_eq!(longest(256, Some(Some(512))), known);
    assert!(known.0.is_some_and(|n| n < 1000));
    assert_eq!(longest(256, Some(None)), (None, None));
    assert_eq!(longest(256, Some(Some(4000))), (None, None));
}

/// CAKE's interval from us grows with the slack, the more the more the line changes.
#[test]
fn intervals_follow_the_slack() {
    let interval = |volatile, pulses| {
        let target = Target {
            opening: None,
            capacity: Rate::from_kbit(40_000),
            permille: 1000,
            peak_permille: 1000,
            slack_us: 1000,
            volatile,
            pulses,
        };
        let given = Given {
            line: vdsl(),
            mtu: 1500,
            programs: true,
            policed: false,
            likely: None,
        };
        let told = Shaping::told(&Policy::default(), &given);
        told.followed(PerDirection::of(|_| Some(target)))
            .intervals
            .up
    };
    let ms = |n| Some(Duration::from_millis(n));
    assert_eq!(interval(false, false), ms(110));
    assert_eq!(interval(true, false), ms(130));
    assert_eq!(interval(true, true), ms(300));
}
