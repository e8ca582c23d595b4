//! What the line does now, once a second, for all who watch.
//!
//! Principles: however many watch, the daemon is asked once; while nobody does, it is not asked. Non-goals: history.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_socket::Request;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::daemon::Daemon;

/// From one look to the next.
const EACH: Duration = Duration::from_secs(1);

/// The latest look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// What the daemon says of its lines: a list.
    pub(crate) status: Value,
    /// Who uses them, or why that is not known.
    pub(crate) flows: Value,
    /// Why nothing is known; empty if something is.
    pub(crate) trouble: String,
}

impl Look {
    /// As an event for pages.
    pub(crate) fn json(&self) -> String {
        json!({"status": self.status, "flows": self.flows, "trouble": self.trouble}).to_string()
    }
}

/// Watched by some.
pub(crate) struct Live {
    looks: watch::Sender<Arc<Look>>,
}

impl Live {
    pub(crate) fn start(daemon: Arc<Daemon>) -> Arc<Self> {
        let live = Arc::new(Live {
            looks: watch::Sender::new(Arc::default()),
        });
        tokio::spawn(poll(daemon, Arc::downgrade(&live)));
        live
    }

    /// From now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Look>> {
        self.looks.subscribe()
    }
}

async fn poll(daemon: Arc<Daemon>, live: std::sync::Weak<Live>) {
    let mut ticks = interval(EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(live) = live.upgrade() else {
            return;
        };
        if live.looks.receiver_count() == 0 {
            continue;
        }
        let look = match daemon.ask(&Request::Status { device: None }).await {
            Err(refused) => Look {
                trouble: refused.why,
                ..Look::default()
            },
            Ok(status) => Look {
                flows: flows(&daemon, &status).await,
                status,
                trouble: String::new(),
            },
        };
        live.looks.send_replace(Arc::new(look));
    }
}

/// Those of each device that is shaped.
async fn flows(daemon: &Daemon, status: &Value) -> Value {
    let mut all = serde_json::Map::new();
    for line in status.as_array().into_iter().flatten() {
        let (Some(device), None) = (line["device"].as_str(), line["without_programs"].as_str())
        else {
            continue;
        };
        let request = Request::Flows {
            device: Some(device.to_owned()),
            all: false,
        };
        let shown = match daemon.ask(&request).await {
            Ok(listed) => listed["flows"].clone(),
            Err(refused) => Value::String(refused.why),
        };
        all.insert(device.to_owned(), shown);
    }
    Value::Object(all)
}
