//! Rules and kinds of evidence that the controller can do without, one at a time, so that what each is good for can be
//! measured (ablation: `evenkeel-lab lab ablation`).
//!
//! Principles: a rule is asked for at one place, where it is applied; without one the rest is as it is. Non-goals: settings
//! for people, to whom none of this is offered.

use std::fmt;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The first upload ever is opened step by step (`direction::opening`).
    Opening,
    /// And from half of what large probes say (decision 0096); a queue beside little of that is hardly ours, in either
    /// direction (decision 0136).
    LargeProbes,
    /// A first capacity of an upload follows from what made its queue, before two probes fit it (`direction::capacity`).
    FirstQueue,
    /// What we sent since the latest queue shows that the line carries less than was thought (`direction::drain`).
    OwnBytes,
    /// Queues that nobody tried for make cautious (`direction::caution`).
    Caution,
    /// A short queue towards us is given a round trip to go by itself (`direction::drain`).
    WindowsWait,
    /// A queue towards us while less comes than the line carries is a burst (`direction::drain`).
    Bursts,
    /// A first queue towards us that outlasts what came is somebody else's, and one of ours that follows no cut
    /// (`direction::elsewhere`, decisions 0091 and 0134).
    Refutation,
    /// Beside a queue that follows no cut the line is shared, rather than taken to have become longer (`direction::compete`).
    Competing,
    /// A queue towards us that stays although what comes obeys a cut, or never does, is somebody else's (decision 0120).
    Obedience,
    /// A line that changes often is followed rather than settled on (`direction::probing_up`).
    Following,
    /// A line that is followed is sent more and less by turns, from us (`direction::pulses`).
    Pulses,
    /// While pulses are sent, a queue that stays although it should have gone is somebody else's (decision 0124).
    PulsesOutlasted,
    /// Delays that wander by themselves are a sign of such a line (decision 0093).
    Wandering,
    /// Losses are evidence where no queue is (`direction::losses`).
    Losses,
    /// Losses before an upload is held are its senders' bursts, and no evidence (decision 0123).
    UnheldLosses,
    /// Rates between what losses showed and what was lost are tried in three steps (decision 0123).
    LossSteps,
    /// Senders on the far side have a second to use a try, as ours have (decision 0125).
    FarSenders,
    /// Where no capacity is known, eight probes in a row that waited for longer than half a packet takes and delays wander
    /// met a queue (decisions 0125 and 0128).
    NeverEnds,
    /// How long packets are is measured, rather than taken to be full (`packet_size`).
    PacketSize,
    /// Stamps of the hop that is probed tell directions apart (`attribution`).
    HopStamps,
    /// Clocks of far sides do (`peer_clocks`).
    PeerClocks,
    /// Round trips of connections that pass are heard where nothing answers (`passive_rtt`).
    PassiveRtt,
    /// Echoes of their far ends are (`hearing`).
    Echoes,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 24] = [
        Rule::Opening,
        Rule::LargeProbes,
        Rule::FirstQueue,
        Rule::OwnBytes,
        Rule::Caution,
        Rule::WindowsWait,
        Rule::Bursts,
        Rule::Refutation,
        Rule::Competing,
        Rule::Obedience,
        Rule::Following,
        Rule::Pulses,
        Rule::PulsesOutlasted,
        Rule::Wandering,
        Rule::Losses,
        Rule::UnheldLosses,
        Rule::LossSteps,
        Rule::FarSenders,
        Rule::NeverEnds,
        Rule::PacketSize,
        Rule::HopStamps,
        Rule::PeerClocks,
        Rule::PassiveRtt,
        Rule::Echoes,
    ];

    /// Its name, of small letters and `-`.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Opening => "opening",
            Rule::LargeProbes => "large-probes",
            Rule::FirstQueue => "first-queue",
            Rule::OwnBytes => "own-bytes",
            Rule::Caution => "caution",
            Rule::WindowsWait => "windows-wait",
            Rule::Bursts => "bursts",
            Rule::Refutation => "refutation",
            Rule::Competing => "competing",
            Rule::Obedience => "obedience",
            Rule::Following => "following",
            Rule::Pulses => "pulses",
            Rule::PulsesOutlasted => "pulses-outlasted",
            Rule::Wandering => "wandering",
            Rule::Losses => "losses",
            Rule::UnheldLosses => "unheld-losses",
            Rule::LossSteps => "loss-steps",
            Rule::FarSenders => "far-senders",
            Rule::NeverEnds => "never-ends",
            Rule::PacketSize => "packet-size",
            Rule::HopStamps => "hop-stamps",
            Rule::PeerClocks => "peer-clocks",
            Rule::PassiveRtt => "passive-rtt",
            Rule::Echoes => "echoes",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Rule::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rule::ALL.len());
    }
}
