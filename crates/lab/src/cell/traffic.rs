//! The load of a cell: which flows run between which hosts, and what became of them.
//!
//! Principles: every flow has a port of its own and a name that says which way, between whom and
//! of what kind; sockets are made before the line is probed, packets come later; nobody starts
//! several programs in the same microsecond, so each flow begins up to 20 ms later than asked, by
//! the seed's luck and alike under every condition. Non-goals: the flows themselves (crate
//! `evenkeel-measure`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_core::Summary;
use evenkeel_core::pipe::SplitMix64;
use evenkeel_core::result;
use evenkeel_measure::Task;
use evenkeel_measure::call::{Call, CallOutcome};
use evenkeel_measure::load::{Flow, FlowOutcome, Load, RunningLoad};
use evenkeel_measure::quic::Quic;
use evenkeel_measure::web::{Web, WebOutcome};
use evenkeel_sys::netns::set_sysctl;
use evenkeel_sys::{Error, Netns};

use crate::LabError;
use crate::addresses::server_address;
use crate::cells::Cell;
use crate::experiment::{Experiment, FlowKind, FlowSpec, LoadSpec};
use crate::topology::Topology;

/// A call is G.711 unless told otherwise: 160 bytes of sound each 20 ms, RTP, UDP, IP.
const CALL_INTERVAL_MS: f64 = 20.0;
const CALL_BYTES: u16 = 200;
/// A flow begins so much later than asked, at most: about the interval of the probes.
const LATE: Duration = Duration::from_millis(20);

/// One flow and the its client and the number of its server, from 0.
struct Between<T> {
    flow: T,
    client: Client,
    server: usize,
}

/// One of the hosts behind the gateway, or beside it.
#[derive(Debug, Clone, Copy)]
struct Client {
    number: usize,
    beside: bool,
}

impl Client {
    fn of(self, hosts: &Topology) -> &Netns {
        if self.beside {
            &hosts.beside[self.number]
        } else {
            &hosts.clients[self.number]
        }
    }
}

/// Which way a flow's data goes, and whether its client is beside the gateway.
type Whose = (Direction, bool);

/// All flows of a load, not yet running.
#[derive(Default)]
struct Flows {
    bulk: Vec<Between<Flow>>,
    web: Vec<Between<Web>>,
    calls: Vec<Between<Call>>,
    quic: Vec<Between<Quic>>,
}

/// A load with its sockets made.
pub(super) struct Prepared {
    flows: Flows,
    directions: Vec<Whose>,
    bulk: Load,
}

/// A load under way. It ends when this is dropped.
pub(super) struct Running {
    directions: Vec<Whose>,
    bulk: RunningLoad,
    web: Vec<Task<WebOutcome>>,
    calls: Vec<Task<CallOutcome>>,
    quic: Vec<(Direction, Task<FlowOutcome>)>,
}

/// What became of it.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) flows: Vec<(Whose, FlowOutcome)>,
    pub(super) calls: BTreeMap<String, result::Call>,
    pub(super) pages: BTreeMap<String, result::Pages>,
}

impl Prepared {
    pub(super) fn new(
        experiment: &Experiment,
        load: &LoadSpec,
        cell: &Cell,
        hosts: &Topology,
        first_port: u16,
    ) -> Result<Self, LabError> {
        // 1 asks for ECN and 0 does not even accept it.
        let ecn = if load.ecn { "1" } else { "0" };
        let all = hosts.clients.iter().chain(&hosts.servers);
        for host in all.chain(&hosts.beside) {
            host.run(|| set_sysctl("net.ipv4.tcp_ecn", ecn))??;
        }
        let flows = Flows::of(experiment, load, cell, first_port);
        let sockets = flows.bulk.iter().map(|b| {
            let (client, server) = (b.client.of(hosts), &hosts.servers[b.server]);
            (b.flow.clone(), client, server)
        });
        Ok(Prepared {
            directions: flows
                .bulk
                .iter()
                .map(|b| (b.flow.direction, b.client.beside))
                .collect(),
            bulk: Load::prepare(sockets.collect())?,
            flows,
        })
    }

    /// Runs it from `start` (steady clock) for `lasts`.
    pub(super) fn start(
        self,
        hosts: &Topology,
        start: Duration,
        lasts: Duration,
    ) -> Result<Running, Error> {
        fn all<T, R>(
            flows: Vec<Between<T>>,
            hosts: &Topology,
            begin: impl Fn(T, &Netns, &Netns) -> Result<R, Error>,
        ) -> Result<Vec<R>, Error> {
            let one = |b: Between<T>| {
                let (client, server) = (b.client.of(hosts), &hosts.servers[b.server]);
                begin(b.flow, client, server)
            };
            flows.into_iter().map(one).collect()
        }
        Ok(Running {
            directions: self.directions,
            web: all(self.flows.web, hosts, |f, c, s| f.begin(c, s, start, lasts))?,
            calls: all(self.flows.calls, hosts, |f, c, s| {
                f.begin(c, s, start, lasts)
            })?,
            quic: all(self.flows.quic, hosts, |f, c, s| {
                Ok((f.direction, f.begin(c, s, start, lasts)?))
            })?,
            bulk: self.bulk.start(start, lasts)?,
        })
    }
}

impl Running {
    /// Waits for the end of the load.
    pub(super) fn finish(self) -> Result<Outcome, LabError> {
        let bulk = self.bulk.finish()?;
        let mut outcome = Outcome {
            flows: self.directions.into_iter().zip(bulk).collect(),
            ..Outcome::default()
        };
        for (direction, task) in self.quic {
            outcome.flows.push(((direction, false), task.finish()?));
        }
        for task in self.web {
            let web = task.finish()?;
            let name = web.flow.name.clone();
            outcome.pages.insert(name, pages(&web.pages));
            outcome.flows.push(((Direction::Down, false), web.flow));
        }
        for task in self.calls {
            let call = task.finish()?;
            outcome
                .calls
                .insert(call.name.clone(), figures(&call.packets));
        }
        // A line may well starve one flow; if it carries none, something else is wrong.
        let carried = outcome.flows.iter().any(|f| f.1.bytes() > 0);
        let wrong = |f: &FlowOutcome| match f.error.as_str() {
            "" if carried => None,
            "" => Some("nothing was received, nor by any other flow".to_owned()),
            why => Some(why.to_owned()),
        };
        match outcome
            .flows
            .iter()
            .find_map(|f| Some((&f.1, wrong(&f.1)?)))
        {
            None => Ok(outcome),
            Some((f, why)) => Err(LabError::Flow {
                flow: f.name.clone(),
                why,
            }),
        }
    }
}

impl Flows {
    fn of(experiment: &Experiment, load: &LoadSpec, cell: &Cell, first_port: u16) -> Self {
        let mut this = Flows::default();
        let mut places = Places {
            experiment,
            port: first_port,
            named: BTreeMap::new(),
            luck: SplitMix64::new(cell.seed),
        };
        for spec in &load.flows {
            for i in 0..spec.count as u64 {
                match spec.kind {
                    FlowKind::Bulk => this.add_bulk(spec, cell, &mut places),
                    FlowKind::Web => {
                        let seed = cell.seed.wrapping_mul(0x9E37_79B9).wrapping_add(i);
                        this.add_web(spec, cell, seed, &mut places);
                    }
                    FlowKind::Call => this.add_call(spec, &mut places),
                    FlowKind::Quic => this.add_quic(spec, &mut places),
                }
            }
        }
        this
    }

    fn add_bulk(&mut self, spec: &FlowSpec, cell: &Cell, places: &mut Places<'_>) {
        for (start, lasts) in spec.bursts(cell.duration) {
            let at = places.next(spec);
            let flow = Flow {
                name: at.name,
                direction: spec.direction,
                server: at.address,
                start: start + places.late(),
                congestion: spec.congestion().to_owned(),
                send_buffer: spec.send_buffer,
                lasts,
            };
            self.bulk.push(Between {
                flow,
                client: at.client,
                server: at.server,
            });
        }
    }

    fn add_web(&mut self, spec: &FlowSpec, cell: &Cell, seed: u64, places: &mut Places<'_>) {
        let at = places.next(spec);
        let flow = Web {
            name: at.name,
            server: at.address,
            congestion: spec.congestion().to_owned(),
            pages: spec.pages(seed, cell.duration),
        };
        self.web.push(Between {
            flow,
            client: at.client,
            server: at.server,
        });
    }

    fn add_call(&mut self, spec: &FlowSpec, places: &mut Places<'_>) {
        let at = places.next(spec);
        let interval = spec.interval_ms.unwrap_or(CALL_INTERVAL_MS);
        let flow = Call {
            name: at.name,
            direction: spec.direction,
            server: at.address,
            start: start(spec) + places.late(),
            interval: crate::millis::millis(interval),
            packet: spec.packet_bytes.unwrap_or(CALL_BYTES),
        };
        self.calls.push(Between {
            flow,
            client: at.client,
            server: at.server,
        });
    }

    fn add_quic(&mut self, spec: &FlowSpec, places: &mut Places<'_>) {
        let at = places.next(spec);
        let flow = Quic {
            name: at.name,
            direction: spec.direction,
            server: at.address,
            start: start(spec) + places.late(),
        };
        self.quic.push(Between {
            flow,
            client: at.client,
            server: at.server,
        });
    }
}

/// Names, ports and small delays that no two flows share.
struct Places<'a> {
    experiment: &'a Experiment,
    port: u16,
    /// How many there are of each name so far.
    named: BTreeMap<String, usize>,
    luck: SplitMix64,
}

/// Where a flow goes.
struct At {
    name: String,
    address: SocketAddr,
    client: Client,
    server: usize,
}

impl Places<'_> {
    fn next(&mut self, spec: &FlowSpec) -> At {
        let prefix = prefix(spec);
        let n = self.named.entry(prefix.clone()).or_default();
        let name = format!("{prefix}{n}");
        *n += 1;
        // Checked when the file was read.
        let server = self.experiment.server(&spec.server).unwrap_or(0);
        let address = SocketAddr::new(server_address(server), self.port);
        self.port = self.port.wrapping_add(1);
        At {
            name,
            address,
            client: Client {
                number: spec.client - 1,
                beside: spec.beside,
            },
            server,
        }
    }

    /// Flows do not begin in the same microsecond.
    fn late(&mut self) -> Duration {
        LATE.mul_f64(self.luck.unit())
    }
}

fn start(spec: &FlowSpec) -> Duration {
    Duration::try_from_secs_f64(spec.start_s).unwrap_or_default()
}

fn prefix(spec: &FlowSpec) -> String {
    let way = match spec.direction {
        Direction::Down => "down",
        Direction::Up => "up",
    };
    let kind = match spec.kind {
        FlowKind::Bulk => "",
        FlowKind::Web => "web",
        FlowKind::Call => "call",
        FlowKind::Quic => "quic",
    };
    let host = if spec.beside { "beside" } else { "client" };
    format!("{way}/{host}{}/{}/{kind}", spec.client, spec.server)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

fn pages(all: &[(Duration, u64, Option<Duration>)]) -> result::Pages {
    let done: Vec<_> = all.iter().filter_map(|p| Some((p.1, p.2?))).collect();
    let times: Vec<f64> = done.iter().map(|d| ms(d.1)).collect();
    result::Pages {
        begun: all.len() as u64,
        finished: done.len() as u64,
        bytes: done.iter().map(|d| d.0).sum(),
        time_ms: Summary::of(&times),
    }
}

fn figures(packets: &[(Duration, Option<Duration>)]) -> result::Call {
    let came: Vec<f64> = packets.iter().filter_map(|p| Some(ms(p.1?))).collect();
    let neighbours = packets.windows(2).filter_map(|w| Some((w[0].1?, w[1].1?)));
    let steps: Vec<f64> = neighbours.map(|(a, b)| ms(a.abs_diff(b))).collect();
    result::Call {
        sent: packets.len() as u64,
        lost: (packets.len() - came.len()) as u64,
        delay_ms: Summary::of(&came),
        jitter_ms: Summary::of(&steps).map_or(0.0, |s| s.avg),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_figures() {
        let at = |n| Duration::from_millis(n);
        let packets = [
            (at(0), Some(at(10))),
            (at(20), Some(at(14))),
            (at(40), None),
            (at(60), Some(at(12))),
            (at(80), Some(at(12))),
        ];
        let call = figures(&packets);
        assert_eq!((call.sent, call.lost), (5, 1));
        assert!(
            (call.jitter_ms - 2.0).abs() < 1e-9,
            "4 and 0: {}",
            call.jitter_ms
        );
        assert!((call.delay_ms.unwrap().avg - 12.0).abs() < 1e-9);
        assert_eq!(figures(&[]).delay_ms, None);
    }

    #[test]
    fn flows_begin_by_the_seeds_luck() {
        let text = include_str!("../../../../experiments/vdsl100.toml");
        let experiment = Experiment::parse(text, std::path::Path::new("vdsl100.toml")).unwrap();
        let load = experiment.load_spec("rrul").unwrap();
        let starts = |condition: &str, seed| -> Vec<Duration> {
            let cell = Cell {
                condition: condition.into(),
                load: "rrul".into(),
                repeat: 0,
                seed,
                duration: Duration::from_secs(12),
            };
            let flows = Flows::of(&experiment, load, &cell, 50_001).bulk;
            flows.iter().map(|b| b.flow.start).collect()
        };
        let one = starts("none", 1);
        assert_eq!(one.len(), 8);
        assert!(one.iter().all(|s| *s < LATE));
        assert!(one.windows(2).all(|w| w[0] != w[1]), "{one:?}");
        assert_eq!(one, starts("evenkeel", 1));
        assert_ne!(one, starts("none", 2));
    }

    #[test]
    fn pages_in_figures() {
        let at = Duration::from_millis;
        let all = [(at(0), 1000, Some(at(30))), (at(5), 9000, None)];
        let pages = pages(&all);
        assert_eq!((pages.begun, pages.finished, pages.bytes), (2, 1, 1000));
    }
}
