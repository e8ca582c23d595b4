//! Round trips of TCP, from handshakes and from time stamps.

use std::time::{Duration, Instant};

use evenkeel_core::units::PerDirection;
use evenkeel_datapath::values::{PriorityMode, RTT_SAMPLES, RttSample};

use crate::bench::{ACK, Bench, SYN, TCP, down4, key, pass, segment, stamps, tcp, up4};

#[test]
fn round_trips_of_a_handshake() {
    let b = Bench::new(0, PriorityMode::None);
    let options = [2, 4, 5, 180, 1, 3, 3, 7];
    let syn_at = Instant::now();
    b.up(&up4(&tcp(1, 2, SYN, &options, 0), TCP));
    pass(20);
    let answer_at = Instant::now();
    b.down(&down4(&tcp(2, 1, SYN | ACK, &options, 0), TCP));
    let until_answer = syn_at.elapsed();
    pass(5);
    b.up(&up4(&tcp(1, 2, ACK, &[], 0), TCP));
    let until_end = answer_at.elapsed();
    let PerDirection { up, down } = b.flow(key(TCP, 1, 2)).direction;
    let took = |rtt: Option<Duration>, least, most| {
        let (rtt, least) = (rtt.unwrap(), Duration::from_millis(least));
        assert!(least <= rtt && rtt <= most, "{rtt:?} of {most:?}");
    };
    took(up.rtt, 20, until_answer);
    took(down.rtt, 5, until_end);
    assert_eq!((up.rtt_count, down.rtt_count), (1, 1));
    assert_eq!((up.scale, down.scale), (Some(7), Some(7)));
    let histograms = b.maps.round_trips().unwrap();
    let totals = histograms.map(|h| h.iter().map(|step| step.1).sum::<u64>());
    assert_eq!((totals.up, totals.down), (1, 1));
    // What was sent twice is not measured.
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.down(&down4(&tcp(4, 3, SYN | ACK, &options, 0), TCP));
    assert_eq!(b.flow(key(TCP, 3, 4)).direction.up.rtt, None);
}

#[test]
fn round_trips_of_time_stamps() {
    let b = Bench::new(0, PriorityMode::None);
    let up = |value, echo, n| b.up(&up4(&tcp(1, 2, ACK, &stamps(value, echo), n), TCP));
    let down = |value, echo, n| b.down(&down4(&tcp(2, 1, ACK, &stamps(value, echo), n), TCP));
    let flow = || b.flow(key(TCP, 1, 2)).direction.up;
    let since = Instant::now();
    up(100, 50, 1000);
    pass(2);
    up(100, 50, 1000); // The same stamp later: the first one counts.
    pass(18);
    down(60, 99, 0); // Answers something else.
    assert_eq!(flow().rtt, None);
    down(60, 100, 0);
    let rtt = flow().rtt.unwrap();
    assert!(
        Duration::from_millis(20) <= rtt && rtt <= since.elapsed(),
        "{rtt:?}"
    );
    down(60, 100, 0);
    assert_eq!(flow().rtt_count, 1, "once");
    // An empty acknowledgement waits for nothing.
    up(200, 60, 0);
    pass(5);
    down(70, 200, 1000);
    assert_eq!(flow().rtt_count, 1);
    // Stamps wrap round.
    up(u32::MAX, 70, 10);
    up(3, 70, 10);
    down(80, 3, 0);
    assert_eq!(
        flow().rtt_count,
        1,
        "the echo of a later one says nothing exact"
    );
    up(5, 80, 10);
    down(90, 5, 0);
    assert_eq!(flow().rtt_count, 2);
    assert!(flow().rtt_min.unwrap() <= flow().rtt.unwrap());
}

#[test]
fn round_trips_of_sequence_numbers() {
    let b = Bench::new(0, PriorityMode::None);
    let up = |seq, n| b.up(&up4(&segment((1, 2), seq, 1, n), TCP));
    let down = |ack| b.down(&down4(&segment((2, 1), 1, ack, 0), TCP));
    let flow = || b.flow(key(TCP, 1, 2)).direction.up;
    let begin = u32::MAX - 1500;
    let since = Instant::now();
    up(begin, 1000);
    pass(20);
    up(begin.wrapping_add(1000), 1000);
    down(begin.wrapping_add(500));
    assert_eq!(flow().rtt, None, "not all of it");
    down(begin.wrapping_add(2000));
    let rtt = flow().rtt.unwrap();
    let least = Duration::from_millis(20);
    assert!(least <= rtt && rtt <= since.elapsed(), "{rtt:?}");
    down(begin.wrapping_add(2000));
    assert_eq!(flow().rtt_count, 1, "once");
    // Sent again, nobody knows what is answered.
    up(begin.wrapping_add(2000), 1000);
    up(begin.wrapping_add(2000), 1000);
    down(begin.wrapping_add(3000));
    assert_eq!(flow().rtt_count, 1);
    up(begin.wrapping_add(3000), 1000);
    down(begin.wrapping_add(4000));
    assert_eq!(flow().rtt_count, 2);
}

#[test]
fn those_worth_a_probes_are_told() {
    let mut b = Bench::new(0, PriorityMode::None);
    let options = [2, 4, 5, 180, 1, 3, 3, 7];
    b.up(&up4(&tcp(1, 2, SYN, &options, 0), TCP));
    b.down(&down4(&tcp(2, 1, SYN | ACK, &options, 0), TCP));
    let samples = b.maps.take_rtt_samples().unwrap();
    let rtt = b.flow(key(TCP, 1, 2)).direction.up.rtt.unwrap();
    let [sample] = samples[..] else {
        panic!("{samples:?}")
    };
    assert_eq!(
        (sample.remote, sample.may_have_queued),
        (key(TCP, 1, 2).remote, false)
    );
    assert_eq!(sample.rtt.as_micros(), rtt.as_micros());
    assert!(sample.answered_at > b.flow(key(TCP, 1, 2)).first);
    assert_eq!(b.maps.take_rtt_samples().unwrap(), [], "they are told once");
    assert_eq!((sample.ports, sample.tsval), ([1, 2], None));
    // A light flow's far side may dawdle.
    b.up(&up4(&tcp(1, 2, ACK, &stamps(100, 50), 1000), TCP));
    b.down(&down4(&tcp(2, 1, ACK, &stamps(60, 100), 0), TCP));
    assert_eq!(b.maps.take_rtt_samples().unwrap(), []);
    // Not that of one that moves much, and the latest are kept.
    let rounds = 70 + RTT_SAMPLES as u32;
    for n in 0..rounds {
        b.up(&up4(&tcp(1, 2, ACK, &stamps(200 + n, 60), 1000), TCP));
        b.down(&down4(&tcp(2, 1, ACK, &stamps(61 + n, 200 + n), 0), TCP));
    }
    let samples = b.maps.take_rtt_samples().unwrap();
    assert_eq!(samples.len(), RTT_SAMPLES);
    assert!(samples.iter().all(|t| t.may_have_queued));
    assert!(samples.is_sorted_by_key(|t| t.answered_at));
    let latest = samples.last().and_then(|t| t.tsval);
    assert_eq!(latest, Some(60 + rounds), "what the answer bore");
    // Its empty acknowledgements do not wait, once much comes for them.
    for n in 0..70 {
        b.down(&down4(&tcp(2, 1, ACK, &stamps(400 + n, 300), 1000), TCP));
    }
    b.maps.take_rtt_samples().unwrap();
    b.up(&up4(&tcp(1, 2, ACK, &stamps(900, 500), 0), TCP));
    b.down(&down4(&tcp(2, 1, ACK, &stamps(501, 900), 1000), TCP));
    let samples = b.maps.take_rtt_samples().unwrap();
    assert_eq!(
        samples
            .iter()
            .map(|t| t.may_have_queued)
            .collect::<Vec<_>>(),
        [false]
    );
}

#[test]
fn a_long_round_trip_is_told_several_times() {
    let mut b = Bench::new(0, PriorityMode::None);
    // It moves much.
    for n in 0..70 {
        b.up(&up4(&tcp(1, 2, ACK, &stamps(100 + n, 60), 1000), TCP));
    }
    b.down(&down4(&tcp(2, 1, ACK, &stamps(60, 169), 0), TCP));
    b.maps.take_rtt_samples().unwrap();
    for n in 0..4 {
        b.up(&up4(&tcp(1, 2, ACK, &stamps(200 + 2 * n, 60), 1000), TCP));
        // Too soon after it to be waited for.
        b.up(&up4(&tcp(1, 2, ACK, &stamps(201 + 2 * n, 60), 1000), TCP));
        pass(12);
    }
    for n in 0..4 {
        b.down(&down4(
            &tcp(2, 1, ACK, &stamps(61 + n, 200 + 2 * n), 0),
            TCP,
        ));
        pass(12);
    }
    let samples = b.maps.take_rtt_samples().unwrap();
    assert_eq!(samples.len(), 4, "{samples:?}");
    let took = |t: &RttSample| t.rtt >= Duration::from_millis(48);
    assert!(samples.iter().all(took), "{samples:?}");
}

#[test]
fn what_is_sent_again_ends_every_wait() {
    let mut b = Bench::new(0, PriorityMode::None);
    let mut seq = 1;
    let mut up = |b: &Bench, again: bool| {
        if !again {
            seq += 1000;
        }
        b.up(&up4(&segment((1, 2), seq, 1, 1000), TCP));
        seq + 1000
    };
    for _ in 0..70 {
        up(&b, false);
    }
    pass(12);
    let first = up(&b, false);
    pass(12);
    let second = up(&b, false);
    b.down(&down4(&segment((2, 1), 1, first, 0), TCP));
    assert_eq!(b.maps.take_rtt_samples().unwrap().len(), 1);
    up(&b, true);
    b.down(&down4(&segment((2, 1), 1, second, 0), TCP));
    assert_eq!(b.maps.take_rtt_samples().unwrap(), []);
}
