//! Our messages against those that iproute2 sent for the same commands (fixtures/tc, made by
//! fixtures/tc/record.sh), byte for byte but for what `normalise` names.

mod cases;

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_core::framing::PRESETS;
use evenkeel_core::tc::{Op, Qdisc, Stab};
use evenkeel_wire::attr::{attrs, find, text, u32_at};
use evenkeel_wire::encode;
use evenkeel_wire::tc::{QdiscInfo, rtm};

/// A recorded message and the command that made it.
struct Fixture {
    command: String,
    bytes: Vec<u8>,
}

fn fixtures() -> BTreeMap<String, Fixture> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tc");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "hex") {
            continue;
        }
        let content = std::fs::read_to_string(&path).unwrap();
        let comment = content.lines().next().unwrap();
        let digits: String = content.lines().filter(|l| !l.starts_with('#')).collect();
        let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
        let fixture = Fixture {
            command: comment.trim_start_matches("# ").to_owned(),
            bytes: (0..digits.len()).step_by(2).map(byte).collect(),
        };
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        all.insert(name, fixture);
    }
    all
}

/// The devices of record.sh, in the order in which it makes them.
fn index(name: &str) -> Option<u32> {
    ["lo", "ek-dev", "ek-ifb", "ek-test"]
        .iter()
        .position(|n| *n == name)
        .map(|i| i as u32 + 1)
}

/// Length of the fixed part after the header.
fn fixed(kind: u16) -> usize {
    if kind < rtm::NEW_QDISC { 16 } else { 20 }
}

/// A message as its fixed part and its attributes, nests opened.
#[derive(Debug, PartialEq)]
struct Tree {
    kind: u16,
    flags: u16,
    fixed: Vec<u8>,
    attrs: Vec<Attr>,
}

#[derive(Debug, PartialEq)]
enum Attr {
    Leaf(u16, Vec<u8>),
    Nest(u16, Vec<Attr>),
}

fn tree(bytes: &[u8]) -> Tree {
    let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
    assert_eq!(u32_at(bytes, 0), Some(bytes.len() as u32));
    let body = 16 + fixed(kind);
    let tc_kind = find(&bytes[body..], 1).map(text).unwrap_or_default();
    Tree {
        kind,
        flags: u16::from_ne_bytes([bytes[6], bytes[7]]),
        // Sequence and port are left out.
        fixed: bytes[16..body].to_vec(),
        attrs: attrs(&bytes[body..])
            .map(|(attr, v)| match (attr, tc_kind.as_str()) {
                (2, "sfq" | "bfifo" | "pfifo") => Attr::Leaf(attr, v.to_vec()),
                (2 | 8, _) if kind >= rtm::NEW_QDISC => Attr::Nest(
                    attr,
                    attrs(v).map(|(a, v)| Attr::Leaf(a, v.to_vec())).collect(),
                ),
                _ => Attr::Leaf(attr, v.to_vec()),
            })
            .collect(),
    }
}

/// Takes out what differs on purpose.
fn normalise(name: &str, tree: &mut Tree) {
    let kind = tree.attrs.iter().find_map(|a| match a {
        Attr::Leaf(1, v) => Some(text(v)),
        _ => None,
    });
    for attr in &mut tree.attrs {
        let Attr::Nest(2, options) = attr else {
            continue;
        };
        options.retain(|option| match (kind.as_deref(), option) {
            // tc sends rate tables, which no kernel since 3.8 reads: HTB's RTAB and CTAB, TBF's.
            (Some("htb"), Attr::Leaf(3 | 4, v)) | (Some("tbf"), Attr::Leaf(2, v)) => {
                v.len() != 1024
            }
            // tc cannot say an mpu of 0; we say it with each framing.
            (Some("cake"), Attr::Leaf(14, v)) => u32_at(v, 0) != Some(0),
            // Its keywords for Ethernet and DOCSIS leave ATM or PTM as it was; we say neither.
            (Some("cake"), Attr::Leaf(4, v)) if matches!(name, "cake-docsis" | "cake-ethernet") => {
                u32_at(v, 0) != Some(0)
            }
            _ => true,
        });
    }
    // tc repeats the kind's default options on deletion, which the kernel does not read. Size
    // tables are compared by what each packet counts (`size_tables_count_alike`).
    tree.attrs.retain(|attr| match attr {
        Attr::Nest(2, _) => name != "qdisc-del-handle",
        Attr::Nest(8, _) => false,
        _ => true,
    });
    // act_police insists on a rate table and reads none of it; tc's has rounding errors of a
    // microsecond.
    if let (true, Some(Attr::Nest(2, options))) = (name.contains("police"), tree.attrs.last_mut()) {
        let Some(Attr::Leaf(7, action)) = options.first_mut() else {
            panic!("{options:?}")
        };
        let head = [1028u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat();
        let at = action.windows(4).position(|w| w == head).unwrap() + 4;
        action[at..at + 1024].fill(0);
    }
}

/// tc cuts the time of a burst to whole microseconds, we round it up to ticks of 64 ns: ours may be
/// up to 16 ticks more, and is then taken for theirs.
fn forgive_ticks(name: &str, ours: &mut Tree, theirs: &Tree) {
    let Some(Attr::Leaf(1, kind)) = ours.attrs.first() else {
        return;
    };
    // buffer and cbuffer of tc_htb_opt; buffer of tc_tbf_qopt.
    let fields = match text(kind).as_str() {
        "htb" if ours.kind == rtm::NEW_CLASS => &[24, 28][..],
        "tbf" => &[28],
        _ => return,
    };
    let theirs = theirs.attrs.iter().find_map(|a| match a {
        Attr::Nest(2, options) => Some(options),
        _ => None,
    });
    let options = ours.attrs.iter_mut().find_map(|a| match a {
        Attr::Nest(2, options) => Some(options),
        _ => None,
    });
    for (ours, theirs) in options.unwrap().iter_mut().zip(theirs.unwrap()) {
        let (Attr::Leaf(1, ours), Attr::Leaf(1, theirs)) = (ours, theirs) else {
            continue;
        };
        for at in fields {
            let (a, b) = (u32_at(ours, *at).unwrap(), u32_at(theirs, *at).unwrap());
            // Above 32 Gbit/s tc's TBF computes with 2^32 - 1 byte/s; the kernel reads TCA_TBF_BURST.
            if name == "tbf-40g" || a.checked_sub(b).is_some_and(|more| more <= 16) {
                ours[*at..at + 4].copy_from_slice(&b.to_ne_bytes());
            }
        }
    }
}

#[test]
fn every_case_is_iproute2s() {
    let mut fixtures = fixtures();
    for (name, op) in cases::all() {
        let fixture = fixtures
            .remove(name)
            .unwrap_or_else(|| panic!("no {name}.hex"));
        let ours = encode(&op, &index).unwrap();
        let (mut ours, mut theirs) = (tree(&ours), tree(&fixture.bytes));
        normalise(name, &mut ours);
        normalise(name, &mut theirs);
        forgive_ticks(name, &mut ours, &theirs);
        assert_eq!(ours, theirs, "{name}: {}", fixture.command);
    }
    let rest: Vec<_> = fixtures.keys().collect();
    assert!(rest.is_empty(), "no case for {rest:?}");
}

/// The recorded commands are the ones that `Op` prints, so that what `--dry-run` shows does what
/// we do. Exceptions: keywords of CAKE's framing, and programs, which tc finds in files only.
#[test]
fn printed_commands_are_the_recorded_ones() {
    let fixtures = fixtures();
    let preset = |name: &str| PRESETS.iter().any(|(preset, _)| *preset == name);
    let mut wrong = String::new();
    for (name, op) in cases::all() {
        let otherwise = name.strip_prefix("cake-").is_some_and(preset) || name.starts_with("bpf-");
        if !otherwise && op.to_string() != fixtures[name].command {
            wrong += &format!("{name} | {op}\n");
        }
    }
    assert!(wrong.is_empty(), "in cases.txt should stand:\n{wrong}");
}

/// What is not compared byte for byte in a size table: our slots start at the packet's own
/// length, tc's at the adjusted one. Every packet up to the table's end counts the same.
#[test]
fn size_tables_count_alike() {
    let fixtures = fixtures();
    let mut compared = 0;
    for (name, op) in cases::all() {
        let Op::QdiscAdd(spec) = &op else { continue };
        let Some(ours) = &spec.stab else { continue };
        let theirs: Vec<QdiscInfo> = QdiscInfo::all(&fixtures[name].bytes).collect();
        let theirs = theirs[0].stab.clone().unwrap();
        let report = |s: &Stab| (s.overhead, s.linklayer, s.mpu, s.mtu, s.data.len());
        assert_eq!(report(ours), report(&theirs), "{name}");
        // tc's table ends at an adjusted length of 2048.
        let end = 2048 - ours.overhead.max(0) as u32;
        for len in 14..end.min(2048) {
            assert_eq!(ours.lookup(len), theirs.lookup(len), "{name} {len}");
        }
        compared += 1;
    }
    assert_eq!(compared, 2);
}

/// Each recorded discipline reads back as the one it was made from.
#[test]
fn recorded_messages_decode() {
    let fixtures = fixtures();
    for (name, op) in cases::all() {
        let (Op::QdiscAdd(spec) | Op::QdiscReplace(spec) | Op::QdiscChange(spec)) = op else {
            continue;
        };
        let decoded: Vec<QdiscInfo> = QdiscInfo::all(&fixtures[name].bytes).collect();
        assert_eq!(decoded.len(), 1, "{name}");
        assert_eq!(decoded[0].kind, spec.qdisc.kind());
        let evenkeel_wire::QdiscBody::Known(got) = &decoded[0].body else {
            panic!("{name}")
        };
        assert_eq!(got, &as_sent(&spec.qdisc), "{name}");
    }
}

/// What is sent where nothing is said.
fn as_sent(qdisc: &Qdisc) -> Qdisc {
    let mut qdisc = qdisc.clone();
    match &mut qdisc {
        Qdisc::Htb(htb) => htb.r2q = htb.r2q.or(Some(10)),
        Qdisc::Cake(cake) => cake.target = cake.target_sent(),
        _ => {}
    }
    qdisc
}
