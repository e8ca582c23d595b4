//! What strangers and routers send to `evenkeel line` and `serve`: nothing may panic.
#![no_main]

use evenkeel_bench::line::igd;
use evenkeel_bench::trains::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(message) = Message::parse(data) {
        assert_eq!(Message::parse(&message.emit()), Some(message));
    }
    if let Some(text) = igd::body(data) {
        let _ = igd::description(&text);
    }
    let text = String::from_utf8_lossy(data);
    let _ = igd::description(&text);
    let _ = igd::properties(&text, [192, 0, 2, 1].into(), String::new());
});
