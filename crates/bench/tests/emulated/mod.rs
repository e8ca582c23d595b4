//! Two machines and an emulated line with exact framing between them.
#![allow(dead_code, reason = "every file of tests uses a part")]

use std::time::Duration;

use evenkeel_bench::line::form::Form;
use evenkeel_bench::line::{self, Options};
use evenkeel_bench::serve::{Config, Limits, Server};
use evenkeel_core::Rate;
use evenkeel_core::framing::Framing;
use evenkeel_core::pipe::{Bucket, Buffer, CoDel, PipeConfig, RateTrace};
use evenkeel_lab::emulator::{Emulator, Ends, LineConfig};
use evenkeel_sys::Netns;
use evenkeel_sys::tun::{Tun, TunKind};

use crate::common::{never, sh, skipped};

/// What is not usual about a line.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) buffer: Buffer,
    pub(crate) bucket: Option<Bucket>,
    pub(crate) managed: bool,
    /// Round trip.
    pub(crate) rtt: Duration,
    pub(crate) mtu: u32,
}

impl Default for Kind {
    fn default() -> Self {
        Kind {
            buffer: Buffer::Time(Duration::from_millis(400)),
            bucket: None,
            managed: false,
            rtt: Duration::from_millis(10),
            mtu: 1500,
        }
    }
}

/// Two machines with an emulated line between them; `10.23.0.1` measures, `10.23.0.2` is beyond.
pub(crate) struct World {
    pub(crate) near: Netns,
    pub(crate) far: Netns,
    _line: Emulator,
}

pub(crate) fn world(test: &str, framing: &str, down: u64, up: u64, kind: &Kind) -> Option<World> {
    if !nix::unistd::geteuid().is_root() {
        skipped(test, "not root, so no namespaces");
        return None;
    }
    let (near, far) = (Netns::new("near").unwrap(), Netns::new("far").unwrap());
    let end = |ns: &Netns, address: &str| {
        ns.run(|| {
            let tun = Tun::open("wan", TunKind::Tun).unwrap();
            sh("ip link set lo up");
            // Nobody solicits routers in the middle of a train.
            for key in ["router_solicitations", "accept_ra", "accept_dad"] {
                let key = format!("net.ipv6.conf.wan.{key}");
                evenkeel_sys::netns::set_sysctl(&key, "0").unwrap();
            }
            sh("ip link set wan txqueuelen 20000");
            sh(&format!("ip link set wan mtu {}", kind.mtu));
            sh(&format!("ip addr add {address}/24 dev wan"));
            let last = address.rsplit('.').next().unwrap();
            sh(&format!("ip addr add fd23::{last}/64 dev wan nodad"));
            sh("ip link set wan up");
            evenkeel_sys::netns::set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
            tun
        })
        .unwrap()
    };
    let framing: Framing = framing.parse().unwrap();
    let pipe = |kbit| PipeConfig {
        rate: RateTrace::constant(Rate::from_kbit(kbit)),
        framing,
        buffer: kind.buffer,
        bucket: kind.bucket,
        managed: kind.managed.then(CoDel::default),
        turns: Duration::ZERO,
        delay: kind.rtt / 2,
        wander: Vec::new(),
        jitter: Duration::ZERO,
        loss: 0.0,
        seed: 1,
    };
    let ends = Ends {
        gateway: end(&near, "10.23.0.1"),
        provider: end(&far, "10.23.0.2"),
        kind: TunKind::Tun,
    };
    let config = LineConfig {
        down: pipe(down),
        up: pipe(up),
        beyond: Vec::new(),
        filters_icmp: false,
        silent: None,
        hop: None,
    };
    let line = Emulator::start(ends, config).unwrap();
    line.mark();
    Some(World {
        near,
        far,
        _line: line,
    })
}

impl World {
    pub(crate) fn serve(&self) -> Server {
        let config = Config {
            listen: vec!["[::]:44811".parse().unwrap()],
            token: String::new(),
            tls: None,
            limits: Limits::default(),
        };
        self.far.run(|| Server::start(&config)).unwrap().unwrap()
    }

    pub(crate) fn measure(&self, server: Option<&str>) -> Form {
        let options = Options {
            server: server.map(str::to_owned),
            token: String::new(),
            device: Some("wan".into()),
            budget: 2.0,
            without_router: true,
        };
        let form = self.near.run(|| line::run(&options, &never(), &mut |_| {}));
        let form = form.unwrap().unwrap();
        println!("{}", line::text::text(&form));
        form
    }
}
