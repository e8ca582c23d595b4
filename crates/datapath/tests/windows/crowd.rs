//! What a download is granted while short connections come all the time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Form, Peers};

const SEGMENT: i64 = 1448;

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

/// What part of its share a download has soon after six others came; `None` if this took too
/// long.
fn falls(form: Form, crowd: bool) -> Option<f64> {
    let bench = Bench::new(form.link, Some(10_000));
    let mut long = Download::new(&bench, form, 1);
    long.takes(&bench, 60);
    // What came before it was heavy is forgotten after half a second. The short one stays light.
    let mut short = Download::new(&bench, form, 2);
    let began = Instant::now();
    for i in 0..62 {
        sleep(Duration::from_millis(10));
        if crowd && i >= 50 {
            short.takes(&bench, 3);
        }
        long.takes(&bench, 1);
    }
    let before = long.share(&bench);
    let since = Instant::now();
    if since - began > Duration::from_millis(900) {
        return None;
    }
    let mut others: Vec<_> = (3..9).map(|p| Download::new(&bench, form, p)).collect();
    for o in &mut others {
        o.takes(&bench, 0);
    }
    sleep(Duration::from_millis(2));
    long.takes(&bench, 1);
    let soon = long.share(&bench) / before;
    if since.elapsed() > Duration::from_millis(8) {
        return None;
    }
    Some(soon)
}

#[test]
fn beside_a_crowd_shares_follow_slowly() {
    for form in Form::all() {
        for crowd in [false, true] {
            let soon = (0..50).find_map(|_| falls(form, crowd)).unwrap();
            assert_eq!(soon > 0.6, crowd, "{soon} at once");
        }
    }
}
