//! Rules for people: programs, names, devices and times, seen in the kernel's counters while `run` follows the line.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use evenkeel_sys::Netns;

use crate::common::{in_namespace, ip, put_program, root};
use crate::running::{Running, evenkeel, until};

/// A namespace that `ip` can move a device to, and the thread by which it knows it.
struct Place {
    ns: Netns,
    _end: Sender<()>,
}

/// Moves `device` to a namespace of its own, where `setup` is done.
fn place(device: &str, setup: &[&str]) -> Place {
    let ns = Netns::new("far").unwrap();
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    ns.spawn("far", move || {
        tell.send(nix::unistd::gettid()).unwrap();
        let _ = ended.recv();
    })
    .unwrap();
    ip(&format!("link set {device} netns {}", told.recv().unwrap()));
    ns.run(|| setup.iter().copied().for_each(ip)).unwrap();
    Place { ns, _end: end }
}

/// Packets that left in a tier so far.
fn packets(dir: &Path, tier: &str) -> u64 {
    let json = evenkeel(dir, "status wan --json").1;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let tiers = json[0]["up"]["tiers"].as_array().unwrap();
    let found = tiers.iter().find(|t| t["tier"] == tier);
    found.unwrap()["packets"].as_u64().unwrap()
}

/// Waits until what `send` sends goes to `tier` alone.
fn goes_to(dir: &Path, what: &str, tier: &str, mut send: impl FnMut()) {
    let others = ["voice", "video", "best-effort", "bulk"];
    until(what, || {
        let count = || others.map(|t| packets(dir, t));
        let before = count();
        for _ in 0..20 {
            send();
            std::thread::sleep(Duration::from_millis(5));
        }
        let moved = count();
        // Probes are in the voice tier, a few each look.
        let all: Vec<u64> = moved.iter().zip(before).map(|(a, b)| a - b).collect();
        let at = others.iter().position(|t| *t == tier).unwrap();
        all[at] >= 20 && (0..4).all(|n| n == at || all[n] < 15)
    });
}

/// An answer that 192.0.2.3 is video.example.
fn dns_answer() -> Vec<u8> {
    let mut b = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    b.extend(b"\x03cdn\x05video\x07example\x00\x00\x01\x00\x01");
    b.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x03");
    b
}

/// A program of its own name that sends long datagrams.
fn talker(dir: &Path) -> Child {
    let program = dir.join("ek-talker");
    put_program(Path::new("/bin/bash"), &program);
    let script =
        "exec 9>/dev/udp/192.0.2.2/44444; while :; do head -c 1200 /dev/zero >&9; sleep 0.01; done";
    Command::new(program).args(["-c", script]).spawn().unwrap()
}

/// A day of the week that is neither today nor next to it.
fn another_day() -> &'static str {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // 1970 began on a Thursday.
    let today = (now.unwrap().as_secs() / 86_400 + 3) % 7;
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][((today + 3) % 7) as usize]
}

/// A far side with two addresses, and a device behind us.
fn home() -> (Place, Place) {
    ip("link set wan address 02:00:00:00:00:01");
    let far = place(
        "peer",
        &[
            "addr add 192.0.2.2/24 dev peer",
            "addr add 192.0.2.3/24 dev peer",
            "link set peer up",
        ],
    );
    ip("link add lan type veth peer name tv");
    ip("addr add 10.8.0.1/24 dev lan");
    ip("link set lan up");
    let tv = place(
        "tv",
        &[
            "link set tv address 02:00:5e:00:53:01",
            "addr add 10.8.0.2/24 dev tv",
            "link set tv up",
            "route add default via 10.8.0.1",
        ],
    );
    (far, tv)
}

/// Puts rules of each kind into the file.
fn tell(dir: &Path) {
    let rules = [
        "voice program ek-talker".to_owned(),
        "video name video.example".to_owned(),
        "bulk device 02:00:5E:00:53:01".to_owned(),
        "video udp port 7000 00:00-24:00".to_owned(),
        "bulk udp port 7000".to_owned(),
        format!("video udp port 7001 {}", another_day()),
        "bulk udp port 7001".to_owned(),
    ];
    let text: Vec<String> = rules.iter().map(|r| format!("{r:?}")).collect();
    let text = format!("rules = [{}]\n", text.join(", "));
    std::fs::write(dir.join("none.toml"), text).unwrap();
}

#[test]
fn programs_names_devices_and_times() {
    if !root("programs_names_devices_and_times") {
        return;
    }
    in_namespace(|dir| {
        let (far, tv) = home();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        tell(dir);
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let sender = |to: &str| {
            let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
            socket.connect(to).unwrap();
            socket
        };
        let long = [0; 1000];
        // Times.
        for (to, tier) in [("192.0.2.2:7000", "video"), ("192.0.2.2:7001", "bulk")] {
            let socket = sender(to);
            goes_to(dir, to, tier, || drop(socket.send(&long)));
        }
        // A name: by itself the address is nobody's.
        let video = sender("192.0.2.3:8000");
        goes_to(dir, "an address without a name", "best-effort", || {
            drop(video.send(&long));
        });
        let server = far
            .ns
            .run(|| UdpSocket::bind("192.0.2.2:53").unwrap())
            .unwrap();
        let asks = sender("192.0.2.2:53");
        asks.send(b"which?").unwrap();
        let mut buffer = [0; 100];
        let from = server.recv_from(&mut buffer).unwrap().1;
        server.send_to(&dns_answer(), from).unwrap();
        goes_to(dir, "an address with a name", "video", || {
            drop(video.send(&long));
        });
        // A device, by its hardware address: routed, and behind address translation.
        let tv_sender = tv
            .ns
            .run(|| UdpSocket::bind("10.8.0.2:0").unwrap())
            .unwrap();
        let send = || drop(tv_sender.send_to(&long, "192.0.2.2:9000"));
        goes_to(dir, "a device that is routed", "bulk", send);
        let nft = "table ip n { chain c { type nat hook postrouting priority 100; oif wan masquerade; }; }";
        let translated = Command::new("nft").arg(nft).status();
        if translated.is_ok_and(|s| s.success()) {
            let another = tv
                .ns
                .run(|| UdpSocket::bind("10.8.0.2:0").unwrap())
                .unwrap();
            let send = || drop(another.send_to(&long, "192.0.2.2:9001"));
            goes_to(dir, "a device whose address is translated", "bulk", send);
            let flows = evenkeel(dir, "flows wan --json").1;
            let flows: Vec<serde_json::Value> = serde_json::from_str(&flows).unwrap();
            let flow = flows.iter().find(|f| f["remote"] == "192.0.2.2:9001");
            assert_eq!(flow.unwrap()["host"], "02:00:5e:00:53:01", "{flow:?}");
        }
        // A program, which began before anybody looked.
        let sink = far.ns.run(|| UdpSocket::bind("192.0.2.2:44444").unwrap());
        let mut talker = talker(dir);
        until("a program", || {
            let before = packets(dir, "voice");
            let flows = evenkeel(dir, "flows wan --json").1;
            let flows: serde_json::Value = serde_json::from_str(&flows).unwrap_or_default();
            let flow = flows
                .as_array()
                .and_then(|all| all.iter().find(|f| f["remote"] == "192.0.2.2:44444"));
            flow.is_some_and(|f| f["tier"] == "voice" && f["why"] == "voice program ek-talker")
                && packets(dir, "voice") > before
        });
        talker.kill().unwrap();
        talker.wait().unwrap();
        drop(sink);
        run.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
    });
}

#[test]
fn a_flow_is_raised_and_lowered_and_it_is_quiet_for_a_while() {
    if !root("a_flow_is_raised_and_lowered_and_it_is_quiet_for_a_while") {
        return;
    }
    in_namespace(|dir| {
        let _far = place(
            "peer",
            &["addr add 192.0.2.2/24 dev peer", "link set peer up"],
        );
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
        socket.connect("192.0.2.2:8000").unwrap();
        let send = || drop(socket.send(&[0; 1000]));
        goes_to(dir, "as usual", "best-effort", send);
        let flows = evenkeel(dir, "flows wan --all --json").1;
        let flows: serde_json::Value = serde_json::from_str(&flows).unwrap();
        let flow = flows
            .as_array()
            .unwrap()
            .iter()
            .find(|f| f["remote"] == "192.0.2.2:8000");
        let number = flow.unwrap()["number"].as_u64().unwrap();
        let well = |args: &str| {
            let (code, out, err) = evenkeel(dir, args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        assert_eq!(
            well(&format!("flows raise {number}")),
            "udp to 192.0.2.2:8000 is video now, until it ends\n"
        );
        goes_to(dir, "raised", "video", send);
        well(&format!("flows raise {number} wan"));
        goes_to(dir, "raised again", "voice", send);
        let (code, _, err) = evenkeel(dir, &format!("flows raise {number}"));
        assert!(code == 2 && err.contains("the most urgent"), "{err}");
        for tier in ["video", "best-effort", "bulk"] {
            well(&format!("flows lower {number}"));
            goes_to(dir, "lowered", tier, send);
        }
        let (code, _, err) = evenkeel(dir, "flows lower 1");
        assert!(code == 2 && err.contains("no flow 1"), "{err}");
        // Another flow, of which nobody says anything.
        let other = UdpSocket::bind("192.0.2.1:0").unwrap();
        other.connect("192.0.2.2:8001").unwrap();
        let send = || drop(other.send(&[0; 1000]));
        goes_to(dir, "not quiet yet", "best-effort", send);
        let said = well("quiet --for 1h");
        assert_eq!(
            said,
            "wan: calls come before everything else for 60 min; it ends by itself\n"
        );
        goes_to(dir, "quiet", "bulk", send);
        well("quiet --off");
        goes_to(dir, "as usual again", "best-effort", send);
        // It ends by itself, also when nobody is there who would end it.
        well("quiet wan --for 2s");
        run.signal(nix::sys::signal::Signal::SIGKILL);
        assert_ne!(run.end().0, 0);
        std::thread::sleep(Duration::from_millis(2100));
        goes_to(dir, "ended by itself", "best-effort", send);
    });
}

/// What the device has sent so far.
fn sent() -> u64 {
    let out = Command::new("ip")
        .args(["-s", "-j", "link", "show", "wan"])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    json[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
}

#[test]
fn usage_survives_a_kill_and_a_budget_is_said() {
    if !root("usage_survives_a_kill_and_a_budget_is_said") {
        return;
    }
    in_namespace(|dir| {
        let _far = place(
            "peer",
            &["addr add 192.0.2.2/24 dev peer", "link set peer up"],
        );
        let config = "budget = '2 MB/month'\nmode_at = ['bandwidth 00:00-24:00']\n\
                      rules = ['bulk udp port 8000 after 2MB/month']\n";
        std::fs::write(dir.join("none.toml"), config).unwrap();
        let file = dir.join("lines/wan.usage.json");
        let run = Running::start(dir, "run wan --rate 50mbit 50mbit");
        until("the first count", || file.exists());
        let first = sent();
        let status = evenkeel(dir, "status wan --json").1;
        assert!(
            status.contains("\"mode\": \"bandwidth\"") || status.contains("\"mode\":\"bandwidth\""),
            "{status}"
        );
        let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
        socket.connect("192.0.2.2:8000").unwrap();
        let send = || drop(socket.send(&[0; 1000]));
        goes_to(dir, "a budget that is not used up", "best-effort", send);
        let burst = || {
            for _ in 0..150 {
                (0..10).for_each(|_| send());
                std::thread::sleep(Duration::from_millis(3));
            }
        };
        burst();
        // Killed before it was written: the kernel counts on.
        run.signal(nix::sys::signal::Signal::SIGKILL);
        assert_ne!(run.end().0, 0);
        burst();
        let run = Running::start(dir, "run wan --rate 50mbit 50mbit");
        until("the budget is used up", || {
            crate::running::said(dir).contains("the budget of 2MB/month is used up")
        });
        goes_to(dir, "a budget that is used up", "bulk", send);
        run.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        let all = sent() - first;
        let profile = dir.join("lines");
        let usage = |args: &str| {
            let args = format!("usage wan {args} --profile-dir {}", profile.display());
            let (code, out, err) = evenkeel(dir, &args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        let json: serde_json::Value = serde_json::from_str(&usage("--json")).unwrap();
        let counted = json[0]["month"]["total"]["up"].as_u64().unwrap();
        println!("sent {all}, counted {counted}");
        // What left between the first count and our own look.
        assert!(
            all > 2_500_000 && counted.abs_diff(all) < 50_000,
            "sent {all}, counted {counted}"
        );
        let text = usage("");
        assert!(
            text.contains("upload") && text.contains("of the budget of 2MB/month is used"),
            "{text}"
        );
        assert!(
            text.contains("  this machine") && text.contains("  bulk"),
            "{text}"
        );
        assert!(!usage("--by tier").contains("this machine"));
    });
}

/// A device of ours that talks has its time counted, also across a kill; then it is said, and a rule holds.
#[test]
fn a_budget_of_time_is_kept_for_a_device() {
    if !root("a_budget_of_time_is_kept_for_a_device") {
        return;
    }
    in_namespace(|dir| {
        let (_far, tv) = home();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let config = "budget = 'host 02:00:5E:00:53:01 1 min/day, 5 h/day'\n\
                      rules = ['bulk device 02:00:5e:00:53:01 after 1min/day']\n";
        std::fs::write(dir.join("none.toml"), config).unwrap();
        // It had 41 s today, so that nobody waits for them here.
        let date = Command::new("date").arg("+%F").output().unwrap();
        let today = String::from_utf8(date.stdout).unwrap();
        let today = today.trim();
        std::fs::create_dir(dir.join("lines")).unwrap();
        let before = format!(
            r#"{{"version":1,"days":{{"{today}":{{"hosts_in_use":{{"02:00:5e:00:53:01":41}}}}}}}}"#
        );
        std::fs::write(dir.join("lines/wan.usage.json"), before).unwrap();
        let socket = tv
            .ns
            .run(|| UdpSocket::bind("10.8.0.2:0").unwrap())
            .unwrap();
        let send = || drop(socket.send_to(&[0; 1000], "192.0.2.2:9000"));
        send();
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        goes_to(dir, "a device that has time left", "best-effort", send);
        let says = |what: &str| {
            until(what, || {
                send();
                crate::running::said(dir).contains(what)
            });
        };
        let budget = "02:00:5e:00:53:01's budget of 1min/day is used";
        says(&format!("80 % of {budget}"));
        run.signal(nix::sys::signal::Signal::SIGKILL);
        assert_ne!(run.end().0, 0);
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        says(&format!("{budget} up"));
        assert!(!crate::running::said(dir).contains("80 %"));
        goes_to(dir, "a device that has no time left", "bulk", send);
        run.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        let args = format!("usage wan --profile-dir {}", dir.join("lines").display());
        let text = evenkeel(dir, &args).1;
        assert!(text.contains("  02:00:5e:00:53:01"), "{text}");
        assert!(
            text.contains(" % of the budget of 5h/day is used"),
            "{text}"
        );
        println!("{text}");
    });
}
