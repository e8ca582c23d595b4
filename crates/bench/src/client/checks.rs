//! What could have spoiled a run: looked at, and said.
//!
//! Principles: a figure that says nothing about the line is void, one that may be off is doubted, and
//! what could not be looked at is said to be unknown; pure. Non-goals: repairing.

use std::time::Duration;

use evenkeel_report::bench::figures::{figures, round_trips, within};
use evenkeel_report::bench::form::{Bench, Check, Probes, Verdict, Way};

use super::device::{Counters, Device};

/// A machine that is busier than this limits what it measures ...
const BUSY_VOID: f64 = 0.97;
/// ... if the measurement itself has so much of one CPU, so that more would be used; ...
const OWN_CPU: f64 = 0.4;
/// ... or may do so.
const BUSY_DOUBT: f64 = 0.85;
/// A clock that moved this much against the steady one was stepped.
const CLOCK_STEP: Duration = Duration::from_millis(1);
/// What a payload of TCP takes on a device at most beside itself: headers of 66 in 1448 bytes.
const HEADERS: f64 = 1.06;
/// Bytes of a probe and its answer each, with their Ethernet header.
const PROBE_BYTES: f64 = 98.0;
/// Acknowledgements: a packet of 66 bytes for each segment at most.
const ACKS: f64 = 66.0 / 1448.0;
/// Others have so much of the line: figures may be off ...
const OTHERS_DOUBT: f64 = 0.05;
/// ... or are somebody else's.
const OTHERS_VOID: f64 = 0.25;
/// On the idle line others may have so much of what it carries loaded.
const OTHERS_IDLE: f64 = 0.02;
/// A full line without any shaper raises a ping by more than this, ms.
const NOTHING_QUEUED: f64 = 1.0;

/// What a run saw beside its series.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Of one CPU by this process, and of all by anybody, 0..=1.
    pub cpu: f64,
    /// All CPUs, where that can be read.
    pub machine: Option<f64>,
    /// The same of the far end, where it says so.
    pub report: Option<(f64, f64)>,
    /// It should have said what arrived.
    pub must_report: bool,
    /// How far the wall clock was stepped.
    pub clock_step: Duration,
    /// The device that leads there.
    pub device: Option<Device>,
    /// Its counters: at the beginning, before and after the load, at the end.
    pub counters: Vec<(f64, Counters)>,
}

fn check(name: &str, verdict: Verdict, says: String) -> Check {
    Check {
        name: name.into(),
        verdict,
        says,
    }
}

/// Every check of a run.
pub fn checks(b: &Bench, f: &Facts) -> Vec<Check> {
    let mut found = vec![
        busy("CPU of this machine", "this machine", f.cpu, f.machine),
        match f.report {
            Some((cpu, machine)) => busy("CPU of the far end", "the far end", cpu, Some(machine)),
            None => check(
                "CPU of the far end",
                Verdict::Unknown,
                "the far end does not say how busy it is".into(),
            ),
        },
        clock(f.clock_step),
        others(b, f),
        slower(b, f),
    ];
    found.extend(icmp(b));
    found.extend(f.device.as_ref().map(wifi));
    if f.must_report && f.report.is_none() {
        let says = "the far end did not say what arrived: of uploads, bytes that it acknowledged are counted";
        found.push(check(
            "Counted by the receiver",
            Verdict::Doubt,
            says.into(),
        ));
    }
    found
}

/// `cpu`: what the measurement itself had of one CPU.
fn busy(name: &str, whose: &str, cpu: f64, machine: Option<f64>) -> Check {
    let Some(machine) = machine else {
        let says = format!(
            "how busy {whose} was cannot be read, this measurement had {:.0} % of one CPU",
            cpu * 100.0
        );
        return check(name, Verdict::Unknown, says);
    };
    let says = format!(
        "{whose} was {:.0} % busy, this measurement had {:.0} % of one CPU",
        machine * 100.0,
        cpu * 100.0
    );
    if machine >= BUSY_VOID && cpu >= OWN_CPU {
        return check(
            name,
            Verdict::Void,
            says + ": that limits what is measured, not the line",
        );
    }
    if machine >= BUSY_DOUBT || cpu >= BUSY_VOID {
        return check(
            name,
            Verdict::Doubt,
            says + ": that may limit what is measured",
        );
    }
    check(name, Verdict::Ok, says)
}

fn clock(step: Duration) -> Check {
    let name = "Clock";
    if step > CLOCK_STEP {
        let ms = step.as_secs_f64() * 1000.0;
        return check(
            name,
            Verdict::Void,
            format!("the clock was stepped by {ms:.1} ms: round trips are wrong"),
        );
    }
    check(name, Verdict::Ok, "the clock was not stepped".into())
}

/// Bytes of ours on the device between two times: received and sent.
fn own(b: &Bench, from: f64, to: f64) -> (f64, f64) {
    let bin = |t: f64| (t / evenkeel_report::bench::form::BIN_S).max(0.0) as usize;
    let payload = |way: Way| -> f64 {
        let streams = b.streams.iter().filter(|s| s.way == way);
        let sum = |s: &evenkeel_report::bench::form::Stream| -> u64 {
            s.bytes.iter().take(bin(to) + 1).skip(bin(from)).sum()
        };
        streams.map(sum).sum::<u64>() as f64
    };
    let probes: usize = b
        .probes
        .iter()
        .map(|p| within(Some(p), from, to).len())
        .sum();
    let probes = probes as f64 * PROBE_BYTES;
    let (down, up) = (payload(Way::Down), payload(Way::Up));
    (
        down * HEADERS + up * ACKS + probes,
        up * HEADERS + down * ACKS + probes,
    )
}

fn others(b: &Bench, f: &Facts) -> Check {
    let name = "Other users of the line";
    let [idle, before, after, ..] = &f.counters[..] else {
        return check(
            name,
            Verdict::Unknown,
            "the counters of the device could not be read".into(),
        );
    };
    let foreign = |from: &(f64, Counters), to: &(f64, Counters)| {
        let (down, up) = own(b, from.0, to.0);
        let seconds = (to.0 - from.0).max(0.1);
        let more = |now: u64, before: u64, own: f64| {
            ((now.saturating_sub(before)) as f64 - own).max(0.0) * 8e-6 / seconds
        };
        (
            more(to.1.received, from.1.received, down),
            more(to.1.sent, from.1.sent, up),
        )
    };
    let figures = figures(b);
    let (down, up) = (figures.down_mbit, figures.up_mbit);
    let share = |foreign: f64, carried: Option<f64>| {
        carried
            .filter(|c| *c > 0.1)
            .map_or(0.0, |c| foreign / (c + foreign))
    };
    let (idle_down, idle_up) = foreign(idle, before);
    let idle_share = share(idle_down, down).max(share(idle_up, up));
    let (busy_down, busy_up) = foreign(before, after);
    let busy_share = share(busy_down, down).max(share(busy_up, up));
    let says = format!(
        "beside this run the device carried {busy_down:.1} Mbit/s down and {busy_up:.1} Mbit/s up while loaded, {idle_down:.1} and {idle_up:.1} before"
    );
    match busy_share {
        s if s > OTHERS_VOID => check(
            name,
            Verdict::Void,
            says + ": somebody else had much of the line",
        ),
        s if s > OTHERS_DOUBT || idle_share > OTHERS_IDLE => check(
            name,
            Verdict::Doubt,
            says + ": somebody else used the line (others behind the same gateway are not seen)",
        ),
        _ => check(name, Verdict::Ok, says),
    }
}

/// A load that makes no queue anywhere did not fill the line, unless something keeps queues short.
fn slower(b: &Bench, f: &Facts) -> Check {
    let name = "Far end slower than the line";
    let figures = figures(b);
    let Some(increase) = figures.increase.filter(|_| !b.streams.is_empty()) else {
        return check(name, Verdict::Unknown, "nothing was loaded".into());
    };
    let shaped = !b.shaper.is_empty();
    if f.report
        .is_some_and(|r| r.0 >= OWN_CPU && r.1 >= BUSY_DOUBT)
    {
        let says = "the far end had no CPU left: the line may carry more than what is said here";
        return check(name, Verdict::Doubt, says.into());
    }
    if increase.p99 < NOTHING_QUEUED && !shaped {
        let says = format!(
            "no queue was seen (99 % of the pings rose by less than {:.1} ms): either something keeps queues short, or the far end is slower than the line",
            increase.p99
        );
        return check(name, Verdict::Doubt, says);
    }
    let says = if shaped {
        format!("{} shapes this device: no queue is expected", b.shaper)
    } else {
        "a queue stood, so the line was full".into()
    };
    check(name, Verdict::Ok, says)
}

/// Whether echo requests are treated as other probes are.
fn icmp(b: &Bench) -> Option<Check> {
    let name = "ICMP treated like the rest";
    let of = |icmp: bool| {
        b.probes
            .iter()
            .find(|p| (p.kind == "ICMP") == icmp && p.kind != "HTTP" && p.mark == "BE")
    };
    let (icmp, other) = (of(true)?, of(false)?);
    let idle = |p: &Probes| {
        let inside = within(Some(p), 0.0, b.phases.load);
        let lost =
            inside.iter().filter(|s| s.rtt.is_none()).count() as f64 / inside.len().max(1) as f64;
        Some((evenkeel_core::stats::median(&round_trips(&inside))?, lost))
    };
    let ((ours, ours_lost), (theirs, theirs_lost)) = (idle(icmp)?, idle(other)?);
    let (kind, percent) = (&other.kind, (ours_lost - theirs_lost) * 100.0);
    Some(if ours > theirs * 1.2 + 1.0 || percent > 2.0 {
        let says = format!(
            "echo requests took {ours:.1} ms on the idle line, {kind} {theirs:.1} ms, and {percent:.0} % more of them were lost: the far end treats ICMP worse, so it is not to be judged by it"
        );
        let judged = b.judged().is_some_and(|j| j.kind == "ICMP");
        check(
            name,
            if judged {
                Verdict::Void
            } else {
                Verdict::Doubt
            },
            says,
        )
    } else {
        check(
            name,
            Verdict::Ok,
            format!("on the idle line {ours:.1} ms, {kind} {theirs:.1} ms"),
        )
    })
}

fn wifi(device: &Device) -> Check {
    let name = "Wi-Fi in the path";
    if device.is_wifi() {
        let says = format!(
            "{} is Wi-Fi: what is measured is Wi-Fi and the line together; blame says how much of it is before the gateway",
            device.0
        );
        return check(name, Verdict::Doubt, says);
    }
    check(name, Verdict::Ok, format!("{} is no Wi-Fi", device.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_report::bench::form::{Phases, Probe, Stream};

    fn run(increase: f64, mbit: f64) -> Bench {
        let probes = (0..2000).map(|i| {
            let t = f64::from(i) * 0.01;
            let more = if (5.0..15.0).contains(&t) {
                increase
            } else {
                0.0
            };
            Probe::new(t, Some(10.0 + more))
        });
        let bytes = (0..200).map(|i| {
            if (50..150).contains(&i) {
                (mbit * 1e5 / 8.0) as u64
            } else {
                0
            }
        });
        let phases = Phases {
            load: 5.0,
            tail: 15.0,
            end: 20.0,
        };
        Bench {
            streams: vec![Stream {
                way: Way::Down,
                mark: "BE".into(),
                bytes: bytes.collect(),
                by_sender: false,
                retransmits: None,
                rtt_ms: Vec::new(),
            }],
            ..Bench::of(phases, Probes::new("UDP", "BE", probes.collect()))
        }
    }

    fn verdict(of: &[Check], name: &str) -> Verdict {
        of.iter().find(|c| c.name == name).unwrap().verdict
    }

    /// 100 Mbit/s for ten seconds are 125 MB, and 6 % of headers.
    fn counted(foreign: u64) -> Facts {
        let at = |t: f64, received: u64| (t, Counters { received, sent: 0 });
        Facts {
            machine: Some(0.1),
            report: Some((0.1, 0.1)),
            counters: vec![
                at(0.0, 0),
                at(5.0, 100_000),
                at(15.0, 130_000_000 + foreign),
                at(20.0, 130_100_000 + foreign),
            ],
            ..Facts::default()
        }
    }

    #[test]
    fn nothing_is_wrong() {
        let found = checks(&run(20.0, 100.0), &counted(0));
        assert!(found.iter().all(|c| c.verdict == Verdict::Ok), "{found:?}");
        let blind = Facts {
            machine: None,
            ..counted(0)
        };
        let found = checks(&run(20.0, 100.0), &blind);
        assert_eq!(verdict(&found, "CPU of this machine"), Verdict::Unknown);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |change: &dyn Fn(&mut Facts)| {
            let mut f = counted(0);
            change(&mut f);
            checks(&run(20.0, 100.0), &f)
        };
        let cpu = with(&|f| (f.machine, f.cpu) = (Some(0.99), 0.9));
        assert_eq!(verdict(&cpu, "CPU of this machine"), Verdict::Void);
        let others = with(&|f| (f.machine, f.cpu) = (Some(0.99), 0.1));
        assert_eq!(verdict(&others, "CPU of this machine"), Verdict::Doubt);
        let server = with(&|f| f.report = Some((0.99, 0.99)));
        assert_eq!(verdict(&server, "CPU of the far end"), Verdict::Void);
        assert_eq!(
            verdict(&server, "Far end slower than the line"),
            Verdict::Doubt
        );
        let step = with(&|f| f.clock_step = Duration::from_millis(30));
        assert_eq!(verdict(&step, "Clock"), Verdict::Void);
        // 12 and 60 Mbit/s of somebody else.
        for (foreign, expected) in [(15_000_000, Verdict::Doubt), (75_000_000, Verdict::Void)] {
            let found = checks(&run(20.0, 100.0), &counted(foreign));
            assert_eq!(verdict(&found, "Other users of the line"), expected);
        }
        let calm = checks(&run(0.2, 100.0), &counted(0));
        assert_eq!(
            verdict(&calm, "Far end slower than the line"),
            Verdict::Doubt
        );
        let mut slow_icmp = run(20.0, 100.0);
        let mut icmp = slow_icmp.probes[0].clone();
        icmp.kind = "ICMP".into();
        icmp.probes
            .iter_mut()
            .for_each(|p| p.rtt = p.rtt.map(|r| r + 15.0));
        slow_icmp.probes.push(icmp);
        let found = checks(&slow_icmp, &counted(0));
        assert_eq!(
            verdict(&found, "ICMP treated like the rest"),
            Verdict::Doubt
        );
        slow_icmp.probes.reverse();
        let found = checks(&slow_icmp, &counted(0));
        assert_eq!(verdict(&found, "ICMP treated like the rest"), Verdict::Void);
    }
}
