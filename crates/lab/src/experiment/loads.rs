//! What a line is loaded with, as an experiment's file says it.
//!
//! Kinds of flows: `bulk` (TCP that never ends, or in bursts), `web` (short TCP connections, each
//! timed), `call` (paced UDP, its own delay, loss and jitter recorded), `quic` (UDP that backs off
//! on loss and knows no receive window). Principles: a key that means nothing for a flow's kind
//! is refused; whatever is random comes from the run's seed. Non-goals: sockets (crate
//! `evenkeel-measure`).

use evenkeel_core::Direction;
use std::time::Duration;

use evenkeel_core::pipe::SplitMix64;
use serde::Deserialize;

/// Most short connections of one load: each holds two sockets while it lasts.
const MOST_PAGES: f64 = 3000.0;
/// How fast sizes thin out: web objects' tail (Pareto shape of about 1.2 in many studies).
const SHAPE: f64 = 1.2;

/// What the line is loaded with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// `down1`, `rrul`, ...
    pub name: String,
    /// Whether clients and servers ask for ECN on their TCP connections.
    #[serde(default)]
    pub ecn: bool,
    /// Empty for an idle line.
    pub flows: Vec<FlowSpec>,
}

/// Some like flows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// What they are.
    #[serde(default)]
    pub kind: FlowKind,
    /// Which way the data goes.
    pub direction: Direction,
    /// Which client, from 1.
    pub client: usize,
    /// The client is one of the hosts beside the gateway: its traffic is not ours.
    #[serde(default)]
    pub beside: bool,
    /// Name of the server.
    pub server: String,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// From the start of the load to the connections, s.
    #[serde(default)]
    pub start_s: f64,
    /// Congestion control at both ends of TCP: `cubic`, `reno`, `bbr` where the kernel has it.
    pub congestion: Option<String>,
    /// Bulk: bytes that each sender keeps unacknowledged at most; absent: as the kernel tunes it.
    pub send_buffer: Option<usize>,
    /// Bulk: lasts so long, s; with `off_s` again and again, each time a new connection.
    pub on_s: Option<f64>,
    /// Bulk: pause between bursts, s.
    pub off_s: Option<f64>,
    /// Web: connections in a second, on average; gaps are exponential.
    pub per_second: Option<f64>,
    /// Web: smallest and largest answer, kB; between them a Pareto distribution of shape 1.2.
    pub size_kbyte: Option<[f64; 2]>,
    /// Call: from one packet to the next.
    pub interval_ms: Option<f64>,
    /// Call: length of its IP packets.
    pub packet_bytes: Option<u16>,
}

/// What a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// TCP with more data than time.
    #[default]
    Bulk,
    /// Short TCP connections.
    Web,
    /// Paced UDP.
    Call,
    /// UDP that obeys losses only.
    Quic,
}

fn one() -> usize {
    1
}

impl FlowSpec {
    /// Congestion control of its TCP.
    pub fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("cubic")
    }

    /// Keys that are given and those its kind must or may have.
    pub(super) fn check(&self) -> Result<(), String> {
        use FlowKind::{Bulk, Call, Web};
        let given = [
            ("congestion", self.congestion.is_some(), &[Bulk, Web][..]),
            ("send_buffer", self.send_buffer.is_some(), &[Bulk]),
            ("on_s", self.on_s.is_some(), &[Bulk]),
            ("off_s", self.off_s.is_some(), &[Bulk]),
            ("beside", self.beside, &[Bulk]),
            ("per_second", self.per_second.is_some(), &[Web]),
            ("size_kbyte", self.size_kbyte.is_some(), &[Web]),
            ("interval_ms", self.interval_ms.is_some(), &[Call]),
            ("packet_bytes", self.packet_bytes.is_some(), &[Call]),
        ];
        let word = |k: FlowKind| format!("{k:?}").to_lowercase();
        if let Some((key, _, kinds)) = given.iter().find(|g| g.1 && !g.2.contains(&self.kind)) {
            let kinds: Vec<_> = kinds.iter().map(|k| word(*k)).collect();
            let (own, these) = (word(self.kind), kinds.join(" and "));
            return Err(format!("{key} is for flows of kind {these}, not {own}"));
        }
        let within = |key: &str, v: f64, low: f64, high: f64| {
            let fits = (low..=high).contains(&v);
            let why = || format!("{key} is {v}, it must be {low} to {high}");
            fits.then_some(()).ok_or_else(why)
        };
        within("start_s", self.start_s, 0.0, 3600.0)?;
        if let Some(b) = self.send_buffer {
            within("send_buffer", b as f64, 4096.0, 1e9)?;
        }
        if let Some(on) = self.on_s {
            within("on_s", on, 0.1, 3600.0)?;
        }
        if let Some(off) = self.off_s {
            within("off_s", off, 0.1, 3600.0)?;
            if self.on_s.is_none() {
                return Err("off_s needs on_s beside it".into());
            }
        }
        if self.kind == Web {
            if self.direction == Direction::Up {
                return Err("direction is up, but web flows are answers to a client".into());
            }
            let missing = || "a web flow needs per_second and size_kbyte".to_owned();
            let rate = self.per_second.ok_or_else(missing)?;
            let [low, high] = self.size_kbyte.ok_or_else(missing)?;
            within("per_second", rate, 0.01, 100.0)?;
            within("size_kbyte (smallest)", low, 0.1, 1e6)?;
            within("size_kbyte (largest)", high, low, 1e6)?;
        }
        if let Some(ms) = self.interval_ms {
            within("interval_ms", ms, 1.0, 1000.0)?;
        }
        if let Some(bytes) = self.packet_bytes {
            within("packet_bytes", f64::from(bytes), 60.0, 1500.0)?;
        }
        Ok(())
    }

    /// Whether a load of `seconds` has too many connections.
    pub(super) fn check_pages(&self, seconds: f64) -> Result<(), String> {
        let pages = self.per_second.unwrap_or(0.0) * seconds * self.count as f64;
        if pages > MOST_PAGES {
            let why = "connections in one load, 3000 are the most";
            return Err(format!("per_second makes some {pages:.0} {why}"));
        }
        Ok(())
    }

    /// From the start of the load: when each burst of a bulk flow starts, and how long it lasts.
    pub fn bursts(&self, load: Duration) -> Vec<(Duration, Option<Duration>)> {
        let of = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
        let start = of(self.start_s);
        match (self.on_s, self.off_s) {
            (Some(on), Some(off)) => {
                let period = of(on) + of(off);
                (0..10_000u32)
                    .map(|i| start + period * i)
                    // A connection needs a while to show anything.
                    .take_while(|at| *at + Duration::from_millis(500) < load)
                    .map(|at| (at, Some(of(on))))
                    .collect()
            }
            (on, _) => vec![(start, on.map(of))],
        }
    }

    /// When each connection of a web flow starts, and how many bytes it gets.
    pub fn pages(&self, seed: u64, load: Duration) -> Vec<(Duration, u64)> {
        let mut random = SplitMix64::new(seed);
        let rate = self.per_second.unwrap_or(1.0);
        let [low, high] = self.size_kbyte.unwrap_or([10.0, 10.0]);
        let mut at = self.start_s;
        let mut pages = Vec::new();
        loop {
            at -= (1.0 - random.unit()).ln() / rate;
            if at >= load.as_secs_f64() || pages.len() as f64 >= MOST_PAGES {
                return pages;
            }
            // The inverse of the bounded distribution.
            let below = 1.0 - (low / high).powf(SHAPE);
            let size = low / (1.0 - random.unit() * below).powf(1.0 / SHAPE);
            let bytes = (size * 1000.0).max(1.0) as u64;
            pages.push((Duration::try_from_secs_f64(at).unwrap_or_default(), bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(more: &str) -> Result<FlowSpec, String> {
        let text = format!("direction = \"down\"\nclient = 1\nserver = \"near\"\n{more}");
        let spec: FlowSpec = toml::from_str(&text).map_err(|e| e.to_string())?;
        spec.check()?;
        Ok(spec)
    }

    #[test]
    fn keys_belong_to_kinds() {
        for (text, says) in [
            (
                "kind = \"quic\"\ncongestion = \"reno\"",
                "congestion is for flows of kind bulk and web, not quic",
            ),
            ("per_second = 3.0", "per_second is for flows of kind web"),
            ("kind = \"web\"", "needs per_second and size_kbyte"),
            ("off_s = 3.0", "needs on_s"),
            (
                "kind = \"web\"\nper_second = 3.0\nsize_kbyte = [9.0, 3.0]",
                "size_kbyte (largest) is 3",
            ),
            ("kind = \"call\"\npacket_bytes = 20", "packet_bytes is 20"),
        ] {
            let e = flow(text).unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
        assert_eq!(flow("").unwrap().congestion(), "cubic");
    }

    #[test]
    fn bursts_repeat_until_the_end() {
        let s = Duration::from_secs;
        let f = flow("start_s = 1.0\non_s = 2.0\noff_s = 3.0").unwrap();
        let expected = vec![(s(1), Some(s(2))), (s(6), Some(s(2)))];
        assert_eq!(f.bursts(s(11)), expected);
        assert_eq!(flow("").unwrap().bursts(s(9)), [(s(0), None)]);
        assert_eq!(
            flow("on_s = 2.0").unwrap().bursts(s(9)),
            [(s(0), Some(s(2)))]
        );
    }

    #[test]
    fn pages_follow_the_seed_and_their_distributions() {
        let f = flow("kind = \"web\"\nper_second = 10.0\nsize_kbyte = [10.0, 1000.0]").unwrap();
        let pages = f.pages(1, Duration::from_secs(200));
        assert_eq!(pages, f.pages(1, Duration::from_secs(200)));
        assert_ne!(pages, f.pages(2, Duration::from_secs(200)));
        assert!((1850..2150).contains(&pages.len()), "{}", pages.len());
        assert!(pages.iter().all(|p| (10_000..=1_000_000).contains(&p.1)));
        assert!(pages.windows(2).all(|w| w[0].0 <= w[1].0));
        // Median of a Pareto from 10 kB of shape 1.2: 10 * 2^(1/1.2) = 17.8 kB.
        let mut sizes: Vec<u64> = pages.iter().map(|p| p.1).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((16_500..19_500).contains(&median), "{median}");
    }
}
