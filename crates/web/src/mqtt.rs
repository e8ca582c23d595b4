//! Tells Home Assistant of the lines, by its MQTT discovery.
//!
//! Principles: sensors announce themselves, so nothing has to be set up there; figures are sent each ten seconds;
//! when this program goes the broker says so (last will); a broker that is away is tried again. Nothing is taken from
//! the broker. Non-goals: switches (what changes something needs the token), TLS.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rumqttc::{AsyncClient, ClientError, Event, EventLoop, LastWill, MqttOptions, Packet, QoS};
use serde_json::{Value, json};

use crate::live::{Live, Look};
use crate::metrics::bytes_per_second;

/// From one state to the next.
const EACH: Duration = Duration::from_secs(10);
/// From one attempt to the next.
const AGAIN: Duration = Duration::from_secs(10);
/// Where it is said that we are there.
const AVAILABLE: &str = "evenkeel/available";
/// Messages that may wait.
const ROOM: usize = 64;
/// The broker hears from us at least this often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// MQTT's port.
const PORT: u16 = 1883;

/// A sensor: what it is called in topics and by people, its unit, its kind in Home Assistant.
type Sensor = (&'static str, &'static str, &'static str, &'static str);

const SENSORS: [Sensor; 7] = [
    ("down", "Download", "Mbit/s", "data_rate"),
    ("up", "Upload", "Mbit/s", "data_rate"),
    ("down_capacity", "Download capacity", "Mbit/s", "data_rate"),
    ("up_capacity", "Upload capacity", "Mbit/s", "data_rate"),
    ("latency", "Latency felt", "ms", "duration"),
    ("base", "Latency idle", "ms", "duration"),
    ("queue", "Queue at the line", "ms", "duration"),
];

/// Whom to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    host: String,
    port: u16,
    login: Option<(String, String)>,
}

impl Broker {
    /// `mqtt://[USER:PASSWORD@]HOST[:PORT]`. An error does not repeat it: it may have a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let wrong = || "the broker is not like mqtt://[USER:PASSWORD@]HOST[:PORT]".to_owned();
        let rest = url
            .strip_prefix("mqtt://")
            .ok_or_else(wrong)?
            .trim_end_matches('/');
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((user.to_owned(), password.to_owned())), place)
            }
            None => (None, rest),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
            Some((host, "")) => (host, PORT),
            Some((host, port)) => (
                host,
                port.strip_prefix(':')
                    .and_then(|p| p.parse().ok())
                    .ok_or_else(wrong)?,
            ),
            None => match place.split_once(':') {
                Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
                None => (place, PORT),
            },
        };
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            return Err(wrong());
        }
        Ok(Broker {
            host: host.to_owned(),
            port,
            login,
        })
    }

    fn connect(&self) -> (AsyncClient, EventLoop) {
        let mut options = MqttOptions::new("evenkeel", &self.host, self.port);
        options.set_keep_alive(KEEP_ALIVE);
        options.set_last_will(LastWill::new(AVAILABLE, "offline", QoS::AtLeastOnce, true));
        if let Some((user, password)) = &self.login {
            options.set_credentials(user, password);
        }
        AsyncClient::new(options, ROOM)
    }
}

/// Tells it for ever.
pub(crate) async fn tell(broker: Broker, live: Arc<Live>) {
    let (client, mut connection) = broker.connect();
    let mut looks = live.watch();
    let mut ticks = tokio::time::interval(EACH);
    let mut announced = BTreeSet::new();
    let (mut said, mut connected) = (false, false);
    loop {
        tokio::select! {
            event = connection.poll() => match event {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    (said, connected) = (false, true);
                    announced.clear();
                    let _ = client.try_publish(AVAILABLE, QoS::AtLeastOnce, true, "online");
                }
                Ok(_) => {}
                Err(e) => {
                    connected = false;
                    if !std::mem::replace(&mut said, true) {
                        eprintln!("evenkeel-web: warning: {}:{}: {e}; it is tried again", broker.host, broker.port);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            },
            _ = ticks.tick(), if connected => {
                let look = Arc::clone(&looks.borrow_and_update());
                // What does not fit waits for the next time.
                let _ = publish(&client, &look, &mut announced);
            }
        }
    }
}

fn publish(
    client: &AsyncClient,
    look: &Look,
    announced: &mut BTreeSet<String>,
) -> Result<(), ClientError> {
    for line in look.status.as_array().into_iter().flatten() {
        let Some(device) = line["device"].as_str() else {
            continue;
        };
        if !announced.contains(device) {
            for (topic, config) in announcements(device) {
                client.try_publish(topic, QoS::AtLeastOnce, true, config.to_string())?;
            }
            announced.insert(device.to_owned());
        }
        let state = state(&line["model"]).to_string();
        client.try_publish(
            format!("evenkeel/{}/state", plain(device)),
            QoS::AtMostOnce,
            false,
            state,
        )?;
    }
    Ok(())
}

/// A name that means nothing in a topic.
fn plain(name: &str) -> String {
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '-'), "_")
}

/// What announces the sensors of a device.
fn announcements(device: &str) -> Vec<(String, Value)> {
    let name = plain(device);
    let of = |(key, words, unit, kind): Sensor| {
        let id = format!("evenkeel_{name}_{key}");
        let config = json!({
            "name": words,
            "unique_id": id,
            "object_id": id,
            "state_topic": format!("evenkeel/{name}/state"),
            "value_template": format!("{{{{ value_json.{key} }}}}"),
            "unit_of_measurement": unit,
            "device_class": kind,
            "state_class": "measurement",
            "suggested_display_precision": 1,
            "availability_topic": AVAILABLE,
            "device": {
                "identifiers": [format!("evenkeel_{name}")],
                "name": format!("evenkeel {device}"),
                "manufacturer": "evenkeel",
                "sw_version": env!("CARGO_PKG_VERSION"),
            },
        });
        (
            format!("homeassistant/sensor/evenkeel_{name}/{key}/config"),
            config,
        )
    };
    SENSORS.into_iter().map(of).collect()
}

/// The figures of a line's model; null where something is not known.
fn state(model: &Value) -> Value {
    let round = |v: f64| (v * 1000.0).round() / 1000.0;
    let passing = |d: &str| model[d]["passing_kbit"].as_f64().map(|k| round(k / 1e3));
    let capacity = |d: &str| {
        model[d]["capacity"]
            .as_str()
            .and_then(bytes_per_second)
            .map(|b| round(b * 8e-6))
    };
    let queue = |key: &str| {
        ["down", "up"]
            .iter()
            .filter_map(|d| model[*d][key].as_f64())
            .sum::<f64>()
    };
    let base = model["base_ms"].as_f64();
    json!({
        "down": passing("down"),
        "up": passing("up"),
        "down_capacity": capacity("down"),
        "up_capacity": capacity("up"),
        "base": base.map(round),
        "queue": round(queue("queue_ms")),
        "latency": base.map(|b| round(b + queue("queue_ms") + queue("own_queue_ms"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers() {
        let broker = |host: &str, port, login: Option<(&str, &str)>| Broker {
            host: host.into(),
            port,
            login: login.map(|(u, p)| (u.into(), p.into())),
        };
        for (url, is) in [
            ("mqtt://ha.lan", broker("ha.lan", 1883, None)),
            ("mqtt://ha.lan:1884/", broker("ha.lan", 1884, None)),
            (
                "mqtt://me:p@ss:word@192.0.2.1",
                broker("192.0.2.1", 1883, Some(("me", "p@ss:word"))),
            ),
            ("mqtt://[2001:db8::1]:9", broker("2001:db8::1", 9, None)),
            ("mqtt://[::1]", broker("::1", 1883, None)),
        ] {
            assert_eq!(Broker::parse(url), Ok(is), "{url}");
        }
        for url in [
            "",
            "ha.lan",
            "mqtts://ha.lan",
            "mqtt://",
            "mqtt://ha.lan:x",
            "mqtt://a b",
            "mqtt://[::1]x",
            "mqtt://ha.lan/x",
        ] {
            let why = Broker::parse(url).unwrap_err();
            assert!(why.contains("USER:PASSWORD"), "{url}: {why}");
        }
    }

    #[test]
    fn sensors_and_their_state() {
        let all = announcements("ppp0.7");
        assert_eq!(all.len(), 7);
        assert_eq!(all[0].0, "homeassistant/sensor/evenkeel_ppp0_7/down/config");
        assert_eq!(all[0].1["value_template"], "{{ value_json.down }}");
        let model = json!({"base_ms": 9.0, "down": {"capacity": "100mbit", "passing_kbit": 1234.5678, "queue_ms": 1.0, "own_queue_ms": 2.0}, "up": {}});
        let state = state(&model);
        assert_eq!(state["down"], 1.235);
        assert_eq!(state["down_capacity"], 100.0);
        assert_eq!(
            (&state["latency"], &state["up"]),
            (&json!(12.0), &Value::Null)
        );
    }
}
