//! What becomes of the model when something else is probed, or less often.

use super::*;
use crate::Framing;

const MS: Duration = Duration::from_millis(1);

fn controller() -> Controller {
    let framing = Framing::new(crate::framing::Mode::None, 0, 0);
    let settings = Settings::new(PerDirection::of(|_| Bounds::default()), framing, 1500);
    Controller::new(settings, Duration::ZERO)
}

/// One each 100 ms on a line that is idle, with stamps or not.
fn answers(c: &mut Controller, from: u32, n: u32, delay: Duration, stamped: bool) {
    for at in (from..from + n).map(|n| 100 * n * MS) {
        c.counted(
            at,
            Counted {
                up: 0.0,
                down: 0.0,
                packets: None,
            },
        );
        c.probed(at);
        let half = delay.as_secs_f64() / 2.0;
        let answer = Answered {
            sent: at,
            came: at + delay,
            left_unseen: false,
            one_way: stamped.then_some(OneWay {
                there: half,
                back: half,
            }),
        };
        c.answered(at + delay, answer);
    }
}

fn base_ms(c: &Controller) -> Option<u64> {
    let view = c.view(Duration::from_secs(60));
    view.base_ms.map(|b| b.round() as u64)
}

#[test]
fn another_reflector_has_another_base() {
    let mut c = controller();
    answers(&mut c, 0, 30, 10 * MS, true);
    assert_eq!((base_ms(&c), c.offsets.is_some()), (Some(10), true));
    c.reflector_changed(3000 * MS, Some(25 * MS));
    assert_eq!((base_ms(&c), c.offsets.is_some()), (Some(25), false));
    // It is 40 ms away at the moment: that is a queue, and not its distance.
    answers(&mut c, 30, 5, 40 * MS, false);
    assert_eq!(base_ms(&c), Some(25));
    assert!(c.view(3500 * MS).down.queue_ms + c.view(3500 * MS).up.queue_ms > 10.0);
    c.reflector_changed(4000 * MS, None);
    assert_eq!(base_ms(&c), None);
    answers(&mut c, 40, 1, 12 * MS, false);
    assert_eq!(base_ms(&c), Some(12));
}

#[test]
fn a_way_that_is_short_again_is_short_in_both_directions() {
    let mut c = controller();
    answers(&mut c, 0, 30, 20 * MS, true);
    // A neighbour's upload looked like a way that has become longer by a second; it has ended.
    c.lengthened(UP, 1.0, 3.0);
    answers(&mut c, 31, 3, 420 * MS, true);
    answers(&mut c, 34, 3, 20 * MS, true);
    assert_eq!((base_ms(&c), c.lengthened_from), (Some(20), None));
    // 80 ms from us.
    let at = 4000 * MS;
    let (there, back) = (0.090, 0.010);
    c.probed(at);
    c.answered(
        at + 100 * MS,
        Answered {
            sent: at,
            came: at + 100 * MS,
            left_unseen: false,
            one_way: Some(OneWay { there, back }),
        },
    );
    let view = c.view(at + 100 * MS);
    assert!(
        view.up.queue_ms > 70.0 && view.down.queue_ms < 10.0,
        "{view:?}"
    );
}

/// How much of an upload is let out after nine tenths of a second, bytes/s, where each probe waits in our own shaper for a full
/// packet or a part of one.
fn let_out_behind_our_shaper(left_unseen: bool) -> f64 {
    let mut c = controller();
    answers(&mut c, 0, 30, 20 * MS, false);
    let (mut sent, mut let_out) = (0.0, 0.0);
    for n in 0..45u32 {
        let at = 3000 * MS + 20 * n * MS;
        while let Some(action) = c.poll() {
            if let Action::Shape { targets, .. } = action {
                let shaped = |t: Target| bytes_per_s(t.let_out());
                let_out = targets.up.map_or(let_out, shaped);
            }
        }
        sent += 0.020 * let_out;
        c.counted(
            at,
            Counted {
                up: sent,
                down: 0.0,
                packets: None,
            },
        );
        c.probed(at);
        let waits = 300.0 * f64::from(1 + n % 5) / let_out;
        let came = at + 20 * MS + Duration::from_secs_f64(waits);
        let answer = Answered {
            sent: at,
            came,
            left_unseen,
            one_way: None,
        };
        c.answered(came, answer);
    }
    let_out
}

#[test]
fn a_packet_in_our_own_shaper_is_no_queue_of_the_line() {
    assert!(let_out_behind_our_shaper(true) > 1e6);
    // Where it is known when probes left it is one.
    assert!(let_out_behind_our_shaper(false) < 1e5);
}

#[test]
fn it_is_probed_no_more_often_than_it_answers() {
    let mut c = controller();
    let paces = |c: &mut Controller| {
        let actions = std::iter::from_fn(|| c.poll());
        let paces = actions.filter_map(|a| match a {
            Action::Pace(pace) => Some(pace.as_millis()),
            _ => None,
        });
        paces.collect::<Vec<_>>()
    };
    assert_eq!(paces(&mut c), [100]);
    c.answers_each(MS, 250 * MS);
    assert_eq!(paces(&mut c), [250]);
    // Load changes nothing of that.
    for n in 1..20u32 {
        let bytes = 1e6 * f64::from(n);
        let counted = Counted {
            up: bytes,
            down: bytes,
            packets: None,
        };
        c.counted(n * 100 * MS, counted);
    }
    assert_eq!(paces(&mut c), [0; 0]);
    c.answers_each(2000 * MS, Duration::ZERO);
    assert_eq!(paces(&mut c), [20]);
}

#[test]
fn acknowledgements_may_wait_where_they_need_half_of_what_is_let_out() {
    // A download needs 7 % of itself; an upload of which nothing is known is let out at 32 kB/s.
    let may_wait = |comes: f64| {
        let mut c = controller();
        answers(&mut c, 0, 5, 5 * MS, false);
        for n in 0..50 {
            let down = 0.01 * comes * f64::from(n);
            c.counted(
                (500 + 10 * n) * MS,
                Counted {
                    up: 0.0,
                    down,
                    packets: None,
                },
            );
        }
        assert!(c.shaped[UP].is_some());
        c.acknowledgements_may_wait()
    };
    assert!(!may_wait(200e3));
    assert!(may_wait(250e3));
}
