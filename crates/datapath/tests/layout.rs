//! What the loader reads is what the programs wrote: a C type that changes moves with it, or does not
//! build; what cannot be laid out is refused.
//!
//! Principles: the types are the programs' own, with one line changed; a reader that uses them by name is
//! compiled against what the generator makes of each. Non-goals: what values mean.

#[path = "../build/clang.rs"]
mod clang;
#[path = "../build/layout.rs"]
mod generator;

use std::path::{Path, PathBuf};
use std::process::Command;

use clang::Clang;

/// What build.rs makes of `bpf/types.h` in which `from` has become `to`.
fn generated(name: &str, from: &str, to: &str) -> Result<String, String> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let dir = directory(name);
    let types = std::fs::read_to_string(bpf.join("types.h")).unwrap();
    assert_eq!(types.matches(from).count(), 1, "{from:?} in types.h");
    std::fs::write(dir.join("types.h"), types.replace(from, to)).unwrap();
    std::fs::copy(bpf.join("layout.c"), dir.join("layout.c")).unwrap();
    let arguments = ["-c", "layout.c", "-o", "layout.o"];
    Clang::find().unwrap().run(&dir, &arguments)?;
    generator::generate(&dir.join("layout.o"))
}

fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layout-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Reads the second field of a sample whose bytes are 0, 1, 2 ... and writes all of a line.
const READER: &str = "
fn main() {
    let bytes: [u8; RttSample::SIZE] = std::array::from_fn(|i| i as u8);
    let sample = RttSample::from_bytes(&bytes);
    let remote: [[u8; 4]; 4] = sample.remote;
    let rtt_us: u32 = sample.rtt_us;
    assert_eq!(rtt_us.to_ne_bytes()[0], remote[3][3] + 1);
    let framing = Framing { mode: FRAMING_PTM, overhead: -1, mpu: 2 };
    let line = Line {
        lease: u64::MAX, rate: 3, target: 4, packet: 5, packet_ns: 6, framing, segment: 7,
        slack: 8, surcharge: 9, fills: 1, lan: 1,
    };
    assert_eq!(Line::from_bytes(&line.to_bytes()), line);
    print!(\"{}\", remote[0][0]);
}
";

/// Compiles and runs the reader on such types: where the remote address begins, or rustc's words.
fn read(name: &str, from: &str, to: &str) -> Result<String, String> {
    let rust = generated(name, from, to).unwrap_or_else(|why| panic!("{why}"));
    let dir = directory(name);
    std::fs::write(dir.join("reader.rs"), format!("{rust}{READER}")).unwrap();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let compiled = Command::new(rustc)
        .current_dir(&dir)
        .args(["--edition", "2024", "-A", "dead_code", "reader.rs"])
        .output()
        .unwrap();
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    let ran = Command::new(dir.join("reader")).output().unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

const ANSWERED: &str = "__u64 answered_at;     /* ns */";

#[test]
fn a_field_that_moved_is_read_where_it_is() {
    assert_eq!(read("same", ANSWERED, ANSWERED).unwrap(), "8");
    let before = format!("__u64 new_field;\n\t{ANSWERED}");
    assert_eq!(read("moved", ANSWERED, &before).unwrap(), "16");
}

#[test]
fn another_struct_does_not_build() {
    let rtt = "__u32 rtt_us; ";
    let slack = "__u32 slack;     /*";
    for (name, from, to, words) in [
        ("renamed", rtt, "__u32 rtt_ms; ", "no field `rtt_us`"),
        ("signed", rtt, "__s32 rtt_us; ", "mismatched types"),
        (
            "removed",
            slack,
            "__u32 pad_too; /*",
            "no field named `slack`",
        ),
        (
            "added",
            slack,
            "__u64 new_field; __u32 slack; /*",
            "missing field `new_field`",
        ),
        (
            "constant",
            "FRAMING_PTM = 2,",
            "FRAMING_VDSL = 2,",
            "cannot find value `FRAMING_PTM`",
        ),
    ] {
        let said = read(name, from, to).unwrap_err();
        assert!(said.contains(words), "{name}: {said}");
    }
}

#[test]
fn what_cannot_be_laid_out_is_refused() {
    let rtt = "__u32 rtt_us; ";
    for (name, to, words) in [
        (
            "hole",
            "__u64 rtt_us; __u16 x; ",
            "2 bytes before it have no name",
        ),
        ("end", "__u64 rtt_us; ", "4 bytes at its end have no name"),
        ("bits", "__u32 rtt_us : 31, late : 1; ", "bit fields"),
        ("pointer", "void *rtt_us; ", "a ptr has no place in a map"),
        (
            "union",
            "union { __u32 rtt_us; __u32 rtt_ms; } x; ",
            "a union has no place",
        ),
    ] {
        let why = generated(name, rtt, to).unwrap_err();
        assert!(why.contains("struct rtt_sample"), "{name}: {why}");
        assert!(why.contains(words), "{name}: {why}");
    }
}
