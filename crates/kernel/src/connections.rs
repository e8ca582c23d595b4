//! The connections that this machine tracks.
//!
//! Non-goals: following them; who asks again sees what is new.

use evenkeel_sys::netlink::Socket;
use evenkeel_wire::conntrack::{Connection, dump_connections};
use evenkeel_wire::messages;

/// All of them; none where they cannot be asked for.
pub fn connections() -> Vec<Connection> {
    let Ok(mut socket) = Socket::open_netfilter() else {
        return Vec::new();
    };
    let answer = socket.dump(&dump_connections()).unwrap_or_default();
    let read = |bytes: &Vec<u8>| {
        let all = messages(bytes).filter_map(|m| Connection::decode(&m));
        all.collect::<Vec<_>>()
    };
    answer.iter().flat_map(read).collect()
}
