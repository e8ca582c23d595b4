//! What a file with a history might hold, and a settings line and a request besides.
#![no_main]

use evenkeel_history::{Book, Happening, Minute, Record, picture};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let minutes: Vec<Minute> = bytes.chunks(Minute::SIZE).filter_map(Minute::decode).collect();
    let happenings = bytes.chunks(Happening::SIZE).filter_map(Happening::decode).collect();
    let book = Book {
        minutes,
        happenings,
        trouble: Vec::new(),
    };
    let read = book.read("wan", (0, u64::MAX), 50, 3600);
    let _ = picture::draw(&read.minutes, (0, u64::MAX), 100, &|t| t.to_string());
    let _ = std::str::from_utf8(bytes).map(evenkeel_history::usage::Usage::parse);
    let _ = book.at("wan", 1_788_220_800, "then");
});
