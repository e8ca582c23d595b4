//! What a WAN device might receive or send, run through the programs in this kernel
//! (`BPF_PROG_TEST_RUN`). Needs root.
#![no_main]

#[path = "../../crates/datapath/tests/any_packet/mod.rs"]
mod any_packet;

use std::cell::RefCell;

use any_packet::AnyPacket;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static PROGRAMS: RefCell<AnyPacket> = RefCell::new(AnyPacket::new());
}

fuzz_target!(|bytes: &[u8]| {
    PROGRAMS.with_borrow_mut(|programs| {
        programs.feed(bytes);
        programs.check();
    });
});
