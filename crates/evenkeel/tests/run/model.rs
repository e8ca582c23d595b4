//! The model and the profile that it leaves to read.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use nix::sys::signal::Signal;

use crate::common::{in_empty_namespace, in_namespace, ip, root};
use crate::provider::Provider;
use crate::running::{Running, command, evenkeel, left, said, until};

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
        // That the round trip rose, and why that may be, stays among what has changed.
        until("its status", || {
            !status().contains("somebody else loads the")
        });
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
    });
}

/// What the line carried at this hour on earlier days is expected, rather than what was learned last.
#[test]
fn what_is_usual_at_this_hour_is_expected() {
    use evenkeel_history::{Minute, Ring, Way};
    if !root("what_is_usual_at_this_hour_is_expected") {
        return;
    }
    in_namespace(|dir| {
        std::fs::create_dir(dir.join("lines")).unwrap();
        let file = dir.join("lines/wan.minutes");
        let (ring, _) = Ring::open::<Minute>(&file).unwrap();
        let way = |kbit| Way {
            capacity_kbit: kbit,
            most_kbit: kbit,
            ..Way::default()
        };
        // All of the last five days but today, so that no change of the hour is missed.
        let now = (evenkeel_sys::clock::realtime().as_secs() / 60) as u32;
        for back in (720..5 * 1440).rev().step_by(5) {
            let minute = Minute {
                minute: now - back,
                seconds: 60,
                down: way(33_000),
                up: way(7000),
                ..Minute::default()
            };
            ring.put(&minute).unwrap();
        }
        drop(ring);
        let run = Running::start(dir, "run wan");
        let said = said(dir);
        assert!(
            said.contains("usual at this hour, on ")
                && said.contains("down 33.0 Mbit/s, up 7.00 Mbit/s: a first guess"),
            "{said}"
        );
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
    });
}
