//! The emulated line against arithmetic: delay, goodput and the queues of the paper, on TUN and
//! TAP. Judged in virtual time.

mod common;

use std::sync::atomic::AtomicBool;

use evenkeel_core::result::Run;
use evenkeel_lab::experiment::{Device, Experiment};
use evenkeel_lab::{RunOptions, cells, run_cell};

fn vdsl100(device: Device, seconds: f64) -> Experiment {
    let mut e = common::vdsl100();
    e.line.device = device;
    e.duration.quick_s = seconds;
    e.duration.idle_s = 2.0;
    e
}

/// A run of `load` without shaping.
fn run(e: &Experiment, load: &str) -> Run {
    let options = RunOptions {
        quick: true,
        loads: vec![load.to_owned()],
        conditions: vec!["none".into()],
        ..RunOptions::default()
    };
    let cell = &cells(e, &options).unwrap()[0];
    let never = AtomicBool::new(false);
    let run = run_cell(e, cell, &mut [], &mut |_, _| {}, &never).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.instrument.void, "");
    run
}

/// An empty line takes what is set: 9.2 ms, and 29 us to serialise a probe of 84 bytes (108 on
/// the line) at 40143 and 109341 kbit/s.
#[test]
fn the_empty_line_is_right_on_tun_and_tap() {
    if !common::in_virtual_time("the_empty_line_is_right_on_tun_and_tap") {
        return;
    }
    for device in [Device::Tun, Device::Tap] {
        let run = run(&vdsl100(device, 2.0), "idle");
        let expected = 9.2 + 108.0 * 8.0 / 40_143.0 + 108.0 * 8.0 / 109_341.0;
        let off = run.ping_ms.median - expected;
        eprintln!("{device:?}: median {:.3} ms, {off:+.3}", run.ping_ms.median);
        assert!(
            off.abs() <= 0.002,
            "{device:?}: {off:+.3} ms, {:?}",
            run.ping_ms
        );
        assert_eq!(run.lost, 0);
        let icmp = run.icmp_ms.unwrap();
        assert!(
            (icmp.median - expected).abs() <= 0.03,
            "{device:?}: {icmp:?}"
        );
    }
}

/// Goodput is what the framing allows, and the queues are those of the paper.
#[test]
fn the_loaded_line_carries_what_its_framing_allows() {
    if !common::in_virtual_time("the_loaded_line_carries_what_its_framing_allows") {
        return;
    }
    for (device, load) in [(Device::Tun, "down1"), (Device::Tap, "up1")] {
        let e = vdsl100(device, 7.0);
        let run = run(&e, load);
        let (series, rate) = match load {
            "down1" => (&run.series.down_kbit, e.line.down),
            _ => (&run.series.up_kbit, e.line.up),
        };
        // 1448 bytes of payload in packets of 1500, less the probes: 100 a second of 108 bytes.
        let probes = 100.0 * 108.0 * 8.0 / 1000.0;
        let line = rate.bps() as f64 / 1000.0 - probes;
        let allowed = line * e.line.framing.efficiency(1500);
        let steady: Vec<f64> = series.iter().filter(|s| s.0 > 2.0).map(|s| s.1).collect();
        let goodput = steady.iter().sum::<f64>() / steady.len() as f64;
        let share = goodput / allowed;
        eprintln!(
            "{device:?} {load}: {goodput:.0} of {allowed:.0} kbit/s, {:?}",
            run.increase_ms
        );
        assert!(
            (0.999..1.001).contains(&share),
            "{load}: {share:.4} of what is allowed"
        );
        let later = run.series.udp.iter().filter(|s| s.0 > 2.0);
        let later: Vec<f64> = later.filter_map(|s| s.1).map(|v| v - run.base_ms).collect();
        let s = evenkeel_core::Summary::of(&later).unwrap();
        if load == "up1" {
            assert!((s.median - 95.0).abs() <= 2.0, "a standing queue: {s:?}");
            assert!(s.stddev < 2.0, "a standing queue: {s:?}");
        } else {
            // Tail drop: the queue never exceeds buffer/rate = 30 ms, and reaches it.
            assert!(
                s.max < 30.6 && s.max > 28.0,
                "a saw under the buffer: {s:?}"
            );
        }
    }
}
