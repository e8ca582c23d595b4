//! Evenkeel's own probes, by whom and which answers are remembered.

use evenkeel_core::ping::arrivals::Sender;

use crate::layout;

/// `IPPROTO_ICMP`, for both versions of it.
const ICMP: u8 = 1;
/// `IPPROTO_UDP`.
const UDP: u8 = 17;

/// Where probes are sent from, as in the map.
pub(crate) const fn sender_key(sender: Sender) -> layout::ProbeSender {
    let (proto, port) = match sender {
        Sender::Icmp(identifier) => (ICMP, identifier),
        Sender::Udp(port) => (UDP, port),
    };
    layout::ProbeSender {
        proto,
        port: port.to_be_bytes(),
    }
}

/// An answer to one of them; `None`: to those without a number.
pub(crate) const fn answer_key(sender: Sender, number: Option<u32>) -> layout::ProbeKey {
    let number = match number {
        Some(number) => number,
        None => layout::UNNUMBERED,
    };
    layout::ProbeKey {
        sender: sender_key(sender),
        number: number.to_be_bytes(),
    }
}
