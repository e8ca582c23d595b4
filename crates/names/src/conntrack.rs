//! Connections whose addresses this machine translates.
//!
//! Principle: on the outside a connection of a device is known by what translation leaves: the far side, and the port
//! that it was given. Non-goals: connections that are not translated, whose device's address is seen outside.

use std::collections::HashMap;
use std::net::IpAddr;

use evenkeel_datapath::values::NameKey;
use evenkeel_kernel::{Connection, connections};

/// Who began each connection that is translated, by what it is outside.
pub fn insides() -> HashMap<NameKey, IpAddr> {
    // To list them the kernel goes through its whole table, however few there are.
    let count = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
    if count.is_ok_and(|n| n.trim() == "0") {
        return HashMap::new();
    }
    connections().iter().filter_map(translated).collect()
}

/// How one that is translated is seen outside, and who began it.
fn translated(connection: &Connection) -> Option<(NameKey, IpAddr)> {
    let Connection { original, reply } = connection;
    let [remote_port, local_port] = reply.ports;
    let outside = NameKey::Tuple {
        proto: reply.proto,
        local_port,
        remote: reply.source,
        remote_port,
    };
    (original.source != reply.destination).then_some((outside, original.source))
}
