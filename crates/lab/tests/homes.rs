//! Homes that nobody would want to break again, each of another kind: what `evenkeel run` comes to
//! there beside evenkeel that is told the line at each moment. Judged in virtual time.
//!
//! Principles: limits are today's figures with room for what changes by itself (the daemon's threads meet
//! the line a little differently each time), so that they hold what is there and say nothing of what
//! ought to be (`evenkeel lab homes` does); a home is a file in `homes/` beside this one. Non-goals: many homes.

mod common;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_core::result::Run;
use evenkeel_lab::{Cell, Experiment, StateRoot, conditions, run_cell};

/// What must hold under `evenkeel-auto`.
struct Limits {
    /// Average increase beyond the oracle's, ms.
    more_ms: f64,
    /// The same of the 99th percentile, ms.
    more_p99_ms: f64,
    /// Of the oracle's goodput, both directions together.
    goodput: f64,
    /// Of what hosts beside the gateway get without a shaper.
    beside: f64,
}

fn cell(experiment: &Experiment, state: &Path, condition: &str) -> Run {
    let cell = Cell {
        condition: condition.into(),
        load: "home".into(),
        repeat: 0,
        seed: 1,
        duration: Duration::from_secs_f64(experiment.duration.full_s),
    };
    let mut shapers = conditions::all(state);
    let cancel = AtomicBool::new(false);
    let run = run_cell(experiment, &cell, &mut shapers, &mut |_, _| {}, &cancel);
    let run = run.unwrap_or_else(|e| panic!("{condition}: {e}"));
    assert_eq!(run.instrument.void, "", "{condition}");
    run
}

fn home(test: &str, limits: &Limits) {
    if !common::in_virtual_time(test) {
        return;
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let experiment = Experiment::load(&top.join(format!("tests/homes/{test}.toml"))).unwrap();
    let state = StateRoot::new().unwrap();
    let told = cell(&experiment, state.path(), "evenkeel-oracle");
    let auto = cell(&experiment, state.path(), "evenkeel-auto");
    let all = |run: &Run| run.down_kbit + run.up_kbit;
    let figures = format!(
        "{test}: increase {:.2} told {:.2} ms, p99 {:.1} told {:.1} ms, goodput {:.0}/{:.0} told {:.0}/{:.0} kbit/s",
        auto.increase_ms.avg,
        told.increase_ms.avg,
        auto.increase_ms.p99,
        told.increase_ms.p99,
        auto.down_kbit,
        auto.up_kbit,
        told.down_kbit,
        told.up_kbit
    );
    println!("{figures}");
    let more = auto.increase_ms.avg - told.increase_ms.avg;
    assert!(more <= limits.more_ms, "{more:.2} ms more; {figures}");
    let more = auto.increase_ms.p99 - told.increase_ms.p99;
    assert!(
        more <= limits.more_p99_ms,
        "p99 {more:.2} ms more; {figures}"
    );
    let kept = all(&auto) / all(&told);
    assert!(kept >= limits.goodput, "kept {kept:.3}; {figures}");
    if let Some(got) = auto.beside_kbit {
        let none = cell(&experiment, state.path(), "none").beside_kbit.unwrap();
        let kept = got.iter().sum::<f64>() / none.iter().sum::<f64>();
        println!("beside {got:?} kbit/s, without a shaper {none:?}");
        assert!(kept >= limits.beside, "beside kept {kept:.3}; {figures}");
    }
}

/// A test for each file.
macro_rules! homes {
    ($($name:ident: $more_ms:expr, $more_p99_ms:expr, $goodput:expr, $beside:expr;)*) => {
        $(#[test]
        fn $name() {
            home(
                stringify!($name),
                &Limits {
                    more_ms: $more_ms,
                    more_p99_ms: $more_p99_ms,
                    goodput: $goodput,
                    beside: $beside,
                },
            );
        })*
    };
}

homes! {
    box_in_front: 15.0, f64::INFINITY, 0.7, 0.0;
    // Runs differ: 7 of 8 had 78 to 85 %, one 41 %.
    adsl: 60.0, f64::INFINITY, 0.35, 0.0;
    neighbour: 15.0, f64::INFINITY, 0.55, 0.7;
    to_a_third: 8.0, f64::INFINITY, 0.85, 0.0;
    // One run had 1.1 ms more and 99.6 % of the goodput.
    to_a_half: 3.0, f64::INFINITY, 0.92, 0.0;
    policer: 4.0, f64::INFINITY, 0.85, 0.0;
    limited_hop: 8.0, f64::INFINITY, 0.85, 0.0;
    managed: 6.0, f64::INFINITY, 0.75, 0.0;
    radio: 4.0, f64::INFINITY, 0.75, 0.0;
    // What holds it is p99: 57 ms where it begins at 256 kbit/s, 14 otherwise.
    first_upload: 3.0, 30.0, 0.9, 0.0;
    no_icmp: 3.0, f64::INFINITY, 0.85, 0.0;
    // Without decision 0102 it is 8700 ms, and a tenth of the goodput. Five runs had 6855 to 8633 kbit/s of goodput, told
    // 9156.
    acknowledgements_wait: 200.0, f64::INFINITY, 0.6, 0.0;
    // Before decision 0107 four runs had 225 to 1130 ms more; with it 107 to 295.
    box_alone: 400.0, f64::INFINITY, 0.5, 0.0;
    // Without decision 0102 it is 1000 ms. Before decision 0136 one run had 360 ms and 0.56 of the goodput; with it 32 seeds
    // have 49 to 334 ms and 0.68 to 0.95.
    call_beside_neighbour: 600.0, f64::INFINITY, 0.6, 0.9;
    // With half of decision 0119 three runs had 4 to 62 ms more, and 0.50 to 0.85 of the goodput; with it 3 to 10, and 0.88 to 0.91.
    slow_hop: 20.0, f64::INFINITY, 0.75, 0.0;
}
