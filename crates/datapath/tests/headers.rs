//! The C of the programs: every header compiles by itself, so that none leans on what happens to be
//! included before it, and says what it is and which packets it sees.
//!
//! Non-goals: what they do.

#[path = "../build/clang.rs"]
mod clang;

use std::path::{Path, PathBuf};

use clang::Clang;

fn headers() -> Vec<PathBuf> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let files = std::fs::read_dir(bpf).unwrap().map(|f| f.unwrap().path());
    let mut all: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "h"))
        .collect();
    all.sort();
    assert!(all.len() > 20, "{all:?}");
    all
}

#[test]
fn each_stands_alone() {
    let clang = Clang::find().unwrap();
    for header in headers() {
        let header = header.to_str().unwrap();
        clang
            .run(
                Path::new("/"),
                &["-fsyntax-only", "-x", "c", "-include", header, "/dev/null"],
            )
            .unwrap_or_else(|why| panic!("{header}: {why}"));
    }
}

#[test]
fn each_says_what_it_is() {
    for header in headers() {
        let text = std::fs::read_to_string(&header).unwrap();
        let (first, code) = text.split_once("#pragma once").unwrap();
        for said in ["\n * Sees: ", "\n * Principles: ", "\n * Non-goals: "] {
            assert!(first.contains(said), "{}: no {said:?}", header.display());
        }
        // A function fits on a screen.
        for body in code.split("\n{\n").skip(1) {
            let lines = body.split("\n}\n").next().unwrap().lines().count();
            assert!(
                lines <= 70,
                "{}: a function of {lines} lines",
                header.display()
            );
        }
    }
}
