//! Reports from result files that are made up: what they say, that they stand alone, and that no
//! file, however odd, stops them.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{file, full, run};
use evenkeel_core::Summary;
use evenkeel_core::result::{ResultFile, Series};
use evenkeel_report::{html, markdown, read, table, write_all};

/// An empty directory of this test's own. It stays, so that the pictures can be looked at.
fn dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    dir
}

#[test]
fn the_table() {
    insta::assert_snapshot!(table(&full()));
}

#[test]
fn the_table_of_single_runs() {
    let runs = vec![
        run("up1", "none", 0, 10.0, 50.0, None),
        run("up1", "evenkeel-auto", 0, 10.0, 50.0, None),
        run("up1", "cake-95", 0, 10.0, 50.0, None),
        run("voip", "none", 0, 10.0, 50.0, None),
    ];
    insta::assert_snapshot!(table(&file(runs)));
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(markdown(&full()));
}

#[test]
fn everything_is_written_and_reads_back() {
    let dir = dir("full");
    let file = full();
    let written = write_all(&file, &dir).unwrap();
    let names: Vec<_> = written
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names[..6],
        [
            "result.json",
            "report.md",
            "report.html",
            "ping-down1.png",
            "ecdf-down1.png",
            "panels-down1.png"
        ]
    );
    // Idle has no panels: nothing was carried.
    assert_eq!(names.len(), 3 + 4 * 3 - 1);
    assert!(read(&dir.join("result.json")).unwrap() == file);
    for path in &written[3..] {
        let png = fs::read(path).unwrap();
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n", "{}", path.display());
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!(side(16), 2 * (860 + 36), "{}", path.display());
        assert!((600..2000).contains(&side(20)), "{}", path.display());
        assert!(png.len() > 10_000, "{}: {}", path.display(), png.len());
    }
}

#[test]
fn the_page_stands_alone() {
    let page = html(&full());
    for outside in [
        "http:", "https:", "//", "<script", "@import", "url(", "src=", "href=",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in [
        "prefers-color-scheme:dark",
        "name=\"viewport\"",
        "<table>",
        "class=\"fig narrow\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), (4 * 3 - 1) * 2);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("times less"));
}

#[test]
fn the_same_file_gives_the_same_report() {
    assert_eq!(html(&full()), html(&full()));
}

#[test]
fn names_are_not_markup() {
    let mut file = full();
    file.experiment = "<script>alert(1)</script>".into();
    file.about = "a & b \"c\"".into();
    for run in &mut file.runs {
        if run.condition == "evenkeel" {
            run.condition = "</svg><img src=x>".into();
        }
        if run.load == "up1" {
            run.load = "../../\u{1b}[31m|up".into();
        }
    }
    let page = html(&file);
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(!table(&file).contains('\u{1b}'));
    assert!(markdown(&file).contains(r"\<script>"));
    let dir = dir("names");
    for path in write_all(&file, &dir).unwrap() {
        assert_eq!(path.parent(), Some(dir.as_path()), "{}", path.display());
    }
}

/// Everything must come out, whatever it looks like.
fn survives(name: &str, file: &ResultFile) -> Vec<PathBuf> {
    assert!(table(file).ends_with('\n'));
    assert!(markdown(file).ends_with('\n'));
    let page = html(file);
    assert!(page.ends_with("</html>\n"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "{name}");
    write_all(file, &dir(name)).unwrap()
}

#[test]
fn no_runs_at_all() {
    assert_eq!(survives("nothing", &file(Vec::new())).len(), 3);
}

#[test]
fn one_run_only() {
    let only = run("up1", "evenkeel", 0, 10.0, 20.0, None);
    assert_eq!(survives("one", &file(vec![only])).len(), 6);
}

#[test]
fn nothing_but_void_runs() {
    let mut file = full();
    for run in &mut file.runs {
        run.instrument.void = "the clock was stepped".into();
    }
    assert_eq!(survives("void", &file).len(), 3);
    let text = table(&file);
    assert!(text.contains("No run counts."), "{text}");
    assert_eq!(
        text.matches("the clock was stepped").count(),
        file.runs.len()
    );
}

#[test]
fn empty_series() {
    let mut file = full();
    for run in &mut file.runs {
        run.series = Series::default();
    }
    assert_eq!(survives("empty", &file).len(), 3);
    assert!(html(&file).contains("No samples were kept."));
}

#[test]
fn every_probe_lost() {
    let mut gone = run("up1", "none", 0, 10.0, 20.0, None);
    for probe in &mut gone.series.udp {
        probe.1 = None;
    }
    gone.lost = gone.series.udp.len() as u64;
    (gone.ping_ms, gone.increase_ms) = (Summary::default(), Summary::default());
    let shaped = run("up1", "evenkeel", 0, 10.0, 20.0, Some(2));
    survives("lost", &file(vec![gone, shaped]));
}

#[test]
fn absurd_numbers() {
    let mut odd = full();
    let values = [f64::NAN, f64::INFINITY, -1e300, 1e300, 0.0, -5.0, 1e-300];
    for (i, run) in odd.runs.iter_mut().enumerate() {
        let v = values[i % values.len()];
        run.ping_ms.avg = v;
        run.increase_ms.avg = v;
        run.increase_ms.p99 = v;
        run.down_kbit = v;
        run.base_ms = v;
        run.lost = u64::MAX;
        run.instrument.lag_max_ms = v;
        for (j, probe) in run.series.udp.iter_mut().enumerate() {
            *probe = (values[(i + j) % 7], Some(values[(i + 3 * j) % 7]));
        }
        for (j, point) in run.series.up_kbit.iter_mut().enumerate() {
            *point = (values[j % 7], values[(i + j) % 7]);
        }
    }
    let _ = table(&odd);
    let _ = markdown(&odd);
    assert!(html(&odd).ends_with("</html>\n"));
}

/// More conditions than colours: the legend breaks, the panels too.
#[test]
fn many_conditions() {
    let conditions = [
        "none",
        "evenkeel",
        "evenkeel-auto",
        "cake-95",
        "sqm-htb",
        "inetgw",
        "wondershaper",
    ];
    let runs = conditions.map(|c| run("rrul", c, 0, 10.0, 50.0, Some(100)));
    let file = file(runs.to_vec());
    assert_eq!(survives("many", &file).len(), 6);
}

#[test]
fn hundreds_of_thousands_of_samples() {
    let runs = vec![
        run("down1", "none", 0, 300.0, 1000.0, Some(1000)),
        run("down1", "evenkeel", 0, 300.0, 1000.0, None),
    ];
    let page = html(&file(runs));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn what_is_no_result_file_is_refused_with_its_place() {
    let dir = dir("refused");
    fs::create_dir_all(&dir).unwrap();
    let refused = |text: &str| {
        let path = dir.join("x.json");
        fs::write(&path, text).unwrap();
        let e = read(&path).unwrap_err().to_string();
        assert!(e.starts_with(&format!("read {}: ", path.display())), "{e}");
        e
    };
    assert!(refused("").contains("line 1 column 0"));
    assert!(refused("{\n \"version\": 1,\n oops").contains("line 3 column 2"));
    assert!(refused("{\"version\": 1}").contains("missing field `experiment`"));
    assert!(refused("{\"version\": 99}").contains("version 99"));
    assert!(refused("[1, 2").contains("not a result file"));
    let e = read(&dir.join("absent.json")).unwrap_err().to_string();
    assert!(e.contains("absent.json: No such file"), "{e}");
    let e = write_all(&full(), &dir.join("x.json"))
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("create ") && e.contains("x.json"), "{e}");
}
