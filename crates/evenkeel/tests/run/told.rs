//! What it is told: bad input, a configuration, a person, strangers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::common;
use crate::common::{in_namespace, refused, root, seen, words};
use crate::running::{EVENKEEL, Running, evenkeel, left, until};

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

/// Somebody measures the line without evenkeel: it comes back when it is told to, and by itself.
#[test]
fn it_lets_go_for_a_while() {
    use evenkeel_socket::{Refused, Request, ask};
    if !root("it_lets_go_for_a_while") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let socket = evenkeel_kernel::StateDir::new(dir.join("run")).socket_file();
        let say = |request: &Request| ask(&socket, request, Duration::from_secs(30));
        let pause = |device: &str, seconds| {
            say(&Request::Pause {
                device: device.into(),
                seconds,
                token: None,
            })
        };
        let resume = || {
            say(&Request::Resume {
                device: "wan".into(),
                token: None,
            })
        };
        let refused = |got| matches!(got, Err(Refused::Said { code: 2, .. }));
        assert!(refused(pause("other", 5)) && refused(resume()));
        let shaped = || evenkeel(dir, "status").1.contains("line 20.0 Mbit/s");
        until("a model", shaped);
        // Told to come back.
        pause("wan", 100).unwrap();
        assert_eq!(seen(), before);
        // Its settings are read while it is paused; nothing begins.
        assert_eq!(evenkeel(dir, "reload").0, 0);
        assert_eq!(seen(), before);
        resume().unwrap();
        until("that it is back", shaped);
        assert!(refused(resume()));
        // Nobody comes again.
        pause("wan", 1).unwrap();
        assert_eq!(seen(), before);
        until("that it is back by itself", shaped);
        pause("wan", 100).unwrap();
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert_eq!(seen(), before);
        assert_eq!(left(dir), [""; 0]);
    });
}
