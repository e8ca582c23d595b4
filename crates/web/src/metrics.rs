//! Metrics for Prometheus, of a look at the lines.
//!
//! Principles: made anew for each scrape from what the daemon says then, so nothing can be stale; names, units and
//! types follow Prometheus' conventions (base units: seconds and bytes; totals end with `_total`); what is not known
//! is absent. Non-goals: history (Prometheus keeps it), single flows and hosts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;

/// The kind of text: Prometheus' own, which every version and `promtool` read.
pub(crate) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLine {
    device: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWay {
    device: String,
    direction: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTier {
    device: String,
    direction: String,
    tier: String,
}

type Number = Gauge<f64, AtomicU64>;

/// All families of one scrape.
#[derive(Default)]
struct Families {
    up: Gauge,
    working: Family<OfLine, Gauge>,
    base: Family<OfLine, Number>,
    felt: Family<OfLine, Number>,
    capacity: Family<OfWay, Number>,
    shaped: Family<OfWay, Number>,
    passing: Family<OfWay, Number>,
    queue: Family<OfWay, Number>,
    own: Family<OfWay, Number>,
    bytes: Family<OfWay, Counter>,
    packets: Family<OfWay, Counter>,
    dropped: Family<OfWay, Counter>,
    marked: Family<OfWay, Counter>,
    tier_bytes: Family<OfTier, Counter>,
    tier_dropped: Family<OfTier, Counter>,
}

/// The text of a scrape; `None`: the daemon does not answer.
pub(crate) fn text(status: Option<&Value>) -> String {
    let families = Families::default();
    families.up.set(i64::from(status.is_some()));
    for line in status.and_then(Value::as_array).into_iter().flatten() {
        families.line(line);
    }
    let mut registry = Registry::with_prefix("evenkeel");
    families.register(&mut registry);
    let mut text = String::new();
    // Writing to a string fails for want of memory alone.
    let _ = encode(&mut text, &registry);
    classic(&text)
}

/// OpenMetrics' text as Prometheus' older one: there a counter's family has its whole name, and units have no line.
fn classic(text: &str) -> String {
    let counters: BTreeSet<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(text.len());
    for line in text
        .lines()
        .filter(|l| !l.starts_with("# UNIT ") && *l != "# EOF")
    {
        let described = line.strip_prefix("# ").and_then(|l| l.split_once(' '));
        let family = described.and_then(|(what, rest)| Some((what, rest.split_once(' ')?)));
        match family {
            Some((what, (name, rest))) if counters.contains(name) => {
                let _ = writeln!(out, "# {what} {name}_total {rest}");
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

impl Families {
    fn line(&self, line: &Value) {
        let Some(device) = line["device"].as_str().map(str::to_owned) else {
            return;
        };
        let of = OfLine {
            device: device.clone(),
        };
        let model = &line["model"];
        // A device that is waited for has a model alone.
        let works = i64::from(line["health"] == "working");
        self.working.get_or_create(&of).set(works);
        let mut felt = model["base_ms"].as_f64();
        put(&self.base, &of, felt.map(|ms| ms / 1e3));
        for direction in ["down", "up"] {
            let way = OfWay {
                device: device.clone(),
                direction: direction.to_owned(),
            };
            let (known, counted) = (&model[direction], &line[direction]);
            let bytes = |rate: &Value| rate.as_str().and_then(bytes_per_second);
            put(&self.capacity, &way, bytes(&known["capacity"]));
            put(&self.shaped, &way, bytes(&known["shaped"]));
            put(
                &self.passing,
                &way,
                known["passing_kbit"].as_f64().map(|k| k * 125.0),
            );
            put(
                &self.queue,
                &way,
                known["queue_ms"].as_f64().map(|ms| ms / 1e3),
            );
            put(
                &self.own,
                &way,
                known["own_queue_ms"].as_f64().map(|ms| ms / 1e3),
            );
            for queue in ["queue_ms", "own_queue_ms"] {
                felt = felt.zip(known[queue].as_f64()).map(|(a, b)| a + b);
            }
            count(&self.bytes, &way, &counted["bytes"]);
            count(&self.packets, &way, &counted["packets"]);
            count(&self.dropped, &way, &counted["dropped"]);
            count(&self.marked, &way, &counted["marked"]);
            self.tiers(&way, &counted["tiers"]);
        }
        put(&self.felt, &of, felt.map(|ms| ms / 1e3));
    }

    fn tiers(&self, way: &OfWay, tiers: &Value) {
        for tier in tiers.as_array().into_iter().flatten() {
            let of = OfTier {
                device: way.device.clone(),
                direction: way.direction.clone(),
                tier: tier["tier"].as_str().unwrap_or_default().to_owned(),
            };
            count(&self.tier_bytes, &of, &tier["bytes"]);
            count(&self.tier_dropped, &of, &tier["dropped"]);
        }
    }

    fn register(self, to: &mut Registry) {
        let rate = || Unit::Other("bytes_per_second".to_owned());
        to.register("daemon_up", "Whether evenkeel's daemon answers", self.up);
        to.register(
            "line_working",
            "Whether the line is shaped as it is meant to be",
            self.working,
        );
        to.register_with_unit(
            "base_rtt",
            "Round trip of the idle line",
            Unit::Seconds,
            self.base,
        );
        let felt = "Round trip that is felt: of the idle line, and all queues";
        to.register_with_unit("latency_felt", felt, Unit::Seconds, self.felt);
        to.register_with_unit(
            "line_capacity",
            "What the line carries",
            rate(),
            self.capacity,
        );
        to.register_with_unit(
            "shaped_rate",
            "What the line is shaped to",
            rate(),
            self.shaped,
        );
        to.register_with_unit("throughput", "What passes", rate(), self.passing);
        to.register_with_unit(
            "line_queue",
            "Queue at the line's bottleneck",
            Unit::Seconds,
            self.queue,
        );
        to.register_with_unit(
            "own_queue",
            "Queue in evenkeel's own shaper",
            Unit::Seconds,
            self.own,
        );
        to.register_with_unit("sent", "Sent by the shaper", Unit::Bytes, self.bytes);
        to.register("sent_packets", "Packets sent by the shaper", self.packets);
        to.register(
            "dropped_packets",
            "Packets dropped by the shaper",
            self.dropped,
        );
        to.register(
            "marked_packets",
            "Packets marked (ECN) by the shaper",
            self.marked,
        );
        to.register_with_unit(
            "tier_sent",
            "Sent by the shaper, by tier",
            Unit::Bytes,
            self.tier_bytes,
        );
        to.register(
            "tier_dropped_packets",
            "Packets dropped by the shaper, by tier",
            self.tier_dropped,
        );
    }
}

fn put<L: Clone + std::hash::Hash + Eq>(family: &Family<L, Number>, of: &L, value: Option<f64>) {
    if let Some(value) = value.filter(|v| v.is_finite()) {
        family.get_or_create(of).set(value);
    }
}

fn count<L: Clone + std::hash::Hash + Eq>(family: &Family<L, Counter>, of: &L, value: &Value) {
    if let Some(value) = value.as_u64() {
        family.get_or_create(of).inc_by(value);
    }
}

/// Of `20639675bit`, `100mbit`: as the daemon writes rates.
pub(crate) fn bytes_per_second(rate: &str) -> Option<f64> {
    let digits = rate.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = rate.split_at(digits);
    let scale = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale / 8.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look() -> Value {
        json!([{
            "device": "wan", "health": "working",
            "down": {"bytes": 5, "packets": 2, "dropped": 0, "marked": 1, "tiers": [{"tier": "voice", "bytes": 3, "dropped": 0}]},
            "up": {"bytes": 7, "packets": 1, "dropped": 1, "marked": 0, "tiers": []},
            "model": {"base_ms": 9.0,
                "down": {"capacity": "100mbit", "shaped": "99500kbit", "passing_kbit": 8.0, "queue_ms": 1.0, "own_queue_ms": 2.0},
                "up": {"capacity": null, "shaped": null, "passing_kbit": 0.0, "queue_ms": 0.0, "own_queue_ms": 0.0}},
        }])
    }

    #[test]
    fn a_scrape() {
        let text = text(Some(&look()));
        for line in [
            "evenkeel_daemon_up 1",
            "evenkeel_line_working{device=\"wan\"} 1",
            "evenkeel_latency_felt_seconds{device=\"wan\"} 0.012",
            "evenkeel_line_capacity_bytes_per_second{device=\"wan\",direction=\"down\"} 12500000.0",
            "evenkeel_throughput_bytes_per_second{device=\"wan\",direction=\"down\"} 1000.0",
            "evenkeel_sent_bytes_total{device=\"wan\",direction=\"up\"} 7",
            "evenkeel_tier_sent_bytes_total{device=\"wan\",direction=\"down\",tier=\"voice\"} 3",
            "# TYPE evenkeel_sent_bytes_total counter",
            "# HELP evenkeel_sent_packets_total Packets sent by the shaper.",
            "# TYPE evenkeel_daemon_up gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
        // What is not known is absent.
        assert!(!text.contains("capacity_bytes_per_second{device=\"wan\",direction=\"up\"}"));
    }

    #[test]
    fn nobody_answers() {
        assert!(super::text(None).contains("evenkeel_daemon_up 0"));
        assert!(super::text(Some(&json!({"x": [1]}))).contains("evenkeel_daemon_up 1"));
        let rates = ["20639675bit", "1gbit", "x", "5", "5parsec"].map(bytes_per_second);
        assert_eq!(rates, [Some(2_579_959.375), Some(125e6), None, None, None]);
    }
}
