//! Any bytes as a packet for the programs in this kernel: what must hold whatever they are.
//!
//! Shared by the property test beside it and the fuzz target `programs`. The first byte chooses
//! (bit 0: arriving, bit 1: Ethernet, bits 2 and 3: who is told the tier, bit 4: policed), the
//! second is the number of segments, the rest is the packet.

use std::time::Duration;

use evenkeel_core::police::Policer;
use evenkeel_core::units::PerDirection;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::values::{DirectionConfig, PriorityMode};
use evenkeel_datapath::{Maps, Programs};

/// `TC_ACT_UNSPEC`: the next filter decides.
const NEXT: u32 = u32::MAX;
/// `TC_ACT_SHOT`.
const DROP: u32 = 2;

/// The programs for header-less devices and for Ethernet.
pub(crate) struct AnyPacket {
    benches: [(Programs, Maps); 2],
    seen: u64,
}

impl AnyPacket {
    pub(crate) fn new() -> Self {
        let benches = [0, 14].map(|link_header| {
            let mut programs = Programs::load(link_header).unwrap_or_else(|e| panic!("{e}"));
            let maps = programs.maps().unwrap();
            (programs, maps)
        });
        AnyPacket { benches, seen: 0 }
    }

    /// Whether the kernel made a packet of it at all: it refuses what is shorter than it says.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        let &[choice, segments, ref packet @ ..] = bytes else {
            return false;
        };
        let (programs, maps) = &mut self.benches[usize::from(choice >> 1 & 1)];
        let modes = [
            PriorityMode::None,
            PriorityMode::CakeTin,
            PriorityMode::TierClass,
            PriorityMode::BucketClass,
        ];
        let mode = modes[usize::from(choice >> 2 & 3)];
        let told = |major| DirectionConfig {
            mode,
            major,
            max_packet: None,
            framing: Framing::default(),
        };
        let both = PerDirection {
            up: told(0xec0),
            down: told(0xec1),
        };
        maps.set_directions(both).unwrap();
        let policed = choice & 16 != 0;
        let policer = Policer {
            rate: Rate::from_bps(8),
            framing: "atm:40".parse().unwrap(),
            burst: Duration::from_secs(2000),
            target: Duration::from_secs(100),
            heavy: 0,
            mark: 7,
        };
        maps.set_policer(policed.then_some(&policer)).unwrap();
        // struct __sk_buff: mark at 8, priority at 32, gso_segs at 164, gso_size at 176.
        let mut context = [0u8; 192];
        if segments > 1 {
            context[164..168].copy_from_slice(&u32::from(segments).to_ne_bytes());
            context[176..180].copy_from_slice(&1000u32.to_ne_bytes());
        }
        let arrives = choice & 1 != 0;
        let name = if arrives { "ek_ingress" } else { "ek_egress" };
        let Ok(ran) = programs.test_run_out(name, packet, &context) else {
            return false;
        };
        let word = |at: usize| u32::from_ne_bytes(ran.context[at..at + 4].try_into().unwrap());
        let (mark, priority) = (word(8), word(32));
        if policed && arrives {
            assert!([NEXT, DROP].contains(&ran.returned), "{}", ran.returned);
            assert!([0, 7].contains(&mark), "{mark}");
        } else {
            assert_eq!((ran.returned, mark), (NEXT, 0));
            assert_eq!(ran.packet, packet, "the packet was changed");
        }
        assert!(
            priority == 0 || priority >> 16 == 0xec0 + u32::from(arrives),
            "priority {priority:#x}"
        );
        self.seen += 1;
        true
    }

    /// Every packet was counted once, as a flow's or as something else.
    pub(crate) fn check(&self) {
        let counted = self.benches.iter().map(|(_, maps)| {
            let c = maps.counts().unwrap();
            c.direction.iter().map(|d| d.packets + d.other).sum::<u64>()
        });
        assert_eq!(counted.sum::<u64>(), self.seen);
    }
}
