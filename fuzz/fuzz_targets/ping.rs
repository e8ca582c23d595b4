//! What a log may hold, what may be typed as a size, and what may come back for a probe.
#![no_main]

use evenkeel_core::ping::log::{Log, line};
use evenkeel_core::ping::sizes::Sizes;
use evenkeel_wire::packet::TimestampMessage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = TimestampMessage::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = text.parse::<Sizes>();
    for text in [text.to_owned(), format!("# evenkeel ping 1\n{text}\n")] {
        if let Ok(log) = text.parse::<Log>() {
            for o in &log.outcomes {
                let _ = line(o);
            }
        }
    }
});
