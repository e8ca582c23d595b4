//! The files: what is written is read, whatever happens to them; they never grow beyond their bound.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use evenkeel_history::{Book, Happening, Kind, Look, Minute, Recorder, Ring, Way, picture};
use proptest::prelude::*;

/// 1 September 2026, 00:00 UTC.
const BEGUN: u64 = 1_788_220_800;
const MOST: u64 = 64 + 86_400 * 64 + 64 + 4096 * 256;

fn minute(n: u64) -> Minute {
    Minute {
        minute: (BEGUN / 60 + n) as u32,
        seconds: 60,
        down: Way {
            capacity_kbit: 100_000,
            passed_kbit: n as u32 % 100_000,
            most_kbit: n as u32 % 100_000,
            ..Way::default()
        },
        base_cms: 920,
        felt_cms: 1000,
        worst_cms: 2000,
        ..Minute::default()
    }
}

fn files(dir: &tempfile::TempDir) -> [PathBuf; 2] {
    ["minutes", "happenings"].map(|e| dir.path().join(format!("wan.{e}")))
}

#[test]
fn ninety_days_stay_within_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(dir.path(), "wan");
    let look = Look {
        capacity_kbit: 100_000.0,
        shaped_kbit: 99_500.0,
        passes_kbit: 50_000.0,
        queue_ms: 1.0,
        own_ms: 2.0,
    };
    let minutes = 90 * 1440;
    for n in 0..minutes {
        let now = BEGUN + n * 60;
        // One look a minute is as good as many, and the day is over sooner.
        assert_eq!(recorder.look(now, 0.5, Some(9.0), &look, &look), None);
        for k in 0..3 {
            let text = format!("minute {n}, change {k}: upload: a queue of 3.7 ms stands");
            assert_eq!(recorder.happened(now, Kind::Changed, &text), None);
        }
    }
    recorder.close();
    let size: u64 = files(&dir)
        .iter()
        .map(|f| fs::metadata(f).unwrap().len())
        .sum();
    assert_eq!(size, MOST);
    let now = BEGUN + minutes * 60;
    let book = Book::open(dir.path(), "wan", now).unwrap();
    assert_eq!(book.trouble, [""; 0]);
    assert_eq!(book.minutes.len(), 60 * 1440 - 1);
    assert_eq!(book.minutes.last().unwrap().begins(), now - 60);
    assert!(
        book.minutes
            .iter()
            .all(|m| m.felt_cms == 1500 && m.down.passed_kbit == 50_000)
    );
    assert_eq!(book.happenings.len(), 4096);
    assert!(
        book.happenings
            .last()
            .unwrap()
            .text
            .starts_with("minute 129599, change 2")
    );
    assert_eq!(Book::devices(dir.path()).unwrap(), ["wan"]);
}

#[test]
fn a_second_recorder_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..3 {
        let mut recorder = Recorder::new(dir.path(), "wan");
        let now = BEGUN + n * 60;
        recorder.happened(now, Kind::Began, &format!("start {n}"));
        recorder.look(now + 1, 1.0, None, &Look::default(), &Look::default());
        assert_eq!(recorder.close(), None);
    }
    let book = Book::open(dir.path(), "wan", BEGUN + 600).unwrap();
    let texts: Vec<_> = book.happenings.iter().map(|h| h.text.as_str()).collect();
    assert_eq!(texts, ["start 0", "start 1", "start 2"]);
    assert_eq!(book.minutes.len(), 3);
    assert!(book.minutes[0].has(Kind::Began));
    // Another time: nothing is of the last 60 days.
    assert!(
        Book::open(dir.path(), "wan", BEGUN + 70 * 86_400)
            .unwrap()
            .minutes
            .is_empty()
    );
}

#[test]
fn what_is_no_history_is_put_aside_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let [minutes, _] = files(&dir);
    fs::write(
        &minutes,
        "something else, of a length that is no accident at all, and longer than a head",
    )
    .unwrap();
    let book = Book::open(dir.path(), "wan", BEGUN).unwrap();
    assert!(
        book.trouble[0].contains("it is no history"),
        "{:?}",
        book.trouble
    );
    let mut recorder = Recorder::new(dir.path(), "wan");
    recorder.look(BEGUN, 1.0, None, &Look::default(), &Look::default());
    let said = recorder.close().unwrap();
    assert!(
        said.contains("it is no history; it is") && said.ends_with("wan.bad now"),
        "{said}"
    );
    assert_eq!(
        Book::open(dir.path(), "wan", BEGUN + 60)
            .unwrap()
            .minutes
            .len(),
        1
    );
}

#[test]
fn a_disk_that_is_full_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    // A file where a directory is wanted fails like a disk that is full, on any machine.
    fs::write(dir.path().join("full"), "").unwrap();
    let mut recorder = Recorder::new(&dir.path().join("full"), "wan");
    let mut said = Vec::new();
    for n in 0..5 {
        said.extend(recorder.happened(BEGUN + n * 60, Kind::Changed, "x"));
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("this minute is not kept"));
    fs::remove_file(dir.path().join("full")).unwrap();
    recorder.happened(BEGUN + 600, Kind::Changed, "again");
    assert_eq!(recorder.close(), None);
    let book = Book::open(&dir.path().join("full"), "wan", BEGUN + 600).unwrap();
    assert_eq!(book.happenings.last().unwrap().text, "again");
}

#[test]
fn a_sentence_and_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let (ring, _) = Ring::open::<Minute>(&files(&dir)[0]).unwrap();
    for n in 0..1440 * 4 {
        let mut m = minute(n);
        let hour = n / 60 % 24;
        let evening = (19..23).contains(&hour);
        m.down.capacity_kbit = if evening { 60_000 } else { 100_000 };
        m.down.most_kbit = m.down.capacity_kbit;
        m.down.passed_kbit = m.down.capacity_kbit / 2;
        m.felt_cms = if evening { 3000 } else { 1000 };
        ring.put(&m).unwrap();
    }
    let now = BEGUN + 4 * 86_400;
    let book = Book::open(dir.path(), "wan", now).unwrap();
    let read = book.read("wan", (BEGUN, now), 100, 0);
    assert!(
        read.sentence.starts_with("wan: 2.02 TB down"),
        "{}",
        read.sentence
    );
    assert!(
        read.sentence
            .contains("latency felt 10.0 ms, 20.0 ms at worst"),
        "{}",
        read.sentence
    );
    assert_eq!(read.minutes.len(), 100);
    let week = read.week.unwrap();
    assert_eq!(
        week.sentence,
        "download is slowest from 19:00 to 20:00, 60.0 Mbit/s beside 100 Mbit/s at 23:00"
    );
    assert_eq!(week.usual(now + 20 * 3600, 0).unwrap().down_kbit, 60_000);
    let (words, _) = book.at("wan", BEGUN + 20 * 3600 + 900, "20:15");
    assert!(
        words.starts_with("wan at 20:15: down 30.0 Mbit/s of 60.0 Mbit/s, up 0 bit/s"),
        "{words}"
    );
    assert!(
        book.at("wan", now + 60, "x")
            .0
            .contains("nothing is known of x")
    );
    let text = picture::draw(&book.minutes, (BEGUN, now), 100, &|t| {
        format!("{}", (t - BEGUN) / 3600)
    });
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(
        text.contains("    100 █") && text.contains("latency felt"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes that were overwritten cost the records that they stood in, and a file that was cut those behind.
    #[test]
    fn damage_stays_where_it_is(
        at in 64u64..64 + 300 * 64,
        bytes in proptest::collection::vec(any::<u8>(), 1..200),
        cut in proptest::option::of(0u64..64 + 300 * 64),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let [file, _] = files(&dir);
        let (ring, _) = Ring::open::<Minute>(&file).unwrap();
        // 86400 minutes divide 60 days, so the first stands in the first slot.
        let first = BEGUN / 60 / 86_400 * 86_400;
        for n in 0..300 {
            ring.put(&Minute { minute: (first + n) as u32, seconds: 60, ..Minute::default() }).unwrap();
        }
        let damaged = OpenOptions::new().write(true).open(&file).unwrap();
        damaged.write_all_at(&bytes, at).unwrap();
        if let Some(cut) = cut {
            damaged.set_len(cut).unwrap();
        }
        let found = Ring::read::<Minute>(&file).unwrap();
        let lost = (at - 64) / 64..=(at - 64 + bytes.len() as u64 - 1) / 64;
        let end = cut.map_or(300, |c| c.saturating_sub(64) / 64).min(300);
        let whole = (0..end).filter(|n| !lost.contains(n));
        for n in whole {
            prop_assert!(found.records.iter().any(|r| u64::from(r.minute) == first + n), "{n}");
        }
        prop_assert!(found.records.len() <= 301);
        // It goes on being used.
        let (ring, _) = Ring::open::<Minute>(&file).unwrap();
        ring.put(&Minute { minute: first as u32, seconds: 7, ..Minute::default() }).unwrap();
        let again = Ring::read::<Minute>(&file).unwrap();
        prop_assert!(again.records.iter().any(|r| u64::from(r.minute) == first && r.seconds == 7));
    }

    /// Whatever is in a file, reading it ends well, and so does everything that is made of it.
    #[test]
    fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..4096), keep_head in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        for (n, file) in files(&dir).iter().enumerate() {
            if keep_head {
                let made = if n == 0 { Ring::open::<Minute>(file) } else { Ring::open::<Happening>(file) };
                drop(made.unwrap());
                OpenOptions::new().write(true).open(file).unwrap().write_all_at(&bytes, 64).unwrap();
            } else {
                fs::write(file, &bytes).unwrap();
            }
        }
        let book = Book::open(dir.path(), "wan", BEGUN).unwrap();
        let read = book.read("wan", (0, u64::MAX), 10, -3600);
        let _ = picture::draw(&read.minutes, (0, u64::MAX), 80, &|t| t.to_string());
        let _ = book.at("wan", BEGUN, "now");
    }

    #[test]
    fn a_recorder_takes_anything(now in any::<u64>(), seconds in any::<f64>(), v in any::<f64>(), text in ".{0,200}") {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::new(dir.path(), "a/../b");
        let look = Look { capacity_kbit: v, shaped_kbit: v, passes_kbit: v, queue_ms: v, own_ms: v };
        recorder.look(now, seconds, Some(v), &look, &look);
        recorder.happened(now, Kind::Warning, &text);
        prop_assert_eq!(recorder.close(), None);
    }
}
