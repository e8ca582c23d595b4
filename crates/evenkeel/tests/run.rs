//! `run` as a person meets it: bad input, signals, kill, others at the same device, a device that
//! goes, the model and the profile that it leaves to read.
//!
//! Each test works in a network namespace of its own. Needs root; without it each says so and
//! passes.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use evenkeel_sys::clock;
use evenkeel_sys::netns::set_sysctl;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

mod common;
mod provider;

use common::{in_empty_namespace, in_namespace, ip, root, seen};
use provider::Provider;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A command whose records go to `dir`.
fn command(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(EVENKEEL);
    command.args(args.split_whitespace());
    command.arg("--state-dir").arg(dir.join("run"));
    if args.starts_with("run") {
        command.arg("--config").arg(dir.join("none.toml"));
        command.arg("--profile-dir").arg(dir.join("lines"));
    }
    command
}

/// Exit code, stdout, stderr.
fn words(out: Output) -> (i32, String, String) {
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    let code = out.status.code().unwrap_or(-1);
    (code, text(out.stdout), text(out.stderr))
}

fn evenkeel(dir: &Path, args: &str) -> (i32, String, String) {
    words(command(dir, args).output().unwrap())
}

/// One line on stderr, nothing else.
fn refused(got: &(i32, String, String), code: i32, says: &str) {
    let (exit, out, err) = got;
    assert_eq!((*exit, out.as_str()), (code, ""), "{says}: {err}");
    assert_eq!(err.lines().count(), 1, "{says}: {err}");
    assert!(err.contains(says), "{says}: {err}");
}

/// Waits until `done`; panics with `what` after a minute.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `run` in the background, ended when dropped.
struct Running(Option<Child>);

impl Running {
    /// Returns as soon as it follows the line.
    fn start(dir: &Path, args: &str) -> Self {
        let said = dir.join("said");
        let mut command = command(dir, args);
        command.stdout(std::fs::File::create(&said).unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        until(args, || {
            assert!(child.try_wait().unwrap().is_none(), "{args} ended");
            std::fs::read_to_string(&said).is_ok_and(|s| s.contains("prob"))
        });
        Running(Some(child))
    }

    fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }

    /// Exit code and stderr of its end.
    fn end(mut self) -> (i32, String, String) {
        words(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is left in the directory of records.
fn left(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("run")).into_iter().flatten();
    entries
        .flatten()
        .map(|e| e.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn bad_input_is_one_line_and_changes_nothing() {
    if !root("bad_input_is_one_line_and_changes_nothing") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        for (args, code, says) in [
            ("run", 2, "no default route"),
            ("run nope", 1, "nope: no such device"),
            ("run lo", 2, "loopback"),
            ("run wan --rate 10mbit", 2, "--rate"),
            ("run wan --rate 10mbit fast", 2, "fast"),
            ("run wan --rate 0 1mbit", 2, "zero"),
            ("run wan --min 10mbit", 2, "--min"),
            (
                "run wan --min 10mbit 1mbit --max 9mbit 2mbit",
                2,
                "download: --min 10mbit is more than --max 9mbit",
            ),
            (
                "run wan --min 1mbit 3mbit --max 9mbit 2mbit",
                2,
                "upload: --min 3mbit",
            ),
            ("run wan --mode fast", 2, "ping nor bandwidth"),
            ("run wan --rule voip", 2, "voip"),
            ("run wan --target 192.0.2.2,a/b", 2, "\"a/b\" is neither"),
            ("run wan --bogus", 2, "--bogus"),
        ] {
            refused(&evenkeel(dir, args), code, says);
            assert_eq!(seen(), before, "{args}");
            assert_eq!(left(dir), [""; 0], "{args}");
        }
    });
}

#[test]
fn signals_take_everything_back() {
    if !root("signals_take_everything_back") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let run = Running::start(dir, "run wan");
            assert_ne!(seen(), before);
            run.signal(signal);
            let (code, _, err) = run.end();
            assert_eq!((code, err.as_str()), (0, ""), "{signal}");
            let said = std::fs::read_to_string(dir.join("said")).unwrap();
            assert!(said.ends_with("wan: as it was before\n"), "{said}");
            assert_eq!(seen(), before, "{signal}");
            assert_eq!(left(dir), [""; 0], "{signal}");
        }
    });
}

#[test]
fn others_are_told_who_holds_the_device() {
    if !root("others_are_told_who_holds_the_device") {
        return;
    }
    in_namespace(|dir| {
        let run = Running::start(dir, "run wan");
        let before = seen();
        let holder = format!(
            "wan: process {} (evenkeel run wan",
            run.0.as_ref().unwrap().id()
        );
        for args in ["shape wan 10mbit 1mbit", "run wan"] {
            refused(&evenkeel(dir, args), 1, &holder);
            assert_eq!(seen(), before, "{args}");
        }
        // The one who has it lets go of it, and has nothing to do any more.
        let (code, out, err) = evenkeel(dir, "clear wan");
        assert_eq!(
            (code, out.as_str(), err.as_str()),
            (0, "wan: as it was before\n", "")
        );
        assert_eq!(run.end().0, 0);
        assert_eq!(left(dir), [""; 0]);
    });
}

#[test]
fn a_killed_one_leaves_a_line_that_works() {
    if !root("a_killed_one_leaves_a_line_that_works") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        let killed = || {
            let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
            run.signal(Signal::SIGKILL);
            assert_eq!(run.end().0, -1);
        };
        let well = |args: &str| {
            let (code, out, err) = evenkeel(dir, args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        killed();
        // As if it had been in the middle of writing each (of one it may be).
        for name in left(dir) {
            if !["lock", "new", "sock"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                std::fs::write(dir.join("run").join(name + ".new"), "{").unwrap();
            }
        }
        if let Some(maps) = evenkeel_kernel::maps("wan").unwrap() {
            let lease = maps.lease().unwrap();
            let ends = lease.saturating_sub(clock::monotonic());
            assert!(
                !lease.is_zero() && ends <= Duration::from_secs(2),
                "{ends:?}"
            );
        }
        let status = well("status wan");
        assert!(!status.contains("NOT WORKING"), "{status}");
        assert!(well("clear wan").contains("as it was before"));
        assert_eq!(seen(), before);
        assert_eq!(left(dir), [""; 0]);

        killed();
        let second = Running::start(dir, "run wan");
        second.signal(Signal::SIGINT);
        assert_eq!(second.end().0, 0);
        assert_eq!(seen(), before);
        assert_eq!(left(dir), [""; 0]);
    });
}

#[test]
fn status_shows_the_model() {
    if !root("status_shows_the_model") {
        return;
    }
    in_namespace(|dir| {
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        until("a model", || {
            let json = evenkeel(dir, "status wan --json").1;
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let model = &json[0]["model"];
            model["mode"] == "ping"
                && model["down"]["capacity"] == "20mbit"
                && model["up"]["shaped"].is_string()
                && model["changes"][1]["text"].is_string()
        });
        let names = left(dir);
        assert!(
            names.iter().any(|n| n.ends_with(".model.json")),
            "{names:?}"
        );
        let (code, text, err) = evenkeel(dir, "status");
        assert_eq!((code, err.as_str()), (0, ""));
        for says in [
            "run: mode ping, probing nothing that answers, base not known",
            "download  line 20.0 Mbit/s (seen",
            " of it stay free",
            "s ago  down 20.0 Mbit/s, up 5.00 Mbit/s: a first guess",
            "today so far: the line was not used to the full",
        ] {
            assert!(text.contains(says), "{says}\n{text}");
        }
        assert_eq!(text.matches("wan: ").count(), 1, "{text}");

        let file = dir.join("watched");
        let mut watch = command(dir, "status --watch");
        watch.stdout(std::fs::File::create(&file).unwrap());
        let watch = Running(Some(watch.stderr(Stdio::piped()).spawn().unwrap()));
        let watched = || std::fs::read_to_string(&file).unwrap();
        until("two looks", || watched().matches("run: mode").count() >= 2);
        watch.signal(Signal::SIGINT);
        assert_eq!(watch.end().0, 0);
        assert!(!watched().contains('\x1b'));

        run.signal(Signal::SIGKILL);
        run.end();
        until("that it is gone", || {
            evenkeel(dir, "status").1.contains("`evenkeel run` is gone")
        });
        // Whoever shapes next knows better.
        assert_eq!(evenkeel(dir, "shape wan 20mbit 5mbit").0, 0);
        assert!(!evenkeel(dir, "status").1.contains("evenkeel run"));
    });
}

#[test]
fn what_was_learned_is_the_next_guess() {
    if !root("what_was_learned_is_the_next_guess") {
        return;
    }
    in_namespace(|dir| {
        ip("route add default via 192.0.2.2");
        ip("neigh add 192.0.2.2 lladdr 52:54:00:12:34:56 dev wan nud permanent");
        let file = dir.join("lines/wan@52:54:00:12:34:56.json");
        // What it said; the device is that of the default route.
        let run = |args: &str| {
            let run = Running::start(dir, args);
            run.signal(Signal::SIGINT);
            assert_eq!(run.end().0, 0, "{args}");
            std::fs::read_to_string(dir.join("said")).unwrap()
        };
        let none = run("run");
        assert!(!none.contains("guess") && !file.exists(), "{none}");
        run("run --rate 20mbit 5mbit");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(
            kept.contains("\"20mbit\"") && kept.contains("\"5mbit\""),
            "{kept}"
        );
        let guessed = "down 20.0 Mbit/s, up 5.00 Mbit/s: a first guess";
        let again = run("run wan");
        assert!(again.contains(guessed), "{again}");
        let bounded = run("run --max 10mbit 10mbit");
        assert!(bounded.contains("down 10.0 Mbit/s, up 5.00"), "{bounded}");
        let told = run("run --rate 30mbit 6mbit");
        assert!(told.contains("down 30.0 Mbit/s, up 6.00"), "{told}");
        let forgotten = run("run --forget");
        assert!(!forgotten.contains("guess"), "{forgotten}");
        std::fs::write(&file, "[1]").unwrap();
        let said = run("run");
        for says in [
            "warning: ",
            "56.json: no profile of a line",
            "it is ignored",
        ] {
            assert!(said.contains(says) && !said.contains("guess"), "{said}");
        }
    });
}

#[test]
fn a_device_that_goes_is_waited_for() {
    if !root("a_device_that_goes_is_waited_for") {
        return;
    }
    in_namespace(|dir| {
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let clean = || {
            let links = seen();
            assert!(!links.contains("ifb") && !links.contains("wan"), "{links}");
        };
        ip("link del wan");
        until("that it waits", || {
            evenkeel(dir, "status")
                .1
                .contains("wan: there is no such device for")
        });
        assert!(said(dir).contains("the device has gone: waiting for it"));
        clean();
        let (code, json, _) = evenkeel(dir, "status wan --json");
        assert!(code == 0 && json.contains("\"gone_since_s\": "), "{json}");

        let bare = ["link add wan type veth peer name peer", "link set wan up"];
        bare.into_iter().for_each(ip);
        until("that it shapes again", || {
            let (_, out, _) = evenkeel(dir, "status wan");
            out.contains("line 20.0 Mbit/s") && !out.contains("no such device")
        });
        assert!(said(dir).contains("the device is there again"));

        ip("link del wan");
        until("that it waits again", || {
            said(dir).matches("waiting for it").count() == 2
        });
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
        clean();
        assert_eq!(left(dir), [""; 0]);
    });
}

/// What it said so far.
fn said(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("said")).unwrap()
}

#[test]
fn what_is_probed_can_be_told() {
    if !root("what_is_probed_can_be_told") {
        return;
    }
    in_empty_namespace(|dir| {
        let host = Ipv4Addr::new(203, 0, 113, 7);
        let _provider = Provider::start(&[host]);
        let run = Running::start(dir, "run wan --target 203.0.113.6,203.0.113.7");
        assert!(said(dir).contains("probing 203.0.113.7, as told"));
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);

        let file = dir.join("none.toml");
        std::fs::write(&file, "targets = ['203.0.113.7']").unwrap();
        let run = Running::start(dir, "run");
        assert!(said(dir).contains("probing 203.0.113.7, as told"));
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
        std::fs::write(&file, "\ntargets = ['a b']").unwrap();
        refused(
            &evenkeel(dir, "run"),
            2,
            "none.toml: line 2: target \"a b\" is",
        );
    });
}

#[test]
fn strangers_are_the_last_resort() {
    if !root("strangers_are_the_last_resort") {
        return;
    }
    in_empty_namespace(|dir| {
        let host = Ipv4Addr::new(9, 9, 9, 9);
        let provider = Provider::start(&[host]);
        let run = Running::start(dir, "run");
        let said = said(dir);
        assert!(
            said.contains("probing 9.9.9.9, a public host and"),
            "{said}"
        );
        let asked = || {
            let asked = provider.asked.lock().unwrap();
            asked.get(&host.into()).cloned().unwrap_or_default()
        };
        until("five probes", || asked().len() >= 5);
        let all = asked();
        // The first one was to see whether it answers at all.
        let apart: Vec<_> = all[1..].windows(2).map(|w| w[1] - w[0]).collect();
        let seldom = |d: &Duration| *d > Duration::from_millis(950);
        assert!(apart.iter().all(seldom), "{apart:?}");
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
    });
}

/// Two lines, and the one that is not shaped is preferred.
#[test]
fn probes_leave_by_the_device_that_is_shaped() {
    if !root("probes_leave_by_the_device_that_is_shaped") {
        return;
    }
    in_empty_namespace(|dir| {
        // Answers may come by another device than the routes prefer.
        set_sysctl("net.ipv4.conf.all.rp_filter", "2").unwrap();
        let host = IpAddr::from([9, 9, 9, 9]);
        let first = [
            "addr add 192.0.2.1/24 dev wan",
            "link set wan up",
            "route add default via 192.0.2.2 metric 10",
        ];
        let first = Provider::behind("wan", &first, &[host]);
        let second = [
            "addr add 198.51.100.1/24 dev wan2",
            "link set wan2 up",
            "route add default via 198.51.100.2 metric 20",
        ];
        let second = Provider::behind("wan2", &second, &[host]);
        let run = Running::start(dir, "run wan2");
        let said = said(dir);
        assert!(said.contains("probing 9.9.9.9, a public host"), "{said}");
        let asked = |p: &Provider| p.asked.lock().unwrap().get(&host).map_or(0, Vec::len);
        until("three probes", || asked(&second) >= 3);
        // Hops were looked for there as well.
        let hop = IpAddr::from([198, 51, 100, 2]);
        assert!(second.asked.lock().unwrap().contains_key(&hop));
        let elsewhere = first.asked.lock().unwrap().clone();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
    });
}

/// A line without IPv4: its device is found, its next hop, public hosts, and its profile.
#[test]
fn ipv6_alone_will_do() {
    if !root("ipv6_alone_will_do") {
        return;
    }
    for (host, says) in [
        ("fe80::2", "probing fe80::2"),
        ("2620:fe::fe", "probing 2620:fe::fe, a public host"),
    ] {
        in_empty_namespace(|dir| {
            let setup = [
                "-6 addr add 2001:db8::1/64 dev wan nodad",
                "link set wan up",
                "-6 route add default via fe80::2 dev wan",
            ];
            let _provider = Provider::behind("wan", &setup, &[host.parse().unwrap()]);
            let run = Running::start(dir, "run --rate 20mbit 5mbit");
            let said = said(dir);
            assert!(said.contains(says), "{said}");
            run.signal(Signal::SIGINT);
            assert_eq!(run.end().0, 0);
            assert!(dir.join("lines/wan@fe80::2.json").exists());
        });
    }
    in_namespace(|dir| {
        ip("-4 addr flush dev wan");
        ip("-6 addr add 2001:db8::1/64 dev wan nodad");
        ip("-6 route add default via fe80::2 dev wan");
        ip("neigh add fe80::2 lladdr 52:54:00:12:34:56 dev wan nud permanent");
        let run = Running::start(dir, "run --rate 20mbit 5mbit");
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
        let file = dir.join("lines/wan@52:54:00:12:34:56.json");
        assert!(file.exists(), "{:?}", std::fs::read_dir(dir.join("lines")));
    });
}

#[test]
fn a_queue_of_others_is_said() {
    if !root("a_queue_of_others_is_said") {
        return;
    }
    in_empty_namespace(|dir| {
        let provider = Provider::start(&[Ipv4Addr::new(192, 0, 2, 2)]);
        let run = Running::start(dir, "run --rate 20mbit 5mbit");
        let status = || evenkeel(dir, "status").1;
        until("a base", || status().contains("base 1"));
        provider.delay_ms.store(70, Ordering::Relaxed);
        until("a queue", || said(dir).contains("ms that is not ours"));
        until("its status", || {
            status().contains("somebody else loads the")
        });
        provider.delay_ms.store(10, Ordering::Relaxed);
        until("its end", || said(dir).contains("not ours has gone"));
        until("its status", || !status().contains("somebody else"));
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
    });
}

#[test]
fn it_is_told_and_asked_while_it_runs() {
    if !root("it_is_told_and_asked_while_it_runs") {
        return;
    }
    in_namespace(|dir| {
        let config = dir.join("none.toml");
        std::fs::write(&config, "mode = 'bandwidth'\n").unwrap();
        refused(&evenkeel(dir, "reload"), 1, "no daemon runs here");
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let mode = |is: &str| {
            let json = evenkeel(dir, "status wan --json").1;
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            json[0]["model"]["mode"] == is && json[0]["mode"] == is
        };
        until("the file's mode", || mode("bandwidth"));
        let well = |args: &str| {
            let (code, out, err) = evenkeel(dir, args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        // Told at the command line until the next reload.
        let said = well("set wan --mode ping --rule voice");
        assert_eq!(
            said,
            "wan: mode ping and one rule of your own, until the next reload\n"
        );
        until("the mode that was told", || mode("ping"));
        refused(
            &evenkeel(dir, "set other --mode ping"),
            2,
            "other is not followed",
        );
        // A file that is wrong changes nothing.
        std::fs::write(&config, "mode = 'bandwidth'\nmin = ['x', 'y']\n").unwrap();
        refused(&evenkeel(dir, "reload"), 2, "line 2");
        assert!(mode("ping"));
        std::fs::write(&config, "mode = 'bandwidth'\n").unwrap();
        assert_eq!(well("reload"), "settings read again, and in force\n");
        until("the file's mode again", || mode("bandwidth"));
        assert_eq!(well("reload"), "settings read again: nothing has changed\n");
        let flows = evenkeel(dir, "flows --json");
        assert!(
            flows.0 == 0 || flows.2.contains("programs are not there"),
            "{flows:?}"
        );
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        let history = dir.join("lines").display().to_string();
        let told = well(&format!("history wan --json --profile-dir {history}"));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let texts = told[0]["happenings"].to_string();
        assert!(
            texts.contains("evenkeel run began") && texts.contains("evenkeel run ended"),
            "{texts}"
        );
        assert_eq!(left(dir), [""; 0]);
    });
}

/// Somebody who is neither root nor of the group may read what is in force, and nothing else.
#[test]
fn strangers_may_read_the_status() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    if !root("strangers_may_read_the_status") {
        return;
    }
    in_namespace(|dir| {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = dir.join("evenkeel");
        common::put_program(Path::new(EVENKEEL), &program);
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let before = seen();
        let stranger = |args: &str| {
            let mut command = Command::new(&program);
            command
                .args(args.split_whitespace())
                .arg("--state-dir")
                .arg(dir.join("run"));
            words(command.uid(NOBODY).gid(NOBODY).output().unwrap())
        };
        let (code, out, err) = stranger("status");
        assert_eq!((code, err.as_str()), (0, ""));
        // Also what only the daemon can see.
        assert!(out.contains("run: mode ping"), "{out}");
        let history = format!("history --profile-dir {}", dir.join("lines").display());
        for args in [
            "flows",
            "set --mode bandwidth",
            "reload",
            "clear wan",
            "clear --all",
            &history,
        ] {
            refused(
                &stranger(args),
                3,
                "not permitted: be root, or in the group evenkeel",
            );
            assert_eq!(seen(), before, "{args}");
        }
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        let kept = dir.join("lines/wan.minutes");
        assert_eq!(
            std::fs::metadata(kept).unwrap().permissions().mode() & 0o7,
            0
        );
    });
}

#[test]
fn what_is_kept_is_taken_over() {
    if !root("what_is_kept_is_taken_over") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit --keep");
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert!(
            left(dir).iter().all(|n| !n.contains("model")),
            "{:?}",
            left(dir)
        );
        let kept = seen();
        assert_ne!(kept, before);
        // What a person wanted is not abandoned.
        assert_eq!(evenkeel(dir, "clear --abandoned").1, "");
        assert_eq!(seen(), kept);
        let again = Running::start(dir, "run wan --forget");
        until("what was in force", || {
            evenkeel(dir, "status wan").1.contains("line 20.0 Mbit/s")
        });
        // Somebody takes it away.
        let removed = Command::new("tc")
            .args(["qdisc", "del", "dev", "wan", "root"])
            .status();
        assert!(removed.unwrap().success());
        until("it is back", || {
            let status = evenkeel(dir, "status wan --json").1;
            status.contains("\"working\"") && status.contains("it is set up again")
        });
        again.signal(Signal::SIGTERM);
        assert_eq!(again.end().0, 0);
        assert_eq!(seen(), before);
    });
}

/// A service manager's socket, and what was said there.
struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    fn new(dir: &Path) -> Self {
        let socket = UnixDatagram::bind(dir.join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let heard = Vec::new();
        Manager { socket, heard }
    }

    fn heard(&mut self, what: &str) -> bool {
        let mut bytes = [0; 4096];
        while let Ok(n) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..n]);
            self.heard.extend(text.lines().map(str::to_owned));
        }
        self.heard.iter().any(|h| h.starts_with(what))
    }
}

/// `run --wait` as a service, in the background.
fn serve(dir: &Path, args: &str) -> Running {
    let mut command = command(dir, args);
    command.env("NOTIFY_SOCKET", dir.join("notify"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Running(Some(command.spawn().unwrap()))
}

#[test]
fn a_service_waits_and_tells() {
    if !root("a_service_waits_and_tells") {
        return;
    }
    in_empty_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run --wait --rate 20mbit 5mbit");
        until("that it waits", || {
            manager.heard("STATUS=waiting for a default route")
        });
        // Nothing holds a boot up, and it lives.
        assert!(manager.heard("READY=1"));
        until("a sign of life", || manager.heard("WATCHDOG=1"));
        common::add_wan();
        ip("route add default via 192.0.2.2");
        until("a first guess", || manager.heard("STATUS=down 20.0 Mbit/s"));
        manager.heard.clear();
        until("a sign of life while it follows", || {
            manager.heard("WATCHDOG=1")
        });
        run.signal(Signal::SIGTERM);
        let end = run.end();
        assert_eq!(end.0, 0, "{end:?}");
        assert!(manager.heard("STOPPING=1"), "{:?}", manager.heard);
        assert_eq!(left(dir), [""; 0]);
    });
}

/// The loop is made to hang where it replaces its model: by a pipe that nobody reads.
#[test]
fn one_that_hangs_says_nothing() {
    if !root("one_that_hangs_says_nothing") {
        return;
    }
    in_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run wan --rate 20mbit 5mbit");
        until("a sign of life", || manager.heard("WATCHDOG=1"));
        let records = evenkeel_kernel::StateDir::new(dir.join("run"));
        let next = records.model_file("wan").with_extension("json.new");
        until("a pipe in its way", || mkfifo(&next, Mode::S_IRWXU).is_ok());
        let quiet = Duration::from_secs(3);
        let mut since = Instant::now();
        until("silence", || {
            manager.heard.clear();
            if manager.heard("WATCHDOG=1") {
                since = Instant::now();
            }
            since.elapsed() > quiet
        });
        assert!(next.exists());
        let reader = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let _reader = open(&next, reader, Mode::empty()).unwrap();
        until("a sign of life again", || manager.heard("WATCHDOG=1"));
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert_eq!(left(dir), [""; 0]);
    });
}

#[test]
fn a_named_device_is_waited_for_until_it_is_up() {
    if !root("a_named_device_is_waited_for_until_it_is_up") {
        return;
    }
    in_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run ppp0 --wait");
        until("that it waits", || manager.heard("STATUS=waiting for ppp0"));
        ip("link add ppp0 type veth peer name other");
        until("that it waits on", || {
            manager.heard("STATUS=waiting for ppp0 to be up")
        });
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert_eq!(left(dir), [""; 0]);
    });
}

#[test]
fn what_a_killed_one_left_is_cleared_and_nothing_else() {
    if !root("what_a_killed_one_left_is_cleared_and_nothing_else") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        let well = |args: &str| {
            let (code, out, err) = evenkeel(dir, args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        assert_eq!(well("clear --all"), "");
        // Somebody's own.
        well("shape wan 20mbit 5mbit");
        let shaped = seen();
        assert_eq!(well("clear --abandoned"), "");
        assert_eq!(seen(), shaped);
        // One that is followed.
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        until("a model", || {
            left(dir).iter().any(|n| n.ends_with("model.json"))
        });
        assert_eq!(well("clear --abandoned"), "");
        run.signal(Signal::SIGKILL);
        run.end();
        assert_eq!(well("clear --abandoned"), "wan: as it was before\n");
        assert_eq!(seen(), before);
        assert_eq!(left(dir), [""; 0]);
        // Before a package goes.
        well("shape wan 20mbit 5mbit");
        assert_eq!(well("clear --all"), "wan: as it was before\n");
        assert_eq!(seen(), before);
        // One whose device went, and which was killed while it waited.
        let records = evenkeel_kernel::StateDir::new(dir.join("run"));
        std::fs::write(records.model_file("gone0"), "{").unwrap();
        well("clear --abandoned");
        assert_eq!(left(dir), [""; 0]);
        refused(&evenkeel(dir, "clear wan --all"), 2, "--all");
    });
}
