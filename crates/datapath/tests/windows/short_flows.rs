//! What a download is granted while short connections come all the time.

use std::time::{Duration, Instant};

use crate::bench::{Bench, Form, Peers, line};

const SEGMENT: i64 = 1448;
const KBIT: u64 = 10_000;

/// One that is sent data and acknowledges it.
struct Download {
    form: Form,
    at: i64,
}

impl Download {
    fn new(bench: &Bench, form: Form, port: u16) -> Self {
        let form = Form { port, ..form };
        bench.handshake(form, &Peers::default());
        Download { form, at: 0 }
    }

    fn takes(&mut self, bench: &Bench, segments: usize) {
        let who = Peers::default();
        for _ in 0..segments {
            bench.down(self.form, &who.data(self.at, SEGMENT as usize));
            self.at += SEGMENT;
        }
        bench.up(self.form, &who.acknowledge(self.at, u16::MAX));
    }

    fn share(&self, bench: &Bench) -> f64 {
        bench.flow(self.form).grant.share.bps() as f64
    }
}

/// What part of its share a download has soon after six others came; `None` if this took so long that
/// it says nothing.
fn falls(form: Form, short_flows: bool) -> Option<f64> {
    let bench = Bench::new(form.link, Some(KBIT));
    let mut long = Download::new(&bench, form, 1);
    long.takes(&bench, 60);
    // It counts as heavy for a second, so all this must be over by then. The short one stays light.
    let mut short = Download::new(&bench, form, 2);
    let began = Instant::now();
    let in_time = || began.elapsed() < Duration::from_millis(900);
    let pause = || std::thread::sleep(Duration::from_millis(10));
    // While what it took before it was heavy is remembered, a part of the line is left free.
    let whole = line(KBIT, Duration::MAX).target.bps() as f64 * 0.97;
    while long.share(&bench) < whole && in_time() {
        pause();
        long.takes(&bench, 1);
    }
    if short_flows {
        // Ten times as much as counts as many.
        for _ in 0..12 {
            pause();
            short.takes(&bench, 3);
            long.takes(&bench, 1);
        }
    }
    if !in_time() {
        return None;
    }
    let before = long.share(&bench);
    let since = Instant::now();
    let mut others: Vec<_> = (3..9).map(|p| Download::new(&bench, form, p)).collect();
    for o in &mut others {
        o.takes(&bench, 0);
    }
    // A share is kept for a millisecond.
    std::thread::sleep(Duration::from_millis(2));
    long.takes(&bench, 1);
    let soon = long.share(&bench) / before;
    (since.elapsed() <= Duration::from_millis(8)).then_some(soon)
}

#[test]
fn beside_short_flows_shares_follow_slowly() {
    for form in Form::all() {
        for short_flows in [false, true] {
            let soon = (0..50).find_map(|_| falls(form, short_flows)).unwrap();
            assert_eq!(soon > 0.6, short_flows, "{soon} at once");
        }
    }
}
