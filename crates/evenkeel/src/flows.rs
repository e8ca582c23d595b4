//! `flows`: who is using the line now, how urgent that is and why.
//!
//! Principles: what is shown is read from the programs' own table; rates are what moved between
//! two looks; the flows that move most come first; devices on our side have the names that rules know, and behind address
//! translation their own addresses. Non-goals: history, and names of hosts beyond the line.

mod hand;
mod maps;
mod named;
mod row;
mod table;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use evenkeel_core::Line;
use evenkeel_core::rules::defaults;
use evenkeel_core::units::{Direction, PerDirection, rounded};
use evenkeel_datapath::values::{Flow, Grant, Key, NameKey, Reason};
use evenkeel_kernel::{Error, StateDir};
use evenkeel_names::{hosts, insides, labels};
use evenkeel_socket::Request;
use evenkeel_terminal::live::Watch;
use evenkeel_terminal::{Failure, cancelled_by_signals};
use serde::{Deserialize, Serialize};

use crate::args::StateArg;
use crate::ask;

pub(crate) use hand::Moved;
use hand::{One, move_one};
use maps::open;
pub(crate) use named::tuple;
use named::{TCP, end, number, proto};
use row::Row;
use table::table;

/// Arguments of `flows`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Flows {
    #[command(subcommand)]
    hand: Option<Hand>,
    /// The device; without it, the one that is shaped
    device: Option<String>,
    /// Again every second until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Also those that have been quiet for ten seconds
    #[arg(long)]
    all: bool,
    /// Print JSON; with --watch one document a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArg,
}

/// What is done with one flow by hand.
#[derive(Debug, Subcommand)]
enum Hand {
    /// Put a flow into the next more urgent tier, until it ends
    Raise(One),
    /// Put a flow into the next less urgent tier, until it ends
    Lower(One),
}

/// Between two looks, for the rates.
const LOOK: Duration = Duration::from_secs(1);
/// A flow that was silent for longer is not live.
const QUIET: Duration = Duration::from_secs(10);

/// `evenkeel flows`.
pub(crate) fn flows(args: &Flows) -> Result<(), Failure> {
    match &args.hand {
        Some(Hand::Raise(one)) => return move_one(one, true),
        Some(Hand::Lower(one)) => return move_one(one, false),
        None => {}
    }
    let dir = StateDir::new(&args.state.state_dir);
    let cancel = cancelled_by_signals()?;
    let mut watch = Watch::new(args.watch && !args.json, &cancel);
    let looks = Looks::default();
    let request = Request::Flows {
        device: args.device.clone(),
        all: args.all,
    };
    loop {
        let shown: Listed = ask::ask(&dir, &request, || {
            looks.list(&dir, args.device.as_deref(), args.all)
        })?;
        let text = if args.json {
            serde_json::to_string(&shown.flows).map_err(Failure::work)? + "\n"
        } else {
            table(&shown.device, &shown.flows)
        };
        watch.show(text)?;
        if !args.watch || cancel.load(Ordering::Relaxed) {
            return watch.end();
        }
        watch.wait(LOOK)?;
    }
}

/// Who uses a device.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    device: String,
    flows: Vec<Row>,
}

/// Earlier looks, so that who asks again need not wait for rates.
#[derive(Default)]
pub(crate) struct Looks {
    earlier: Mutex<HashMap<String, (Instant, Seen)>>,
    known: Mutex<Option<LookedUp>>,
}

/// An earlier look tells rates if it is no older, and no younger than the other.
const OLDEST: Duration = Duration::from_secs(5);
const YOUNGEST: Duration = Duration::from_millis(400);

impl Looks {
    /// Those of `device`, or of the one that is shaped.
    pub(crate) fn list(
        &self,
        dir: &StateDir,
        device: Option<&str>,
        all: bool,
    ) -> Result<Listed, Failure> {
        let (device, maps) = open(dir, device)?;
        let mut rules: Vec<String> = dir.load(&device)?.map(|s| s.rules).unwrap_or_default();
        rules.extend(defaults().iter().map(ToString::to_string));
        let mut kept = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = kept
            .remove(&device)
            .filter(|(at, _)| at.elapsed() <= OLDEST);
        let (from, before) = match earlier {
            Some(earlier) => earlier,
            None => (Instant::now(), look(&maps)?),
        };
        if from.elapsed() < YOUNGEST {
            std::thread::sleep(LOOK.saturating_sub(from.elapsed()));
        }
        let (at, now) = (Instant::now(), look(&maps)?);
        let took = from.elapsed();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.take_if(|k| k.is_old(k.at.elapsed()));
        let known = &known.get_or_insert_with(LookedUp::now).known;
        let flows = rows(&before, &now, took, &rules, known, all);
        kept.insert(device.clone(), (at, now));
        Ok(Listed { device, flows })
    }
}

/// What one look shows.
#[derive(Default)]
struct Seen {
    flows: HashMap<Key, Flow>,
    /// Until when windows are bounded, on the flows' clock.
    lease: Duration,
}

fn look(maps: &evenkeel_datapath::Maps) -> Result<Seen, Failure> {
    let flows = maps.flows().map_err(Error::from)?;
    Ok(Seen {
        flows: flows.into_iter().collect(),
        lease: maps.lease().map_err(Error::from)?,
    })
}

/// What groups and addresses of flows are called.
#[derive(Default)]
struct Known {
    /// Paths of control groups.
    groups: HashMap<u64, String>,
    /// Who is behind address translation, and what devices are called.
    inside: HashMap<NameKey, IpAddr>,
    labels: HashMap<IpAddr, String>,
}

/// That, as it was looked up at a time.
struct LookedUp {
    known: Known,
    at: Instant,
    took: Duration,
}

/// Looking up goes through all control groups and connections of the machine, some ms, so it is done again only after so many
/// times what it took: a thousandth of a core.
const PAUSE: u32 = 1000;
/// Where that is long, names are looked up again after this all the same.
const OUTDATED: Duration = Duration::from_secs(10);

impl LookedUp {
    fn now() -> Self {
        let begun = Instant::now();
        let known = Known {
            groups: group_names(),
            inside: insides(),
            labels: labels(&hosts()),
        };
        LookedUp {
            known,
            at: Instant::now(),
            took: begun.elapsed(),
        }
    }

    /// Whether it is to be looked up again at this age.
    fn is_old(&self, age: Duration) -> bool {
        age >= (self.took * PAUSE).min(OUTDATED)
    }
}

impl Known {
    /// The device on our side whose flow it is, if that says more than the flow's address.
    fn host(&self, key: &Key) -> Option<String> {
        let inside = self.inside.get(&tuple(key));
        let called = self.labels.get(inside.unwrap_or(&key.local)).cloned();
        called.or_else(|| inside.filter(|a| **a != key.local).map(IpAddr::to_string))
    }
}

fn rows(
    before: &Seen,
    now: &Seen,
    took: Duration,
    rules: &[String],
    known: &Known,
    all: bool,
) -> Vec<Row> {
    let last = |f: &Flow| f.direction.iter().map(|d| d.last).max().unwrap_or_default();
    // The latest packet of all is as good as a clock, and is the programs' own.
    let clock = now.flows.values().map(last).max().unwrap_or_default();
    let mut rows: Vec<Row> = now
        .flows
        .iter()
        .filter(|(_, f)| all || clock.saturating_sub(last(f)) <= QUIET)
        .map(|(key, flow)| {
            let old = before.flows.get(key);
            let moved = |d: Direction| {
                let was = old.map_or(0, |f| f.direction[d].bytes);
                // A flow that was forgotten and came back begins at zero.
                let bytes = flow.direction[d].bytes.saturating_sub(was);
                (bytes as f64 * 8.0 / 1000.0 / took.as_secs_f64().max(0.001)) as u64
            };
            let ms = |d: Option<Duration>| d.map(|d| d.as_secs_f64() * 1000.0);
            let PerDirection { up, down } = flow.direction;
            let (window, window_why) = window(key.proto, flow, clock < now.lease);
            let granted = window.map(|_| flow.grant);
            let queue = evenkeel_kernel::lan::queue(flow);
            Row {
                number: number(key),
                proto: proto(key.proto),
                local: end(key.local, key.local_port),
                host: known.host(key),
                remote: end(key.remote, key.remote_port),
                tier: flow.tier,
                why: why(flow, rules),
                down_kbit: moved(Direction::Down),
                up_kbit: moved(Direction::Up),
                down_bytes: down.bytes,
                up_bytes: up.bytes,
                down_packets: down.packets,
                up_packets: up.packets,
                dscp: flow.dscp,
                mark: flow.mark,
                rtt_ms: ms(up.rtt),
                rtt_min_ms: ms(up.rtt_min),
                rtt_count: up.rtt_count,
                lan_rtt_ms: ms(down.rtt),
                lan_rtt_min_ms: ms(down.rtt_min),
                lan_rtt_count: down.rtt_count,
                window_bytes: window,
                share_kbit: granted.map(|g| g.share.bps() / 1000),
                reached_kbit: granted.map(|g| g.reached.bps() / 1000),
                window_why,
                queue: queue.map(|q| q.place),
                queue_ms: queue.map(|q| q.delay.as_secs_f64() * 1000.0),
                cgroup: (flow.cgroup > 1).then(|| {
                    known
                        .groups
                        .get(&flow.cgroup)
                        .cloned()
                        .unwrap_or_else(|| flow.cgroup.to_string())
                }),
                ended: flow.closed,
                age_s: clock.saturating_sub(flow.first).as_secs_f64(),
                quiet_s: clock.saturating_sub(last(flow)).as_secs_f64(),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let moved = |r: &Row| (r.down_kbit + r.up_kbit, r.down_bytes + r.up_bytes);
        moved(b)
            .cmp(&moved(a))
            .then_with(|| (&a.local, &a.remote).cmp(&(&b.local, &b.remote)))
    });
    rows
}

/// Why a flow is in its tier.
fn why(flow: &Flow, rules: &[String]) -> String {
    let PerDirection { up, down } = flow.direction;
    match flow.reason {
        Reason::Rule(n) => {
            let rule = rules.get(usize::from(n)).cloned();
            rule.unwrap_or_else(|| format!("rule {}", n + 1))
        }
        Reason::Hand => "by hand".to_owned(),
        Reason::Small => "small and regular".to_owned(),
        Reason::Default if down.heavy || up.heavy => "moves much".to_owned(),
        Reason::Default => "no rule".to_owned(),
    }
}

/// The window that a flow is granted, and why.
fn window(proto: u8, flow: &Flow, bounded: bool) -> (Option<u32>, String) {
    let Grant {
        window,
        share,
        reached,
        bound,
        ..
    } = flow.grant;
    let why = match window {
        _ if !bounded => "windows are off",
        _ if proto != TCP => "left alone: no TCP",
        _ if flow.mptcp => "left alone: multipath TCP",
        _ if !flow.from_start => "left alone: seen from its middle",
        None => "nothing granted yet",
        Some(_) if flow.lan.window.is_some() => {
            let carries = rounded::rate(flow.lan.rate);
            return (window, format!("its way on the LAN carries {carries}"));
        }
        Some(_) if share.bps() >= Line::OPEN.bps() / 2 => "left alone: the line is not known yet",
        // On short ways it is not always seen that a window was used up.
        Some(_) if bound || reached.bps() >= share.bps() / 8 * 7 => {
            return (window, format!("share of {}", rounded::rate(share)));
        }
        Some(_) => return (window, "all it can use".to_owned()),
    };
    (None, why.to_owned())
}

/// Paths of this host's control groups by their numbers.
pub(crate) fn group_names() -> HashMap<u64, String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut names = HashMap::new();
    let Some(root) = evenkeel_kernel::control_groups() else {
        return names;
    };
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Ok(meta) = entry.metadata()
                && meta.is_dir()
            {
                let name = path.strip_prefix(&root).unwrap_or(&path);
                names.insert(meta.ino(), format!("/{}", name.display()));
                open.push(path);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use evenkeel_core::Rate;
    use evenkeel_datapath::values::{DirectionState, Lan};

    use evenkeel_core::classify::Tier;

    use super::*;

    fn flow(down: u64, last_ms: u64) -> Flow {
        let direction = |bytes| DirectionState {
            bytes,
            packets: 1,
            last: Duration::from_millis(last_ms),
            ..DirectionState::default()
        };
        Flow {
            direction: PerDirection {
                up: direction(100),
                down: direction(down),
            },
            grant: Grant::default(),
            lan: Lan::default(),
            first: Duration::ZERO,
            cgroup: 0,
            mark: 0,
            reason: Reason::Rule(1),
            tier: Tier::Video,
            dscp: 0,
            limit: None,
            closed: false,
            from_start: true,
            mptcp: false,
        }
    }

    fn seen(flows: impl IntoIterator<Item = (Key, Flow)>) -> Seen {
        Seen {
            flows: flows.into_iter().collect(),
            lease: Duration::MAX,
        }
    }

    fn key(port: u16) -> Key {
        Key {
            local: "192.0.2.1".parse().unwrap(),
            remote: "198.51.100.1".parse().unwrap(),
            local_port: port,
            remote_port: 443,
            proto: 6,
        }
    }

    #[test]
    fn what_takes_long_is_looked_up_seldom() {
        let took = |ms| LookedUp {
            known: Known::default(),
            at: Instant::now(),
            took: Duration::from_millis(ms),
        };
        for (ms, age, is_old) in [
            (1, 900, false),
            (1, 1000, true),
            (30, 9900, false),
            (30, 10_000, true),
        ] {
            let age = Duration::from_millis(age);
            assert_eq!(took(ms).is_old(age), is_old, "{ms} ms, {age:?}");
        }
    }

    #[test]
    fn who_moves_most_stands_first_and_who_is_quiet_is_left_out() {
        let before = seen([(key(1), flow(1000, 0)), (key(2), flow(1000, 0))]);
        let now = seen([
            (key(1), flow(2000, 60_000)),
            (key(2), flow(126_000, 59_000)),
            (key(3), flow(9_000_000, 40_000)),
        ]);
        let rules = ["voice".to_owned(), "video tcp port 443".to_owned()];
        let second = Duration::from_secs(1);
        let mut known = Known::default();
        let found = rows(&before, &now, second, &rules, &known, false);
        let of: Vec<_> = found
            .iter()
            .map(|r| (r.local.as_str(), r.down_kbit))
            .collect();
        assert_eq!(of, [("192.0.2.1:2", 1000), ("192.0.2.1:1", 8)]);
        assert_eq!(found[0].why, "video tcp port 443");
        let text = table("wan", &found);
        assert!(text.contains("  1.00  "), "{text}");
        let everybody = rows(&before, &now, second, &[], &Known::default(), true);
        assert_eq!(everybody.len(), 3);
        assert_eq!(found[1].why, "video tcp port 443");
        // One of them is the TV's, behind address translation, the other one somebody's who has no name.
        let [tv, other]: [IpAddr; 2] = [[192, 168, 1, 5], [192, 168, 1, 6]].map(IpAddr::from);
        known.inside = [(tuple(&key(1)), tv), (tuple(&key(2)), other)].into();
        known.labels = [(tv, "tv".to_owned())].into();
        let text = table("wan", &rows(&before, &now, second, &rules, &known, false));
        assert!(
            text.contains("  tv:1  ") && text.contains("  192.168.1.6:2  "),
            "{text}"
        );
        let hardware = "02:00:5e:00:53:01";
        known.labels = [(tv, hardware.to_owned())].into();
        let text = table("wan", &rows(&before, &now, second, &rules, &known, false));
        assert!(text.contains(&format!("[{hardware}]:1")), "{text}");
    }

    /// A flow whose window holds it at its share.
    fn granted() -> Flow {
        Flow {
            grant: Grant {
                window: Some(118_272),
                share: Rate::from_bps(24_983_112),
                reached: Rate::from_kbit(24_000),
                bound: true,
                ..Grant::default()
            },
            ..flow(1000, 0)
        }
    }

    /// The row of `flow` shows this window and says why; figures stand where a window does.
    fn shows(proto: u8, flow: &Flow, bounded: bool, window: &str, why: &str) {
        let mut now = seen([(Key { proto, ..key(1) }, *flow)]);
        if !bounded {
            now.lease = Duration::ZERO;
        }
        let rows = rows(&now, &now, LOOK, &[], &Known::default(), true);
        assert_eq!(rows[0].window_why, why);
        let text = table("wan", &rows);
        let said: Vec<&str> = text.split_whitespace().collect();
        let queue = if flow.lan.window.is_some() {
            "LAN"
        } else {
            "–"
        };
        let said = said.join(" ");
        assert!(said.contains(&format!("{window} {queue} video")), "{text}");
        let json = serde_json::to_value(&rows).unwrap();
        let numbers = ["window_bytes", "share_kbit", "reached_kbit"].map(|n| json[0][n].as_u64());
        let reached = flow.grant.reached.bps() / 1000;
        let all = [Some(118_272), Some(24_983), Some(reached)];
        assert_eq!(numbers, if window == "–" { [None; 3] } else { all });
    }

    #[test]
    fn windows_and_why() {
        let with = |change: fn(&mut Flow)| {
            let mut flow = granted();
            change(&mut flow);
            flow
        };
        let free = with(|f| {
            f.grant.bound = false;
            f.grant.reached = Rate::from_kbit(5000);
        });
        shows(6, &granted(), true, "118 kB", "share of 25.0 Mbit/s");
        shows(6, &free, true, "118 kB", "all it can use");
        shows(6, &granted(), false, "–", "windows are off");
        let nothing = with(|f| f.grant.window = None);
        shows(6, &nothing, true, "–", "nothing granted yet");
        let multipath = with(|f| f.mptcp = true);
        shows(6, &multipath, true, "–", "left alone: multipath TCP");
        let middle = with(|f| f.from_start = false);
        shows(6, &middle, true, "–", "left alone: seen from its middle");
        let held = with(|f| {
            f.lan.window = Some(80_000);
            f.lan.rate = Rate::from_kbit(24_000);
            f.direction.down.heavy = true;
        });
        shows(
            6,
            &held,
            true,
            "118 kB",
            "its way on the LAN carries 24.0 Mbit/s",
        );
        shows(17, &middle, true, "–", "left alone: no TCP");
    }

    #[test]
    fn what_has_ended_stays_for_ten_seconds() {
        let ended = |last_ms| Flow {
            closed: true,
            ..flow(1000, last_ms)
        };
        let now = seen([
            (key(1), flow(1, 60_000)),
            (key(2), ended(51_000)),
            (key(3), ended(49_000)),
        ]);
        let found = rows(&now, &now, LOOK, &[], &Known::default(), false);
        let of: Vec<_> = found.iter().map(|r| (r.local.as_str(), r.ended)).collect();
        assert_eq!(of, [("192.0.2.1:2", true), ("192.0.2.1:1", false)]);
        assert!(table("wan", &found).contains("ended; rule 2"));
    }

    #[test]
    fn nobody() {
        assert!(table("wan", &[]).contains("no flow"));
    }
}
