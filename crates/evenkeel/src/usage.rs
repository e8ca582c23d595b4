//! `usage`: how much the line has moved today, this week and this month, and for whom.
//!
//! Principles: days are local, months those of the calendar, a week the last seven days; a daemon is asked where one runs,
//! so that no rights to its files are needed. Non-goals: counting (`run::accountant`), pictures in files.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use evenkeel_autorate::PROFILE_DIR;
use evenkeel_core::rules::Budget;
use evenkeel_core::units::rounded;
use evenkeel_history::usage::{BudgetUse, Day, Kind, Moved, Usage as Counted};
use evenkeel_kernel::StateDir;
use evenkeel_socket::Request;
use evenkeel_sys::clock;
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, print};
use serde::{Deserialize, Serialize};

use crate::args::StateArg;
use crate::ask;

/// Arguments of `usage`.
#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// The device; without it, each that was counted
    device: Option<String>,
    /// Of what the parts are shown; without it, of all
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where it is kept
    #[arg(long, value_name = "DIR", default_value = PROFILE_DIR, hide = true)]
    profile_dir: PathBuf,
    #[command(flatten)]
    state: StateArg,
}

/// Parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Tier,
    Host,
    Program,
}

/// Days of the picture.
const PICTURE: u64 = 30;
/// Rows of each kind of parts.
const ROWS: usize = 12;
/// Eighths.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a device has moved.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    device: String,
    today: Day,
    week: Day,
    month: Day,
    /// What of them was used.
    #[serde(default)]
    budgets: Vec<BudgetUse>,
    /// Of the last days, the latest last; days on which nothing was counted are there as well.
    days: Vec<(String, Moved)>,
}

/// The local date so many days ago, as 2026-11-25.
pub(crate) fn date(days_ago: u64) -> String {
    let now = clock::realtime().as_secs();
    let local = now.saturating_add_signed(clock::local_offset(now));
    let time =
        SystemTime::UNIX_EPOCH + Duration::from_secs(local.saturating_sub(days_ago * 86_400));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.get(..10).unwrap_or_default().to_owned()
}

/// That of `device`, or of all that were counted, from the files below `dir`.
pub(crate) fn read(dir: &Path, device: Option<&str>) -> Result<Vec<Line>, Failure> {
    let mut all = Vec::new();
    for device in devices(dir, device) {
        let path = Counted::file(dir, &device);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| Failure::work(format_args!("read {}: {e}", path.display())))?;
        let counted = Counted::parse(&text).ok_or_else(|| {
            Failure::work(format_args!(
                "{} is damaged; `evenkeel run` puts it aside",
                path.display()
            ))
        })?;
        let days = (0..PICTURE).rev().map(date);
        all.push(Line {
            today: counted.from(&date(0)),
            week: counted.from(&date(6)),
            month: counted.month_of(&date(0)),
            budgets: counted.budgets_on(&date(0)),
            days: days
                .map(|d| {
                    let moved = counted.days.get(&d).map(|day| day.total);
                    (d, moved.unwrap_or_default())
                })
                .collect(),
            device,
        });
    }
    Ok(all)
}

fn devices(dir: &Path, device: Option<&str>) -> Vec<String> {
    if let Some(device) = device {
        return vec![device.to_owned()];
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| {
        Some(
            e.file_name()
                .to_str()?
                .strip_suffix(".usage.json")?
                .to_owned(),
        )
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// `evenkeel usage`.
pub(crate) fn usage(args: &Usage) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    let request = Request::Usage {
        device: args.device.clone(),
    };
    let all: Vec<Line> = ask::ask(&dir, &request, || {
        read(&args.profile_dir, args.device.as_deref())
    })?;
    if all.is_empty() {
        let dir = args.profile_dir.display();
        return Err(Failure::work(format_args!(
            "nothing was counted in {dir}: `evenkeel run` counts"
        )));
    }
    if args.json {
        return print(&(serde_json::to_string(&all).map_err(Failure::work)? + "\n"));
    }
    let shown: Vec<String> = all.iter().map(|l| shown(l, args.by)).collect();
    print(&shown.join("\n"))
}

fn shown(line: &Line, by: Option<By>) -> String {
    let bytes = |n: u64| rounded::bytes(n as f64);
    let mut table = Table::new(&[
        words(&line.device),
        figures("today"),
        figures("7 days"),
        figures("month"),
    ]);
    let spans = [&line.today, &line.week, &line.month];
    table.row(
        ["download".to_owned()]
            .into_iter()
            .chain(spans.map(|s| bytes(s.total.down))),
    );
    table.row(
        ["upload".to_owned()]
            .into_iter()
            .chain(spans.map(|s| bytes(s.total.up))),
    );
    table.row(
        ["in use".to_owned()]
            .into_iter()
            .chain(spans.map(|s| time(s.in_use))),
    );
    let kinds = [
        (By::Tier, Kind::Tier),
        (By::Host, Kind::Host),
        (By::Program, Kind::Program),
    ];
    for (_, kind) in kinds.into_iter().filter(|k| by.is_none_or(|b| b == k.0)) {
        let mut parts: Vec<(&String, u64)> = line
            .week
            .parts(kind)
            .iter()
            .map(|(n, m)| (n, m.both()))
            .collect();
        for (name, moved) in line.month.parts(kind) {
            if !line.week.parts(kind).contains_key(name) {
                parts.push((name, moved.both()));
            }
        }
        parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        for (name, _) in parts.iter().take(ROWS) {
            let of = |day: &Day| {
                let moved = bytes(day.parts(kind).get(*name).map_or(0, |m| m.both()));
                let hosts = (kind == Kind::Host).then_some(&day.hosts_in_use);
                match hosts.and_then(|h| h.get(*name)) {
                    Some(seconds) => format!("{moved}, {}", time(*seconds)),
                    None => moved,
                }
            };
            table.row([format!("  {name}")].into_iter().chain(spans.map(of)));
        }
    }
    let mut text = table.wrapped().to_string();
    for spent in &line.budgets {
        let budget = spent.budget.parse::<Budget>();
        let words = budget.map_or_else(|_| spent.budget.clone(), |b| b.words());
        text += &format!("{} % of {words} is used\n", spent.percent);
    }
    text + &picture(&line.days)
}

/// In hours and minutes.
fn time(seconds: u64) -> String {
    let minutes = seconds / 60;
    match minutes / 60 {
        0 => format!("{minutes} min"),
        hours => format!("{hours} h {:02}", minutes % 60),
    }
}

/// A bar for each day.
fn picture(days: &[(String, Moved)]) -> String {
    let most = days.iter().map(|d| d.1.both()).max().unwrap_or(0);
    let (Some(first), Some(last)) = (days.first(), days.last()) else {
        return String::new();
    };
    let bar = |n: u64| match n {
        0 => ' ',
        n => BARS[(u128::from(n) * 7 / u128::from(most.max(1))) as usize],
    };
    let bars: String = days.iter().flat_map(|d| [bar(d.1.both()); 2]).collect();
    format!(
        "by day, the tallest is {}\n{bars}\n{}{:>width$}\n",
        rounded::bytes(most as f64),
        first.0.get(5..).unwrap_or_default(),
        last.0.get(5..).unwrap_or_default(),
        width = 2 * days.len() - 5
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_picture() {
        let moved = |down, up| Moved { down, up };
        let mut week = Day {
            total: moved(30_000_000_000, 2_000_000_000),
            ..Day::default()
        };
        week.hosts.insert("tv".into(), moved(20_000_000_000, 0));
        week.hosts
            .insert("desk".into(), moved(1_000_000_000, 1_000_000_000));
        week.tiers
            .insert("voice".into(), moved(5_000_000, 5_000_000));
        week.hosts_in_use.insert("tv".into(), 7800);
        let mut counted = Counted::default();
        let budget: Budget = "100 GB/month".parse().unwrap();
        let used = evenkeel_core::rules::Used {
            bytes: 32_000_000_000,
            ..Default::default()
        };
        counted.warns("2026-11-26", &[(budget, used)]);
        let line = Line {
            device: "ppp0".into(),
            today: Day::default(),
            month: week.clone(),
            week,
            budgets: counted.budgets_on("2026-11-26"),
            days: vec![
                ("2026-11-24".into(), moved(16_000_000_000, 0)),
                ("2026-11-25".into(), moved(0, 0)),
                ("2026-11-26".into(), moved(1, 0)),
            ],
        };
        let text = shown(&line, None);
        assert!(
            text.contains("32 % of the budget of 100GB/month is used\n"),
            "{text}"
        );
        assert!(text.contains("20.0 GB, 2 h 10"), "{text}");
        assert!(
            text.find("  tv").unwrap() < text.find("  desk").unwrap(),
            "{text}"
        );
        assert!(
            text.contains("the tallest is 16.0 GB\n██  ▁▁\n11-24"),
            "{text}"
        );
        let hosts = shown(&line, Some(By::Host));
        assert!(
            hosts.contains("  tv") && !hosts.contains("voice"),
            "{hosts}"
        );
    }

    #[test]
    fn dates() {
        assert!(date(1) < date(0));
        assert_eq!(date(0).len(), 10);
    }
}
