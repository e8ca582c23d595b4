//! What strangers send to `evenkeel serve`, and what `evenkeel bench` and `report` read: nothing may panic.
#![no_main]

use evenkeel_bench::proto::{self, Answer, LONGEST_REQUEST, Request};
use evenkeel_report::bench::{crusader, figures, flent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    proto::head(data);
    let _ = proto::take::<Request>(&mut data.to_vec(), LONGEST_REQUEST);
    let _ = proto::take::<Answer>(&mut data.to_vec(), LONGEST_REQUEST);
    for read in [flent::read(data), flent::parse(data)] {
        if let Ok(b) = read {
            figures::figures(&b);
        }
    }
    for b in crusader::read(data).into_iter().flatten() {
        figures::figures(&b);
    }
});
