//! The other end of a line: answers ICMP and ICMPv6 echo as late as a test wants.
//!
//! Principle: a TUN device and a thread, so that a kernel without netem has a line with delay as
//! well. Non-goals: rates, forwarding (the lab has them).

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_wire::packet::{Echo, EchoKind, Ip, IpHeader};

use super::common::ip;

/// Behind a device that is the way to the Internet.
pub(crate) struct Provider {
    /// Round trip, ms.
    pub(crate) delay_ms: Arc<AtomicU64>,
    /// When each host was asked.
    pub(crate) asked: Arc<Mutex<HashMap<IpAddr, Vec<Instant>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Only `hosts` answer.
    pub(crate) fn start(hosts: &[Ipv4Addr]) -> Self {
        let hosts: Vec<IpAddr> = hosts.iter().copied().map(IpAddr::V4).collect();
        let setup = [
            "addr add 192.0.2.1/24 dev wan",
            "link set wan up",
            "route add default via 192.0.2.2",
        ];
        Self::behind("wan", &setup, &hosts)
    }

    /// The same behind another device, which `ip` sets up so.
    pub(crate) fn behind(device: &str, setup: &[&str], hosts: &[IpAddr]) -> Self {
        let tun = Tun::open(device, TunKind::Tun).unwrap();
        setup.iter().copied().for_each(ip);
        let hosts = hosts.to_vec();
        let mut provider = Provider {
            delay_ms: Arc::new(AtomicU64::new(10)),
            asked: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (delay_ms, asked) = (provider.delay_ms.clone(), provider.asked.clone());
        let stop = provider.stop.clone();
        let work = move || {
            let mut buffer = [0; 2048];
            let mut late: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                while let Some(n) = tun.read(&mut buffer).unwrap() {
                    let now = Instant::now();
                    let Some((host, answer)) = answer(&buffer[..n]) else {
                        continue;
                    };
                    asked.lock().unwrap().entry(host).or_default().push(now);
                    if hosts.contains(&host) {
                        let delay = Duration::from_millis(delay_ms.load(Ordering::Relaxed));
                        late.push_back((now + delay, answer));
                    }
                }
                while late.front().is_some_and(|l| l.0 <= Instant::now()) {
                    if let Some((_, answer)) = late.pop_front() {
                        tun.write(&answer).unwrap();
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        provider.thread = Some(std::thread::spawn(work));
        provider
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Who is asked, and his answer.
fn answer(packet: &[u8]) -> Option<(IpAddr, Vec<u8>)> {
    let ip = Ip::parse(packet).ok()?;
    let echo = Echo::parse(ip.payload()).ok()?;
    let header = ip.header();
    let kind = match echo.kind {
        EchoKind::Request if ip.is_v4() => EchoKind::Reply,
        EchoKind::Request6 if !ip.is_v4() => EchoKind::Reply6,
        _ => return None,
    };
    let back = IpHeader {
        source: header.destination,
        destination: header.source,
        ..header
    };
    let reply = Echo { kind, ..echo }.build(Some((back.source, back.destination)));
    Some((header.destination, back.build(&reply)?))
}
