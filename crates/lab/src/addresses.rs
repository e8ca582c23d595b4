//! The addresses of a lab's hosts.
//!
//! Principle: out of blocks that are nobody's: RFC 2544 for servers, RFC 6598 for the line; RFC 1918 behind
//! routers.
//! Non-goals: giving them to devices (`topology`).

use std::net::{IpAddr, Ipv4Addr};

/// The near hop.
pub(crate) const PROVIDER_IP: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
/// The customer's, on the line.
pub(crate) const GATEWAY_IP: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 2);

/// First of the networks behind a box in front of the gateway; the gateway's is this one.
pub(crate) const BOX_IP: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);

/// Address of server `i` (from 0), out of the block for benchmarks (RFC 2544).
pub fn server_address(i: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18, i as u8, 2))
}
