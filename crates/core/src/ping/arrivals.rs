//! When answers arrived at this machine, before any queue of ours: what is asked, and of whom.
//!
//! Principles: whoever stands before the queue knows packets by what each of them bears, errors
//! that quote no more than eight bytes as well: the port or identifier that the probe was sent
//! from, and its number. Non-goals: standing there (crate `evenkeel-datapath`).

use std::time::Duration;

/// Where probes are sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A UDP port.
    Udp(u16),
    /// The identifier of ICMP echoes and time stamp requests.
    Icmp(u16),
}

/// Knows when answers arrived at this machine, before any queue of ours.
pub trait Arrivals: Send {
    /// Answers to the probes of this sender will be asked for.
    fn watch(&mut self, sender: Sender);

    /// When the answer to a probe arrived, on the steady clock (`CLOCK_MONOTONIC`). `number`: the
    /// ICMP sequence number, or the one in a UDP payload; without a number the latest answer
    /// without one is meant. `None` if that is not known.
    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration>;
}

/// Answers may arrive on any of several devices.
impl<T: Arrivals> Arrivals for Vec<T> {
    fn watch(&mut self, sender: Sender) {
        for one in self {
            one.watch(sender);
        }
    }

    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration> {
        self.iter().find_map(|one| one.arrived(sender, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One device: whom it was told to watch, and the only answer that it saw.
    struct Device {
        watched: Vec<Sender>,
        saw: (Sender, Option<u32>, Duration),
    }

    impl Arrivals for Device {
        fn watch(&mut self, sender: Sender) {
            self.watched.push(sender);
        }

        fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration> {
            let (of, which, when) = self.saw;
            (of == sender && which == number).then_some(when)
        }
    }

    #[test]
    fn an_answer_may_arrive_on_any_device() {
        let device = |number, ms| Device {
            watched: Vec::new(),
            saw: (Sender::Udp(7), number, Duration::from_millis(ms)),
        };
        let mut all = vec![device(Some(1), 10), device(Some(2), 20), device(None, 30)];
        all.watch(Sender::Udp(7));
        all.watch(Sender::Icmp(9));
        for one in &all {
            assert_eq!(one.watched, [Sender::Udp(7), Sender::Icmp(9)]);
        }
        for (sender, number, ms) in [
            (Sender::Udp(7), Some(1), Some(10)),
            (Sender::Udp(7), Some(2), Some(20)),
            (Sender::Udp(7), None, Some(30)),
            (Sender::Udp(7), Some(3), None),
            (Sender::Icmp(7), Some(1), None),
        ] {
            let when = ms.map(Duration::from_millis);
            assert_eq!(all.arrived(sender, number), when, "{sender:?} {number:?}");
        }
    }
}
