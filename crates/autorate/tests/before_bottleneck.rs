//! Reflectors that cannot be believed, on real kernels in namespaces: a box in front of the
//! bottleneck, hops behind it that answer only probes that expire there, few, or none.
//!
//!     gateway (run) - box (NAT) - line - provider - router - server
//!
//! Needs root; without it each test says so and passes.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use evenkeel_sys::Netns;
use evenkeel_sys::netns::set_sysctl;

use common::{Running, command, root};

const WAN: &str = "wan";
const PORT: u16 = 5001;
const SERVERS: [[u8; 4]; 2] = [[203, 0, 113, 10], [203, 0, 113, 11]];
/// What the line carries both ways, Mbit/s, behind buffers of 60 ms.
const LINE: u64 = 20;
/// An upload is measured over so long.
const LOADED: Duration = Duration::from_secs(5);

/// A host that forwards what is not its own.
fn host(name: &str) -> Netns {
    let ns = Netns::new(name).unwrap();
    ns.run(|| {
        command("ip link set lo up");
        set_sysctl("net.ipv4.ip_forward", "1").unwrap();
    })
    .unwrap();
    ns
}

/// A cable: device and address at each end.
fn cable(near: (&Netns, &str, &str), far: (&Netns, &str, &str)) {
    // iproute2 takes a path for a namespace.
    let there = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        far.0.as_fd().as_raw_fd()
    );
    let pair = format!(
        "ip link add {} type veth peer name {} netns {there}",
        near.1, far.1
    );
    near.0.run(|| command(&pair)).unwrap();
    for (ns, device, address) in [near, far] {
        let add = format!("ip addr add {address} dev {device}");
        let up = format!("ip link set {device} up");
        ns.run(|| [add, up].iter().for_each(|c| command(c)))
            .unwrap();
    }
}

fn inside(ns: &Netns, commands: &[&str]) {
    ns.run(|| commands.iter().for_each(|c| command(c))).unwrap();
}

/// The hosts; dropped, they are gone.
struct World {
    gateway: Netns,
    server: Netns,
    _between: [Netns; 3],
}

/// What routers of the provider do beside forwarding.
struct Provider {
    /// They say once in so many ms to each host that a probe expired; nought: each time.
    ratelimit: &'static str,
    /// What nftables lets pass to and from their own addresses; all else is dropped.
    own: &'static [&'static str],
}

/// Only that probes expired.
const EXPIRES: &[&str] = &["out accept"];

impl World {
    fn new(routers: &Provider) -> Self {
        let [gateway, front, provider, router, server] =
            ["gateway", "box", "provider", "router", "server"].map(host);
        cable(
            (&gateway, WAN, "10.0.0.2/24"),
            (&front, "lan", "10.0.0.1/24"),
        );
        cable(
            (&front, "line", "198.51.100.2/24"),
            (&provider, "line", "198.51.100.1/24"),
        );
        cable(
            (&provider, "out", "192.0.2.1/24"),
            (&router, "in", "192.0.2.2/24"),
        );
        cable(
            (&router, "out", "203.0.113.1/24"),
            (&server, "in", "203.0.113.10/24"),
        );
        inside(&gateway, &["ip route add default via 10.0.0.1"]);
        inside(
            &front,
            &[
                "ip route add default via 198.51.100.1",
                "nft add table ip nat",
                "nft add chain ip nat post { type nat hook postrouting priority 100; }",
                "nft add rule ip nat post oifname line masquerade",
            ],
        );
        inside(&provider, &["ip route add default via 192.0.2.2"]);
        inside(
            &router,
            &[
                "ip route add 198.51.100.0/24 via 192.0.2.1",
                "ip route add default via 203.0.113.10",
            ],
        );
        inside(
            &server,
            &[
                "ip route add default via 203.0.113.1",
                "ip addr add 203.0.113.11/24 dev in",
                "ip addr add 1.1.1.1/32 dev lo",
            ],
        );
        let tbf = format!("tc qdisc add dev line root tbf rate {LINE}mbit burst 5kb latency 60ms");
        for end in [&front, &provider] {
            inside(end, &[&tbf]);
        }
        for one in [&provider, &router] {
            inside(one, &["nft add table ip own"]);
            for (chain, hook) in [("in", "input"), ("out", "output")] {
                let chain = format!("nft add chain ip own {chain}");
                let hook = format!("type filter hook {hook} priority 0; policy drop;");
                inside(one, &[&format!("{chain} {{ {hook} }}")]);
            }
            for rule in routers.own {
                inside(one, &[&format!("nft add rule ip own {rule}")]);
            }
            let limit = || set_sysctl("net.ipv4.icmp_ratelimit", routers.ratelimit);
            one.run(limit).unwrap().unwrap();
        }
        World {
            gateway,
            server,
            _between: [front, provider, router],
        }
    }

    /// Sends all who connect as much as they take, after a byte of theirs.
    fn serve(&self) {
        for address in SERVERS {
            let bind = || TcpListener::bind(SocketAddr::from((address, PORT)));
            let listener = self.server.run(bind).unwrap().unwrap();
            let serve = move || {
                for mut stream in listener.incoming().flatten() {
                    std::thread::spawn(move || {
                        let mut asked = [0];
                        while stream.read_exact(&mut asked).is_ok() && asked == [1] {
                            stream.write_all(b".").unwrap();
                        }
                        while asked == [2] && stream.write_all(&[0; 1 << 14]).is_ok() {}
                    });
                }
            };
            // They end with the process: nobody waits for them.
            drop(self.server.spawn("serve", serve).unwrap());
        }
    }

    /// Sends as much as is taken until `stop`; how much is counted at the server.
    fn upload(&self, stop: &Arc<AtomicBool>) -> Arc<AtomicU64> {
        let taken = Arc::new(AtomicU64::new(0));
        let to = SocketAddr::from((SERVERS[0], PORT));
        let listener = self.server.run(|| TcpListener::bind(to)).unwrap().unwrap();
        let count = Arc::clone(&taken);
        let take = move || {
            let mut stream = listener.accept().unwrap().0;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        };
        drop(self.server.spawn("take", take).unwrap());
        let stop = Arc::clone(stop);
        let give = move || {
            let mut stream = TcpStream::connect(to).unwrap();
            while !stop.load(Ordering::Relaxed) && stream.write_all(&[0; 1 << 14]).is_ok() {}
        };
        drop(self.gateway.spawn("give", give).unwrap());
        taken
    }

    /// A connection that says a byte and hears one now and then, and then is used to the full until
    /// `stop`.
    fn download(&self, address: [u8; 4], stop: &Arc<AtomicBool>) {
        let stop = Arc::clone(stop);
        let work = move || {
            let mut stream = TcpStream::connect(SocketAddr::from((address, PORT))).unwrap();
            let mut buffer = vec![0; 1 << 16];
            for _ in 0..25 {
                stream.write_all(&[1]).unwrap();
                stream.read_exact(&mut buffer[..1]).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
            stream.write_all(&[2]).unwrap();
            while !stop.load(Ordering::Relaxed) && stream.read(&mut buffer).unwrap() > 0 {}
            let _ = stream.shutdown(Shutdown::Both);
        };
        drop(self.gateway.spawn("download", work).unwrap());
    }
}

/// The rate behind `down` in what is said of rates, Mbit/s.
fn down(line: &str) -> Option<f64> {
    let rate = line.strip_prefix("down ")?.split_whitespace().next()?;
    rate.parse().ok()
}

/// What is known once the line has been followed for a while.
fn followed(
    routers: &Provider,
    first: &str,
    reserve: &str,
    then: impl FnOnce(&World, &Running, &Arc<AtomicBool>),
) {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(routers);
    let stop = Arc::new(AtomicBool::new(false));
    let running = Running::start(&world.gateway, WAN, dir.path(), &stop);
    running.until("a reflector", |l| l.starts_with(first));
    running.until("a reserve", |l| {
        l.strip_prefix("kept in reserve: ") == Some(reserve)
    });
    then(&world, &running, &stop);
    stop.store(true, Ordering::Relaxed);
    running.ends_well();
}

/// Downloads from two servers: the line is shaped.
fn is_shaped(world: &World, running: &Running, stop: &Arc<AtomicBool>) {
    world.serve();
    for address in [SERVERS, SERVERS].as_flattened() {
        world.download(*address, stop);
    }
    let near = |rate: f64| (rate / LINE as f64 - 1.0).abs() < 0.2;
    running.until("a rate near the line's", |l| down(l).is_some_and(near));
}

/// What lets probes expire beyond the line is probed rather than the box, which answers, before it.
fn is_passed_over(routers: &Provider) {
    let first = "probing 198.51.100.1, by probes that expire there";
    followed(routers, first, "192.0.2.2", is_shaped);
}

#[test]
fn a_box_in_front_is_passed_over() {
    if root("a_box_in_front_is_passed_over") {
        is_passed_over(&Provider {
            ratelimit: "0",
            own: EXPIRES,
        });
    }
}

#[test]
fn hops_that_answer_seldom_are_asked_seldom() {
    if root("hops_that_answer_seldom_are_asked_seldom") {
        is_passed_over(&Provider {
            ratelimit: "1000",
            own: EXPIRES,
        });
    }
}

#[test]
fn where_nothing_else_answers_connections_are_watched() {
    if !root("where_nothing_else_answers_connections_are_watched") {
        return;
    }
    let routers = Provider {
        ratelimit: "0",
        own: &[],
    };
    followed(
        &routers,
        "probing 10.0.0.1,",
        "nothing",
        |world, running, stop| {
            world.serve();
            for address in [SERVERS, SERVERS].as_flattened() {
                world.download(*address, stop);
            }
            let doubt = "10.0.0.1 does not see the queue that connections see (";
            let line = running.until("a doubt", |l| l.starts_with(doubt));
            let then = "round trips of connections that pass are watched instead";
            assert!(line.ends_with(then), "{line}");
            let near = |rate: f64| (rate / LINE as f64 - 1.0).abs() < 0.2;
            running.until("a rate near the line's", |l| down(l).is_some_and(near));
        },
    );
}

#[test]
fn a_hop_that_limits_its_answers_holds_no_upload_up() {
    if !root("a_hop_that_limits_its_answers_holds_no_upload_up") {
        return;
    }
    let routers = Provider {
        ratelimit: "0",
        own: &[
            "in limit rate 12/second burst 5 packets accept",
            "out accept",
        ],
    };
    let first = "probing 198.51.100.1, which stamps";
    followed(&routers, first, "192.0.2.2", |world, running, stop| {
        let sent = world.upload(stop);
        let end = Instant::now() + LOADED;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match running.told.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => panic!("run has ended"),
            }
        }
        let bits = sent.load(Ordering::Relaxed) as f64 * 8.0;
        let mbit = bits / LOADED.as_secs_f64() / 1e6;
        assert!(mbit > 0.7 * LINE as f64, "{mbit} Mbit/s");
    });
}
