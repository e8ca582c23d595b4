//! Reports of many conditions: cost and gain, the verdict, published figures, calls and pages.

mod common;

use common::{file, full, run};
use evenkeel_core::Summary;
use evenkeel_core::result::{
    Call, Charge, ConditionFacts, Figure, Pages, Published, ResultFile, Run, factors,
};
use evenkeel_core::units::Rate;
use evenkeel_report::{html, markdown, table, write_all};

/// A condition of the CeroWRT series: name, rates in kbit/s, framing.
type Limit<'a> = (&'a str, u64, u64, &'a str);

const LIMITS: [Limit<'_>; 4] = [
    ("sqm-95", 20_181, 1112, "none:14"),
    ("sqm-100-atm44", 21_181, 1171, "atm:44"),
    ("cake-97", 20_545, 1135, "atm:40"),
    ("evenkeel", 20_333, 1159, "atm:40"),
];

fn facts((name, down, up, framing): Limit<'_>) -> ConditionFacts {
    let charge = |kbit| {
        Some(Charge {
            rate: Rate::from_kbit(kbit),
            framing: framing.parse().unwrap(),
        })
    };
    ConditionFacts {
        name: name.into(),
        about: "a shaper".into(),
        told: format!("{down}/{up} kbit/s, {framing}"),
        down: charge(down),
        up: charge(up),
    }
}

/// A run with these averages and 99th percentiles of the increase, ms, and goodput, kbit/s.
fn plain(load: &str, condition: &str, repeat: u32, increase: (f64, f64), kbit: f64) -> Run {
    let mut run = run(load, condition, repeat, 4.0, 25.0, None);
    let down = load.starts_with("down");
    (run.down_kbit, run.up_kbit) = if down { (kbit, 0.0) } else { (0.0, kbit) };
    (run.increase_ms.avg, run.increase_ms.p99) = increase;
    run.ping_ms.avg = 56.0 + increase.0;
    run.base_ms = 56.0;
    run
}

/// Two loads under `none` and under each of `LIMITS`: the increase that is left and the share of
/// the goodput that is kept, three times.
fn series(left: [(f64, f64); 4]) -> ResultFile {
    let mut runs = Vec::new();
    for repeat in 0..3 {
        let more = f64::from(repeat) / 10.0;
        for (load, kbit) in [("down1", 17_000.0), ("up1", 900.0)] {
            let none = (20.0 + more, 40.0);
            runs.push(plain(load, "none", repeat, none, kbit));
            for ((name, ..), (ms, kept)) in LIMITS.into_iter().zip(left) {
                let increase = (ms + more, 2.0 * ms);
                runs.push(plain(load, name, repeat, increase, kbit * kept));
            }
        }
    }
    around(runs)
}

fn around(runs: Vec<Run>) -> ResultFile {
    let mut file = file(runs);
    file.experiment = "adsl2".into();
    file.line.down = Rate::from_kbit(21_181);
    file.line.up = Rate::from_kbit(1171);
    file.line.framing = "atm:40".parse().unwrap();
    file.factors = factors(&file.runs);
    file.conditions = LIMITS.map(facts).to_vec();
    file
}

/// sqm-95 leaves the queue in the modem, sqm-100 most of it, the other two hardly any.
const USUAL: [(f64, f64); 4] = [(21.0, 1.0), (12.0, 0.99), (1.5, 0.95), (1.0, 0.96)];

fn published(load: &str, condition: &str, shaper: &str, figure: Figure, value: f64) -> Published {
    Published {
        load: load.into(),
        condition: condition.into(),
        shaper: shaper.into(),
        figure,
        value,
        to: None,
        qualifier: String::new(),
        source: "the post".into(),
    }
}

fn with_everything() -> ResultFile {
    let mut file = series(USUAL);
    let summary = |ms: f64| Summary::of(&[ms, ms * 1.1, ms * 1.5]);
    for run in &mut file.runs {
        run.settle_s = (run.condition == "evenkeel").then_some(0.4);
        let ms = run.increase_ms.avg;
        for way in ["up", "down"] {
            let call = Call {
                sent: 500,
                lost: u64::from(run.condition == "none"),
                delay_ms: summary(30.0 + ms),
                jitter_ms: 1.2,
            };
            run.calls.insert(format!("{way}/client1/near/0"), call);
        }
        let pages = Pages {
            begun: 31,
            finished: 30,
            bytes: 1_000_000,
            time_ms: summary(200.0 + ms),
        };
        run.pages.insert("down/client1/far/0".into(), pages);
    }
    let about = published("up1", "none", "", Figure::IncreaseMedian, 15.0);
    file.published = vec![
        published("up1", "sqm-95", "CeroWRT, 95 %", Figure::GoodputUp, 1.01),
        Published {
            qualifier: "about".into(),
            ..about
        },
        published("up1", "none", "", Figure::GoodputUp, 0.99),
        Published {
            to: Some(6.0),
            ..published("down1", "sqm-95", "another", Figure::PingFactor, 3.0)
        },
        published("rrul", "none", "", Figure::PingAvg, 1.0),
    ];
    file
}

#[test]
fn the_table_of_a_series() {
    let text = table(&with_everything());
    assert!(text.lines().all(|l| l.chars().count() <= 110), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_markdown_of_a_series() {
    insta::assert_snapshot!(markdown(&with_everything()));
}

#[test]
fn the_page_of_a_series() {
    let page = html(&with_everything());
    for part in [
        "<tr class=\"ours\">",
        "What it costs and what it brings",
        "As published, and here",
        "<h2>Calls</h2>",
        "<h2>Pages</h2>",
        "Right for this line was evenkeel",
        "Date: 2025-01-31.",
        "Seeds: 100, 101, 102.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The distribution first, and over time only none, evenkeel and the best of the others.
    let at = |what: &str| page.find(what).unwrap();
    assert!(at("Distribution of the ping") < at("aria-label=\"Ping over time"));
    let over_time = &page[at("aria-label=\"Ping over time")..];
    let label = &over_time[..over_time.find("\">").unwrap()];
    assert!(
        label.contains("with CAKE at 97 %") && !label.contains("sqm"),
        "{label}"
    );
}

/// Where evenkeel was told nothing it is drawn over time all the same, and the best of several.
#[test]
fn some_evenkeel_is_always_drawn_over_time() {
    let label = |ours: &[(&str, f64)]| {
        let others = [("none", 20.0), ("cake-95", 5.0), ("inetgw", 9.0)];
        let runs = others.iter().chain(ours);
        let runs = runs.map(|(c, ms)| plain("up1", c, 0, (*ms, 30.0), 900.0));
        let page = html(&around(runs.collect()));
        let begin = page.find("aria-label=\"Ping over time").unwrap();
        let end = begin + page[begin..].find("\">").unwrap();
        page[begin..end].to_owned()
    };
    let auto = label(&[("evenkeel-auto", 6.0)]);
    assert!(auto.contains("told nothing"), "{auto}");
    assert!(!auto.contains("inetgw"), "{auto}");
    let two = label(&[("evenkeel-police", 7.0), ("evenkeel-auto", 6.0)]);
    assert!(two.contains("told nothing"), "{two}");
    assert!(!two.contains("polic"), "{two}");
}

/// Two conditions look as they always did on a terminal, with or without facts and published
/// figures; the page and Markdown have them.
#[test]
fn a_pair_stays_short_on_a_terminal() {
    let mut file = full();
    let before = table(&file);
    file.conditions = vec![facts(("evenkeel", 100_000, 39_000, "ptm:22"))];
    file.published = vec![published(
        "up1",
        "evenkeel",
        "cFosSpeed",
        Figure::PingAvg,
        19.999,
    )];
    assert_eq!(table(&file), before);
    let text = markdown(&file);
    assert!(text.contains("| published: cFosSpeed | 19.999 |"), "{text}");
    assert!(!text.contains("Right for this line"), "{text}");
}

fn verdict(file: &ResultFile) -> String {
    let text = markdown(file).replace("**", "");
    let start = text.find("#### What it costs").unwrap();
    text[start..].to_owned()
}

#[test]
fn the_right_one_fits_helps_and_gives_up_least() {
    let text = verdict(&series(USUAL));
    for says in [
        "Right for this line was evenkeel: with full packets it takes 96.0 % of the line down and 99.0 % up",
        "Under no load does another take away more delay.",
        "Of the 2 that fit and come within 10 % of the best, it gives up least of the goodput: 4.0 % on average over the loads.",
        "Of other people's it is cake-97, which gives up 5.0 %.",
        "More than the line carries with full packets: sqm-95 (110.1 % down and 109.7 % up).",
        "| sqm-95 | 0.0 | – | -1.00 | -2.00 | 1.0 |",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
    let text = verdict(&series([
        (21.0, 1.0),
        (12.0, 0.99),
        (1.5, 0.97),
        (1.0, 0.96),
    ]));
    for says in [
        "Right for this line was cake-97: ",
        "Under every load it takes away 97 % or more of the delay that the best one takes away.",
        "evenkeel takes away no less than any other and gives up 4.0 %.",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
}

/// The best one does not fit; what fits comes within a fifth of it.
#[test]
fn the_bound_is_lowered_where_nobody_keeps_it() {
    let text = verdict(&series([
        (1.0, 1.0),
        (18.0, 0.99),
        (4.0, 0.95),
        (4.4, 0.97),
    ]));
    for says in [
        "Right for this line was evenkeel: ",
        "it takes away 82 % or more of the delay that the best one takes away.",
        "Of the 2 that fit and come within 20 % of the best, it gives up least",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
}

#[test]
fn where_nothing_is_right_it_says_so() {
    // The only one that helps sends too much.
    let text = verdict(&series([
        (1.0, 1.0),
        (18.0, 0.99),
        (18.0, 0.95),
        (18.0, 0.96),
    ]));
    let says = "None was right for this line: what comes within 10 % of the best (sqm-95) does not \
                keep within the line's rates; what fits into the line: sqm-100-atm44, cake-97, evenkeel.";
    assert!(text.contains(says), "{text}");
    // Nothing helps.
    let text = verdict(&series([(20.0, 1.0); 4]));
    assert!(text.contains("there was nothing to be won"), "{text}");
    // An older file does not say what was told.
    let mut old = series(USUAL);
    old.conditions.clear();
    assert!(verdict(&old).contains("what they limit is not recorded"));
    assert!(!markdown(&old).contains("What each was told"));
    // A line that changes has no fixed share.
    let mut line = series(USUAL);
    line.line.varies = true;
    let text = markdown(&line);
    assert!(text.contains("The line changes by itself, so no fixed limit is right for it"));
    assert!(!text.contains("More than the line carries") && !text.contains("| 110.1 |"));
}

#[test]
fn hostile_facts_and_figures() {
    let mut odd = with_everything();
    let values = [f64::NAN, f64::INFINITY, -1e300, 1e300, 0.0, -5.0, 1e-300];
    for (i, p) in odd.published.iter_mut().enumerate() {
        p.value = values[i % 7];
        p.to = Some(values[(i + 1) % 7]);
        p.shaper = "<img src=x>|\u{1b}[31m".into();
        p.qualifier = "<script>".into();
        p.source = "x".repeat(5000);
    }
    for f in &mut odd.conditions {
        f.about = "<script>alert(1)</script>".into();
        f.told = "a|b\n\u{7}".into();
        f.down = Some(Charge {
            rate: Rate::from_bps(u64::MAX),
            framing: "none:-64".parse().unwrap(),
        });
        f.up = Some(Charge {
            rate: Rate::from_bps(0),
            framing: "none:-64".parse().unwrap(),
        });
    }
    for (i, run) in odd.runs.iter_mut().enumerate() {
        let v = values[i % 7];
        run.settle_s = Some(v);
        (run.increase_ms.avg, run.up_kbit, run.ping_ms.avg) = (v, v, v);
        for call in run.calls.values_mut() {
            (call.sent, call.lost, call.jitter_ms) = (u64::MAX, u64::MAX, v);
            call.delay_ms = Some(Summary {
                avg: v,
                p99: v,
                ..Summary::default()
            });
        }
        for page in run.pages.values_mut() {
            (page.begun, page.finished) = (u64::MAX, 0);
            page.time_ms = None;
        }
    }
    odd.line.down = Rate::from_bps(0);
    let page = html(&odd);
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(!page.contains("NaN") && !page.contains(">inf"), "{page}");
    let text = table(&odd);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    assert!(markdown(&odd).contains(r"a\|b??"));
}

/// As many conditions as the longest series has: every line in the picture's legend, no two alike.
#[test]
fn eleven_conditions_have_eleven_strokes() {
    let names = [
        "none",
        "router-defaults",
        "sqm-95",
        "sqm-95-atm44",
        "sqm-100-atm44",
        "sqm-99-atm44",
        "sqm-99-atm40",
        "cake-95",
        "cake-97",
        "cake-99",
        "evenkeel",
    ];
    let runs = names.map(|n| run("rrul", n, 0, 10.0, 50.0, Some(100)));
    let file = file(runs.to_vec());
    let page = html(&file);
    let start = page.find("aria-label=\"Distribution").unwrap();
    let figure = &page[start..start + page[start..].find("</svg>").unwrap()];
    let mut strokes: Vec<&str> = figure
        .split("class=\"k ")
        .skip(1)
        .map(|s| s.split('"').next().unwrap())
        .collect();
    assert_eq!(strokes.len(), 11, "{strokes:?}");
    strokes.sort_unstable();
    strokes.dedup();
    assert_eq!(strokes.len(), 11, "{strokes:?}");
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("eleven");
    assert_eq!(write_all(&file, &dir).unwrap().len(), 6);
}

/// Two hosts in one direction: what each got, and how equal its flows were. Other kinds of flows
/// and directions with one party have no place there.
#[test]
fn who_got_what() {
    let mut file = full();
    for run in &mut file.runs {
        run.flows_kbit = [
            ("down/client1/near/0", 5000.0),
            ("down/client1/near/web0", 9000.0),
            ("down/client2/near/0", 3000.0),
            ("down/client2/near/1", 1000.0),
            ("down/client2/near/2", 1000.0),
            ("up/client1/near/0", 700.0),
            ("odd", f64::NAN),
        ]
        .map(|(name, kbit)| (name.to_owned(), kbit))
        .into();
    }
    let text = markdown(&file);
    let start = text.find("#### Who got what").unwrap();
    for says in [
        "| client1, near | 1 | 5.00 | 50.0 | – |",
        "| client2, near | 3 | 5.00 | 50.0 | 0.758 |",
    ] {
        assert!(text[start..].contains(says), "{says}\n{}", &text[start..]);
    }
    assert!(
        !text[start..].contains("0.70"),
        "one party shares with nobody"
    );
}
