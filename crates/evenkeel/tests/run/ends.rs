//! How it ends: by signals, killed, with `--keep`; what is left then, and who takes it over.

use std::process::Command;
use std::time::Duration;

use evenkeel_sys::clock;
use nix::sys::signal::Signal;

use crate::common::{in_namespace, refused, root, seen};
use crate::running::{Running, evenkeel, left, until};

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
