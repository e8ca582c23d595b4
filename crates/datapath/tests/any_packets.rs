//! AnyPacket may arrive: packets of every parser path from `fuzz/corpus/programs`, cut, changed
//! and stirred, the same ones each time.

mod any_packet;

use std::path::Path;

use any_packet::AnyPacket;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// The corpus by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/programs");
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| {
            let path = e.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn whatever_arrives_the_programs_keep_their_word() {
    let corpus = corpus();
    assert!(corpus.len() >= 12, "the corpus is not there");
    let mut programs = AnyPacket::new();
    for (name, seed) in &corpus {
        for choice in 0..32 {
            // Whether the packet is Ethernet belongs to the seed.
            let mut bytes = seed.clone();
            bytes[0] = (bytes[0] & 2) | (choice & !2);
            assert!(
                programs.feed(&bytes),
                "{name}: the kernel takes no such packet"
            );
        }
    }
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let change = (
        any::<u8>(),
        0u8..5,
        changes,
        any::<prop::sample::Index>(),
        any::<bool>(),
    );
    let mut runner = TestRunner::deterministic();
    let mut taken = 0;
    for (_, seed) in corpus.iter().cycle().take(6000) {
        let (choice, segments, changes, end, cut) = change.new_tree(&mut runner).unwrap().current();
        let mut bytes = seed.clone();
        bytes[0] = choice;
        bytes[1] = segments;
        for (at, value) in changes {
            let at = 2 + at.index(bytes.len() - 2);
            bytes[at] = value;
        }
        if cut {
            bytes.truncate(2 + end.index(bytes.len() - 2));
        }
        taken += u32::from(programs.feed(&bytes));
    }
    assert!(taken > 3000, "the kernel took {taken} packets only");
    programs.check();
}
