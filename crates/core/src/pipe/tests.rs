//! Tests of the emulated line.
//!
//! Principles: each figure follows from the rate by hand. Non-goals: real TCP over it (the lab).

use super::*;
use crate::framing::Mode;
use proptest::prelude::*;

fn pipe(rate: RateTrace, buffer: Buffer) -> Pipe {
    Pipe::new(PipeConfig {
        rate,
        framing: Framing::default(),
        buffer,
        delay: Duration::from_millis(4),
        bucket: None,
        managed: None,
        turns: Duration::ZERO,
        wander: Vec::new(),
        jitter: Duration::ZERO,
        loss: 0.0,
        seed: 1,
    })
}

const FULL: Verdict = Verdict::Drop(DropReason::Tail);

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

#[test]
fn idle_packet_takes_serialisation_and_delay() {
    // VDSL-100 upload: 1500 + 22 bytes, 24 of 64b/65b, 12368 bits at 40.143 Mbit/s.
    let mut p = pipe(
        RateTrace::constant(Rate::from_kbit(40_143)),
        Buffer::Bytes(1 << 20),
    );
    p.config.framing = Framing::new(Mode::Ptm, 22, 0);
    let ns = (12_368u64 * 1_000_000).div_ceil(40_143);
    let at = ms(1) + Duration::from_nanos(ns) + ms(4);
    assert_eq!(p.enqueue(ms(1), 1500), Verdict::Depart { at });
}

#[test]
fn tail_drop_arithmetic() {
    // 8 Mbit/s is a byte each microsecond; 30 ms are 30000 bytes, 30 packets of 1000.
    for buffer in [Buffer::Bytes(30_000), Buffer::Time(ms(30))] {
        let mut p = pipe(RateTrace::constant(Rate::from_kbit(8_000)), buffer);
        for i in 1..=30 {
            let at = ms(i) + ms(4);
            assert_eq!(p.enqueue(Duration::ZERO, 1000), Verdict::Depart { at });
        }
        let full = Verdict::Drop(DropReason::Tail);
        assert_eq!(p.enqueue(Duration::ZERO, 1000), full);
        assert_eq!(p.enqueue(Duration::from_micros(999), 1000), full);
        assert_eq!(p.enqueue(ms(1), 1000), Verdict::Depart { at: ms(35) });
        assert_eq!((p.stats().tail_drops, p.stats().max_backlog), (2, 30_000));
    }
}

#[test]
fn a_buffer_of_packets_counts_packets() {
    let mut p = pipe(
        RateTrace::constant(Rate::from_kbit(8_000)),
        Buffer::Packets(3),
    );
    for (len, fits) in [(1500, true), (40, true), (1500, true), (40, false)] {
        let v = p.enqueue(Duration::ZERO, len);
        assert_eq!(v != Verdict::Drop(DropReason::Tail), fits, "{len}");
    }
    assert!(matches!(p.enqueue(ms(2), 40), Verdict::Depart { .. }));
}

#[test]
fn traces_begin_when_told() {
    let steps = vec![
        (ms(0), Rate::from_kbit(8_000)),
        (ms(10), Rate::from_kbit(800)),
    ];
    let mut p = pipe(
        RateTrace::steps(steps, None).unwrap(),
        Buffer::Bytes(1 << 20),
    );
    p.config.wander = vec![(ms(0), ms(1)), (ms(10), ms(3))];
    p.begin(ms(1000));
    // Before and just after: 1 ms for 1000 bytes, 4 + 1 ms of delay.
    for t in [500, 1005] {
        assert_eq!(p.enqueue(ms(t), 1000), Verdict::Depart { at: ms(t + 6) });
    }
    // From 1010 on: 10 ms for 1000 bytes, 4 + 3 ms.
    assert_eq!(p.enqueue(ms(1010), 1000), Verdict::Depart { at: ms(1027) });
}

#[test]
fn a_packet_larger_than_the_buffer_passes_an_empty_line() {
    let mut p = pipe(
        RateTrace::constant(Rate::from_kbit(8_000)),
        Buffer::Bytes(100),
    );
    assert!(matches!(
        p.enqueue(Duration::ZERO, 1000),
        Verdict::Depart { .. }
    ));
    assert_eq!(
        p.enqueue(Duration::ZERO, 20),
        Verdict::Drop(DropReason::Tail)
    );
}

#[test]
fn steps_outage_and_period() {
    let mbit = |v: u64| Rate::from_kbit(v * 8_000); // v bytes each microsecond
    let t = RateTrace::steps(
        vec![
            (ms(0), mbit(1)),
            (ms(10), Rate::from_bps(0)),
            (ms(20), mbit(2)),
        ],
        Some(ms(30)),
    )
    .unwrap();
    assert_eq!(t.finish(ms(0), 10_000), ms(10));
    assert_eq!(t.finish(ms(5), 7_000), ms(21));
    assert_eq!(t.finish(ms(12), 20_000), ms(30));
    assert_eq!(t.finish(ms(29), 3_000), ms(31));
    assert_eq!(
        t.at(ms(61)),
        (Rate::from_kbit(8_000), Some(ms(70))),
        "the third period"
    );
    assert_eq!(t.peak(), mbit(2));
}

#[test]
fn a_list_of_steps_is_refused_for_what_is_wrong_with_it() {
    let rate = Rate::from_kbit(8);
    for (steps, period, why) in [
        (vec![], None, TraceError::Start),
        (vec![(ms(1), rate)], None, TraceError::Start),
        (
            vec![(ms(0), rate), (ms(0), rate)],
            None,
            TraceError::Order(ms(0)),
        ),
        (
            vec![(ms(0), rate), (ms(5), rate), (ms(4), rate)],
            None,
            TraceError::Order(ms(4)),
        ),
        (
            vec![(ms(0), rate), (ms(9), Rate::from_bps(0))],
            None,
            TraceError::Dead,
        ),
        (
            vec![(ms(0), rate), (ms(9), rate)],
            Some(ms(9)),
            TraceError::Period(ms(9)),
        ),
    ] {
        assert_eq!(RateTrace::steps(steps, period), Err(why));
    }
    let steps = vec![(ms(0), rate), (ms(9), rate)];
    assert!(RateTrace::steps(steps, Some(ms(10))).is_ok());
}

/// 8 kbit/s are a byte each millisecond.
#[test]
fn a_step_begins_at_its_time() {
    let (slow, fast) = (Rate::from_kbit(8), Rate::from_kbit(80));
    let trace = RateTrace::steps(vec![(ms(0), slow), (ms(10), fast)], None).unwrap();
    let just_before = Duration::from_nanos(9_999_999);
    assert_eq!(trace.at(ms(0)), (slow, Some(ms(10))));
    assert_eq!(trace.at(just_before), (slow, Some(ms(10))));
    assert_eq!(trace.at(ms(10)), (fast, None));
    // Ten bytes fill the first step, the eleventh takes a tenth of the time.
    assert_eq!(trace.finish(ms(0), 10), ms(10));
    assert_eq!(trace.finish(ms(0), 11), ms(10) + Duration::from_micros(100));
    assert_eq!(RateTrace::constant(Rate::from_bps(0)).peak().bps(), 1);
}

#[test]
fn a_line_tells_how_long_a_packet_waits() {
    // 1000 bytes take a millisecond.
    let rate = RateTrace::constant(Rate::from_kbit(8_000));
    let mut p = pipe(rate, Buffer::Bytes(1 << 20));
    assert_eq!(p.wait(ms(7)), ms(0));
    for _ in 0..3 {
        p.enqueue(ms(10), 1000);
    }
    for (now, wait) in [(10, 3), (12, 1), (13, 0), (20, 0)] {
        assert_eq!(p.wait(ms(now)), ms(wait), "{now}");
    }
    // What was seen already is not asked for again.
    assert_eq!(p.wait(ms(0)), ms(3));
    for (now, bytes) in [(10, 3000), (11, 2000), (12, 1000), (13, 0)] {
        assert_eq!(p.backlog(ms(now)), bytes, "{now}");
    }
}

#[test]
fn what_has_passed_is_counted() {
    let rate = RateTrace::constant(Rate::from_kbit(8_000));
    let mut p = pipe(rate, Buffer::Bytes(2000));
    p.config.framing = Framing::new(Mode::None, 10, 0);
    for len in [990, 490, 500, 40] {
        p.enqueue(ms(0), len);
    }
    p.config.loss = 1.0;
    p.enqueue(ms(100), 90);
    p.config.loss = 0.0;
    p.enqueue(ms(200), 190);
    let stats = PipeStats {
        packets: 3 + 1,
        wire_bytes: 1000 + 500 + 50 + 200,
        tail_drops: 1,
        losses: 1,
        max_backlog: 1550,
        ..PipeStats::default()
    };
    assert_eq!(p.stats(), stats);
}

/// The reference implementation's numbers (Vigna, splitmix64.c) for the seeds 1234567 and 0.
#[test]
fn the_generator_is_splitmix64() {
    let mut random = SplitMix64::new(1_234_567);
    for expected in [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ] {
        assert_eq!(random.next_u64(), expected);
    }
    let mut random = SplitMix64::new(0);
    assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
    // The upper 53 bits of that number and of the next one, as shares of 2^53.
    let of_53_bits = |bits: u64| bits as f64 / 9_007_199_254_740_992.0;
    let mut random = SplitMix64::new(0);
    assert!((random.unit() - of_53_bits(0xE220_A839_7B1D_CDAF >> 11)).abs() < 1e-15);
    assert!((random.unit() - of_53_bits(0x6E78_9E6A_A1B9_65F4 >> 11)).abs() < 1e-15);
}

/// Without loss the first number is the first packet's jitter: 0.883311 for seed 0.
#[test]
fn jitter_adds_its_share_to_the_delay() {
    let mut p = pipe(
        RateTrace::constant(Rate::from_kbit(8_000)),
        Buffer::Bytes(1 << 20),
    );
    p.config.jitter = Duration::from_secs(1);
    p.random = SplitMix64::new(0);
    let Verdict::Depart { at } = p.enqueue(ms(10), 1000) else {
        panic!("lost");
    };
    let more = at.as_secs_f64() - 0.015;
    assert!((more - 0.883_310_808).abs() < 1e-8, "{more}");
}

/// A packet is lost if its number, which is below 1, is below the share: never at 0, always
/// at 1.
#[test]
fn the_share_of_lost_packets_is_a_bound() {
    let number = SplitMix64::new(0).unit();
    for (share, lost) in [
        (0.0, false),
        (number, false),
        (number + 1e-12, true),
        (1.0, true),
    ] {
        let rate = RateTrace::constant(Rate::from_kbit(8_000));
        let mut p = pipe(rate, Buffer::Bytes(1 << 20));
        p.random = SplitMix64::new(0);
        p.config.loss = share;
        let verdict = p.enqueue(ms(0), 1000);
        assert_eq!(verdict == Verdict::Drop(DropReason::Loss), lost, "{share}");
    }
}

#[test]
fn a_buffer_of_time_follows_the_rate() {
    // 10 ms are 10000 bytes at first, 1000 from 100 ms after the traces began.
    let steps = vec![
        (ms(0), Rate::from_kbit(8_000)),
        (ms(100), Rate::from_kbit(800)),
    ];
    let trace = RateTrace::steps(steps, None).unwrap();
    for (now, fit) in [(50, 10), (150, 10), (200, 1)] {
        let mut p = pipe(trace.clone(), Buffer::Time(ms(10)));
        p.begin(ms(60));
        let passed = (0..20).filter(|_| p.enqueue(ms(now), 1000) != FULL);
        assert_eq!(passed.count(), fit, "{now}");
    }
}

#[test]
fn loss_and_jitter_follow_the_seed() {
    let run = |seed| {
        let mut p = pipe(
            RateTrace::constant(Rate::from_kbit(80_000)),
            Buffer::Bytes(1 << 30),
        );
        p.config.jitter = ms(3);
        p.config.loss = 0.1;
        p.random = SplitMix64::new(seed);
        let v: Vec<_> = (0..5000).map(|i| p.enqueue(ms(i), 100)).collect();
        (v, p.stats().losses)
    };
    let (a, lost) = run(7);
    assert_eq!(a, run(7).0);
    assert_ne!(a, run(8).0);
    assert!((400..600).contains(&lost), "{lost}");
    for (i, v) in (0..).zip(&a) {
        if let Verdict::Depart { at } = v {
            let more = at.saturating_sub(ms(i) + ms(4) + Duration::from_micros(10));
            assert!(more <= ms(3), "{more:?}");
        }
    }
}

/// Random arrivals: gap in us, IP length.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    proptest::collection::vec((0u64..3000, 20u32..1500), 1..300)
}

proptest! {
    #[test]
    fn order_rate_and_queue_are_bounded(
        arrivals in arrivals(), kbit in 100u64..200_000, buffer in 2_000u64..200_000, atm: bool,
    ) {
        let rate = Rate::from_kbit(kbit);
        let mut p = pipe(RateTrace::constant(rate), Buffer::Bytes(buffer));
        if atm { p.config.framing = Framing::new(Mode::Atm, 40, 0); }
        let framing = p.config.framing;
        let mut now = Duration::ZERO;
        let mut passed: Vec<(Duration, u64)> = Vec::new();
        for (gap, len) in arrivals {
            now += Duration::from_micros(gap);
            if let Verdict::Depart { at } = p.enqueue(now, len) {
                let wire = u64::from(framing.wire_len(len));
                let own = rate.time_for(wire).unwrap();
                // FIFO; no earlier than serialisation and delay allow; queue <= buffer/rate.
                prop_assert!(passed.last().is_none_or(|l| l.0 <= at));
                prop_assert!(at >= now + own + ms(4));
                let bound = rate.time_for(buffer.max(wire)).unwrap();
                // Each packet's end is rounded up by less than a nanosecond.
                prop_assert!(at <= now + ms(4) + bound + Duration::from_nanos(300));
                passed.push((at, wire));
            }
        }
        // Over any interval between two departures no more passes than the rate allows.
        for i in 0..passed.len() {
            let mut sum = 0;
            for j in i + 1..passed.len() {
                sum += passed[j].1;
                prop_assert!(sum * 8 <= rate.bps() * passed[j].0.saturating_sub(passed[i].0).as_nanos() as u64 / 1_000_000_000 + 1);
            }
        }
    }

    #[test]
    fn jitter_never_reorders(arrivals in arrivals(), seed: u64) {
        let mut p = pipe(RateTrace::constant(Rate::from_kbit(50_000)), Buffer::Bytes(1 << 20));
        p.config.jitter = ms(20);
        p.random = SplitMix64::new(seed);
        let mut now = Duration::ZERO;
        let mut last = Duration::ZERO;
        for (gap, len) in arrivals {
            now += Duration::from_micros(gap);
            if let Verdict::Depart { at } = p.enqueue(now, len) {
                prop_assert!(at >= last);
                last = at;
            }
        }
    }

    #[test]
    fn time_running_backwards_is_harmless(times in proptest::collection::vec(0u64..1_000_000, 1..100)) {
        let mut p = pipe(RateTrace::constant(Rate::from_kbit(1_000)), Buffer::Bytes(10_000));
        let mut last = Duration::ZERO;
        for t in times {
            if let Verdict::Depart { at } = p.enqueue(Duration::from_micros(t), 500) {
                prop_assert!(at > last);
                last = at;
            }
        }
    }
}

/// A line that repeats may rest at its end, but not for ever.
#[test]
fn some_step_of_a_line_carries_something() {
    let trace = |kbit: [u64; 2], period: Option<u64>| {
        let steps = [0, 1].map(|s| {
            let rate = Rate::from_kbit(kbit[s as usize]);
            (Duration::from_secs(s), rate)
        });
        RateTrace::steps(steps.into(), period.map(Duration::from_secs))
    };
    for kbit in [[1, 1], [1, 0], [0, 1]] {
        assert!(trace(kbit, Some(2)).is_ok(), "{kbit:?}");
    }
    assert_eq!(trace([0, 0], Some(2)), Err(TraceError::Dead));
    assert_eq!(trace([1, 0], None), Err(TraceError::Dead));
}

fn with(config: impl FnOnce(&mut PipeConfig)) -> Pipe {
    let mut p = pipe(
        RateTrace::constant(Rate::from_kbit(8_000)),
        Buffer::Bytes(1 << 20),
    );
    config(&mut p.config);
    Pipe::new(p.config)
}

#[test]
fn a_policer_lets_a_burst_pass_and_then_its_rate() {
    // 8 Mbit/s is a byte each microsecond, the policer lets half of that pass, and 4000 bytes at once.
    let mut p = with(|c| {
        c.bucket = Some(Bucket {
            kind: BucketKind::Policer,
            rate: Rate::from_kbit(4_000),
            burst: 4000,
        });
    });
    let dropped = Verdict::Drop(DropReason::Policed);
    for i in 1..=4 {
        assert_eq!(p.enqueue(ms(0), 1000), Verdict::Depart { at: ms(i + 4) });
    }
    assert_eq!(p.enqueue(ms(0), 1000), dropped, "the burst is used up");
    assert_eq!(p.enqueue(ms(1), 1000), dropped, "half a packet's tokens");
    assert_eq!(p.enqueue(ms(2), 1000), Verdict::Depart { at: ms(9) });
    // From then on 500 bytes a millisecond, whatever is sent.
    let passed = (3..1003)
        .filter(|i| p.enqueue(ms(*i), 1000) != dropped)
        .count();
    assert_eq!(passed, 500);
    assert_eq!(p.stats().policed, 502);
    assert_eq!(
        p.rate(ms(1003)),
        Rate::from_kbit(4_000),
        "no burst is a promise"
    );
}

#[test]
fn a_shaper_sends_a_burst_at_the_lines_rate_and_then_what_is_sold() {
    let mut p = with(|c| {
        c.bucket = Some(Bucket {
            kind: BucketKind::Shaper,
            rate: Rate::from_kbit(2_000),
            burst: 10_000,
        });
    });
    assert_eq!(p.rate(ms(0)), Rate::from_kbit(8_000));
    let mut last = Duration::ZERO;
    for i in 0..100u64 {
        let Verdict::Depart { at } = p.enqueue(ms(0), 1000) else {
            panic!("{i} was dropped");
        };
        // A packet each ms while there are tokens: 10 of them and those that come meanwhile.
        if i > 0 {
            let gap = at.saturating_sub(last);
            assert!(gap == ms(1) || i > 11 && gap <= ms(4), "{i}: {gap:?}");
            assert!(i < 15 || gap == ms(4), "{i}: {gap:?}");
        }
        last = at;
    }
    assert_eq!(p.rate(last), Rate::from_kbit(2_000));
    // After a pause the burst is there again: 10000 bytes at 250 bytes a ms.
    assert_eq!(p.rate(last + ms(40)), Rate::from_kbit(8_000));
}

#[test]
fn a_burst_is_counted_on_until_it_is_all_but_used_up() {
    // 6 Mbit/s more than is sold, for 2 s.
    let mut p = with(|c| {
        c.bucket = Some(Bucket {
            kind: BucketKind::Shaper,
            rate: Rate::from_kbit(2_000),
            burst: 1_500_000,
        });
    });
    let (fast, sold) = (Rate::from_kbit(8_000), Rate::from_kbit(2_000));
    let mut changes = Vec::new();
    let mut told = p.sustained(ms(0));
    assert_eq!(told, fast);
    for i in 0..6_000 {
        // As much as there can be counted on.
        if told == fast || i % 4 == 0 {
            p.enqueue(ms(i), 1000);
        }
        let now = p.sustained(ms(i));
        if now != told {
            changes.push(i);
        }
        told = now;
    }
    assert_eq!(told, sold);
    assert!(
        changes.len() == 1 && (1900..2000).contains(&changes[0]),
        "{changes:?}"
    );
    assert_eq!(p.sustained(ms(9_000)), fast, "a second's worth came back");
}

#[test]
fn a_medium_with_turns_delivers_in_bursts() {
    let mut p = with(|c| c.turns = ms(10));
    for i in 0..20 {
        let Verdict::Depart { at } = p.enqueue(ms(0), 1000) else {
            panic!("{i} was dropped");
        };
        assert_eq!(at.as_millis() % 10, 0);
        assert!(at >= ms(i + 5) && at < ms(i + 15), "{at:?}");
    }
}

/// Drops of RFC 8289's pseudo code (5.2 to 5.4, without `bytes() <= maxpacket`), word by word, with a
/// queue that is asked when the line is free: numbers of packets.
fn codel_by_the_book(arrivals: &[Duration], packet: Duration, c: CoDel) -> Vec<usize> {
    let mut queue: VecDeque<(usize, Duration)> = VecDeque::new();
    let (mut first_above, mut drop_next) = (Duration::ZERO, Duration::ZERO);
    let (mut count, mut last_count, mut dropping) = (0u32, 0u32, false);
    let law = |t: Duration, count: u32| t + c.interval.div_f64(f64::from(count).sqrt());
    let (mut dropped, mut coming, mut now) = (Vec::new(), 0, Duration::ZERO);
    while coming < arrivals.len() || !queue.is_empty() {
        if queue.is_empty() {
            now = now.max(arrivals[coming]);
        }
        while coming < arrivals.len() && arrivals[coming] <= now {
            queue.push_back((coming, arrivals[coming]));
            coming += 1;
        }
        let mut dodequeue = || {
            let Some((n, came)) = queue.pop_front() else {
                first_above = Duration::ZERO;
                return (None, false);
            };
            if now.saturating_sub(came) < c.target.max(packet) {
                first_above = Duration::ZERO;
                return (Some(n), false);
            }
            if first_above == Duration::ZERO {
                first_above = now + c.interval;
                return (Some(n), false);
            }
            (Some(n), now >= first_above)
        };
        let mut r = dodequeue();
        if dropping {
            if !r.1 {
                dropping = false;
            }
            while now >= drop_next && dropping {
                dropped.extend(r.0);
                count += 1;
                r = dodequeue();
                if r.1 {
                    drop_next = law(drop_next, count);
                } else {
                    dropping = false;
                }
            }
        } else if r.1 {
            dropped.extend(r.0);
            r = dodequeue();
            dropping = true;
            let delta = count.saturating_sub(last_count);
            let recent = now.saturating_sub(drop_next) < 16 * c.interval;
            count = if delta > 1 && recent { delta } else { 1 };
            drop_next = law(now, count);
            last_count = count;
        }
        if r.0.is_some() {
            now += packet;
        }
    }
    dropped
}

proptest! {
    #[test]
    fn codel_is_that_of_the_rfc(
        gaps in proptest::collection::vec(0u64..2_000, 1..3_000),
        pauses in proptest::collection::vec(0u64..300_000, 1..6),
    ) {
        let mut at = Duration::ZERO;
        let n = gaps.len();
        let arrivals: Vec<Duration> = gaps.iter().enumerate().map(|(i, gap)| {
            let pause = if i % (n / pauses.len() + 1) == 0 { pauses[i % pauses.len()] } else { 0 };
            at += Duration::from_micros(gap + pause);
            at
        }).collect();
        // Packets of 1000 bytes take 1 ms, one comes every ms on average.
        let mut p = with(|c| c.managed = Some(CoDel::default()));
        let managed = Verdict::Drop(DropReason::Managed);
        let verdicts = arrivals.iter().enumerate().filter(|(_, at)| p.enqueue(**at, 1000) == managed);
        let dropped: Vec<usize> = verdicts.map(|v| v.0).collect();
        prop_assert_eq!(dropped, codel_by_the_book(&arrivals, ms(1), CoDel::default()));
    }
}

#[test]
fn codel_ends_a_standing_queue_of_senders_that_listen() {
    // Each drop makes the sender a tenth slower, as a loss does; it grows by a little each 10 ms.
    let mut p = with(|c| c.managed = Some(CoDel::default()));
    let (mut now, mut gap_us, mut worst_late) = (Duration::ZERO, 900.0f64, Duration::ZERO);
    while now < Duration::from_secs(20) {
        now += Duration::from_nanos((gap_us * 1000.0) as u64);
        gap_us -= 0.1;
        if p.enqueue(now, 1000) == Verdict::Drop(DropReason::Managed) {
            gap_us *= 1.1;
        }
        if now > Duration::from_secs(10) {
            worst_late = worst_late.max(p.wait(now));
        }
    }
    assert!(p.stats().managed_drops > 10, "{:?}", p.stats());
    assert!(worst_late < ms(60), "{worst_late:?}");
}
