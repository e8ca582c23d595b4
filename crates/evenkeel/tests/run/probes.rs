//! What it probes, how often, and by which device.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use evenkeel_sys::netns::set_sysctl;
use nix::sys::signal::Signal;

use crate::common::{in_empty_namespace, in_namespace, ip, refused, root};
use crate::provider::Provider;
use crate::running::{Running, evenkeel, said, until};

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
            "none.toml: line 2, column 13: target \"a b\" is",
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

/// A budget is said, counted across restarts, and kept.
#[test]
fn a_budget_for_probes_is_kept() {
    if !root("a_budget_for_probes_is_kept") {
        return;
    }
    in_empty_namespace(|dir| {
        let host = Ipv4Addr::new(203, 0, 113, 7);
        let provider = Provider::start(&[host]);
        let file = dir.join("none.toml");
        std::fs::write(&file, "targets = ['203.0.113.7']\nprobe_budget = '100'").unwrap();
        refused(
            &evenkeel(dir, "run"),
            2,
            "line 2, column 17: probe_budget \"100\" is not like 100MB/month",
        );
        std::fs::write(
            &file,
            "targets = ['203.0.113.7']\nprobe_budget = '200 kB/month'",
        )
        .unwrap();
        let took = || -> Option<u64> {
            let json = evenkeel(dir, "status --json").1;
            let json: serde_json::Value = serde_json::from_str(&json).ok()?;
            json[0]["model"]["probing"]["bytes"].as_u64()
        };
        let run = Running::start(dir, "run");
        until("that it is said", || {
            said(dir).contains("the budget for probing is scarce: no more than a probe each")
                && evenkeel(dir, "status").1.contains(" of 200 kB this month")
        });
        let asked = provider
            .asked
            .lock()
            .unwrap()
            .get(&host.into())
            .map_or(0, Vec::len);
        assert!((1..60).contains(&asked), "{asked} probes");
        let before = took().unwrap();
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
        let again = Running::start(dir, "run");
        until("what was spent before", || {
            took().is_some_and(|now| now >= before)
        });
        again.signal(Signal::SIGINT);
        assert_eq!(again.end().0, 0);
    });
}
