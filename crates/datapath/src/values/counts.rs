//! What the programs counted, over all CPUs.

use evenkeel_core::units::{Direction, PerDirection};

use crate::layout;

/// What was counted in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionCounts {
    /// Packets; super-packets count once.
    pub packets: u64,
    /// They count by their segments.
    pub segments: u64,
    /// Bytes of IP packets, every segment with its headers.
    pub bytes: u64,
    /// What those take on the line, every segment framed by itself.
    pub wire_bytes: u64,
    /// Packets that were not IP, or cut off.
    pub other: u64,
    /// Bytes of TCP's payload.
    pub payload: u64,
    /// Those of them that were retransmitted.
    pub retransmitted: u64,
    /// Segments by tier, most urgent first.
    pub tier_packets: [u64; 4],
    /// Bytes by tier, as `bytes`.
    pub tier_bytes: [u64; 4],
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Of each direction.
    pub direction: PerDirection<DirectionCounts>,
    /// Flows that were new.
    pub new_flows: u64,
    /// Packets for whose flow there was no room.
    pub full: u64,
    /// Segments dropped: of unresponsive flows, beyond their share.
    pub slowed: u64,
    /// Small packets that arrived and did not go to our queue.
    pub bypassed: u64,
}

impl Counts {
    /// Adds what one CPU counted.
    pub(crate) fn add(&mut self, cpu: &layout::Counts) {
        for direction in Direction::BOTH {
            let n = match direction {
                Direction::Up => layout::UP as usize,
                Direction::Down => layout::DOWN as usize,
            };
            let sum = &mut self.direction[direction];
            sum.packets += cpu.packets[n];
            sum.segments += cpu.segments[n];
            sum.bytes += cpu.bytes[n];
            sum.wire_bytes += cpu.wire_bytes[n];
            sum.other += cpu.other[n];
            sum.payload += cpu.payload[n];
            sum.retransmitted += cpu.retransmitted[n];
            for tier in 0..sum.tier_packets.len() {
                sum.tier_packets[tier] += cpu.tier_packets[n][tier];
                sum.tier_bytes[tier] += cpu.tier_bytes[n][tier];
            }
        }
        self.new_flows += cpu.new_flows;
        self.full += cpu.full;
        self.slowed += cpu.slowed;
        self.bypassed += cpu.bypassed;
    }
}
