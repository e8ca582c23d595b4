//! The tracker in simulated time: a day of it, and everything that a network can do to answers.

use super::*;
use proptest::prelude::*;

const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 99));
const MS: Duration = Duration::from_millis(1);
/// Where the wall clock begins.
const EPOCH: Duration = Duration::from_secs(1_760_000_000);

fn at(mono: Duration) -> Clocks {
    Clocks {
        mono,
        wall: EPOCH + mono,
    }
}

fn reply(came: Clocks) -> Answer {
    Answer {
        fate: Fate::Reply,
        from: Some(TARGET),
        received: Some(32),
        ttl: Some(57),
        time: Time::Stamp(came.wall),
        arrived: None,
        held: Duration::ZERO,
    }
}

/// Sends at `now`, stamped 10 us later before the queue and 30 us later in the driver.
fn send(t: &mut Tracker, now: Clocks) -> u64 {
    let seq = t.sent(32, now);
    t.stamp(seq, Stamp::Sched, now.wall + Duration::from_micros(10));
    t.stamp(seq, Stamp::Driver, now.wall + Duration::from_micros(30));
    seq
}

fn events(t: &mut Tracker) -> Vec<Event> {
    std::iter::from_fn(|| t.poll()).collect()
}

fn outcome(t: &mut Tracker) -> Outcome {
    match t.poll() {
        Some(Event::Outcome(o)) => o,
        e => panic!("{e:?}"),
    }
}

#[test]
fn the_three_delays() {
    let mut t = Tracker::new(TARGET, 2000 * MS);
    let seq = send(&mut t, at(MS));
    let mut answer = reply(at(11 * MS));
    answer.held = Duration::from_micros(500);
    t.answer(seq, answer, at(11 * MS));
    let o = outcome(&mut t);
    let us = Duration::from_micros;
    assert_eq!(
        o.delays,
        Some(Delays {
            felt: us(9490),
            queue: Some(us(20)),
            path: Some(us(9470)),
            ingress: None,
        })
    );
    assert_eq!((o.fate, o.ttl, o.stamped), (Fate::Reply, Some(57), true));
    assert_eq!(o.sent, EPOCH + MS + us(10));
    assert_eq!((t.open(), t.poll()), (0, None));
}

#[test]
fn our_own_ingress_queue_is_not_the_path() {
    let us = Duration::from_micros;
    for (arrived, parts) in [
        (11 * MS, Some((us(9970), 40 * MS))),
        // No queue, and clocks that were not read at the same time.
        (51 * MS + us(3), Some((us(49_970), Duration::ZERO))),
        // Of a probe before it, and of one behind it in the queue.
        (us(900), None),
        (51 * MS + us(200), None),
    ] {
        let mut t = Tracker::new(TARGET, 2000 * MS);
        let seq = send(&mut t, at(MS));
        let mut answer = reply(at(51 * MS));
        answer.arrived = Some(arrived);
        t.answer(seq, answer, at(52 * MS));
        let delays = outcome(&mut t).delays.unwrap();
        assert_eq!(delays.felt, us(49_990), "{arrived:?}");
        assert_eq!(delays.ingress, parts.map(|p| p.1), "{arrived:?}");
        assert_eq!(delays.path, Some(parts.map_or(us(49_970), |p| p.0)));
    }
}

#[test]
fn stamps_after_the_answer_or_never() {
    let mut t = Tracker::new(TARGET, 2000 * MS);
    let seq = t.sent(0, at(MS));
    t.answer(seq, reply(at(5 * MS)), at(5 * MS));
    assert_eq!((t.poll(), t.deadline()), (None, Some(15 * MS)));
    t.stamp(seq, Stamp::Sched, at(2 * MS).wall);
    t.stamp(seq, Stamp::Driver, at(3 * MS).wall);
    assert_eq!(outcome(&mut t).delays.unwrap().felt, 3 * MS);
    let seq = t.sent(0, at(20 * MS));
    // Another probe's stamp is not taken for ours.
    t.stamp(seq, Stamp::Sched, at(19 * MS).wall);
    t.answer(seq, reply(at(25 * MS)), at(25 * MS));
    t.advance(at(34 * MS));
    assert_eq!(t.poll(), None);
    t.advance(at(35 * MS));
    let o = outcome(&mut t);
    assert_eq!((o.delays.unwrap().felt, o.stamped), (5 * MS, false));
}

#[test]
fn late_duplicate_reordered_foreign_stray() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let (a, b) = (send(&mut t, at(MS)), send(&mut t, at(2 * MS)));
    t.answer(b, reply(at(5 * MS)), at(5 * MS));
    t.answer(a, reply(at(6 * MS)), at(6 * MS));
    let seqs: Vec<u64> = [outcome(&mut t), outcome(&mut t)].map(|o| o.seq).to_vec();
    assert_eq!(seqs, [b, a], "in the order of the answers");
    t.answer(a, reply(at(7 * MS)), at(7 * MS));
    assert_eq!(events(&mut t), [Event::Duplicate(a)]);
    let c = send(&mut t, at(10 * MS));
    let mut forged = reply(at(11 * MS));
    forged.from = Some(OTHER);
    t.answer(c, forged, at(11 * MS));
    assert_eq!(events(&mut t), [Event::Foreign(c, Some(OTHER))]);
    assert_eq!(t.open(), 1, "it still waits for the true one");
    t.advance(at(109 * MS));
    assert_eq!(t.poll(), None);
    t.advance(at(110 * MS));
    assert_eq!(outcome(&mut t).fate, Fate::Timeout);
    t.answer(c, reply(at(150 * MS)), at(150 * MS));
    t.answer(c, reply(at(151 * MS)), at(151 * MS));
    let late = |ms| Event::Late(c, ms * MS);
    assert_eq!(events(&mut t), [late(140), late(141)]);
    t.answer(77, reply(at(MS)), at(MS));
    assert_eq!(events(&mut t), [Event::Stray]);
}

#[test]
fn errors_count_from_wherever_they_come() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = send(&mut t, at(MS));
    let mut expired = reply(at(4 * MS));
    (expired.fate, expired.from) = (Fate::Expired, Some(OTHER));
    t.answer(seq, expired, at(4 * MS));
    let o = outcome(&mut t);
    assert_eq!((o.fate, o.from), (Fate::Expired, Some(OTHER)));
    assert_eq!(o.delays.unwrap().felt, Duration::from_micros(2990));
}

#[test]
fn the_local_system_may_refuse() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = t.sent(9, at(MS));
    t.unsent(seq);
    t.unsent(seq);
    assert_eq!(outcome(&mut t).fate, Fate::Unsent);
    t.advance(at(1000 * MS));
    assert_eq!((t.poll(), t.open(), t.deadline()), (None, 0, None));
}

#[test]
fn a_clock_step_voids_the_probes_under_way_and_no_other() {
    for (forward, step) in [(true, 3600), (false, 3600), (true, 1), (false, 1)] {
        let step = Duration::from_secs(step);
        let stepped = |mono: Duration| {
            let wall = EPOCH + mono;
            let wall = if forward {
                wall + step
            } else {
                wall.saturating_sub(step)
            };
            Clocks { mono, wall }
        };
        let mut t = Tracker::new(TARGET, 2000 * MS);
        let before = send(&mut t, at(MS));
        t.answer(before, reply(at(3 * MS)), at(3 * MS));
        // One is answered after the step, one never, the third begins after it.
        let under_way = send(&mut t, at(10 * MS));
        let silent = send(&mut t, at(11 * MS));
        t.answer(under_way, reply(stepped(14 * MS)), stepped(14 * MS));
        let after = send(&mut t, stepped(20 * MS));
        t.answer(after, reply(stepped(23 * MS)), stepped(23 * MS));
        t.advance(stepped(2010 * MS));
        assert_eq!(t.open(), 1, "timeouts do not follow the wall clock");
        t.advance(stepped(2011 * MS));
        let fates: Vec<_> = (0..4)
            .map(|_| outcome(&mut t))
            .map(|o| (o.seq, o.fate))
            .collect();
        assert_eq!(
            fates,
            [
                (before, Fate::Reply),
                (under_way, Fate::Void),
                (after, Fate::Reply),
                (silent, Fate::Timeout)
            ]
        );
    }
    // NTP may slew by 500 ppm: a second's flight is not void for half a millisecond.
    let mut t = Tracker::new(TARGET, 2000 * MS);
    let seq = send(&mut t, at(MS));
    let mut slewed = at(1001 * MS);
    slewed.wall += Duration::from_micros(500);
    t.answer(seq, reply(slewed), slewed);
    assert_eq!(outcome(&mut t).fate, Fate::Reply);
}

/// 24 h at 200 ms: 432,000 probes, over which 16-bit sequences wrap six times.
#[test]
fn a_day_of_probes() {
    let mut t = Tracker::new(TARGET, 2000 * MS);
    let mut tally = crate::ping::tally::Tally::new();
    let interval = 200 * MS;
    let rtt = Duration::from_micros(9215);
    let (mut expected, mut most) = (0, 0);
    for n in 0..432_000u64 {
        let now = at(interval * n as u32);
        t.advance(now);
        let seq = send(&mut t, now);
        assert_eq!(seq, n);
        // Every 1000th is lost; the answers know 16 bits only.
        if n % 1000 != 999 {
            let came = at(now.mono + Duration::from_micros(10) + rtt);
            let found = t.unwrap16(n as u16).unwrap();
            assert_eq!(found, n);
            t.answer(found, reply(came), came);
        }
        while let Some(e) = t.poll() {
            if let Event::Outcome(o) = e
                && o.fate == Fate::Reply
            {
                assert_eq!(o.seq % 1000, expected % 1000, "in order, none missing");
                expected = o.seq + 1 + u64::from(o.seq % 1000 == 998);
                // The send stamps do not drift from the schedule.
                let planned = EPOCH + interval * o.seq as u32;
                assert_eq!(o.sent, planned + Duration::from_micros(10));
            }
            tally.add(&e);
        }
        most = most.max(t.flights.len());
    }
    t.advance(at(interval * 432_100));
    while let Some(e) = t.poll() {
        tally.add(&e);
    }
    assert!(most <= MEMORY, "{most}");
    assert_eq!(
        (tally.sent, tally.replies, tally.lost),
        (432_000, 431_568, 432)
    );
    assert_eq!((tally.late, tally.duplicates, tally.strays), (0, 0, 0));
    let s = tally.times(Fate::Reply).unwrap().summary().unwrap();
    assert!((s.avg - 9.215).abs() < 1e-9 && s.stddev < 1e-6, "{s:?}");
}

#[test]
fn sequences_wrap() {
    let mut t = Tracker::new(TARGET, 10 * MS);
    assert_eq!(t.unwrap16(0), None);
    for n in 0..70_000u32 {
        let now = at(MS * n);
        t.advance(now);
        send(&mut t, now);
    }
    assert_eq!(t.unwrap16(69_999_u32 as u16), Some(69_999));
    assert_eq!(t.unwrap16(65_536_u32 as u16), Some(65_536));
    assert_eq!(t.unwrap16(65_535), Some(65_535), "from before the wrap");
    // Too long ago to be remembered.
    assert_eq!(t.unwrap16(5000), None);
    assert_eq!(
        (t.unwrap32(69_998), t.unwrap32(70_000)),
        (Some(69_998), None)
    );
}

#[test]
fn it_is_full_of_probes_without_a_fate_and_forgets_the_others() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    for _ in 0..MEMORY {
        assert!(!t.is_full());
        t.sent(1, at(MS));
    }
    assert!(t.is_full());
    // One that has no fate yet is not forgotten for another.
    let more = t.sent(2, at(2 * MS));
    assert_eq!((t.size_of(0), t.size_of(more)), (Some(1), Some(2)));
    t.advance(at(101 * MS));
    assert_eq!((events(&mut t).len(), t.open()), (MEMORY, 1));
    assert!(!t.is_full());
    // Those that have one are, as many as there are too many.
    t.sent(3, at(102 * MS));
    assert_eq!((t.size_of(1), t.size_of(2)), (None, Some(1)));
    t.answer(1, reply(at(103 * MS)), at(103 * MS));
    t.answer(2, reply(at(103 * MS)), at(103 * MS));
    assert_eq!(events(&mut t), [Event::Stray, Event::Late(2, 102 * MS)]);
}

#[test]
fn what_is_over_is_remembered_while_there_is_room() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let first = send(&mut t, at(MS));
    t.answer(first, reply(at(2 * MS)), at(2 * MS));
    t.advance(at(3 * MS));
    outcome(&mut t);
    send(&mut t, at(4 * MS));
    t.answer(first, reply(at(5 * MS)), at(5 * MS));
    assert_eq!(events(&mut t), [Event::Duplicate(first)]);
}

#[test]
fn what_is_known_of_a_probe() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    assert_eq!(
        (t.size_of(0), t.stamps_of(0), t.is_open(0)),
        (None, 2, false)
    );
    let seq = t.sent(77, at(MS));
    assert_eq!((t.size_of(seq), t.stamps_of(seq)), (Some(77), 0));
    // At the very time of the send is not before it.
    t.stamp(seq, Stamp::Driver, at(MS).wall);
    assert_eq!((t.stamps_of(seq), t.is_open(seq)), (1, true));
    t.answer(seq, reply(at(2 * MS)), at(2 * MS));
    assert!(t.is_open(seq), "its stamps are still to come");
    t.stamp(seq, Stamp::Sched, at(MS).wall);
    assert_eq!((t.stamps_of(seq), t.is_open(seq)), (2, false));
    assert_eq!(outcome(&mut t).size, 77);
    let lost = t.sent(78, at(3 * MS));
    t.advance(at(103 * MS));
    assert!(!t.is_open(lost));
}

#[test]
fn each_answered_probe_waits_for_its_own_stamps() {
    let mut t = Tracker::new(TARGET, 2000 * MS);
    let all = [1, 2, 3].map(|ms| t.sent(0, at(ms * MS)));
    for (seq, ms) in all.into_iter().zip([4, 5, 6]) {
        t.answer(seq, reply(at(ms * MS)), at(ms * MS));
    }
    t.stamp(all[1], Stamp::Sched, at(2 * MS).wall);
    assert_eq!(t.poll(), None, "one of two stamps");
    t.stamp(all[1], Stamp::Driver, at(2 * MS).wall);
    assert_eq!(outcome(&mut t).seq, all[1]);
    // The others are given up ten milliseconds after their answers, each once.
    assert_eq!(t.deadline(), Some(14 * MS));
    t.advance(at(14 * MS));
    assert_eq!((outcome(&mut t).seq, t.poll()), (all[0], None));
    assert_eq!(t.deadline(), Some(16 * MS));
    t.advance(at(15 * MS));
    assert_eq!(t.poll(), None);
    t.advance(at(16 * MS));
    assert_eq!((outcome(&mut t).seq, t.poll()), (all[2], None));
    assert_eq!((t.deadline(), t.open()), (None, 0));
}

#[test]
fn the_deadline_is_that_of_the_oldest_open_probe_or_of_stamps() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    assert_eq!(t.deadline(), None);
    let (a, b) = (send(&mut t, at(5 * MS)), t.sent(0, at(30 * MS)));
    assert_eq!(t.deadline(), Some(105 * MS));
    t.answer(b, reply(at(40 * MS)), at(40 * MS));
    assert_eq!(t.deadline(), Some(50 * MS), "the stamps of the second");
    t.answer(a, reply(at(41 * MS)), at(41 * MS));
    assert_eq!(t.deadline(), Some(50 * MS));
    // One that was answered does not time out while it waits for its stamps.
    let mut t = Tracker::new(TARGET, 10 * MS);
    let seq = t.sent(0, at(MS));
    t.answer(seq, reply(at(10 * MS)), at(10 * MS));
    assert_eq!(t.deadline(), Some(20 * MS));
    t.advance(at(19 * MS));
    assert_eq!(t.poll(), None);
    t.advance(at(20 * MS));
    assert_eq!(outcome(&mut t).fate, Fate::Reply);
}

#[test]
fn a_round_trip_that_the_kernel_measured_needs_no_stamps() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = t.sent(0, at(MS));
    let mut answer = reply(at(9 * MS));
    answer.time = Time::Measured(3 * MS);
    // Nor does it matter to it how the wall clock goes.
    let mut now = at(9 * MS);
    now.wall += Duration::from_secs(60);
    t.answer(seq, answer, now);
    let o = outcome(&mut t);
    assert_eq!((o.fate, o.stamped), (Fate::Reply, true));
    let delays = Delays {
        felt: 3 * MS,
        queue: None,
        path: None,
        ingress: None,
    };
    assert_eq!(o.delays, Some(delays));
}

#[test]
fn without_the_kernels_receive_stamp_the_programs_clock_stands_in() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = send(&mut t, at(MS));
    let mut answer = reply(at(2 * MS));
    answer.time = Time::Seen;
    t.answer(seq, answer, at(9 * MS));
    let o = outcome(&mut t);
    assert!(!o.stamped);
    assert_eq!(o.delays.unwrap().felt, Duration::from_micros(7990));
}

#[test]
fn the_far_side_is_heard_while_the_probe_is_open() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = send(&mut t, at(MS));
    t.far(seq, 43_200_000);
    t.far(seq + 1, 5);
    assert_eq!(events(&mut t), [Event::Far(seq, 43_200_000)]);
    t.answer(seq, reply(at(2 * MS)), at(2 * MS));
    outcome(&mut t);
    t.far(seq, 6);
    t.unsent(seq);
    t.stray();
    assert_eq!(events(&mut t), [Event::Stray], "it has its fate");
}

/// A flight may see the clocks drift apart by 1 ms and a thousandth of its time.
#[test]
fn a_flight_is_void_from_more_than_the_tolerated_drift_on() {
    let ns = Duration::from_nanos;
    for (flight, drift, fate) in [
        (0, ns(1_000_000), Fate::Reply),
        (0, ns(1_000_001), Fate::Void),
        (1000, ns(2_000_000), Fate::Reply),
        (1000, ns(2_000_001), Fate::Void),
    ] {
        for forward in [true, false] {
            let mut t = Tracker::new(TARGET, 5000 * MS);
            let seq = send(&mut t, at(7 * MS));
            let mut now = at((7 + flight) * MS);
            now.wall = if forward {
                now.wall + drift
            } else {
                now.wall.saturating_sub(drift)
            };
            t.answer(seq, reply(now), now);
            assert_eq!(outcome(&mut t).fate, fate, "{flight} {drift:?} {forward}");
        }
    }
}

/// An arrival counts from the send on, up to 100 us after the answer's stamp.
#[test]
fn an_arrival_is_between_the_send_and_the_answer() {
    let us = Duration::from_micros;
    for (arrived, ingress) in [
        (MS, Some(10 * MS)),
        (us(999), None),
        (11 * MS, Some(Duration::ZERO)),
        (11 * MS + us(100), Some(Duration::ZERO)),
        (11 * MS + us(101), None),
    ] {
        let mut t = Tracker::new(TARGET, 2000 * MS);
        let seq = send(&mut t, at(MS));
        let mut answer = reply(at(11 * MS));
        answer.arrived = Some(arrived);
        t.answer(seq, answer, at(12 * MS));
        let delays = outcome(&mut t).delays.unwrap();
        assert_eq!(delays.ingress, ingress, "{arrived:?}");
    }
}

#[test]
fn an_answer_without_an_address_is_the_targets() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    let seq = send(&mut t, at(MS));
    let mut answer = reply(at(2 * MS));
    answer.from = None;
    t.answer(seq, answer, at(2 * MS));
    let o = outcome(&mut t);
    assert_eq!((o.fate, o.from, o.received), (Fate::Reply, None, Some(32)));
}

/// The latest probe that ends with the number, and none that is forgotten or still to come.
#[test]
fn numbers_of_32_bits_wrap_as_well() {
    let mut t = Tracker::new(TARGET, 100 * MS);
    assert_eq!((t.unwrap16(0), t.unwrap32(0)), (None, None));
    // As if all before had been sent and forgotten.
    (t.first, t.settled) = ((1 << 32) - 2, (1 << 32) - 2);
    for _ in 0..4 {
        send(&mut t, at(MS));
    }
    for (sequence, seq) in [
        (u32::MAX - 2, None),
        (u32::MAX - 1, Some((1 << 32) - 2)),
        (u32::MAX, Some((1 << 32) - 1)),
        (0, Some(1 << 32)),
        (1, Some((1 << 32) + 1)),
        (2, None),
    ] {
        assert_eq!(t.unwrap32(sequence), seq, "{sequence}");
        assert_eq!(t.unwrap16(sequence as u16), seq, "{sequence}");
    }
}

proptest! {
    /// Whatever comes in whatever order, each probe has exactly one outcome.
    #[test]
    fn one_outcome_each(
        steps in prop::collection::vec((0u8..6, 0u64..40, 0u64..60), 1..300),
    ) {
        let mut t = Tracker::new(TARGET, 50 * MS);
        let mut now = MS;
        let mut all = Vec::new();
        for (what, which, pass) in steps {
            now += MS * pass as u32;
            let clocks = at(now);
            match what {
                0 | 1 => { send(&mut t, clocks); }
                2 => { t.sent(1, clocks); }
                3 => t.answer(which, reply(clocks), clocks),
                4 => {
                    let mut a = reply(clocks);
                    (a.fate, a.from) = (Fate::PortUnreachable, Some(OTHER));
                    t.answer(which, a, clocks);
                }
                _ => t.unsent(which),
            }
            t.advance(clocks);
            if let Some(d) = t.deadline() {
                prop_assert!(d > now, "what was due is done");
            }
            all.extend(events(&mut t));
        }
        t.advance(at(now + 100 * MS));
        all.extend(events(&mut t));
        let mut seqs: Vec<u64> = all.iter().filter_map(|e| match e {
            Event::Outcome(o) => Some(o.seq),
            _ => None,
        }).collect();
        seqs.sort_unstable();
        prop_assert_eq!(seqs, (0..t.next()).collect::<Vec<_>>());
        prop_assert_eq!(t.open(), 0);
    }
}

/// A million probes of a daemon, fifty a second with every tenth lost: what is remembered is what
/// the last two minutes had, in less than a megabyte.
#[test]
fn a_year_takes_no_more_than_two_minutes() {
    let (timeout, beat) = (700 * MS, 20 * MS);
    let mut t = Tracker::new(TARGET, timeout);
    let mut most = 0;
    for i in 0..1_000_000u32 {
        let now = beat * i;
        t.advance(at(now));
        let seq = send(&mut t, at(now));
        if i % 10 > 0 {
            t.answer(seq, reply(at(now + 9 * MS)), at(now + 9 * MS));
        }
        while t.poll().is_some() {}
        let bytes = t.flights.capacity() * size_of::<Flight>()
            + t.waiting.capacity() * size_of::<(u64, Answer, Clocks)>()
            + t.events.capacity() * size_of::<Event>();
        most = most.max(bytes);
    }
    let kept = (timeout + LIFETIME).as_nanos() / beat.as_nanos();
    assert!(t.flights.len() as u128 <= kept + 1, "{}", t.flights.len());
    assert!(most < 1 << 20, "{most} bytes");
}

/// What comes late or once more is known for what it is for two minutes, and then it is a stray.
#[test]
fn two_minutes_are_remembered() {
    let timeout = 700 * MS;
    for (after, known) in [(LIFETIME, true), (timeout + LIFETIME, false)] {
        let mut t = Tracker::new(TARGET, timeout);
        let lost = send(&mut t, at(MS));
        let answered = send(&mut t, at(MS));
        t.answer(answered, reply(at(2 * MS)), at(2 * MS));
        t.advance(at(MS + timeout));
        assert_eq!(events(&mut t).len(), 2);
        let now = at(MS + after);
        send(&mut t, now);
        for seq in [lost, answered] {
            t.answer(seq, reply(now), now);
        }
        let expected = if known {
            [Event::Late(lost, after), Event::Duplicate(answered)]
        } else {
            [Event::Stray; 2]
        };
        assert_eq!(events(&mut t), expected, "{after:?}");
    }
}
