//! The watchdog on the running kernel: when it acts, when it does not, and what it is as a process.
//! Needs root; without, each test says so and passes.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use evenkeel_core::tc::{LinkSettings, Op};
use evenkeel_sys::netlink::Socket;
use evenkeel_sys::{Netns, Watchdog};
use evenkeel_wire::link::{LinkInfo, dump_links};
use evenkeel_wire::tc::encode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

/// Before the watchdog acts, and after.
const LENGTHS: [u32; 2] = [64, 65];

/// Runs `test` in a namespace with a device `wan`; it gets the messages that the watchdog is for.
fn lab(name: &str, test: impl FnOnce(&[u8]) + Send) {
    if !nix::unistd::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIP {name}: needs root");
        return;
    }
    let inside = || {
        let mut socket = Socket::open_route().unwrap();
        let add = Op::LinkAddIfb { name: "wan".into() };
        socket.request(&encode(&add, &|_| None).unwrap()).unwrap();
        let [before, after] = LENGTHS.map(|length| {
            let settings = LinkSettings {
                txqlen: Some(length),
                ..LinkSettings::default()
            };
            let name = "wan".into();
            let index = links(&mut socket).into_iter().find(|l| l.name == "wan");
            let index = index.map(|l| l.index);
            encode(&Op::LinkSet { name, settings }, &|_| index).unwrap()
        });
        socket.request(&before).unwrap();
        test(&after);
    };
    Netns::new(name).unwrap().run(inside).unwrap();
}

fn links(socket: &mut Socket) -> Vec<LinkInfo> {
    let answer = socket.dump(&dump_links()).unwrap();
    answer.iter().flat_map(|m| LinkInfo::all(m)).collect()
}

/// Whether it did what it is for.
fn has_acted() -> bool {
    let all = links(&mut Socket::open_route().unwrap());
    let wan = all.iter().find(|l| l.name == "wan").unwrap();
    wan.txqlen == LENGTHS[1]
}

/// Waits until `done`; panics with `what` after ten seconds.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_nobody_renews_is_taken_back() {
    lab("what_nobody_renews_is_taken_back", |messages| {
        let patience = Duration::from_millis(300);
        let watchdog = Watchdog::start(patience).unwrap();
        let armed = Instant::now();
        watchdog.arm(messages).unwrap();
        until("that it says so", || watchdog.has_fired());
        assert!(armed.elapsed() >= patience, "{:?}", armed.elapsed());
        assert!(has_acted());
        // Once.
        assert!(!watchdog.has_fired());
    });
}

#[test]
fn what_is_renewed_or_released_stays() {
    lab("what_is_renewed_or_released_stays", |messages| {
        let patience = Duration::from_secs(1);
        let watchdog = Watchdog::start(patience).unwrap();
        watchdog.arm(messages).unwrap();
        let (begun, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        while begun.elapsed() < 2 * patience {
            std::thread::sleep(patience / 10);
            watchdog.renew().unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        // Somebody else may have had the processor.
        assert!(!has_acted() || longest >= patience, "{longest:?}");
        watchdog.disarm().unwrap();
        let fired = watchdog.has_fired();
        drop(watchdog);
        assert!(fired || !has_acted());
    });
}

#[test]
fn one_that_is_dropped_has_acted() {
    lab("one_that_is_dropped_has_acted", |messages| {
        let watchdog = Watchdog::start(Duration::from_secs(3600)).unwrap();
        watchdog.arm(messages).unwrap();
        let process = watchdog.id();
        drop(watchdog);
        assert!(has_acted());
        assert!(!fs::exists(format!("/proc/{process}")).unwrap());
    });
}

/// `name` of its /proc/PID/status.
fn status(watchdog: &Watchdog, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", watchdog.id())).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    line.expect(name).trim_matches([':', '\t', ' ']).to_owned()
}

#[test]
fn it_keeps_to_itself() {
    lab("it_keeps_to_itself", |messages| {
        let watchdog = Watchdog::start(Duration::from_secs(3600)).unwrap();
        let process = Pid::from_raw(watchdog.id());
        until("a session of its own", || {
            getsid(Some(process)) == Ok(process)
        });
        let descriptors = || fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        until("two descriptors", || descriptors() == 2);
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
            Signal::SIGTSTP,
            Signal::SIGUSR1,
        ] {
            kill(process, signal).unwrap();
        }
        // It still listens, and a datagram that is too long is refused here.
        watchdog.arm(messages).unwrap();
        watchdog.disarm().unwrap();
        assert!(watchdog.arm(&vec![0; 1 << 18]).is_err());
        let switches = || status(&watchdog, "voluntary_ctxt_switches");
        until("that it has heard all", || {
            let before = switches();
            std::thread::sleep(Duration::from_millis(200));
            switches() == before
        });
        let before = switches();
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(switches(), before, "it woke up for nothing");
    });
}
