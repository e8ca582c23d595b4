//! What a route netlink socket might hand us.
#![no_main]

use evenkeel_wire::conntrack::Connection;
use evenkeel_wire::flowtable::Flowtable;
use evenkeel_wire::link::LinkInfo;
use evenkeel_wire::neighbour::Neighbour;
use evenkeel_wire::{ClassInfo, FilterInfo, QdiscInfo, Stats, messages};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for message in messages(bytes) {
        message.acknowledgement();
        QdiscInfo::decode(&message);
        ClassInfo::decode(&message);
        FilterInfo::decode(&message);
        LinkInfo::decode(&message);
        Neighbour::decode(&message);
        Flowtable::decode(&message);
        Connection::decode(&message);
    }
    for kind in ["cake", "htb", "fq_codel"] {
        Stats::decode(kind, bytes);
    }
});
