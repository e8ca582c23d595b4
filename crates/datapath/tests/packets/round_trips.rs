//! Round trips of TCP, from handshakes and from time stamps.

use evenkeel_datapath::layout::{Hand, TRIPS};

use crate::bench::{ACK, Bench, SYN, TCP, down4, key, stamps, tcp, up4};

#[test]
fn round_trips_of_a_handshake() {
    let b = Bench::new(0, Hand::Nothing);
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let options = [2, 4, 5, 180, 1, 3, 3, 7];
    b.up(&up4(&tcp(1, 2, SYN, &options, 0), TCP));
    wait(20);
    b.down(&down4(&tcp(2, 1, SYN | ACK, &options, 0), TCP));
    wait(5);
    b.up(&up4(&tcp(1, 2, ACK, &[], 0), TCP));
    let [up, down] = b.flow(key(TCP, 1, 2)).ways;
    let ms = |w: evenkeel_datapath::layout::Way| w.rtt.unwrap().as_secs_f64() * 1000.0;
    assert!((20.0..500.0).contains(&ms(up)), "{up:?}");
    assert!((5.0..500.0).contains(&ms(down)), "{down:?}");
    assert_eq!((up.rtt_count, down.rtt_count), (1, 1));
    assert_eq!((up.scale, down.scale), (Some(7), Some(7)));
    let [internet, lan] = b.maps.round_trips().unwrap();
    let total = |h: &evenkeel_datapath::RttHistogram| h.iter().map(|s| s.1).sum::<u64>();
    assert_eq!((total(&internet), total(&lan)), (1, 1));
    // What was sent twice is not measured.
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.down(&down4(&tcp(4, 3, SYN | ACK, &options, 0), TCP));
    assert_eq!(b.flow(key(TCP, 3, 4)).ways[0].rtt, None);
}

#[test]
fn round_trips_of_time_stamps() {
    let b = Bench::new(0, Hand::Nothing);
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let up = |value, echo, n| b.up(&up4(&tcp(1, 2, ACK, &stamps(value, echo), n), TCP));
    let down = |value, echo, n| b.down(&down4(&tcp(2, 1, ACK, &stamps(value, echo), n), TCP));
    let flow = || b.flow(key(TCP, 1, 2)).ways[0];
    up(100, 50, 1000);
    wait(2);
    up(100, 50, 1000); // The same stamp later: the first one counts.
    wait(18);
    down(60, 99, 0); // Answers something else.
    assert_eq!(flow().rtt, None);
    down(60, 100, 0);
    let ms = flow().rtt.unwrap().as_secs_f64() * 1000.0;
    assert!((20.0..500.0).contains(&ms), "{ms}");
    down(60, 100, 0);
    assert_eq!(flow().rtt_count, 1, "once");
    // An empty acknowledgement waits for nothing.
    up(200, 60, 0);
    wait(5);
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
    assert!(flow().rtt_min.unwrap() < flow().rtt.unwrap() * 2);
}

#[test]
fn those_worth_a_probes_are_told() {
    let mut b = Bench::new(0, Hand::Nothing);
    let options = [2, 4, 5, 180, 1, 3, 3, 7];
    b.up(&up4(&tcp(1, 2, SYN, &options, 0), TCP));
    b.down(&down4(&tcp(2, 1, SYN | ACK, &options, 0), TCP));
    let trips = b.maps.take_trips().unwrap();
    let rtt = b.flow(key(TCP, 1, 2)).ways[0].rtt.unwrap();
    let [trip] = trips[..] else {
        panic!("{trips:?}")
    };
    assert_eq!((trip.remote, trip.waits), (key(TCP, 1, 2).remote, false));
    assert_eq!(trip.took.as_micros(), rtt.as_micros());
    assert!(trip.came > b.flow(key(TCP, 1, 2)).first);
    assert_eq!(b.maps.take_trips().unwrap(), [], "they are told once");
    // A light flow's far side may dawdle.
    b.up(&up4(&tcp(1, 2, ACK, &stamps(100, 50), 1000), TCP));
    b.down(&down4(&tcp(2, 1, ACK, &stamps(60, 100), 0), TCP));
    assert_eq!(b.maps.take_trips().unwrap(), []);
    // Not that of one that moves much, and the latest are kept.
    let rounds = 70 + TRIPS as u32;
    for n in 0..rounds {
        b.up(&up4(&tcp(1, 2, ACK, &stamps(200 + n, 60), 1000), TCP));
        b.down(&down4(&tcp(2, 1, ACK, &stamps(61 + n, 200 + n), 0), TCP));
    }
    let trips = b.maps.take_trips().unwrap();
    assert_eq!(trips.len(), TRIPS);
    assert!(trips.iter().all(|t| t.waits));
    assert!(trips.is_sorted_by_key(|t| t.came));
    // Its empty acknowledgements do not wait, once much comes for them.
    for n in 0..70 {
        b.down(&down4(&tcp(2, 1, ACK, &stamps(400 + n, 300), 1000), TCP));
    }
    b.maps.take_trips().unwrap();
    b.up(&up4(&tcp(1, 2, ACK, &stamps(900, 500), 0), TCP));
    b.down(&down4(&tcp(2, 1, ACK, &stamps(501, 900), 1000), TCP));
    let trips = b.maps.take_trips().unwrap();
    assert_eq!(trips.iter().map(|t| t.waits).collect::<Vec<_>>(), [false]);
}
