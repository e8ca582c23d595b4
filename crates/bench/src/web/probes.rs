//! Probes by connections: handshakes of TCP with any server; with one of
//! draft-ietf-ippm-responsiveness also TLS handshakes and requests, on connections of their own
//! (foreign) and on those that carry the load (self).
//!
//! Non-goals: what is made of them (`evenkeel_report::bench::figures`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_report::bench::form::{Probe, Probes, RpmSamples};
use evenkeel_sys::{clock, tcp};

use super::load::{SharedConnections, WebLoad};
use super::{Site, connect};
use crate::client::prober::Latest;
use crate::failed::Failed;

/// From one probe to the next of its kind: the draft allows 100 a second in all.
const INTERVAL: Duration = Duration::from_millis(50);
/// A probe that takes longer is lost.
const LOST: Duration = Duration::from_secs(3);
/// So many may be under way at once.
const UNDER_WAY: usize = 64;

/// What they saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tcp: Vec<Probe>,
    pub(crate) http: Vec<Probe>,
    pub(crate) rpm: RpmSamples,
}

/// Probes under way.
#[derive(Debug)]
pub(crate) struct WebProbes {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    /// Where connections that carry load are put once there are some.
    loaded: Arc<Mutex<Option<SharedConnections>>>,
    pub(crate) latest: Arc<Latest>,
    thread: Option<JoinHandle<()>>,
}

impl WebProbes {
    /// Starts them. `zero` is the steady clock at the run's beginning.
    pub(crate) fn start(site: Site, zero: Duration) -> Result<Self, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failed::Work(format!("start an HTTP client: {e}")))?;
        let mut this = WebProbes {
            stop: Arc::default(),
            seen: Arc::default(),
            loaded: Arc::default(),
            latest: Arc::default(),
            thread: None,
        };
        let one = One {
            site: Arc::new(site),
            zero,
            seen: Arc::clone(&this.seen),
            loaded: Arc::clone(&this.loaded),
            latest: Arc::clone(&this.latest),
        };
        let stop = Arc::clone(&this.stop);
        let thread = std::thread::Builder::new()
            .name("web-probes".into())
            .spawn(move || {
                runtime.block_on(one.run(&stop));
                runtime.shutdown_background();
            })
            .map_err(|e| Failed::Work(format!("start a thread: {e}")))?;
        this.thread = Some(thread);
        Ok(this)
    }

    /// From now on requests go by the connections of `load`, too.
    pub(crate) fn carried_by(&self, load: &WebLoad) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        *loaded = Some(Arc::clone(&load.shared));
    }

    /// Ends them; what they saw.
    pub(crate) fn finish(mut self) -> (Vec<Probes>, RpmSamples) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = std::mem::take(&mut *seen);
        let kinds = [("TCP", seen.tcp), ("HTTP", seen.http)];
        let probes = kinds
            .into_iter()
            .filter(|k| !k.1.is_empty())
            .map(|(kind, mut probes)| {
                probes.sort_by(|a, b| a.t.total_cmp(&b.t));
                Probes::new(kind, "BE", probes)
            });
        (probes.collect(), seen.rpm)
    }
}

#[derive(Clone)]
struct One {
    site: Arc<Site>,
    zero: Duration,
    seen: Arc<Mutex<Seen>>,
    loaded: Arc<Mutex<Option<SharedConnections>>>,
    latest: Arc<Latest>,
}

impl One {
    async fn run(&self, stop: &AtomicBool) {
        let mut beat = tokio::time::interval(INTERVAL);
        let mut tasks: Vec<tokio::task::JoinHandle<()>> = Vec::new();
        let mut turn = 0usize;
        while !stop.load(Ordering::Relaxed) {
            beat.tick().await;
            tasks.retain(|t| !t.is_finished());
            if tasks.len() >= UNDER_WAY {
                continue;
            }
            turn += 1;
            tasks.push(tokio::spawn(self.clone().foreign()));
            tasks.push(tokio::spawn(self.clone().on_load(turn)));
        }
        // What is under way has a moment.
        let until = tokio::time::Instant::now() + LOST;
        for task in tasks {
            let _ = tokio::time::timeout_at(until, task).await;
        }
    }

    fn now(&self) -> f64 {
        clock::monotonic().saturating_sub(self.zero).as_secs_f64()
    }

    /// A connection of its own.
    async fn foreign(self) {
        let t = self.now();
        let target = self.site.small.as_ref().unwrap_or(&self.site.large);
        let lost = Probe::new(t, None);
        let h2 = self.site.small.is_some();
        // To a server that is not of the draft, a handshake of TCP has to do.
        if !h2 {
            let connected =
                tokio::time::timeout(LOST, tokio::net::TcpStream::connect(target.address)).await;
            let rtt = connected.ok().and_then(Result::ok).and_then(|s| {
                tcp::reset_on_close(&s);
                tcp::info(&s)
            });
            let probe = rtt.map_or(lost, |i| self.heard(t, i.rtt.as_secs_f64() * 1000.0));
            self.put(|s| s.tcp.push(probe));
            return;
        }
        let timed = async {
            let mut c = connect(target, &self.site.trust, true).await.ok()?;
            tcp::reset_on_close(&c.socket);
            let http = c.fetch(&target.uri).await.ok()?;
            Some(((c.tcp_ms, c.connected_ms), c.tls_ms, http))
        };
        match tokio::time::timeout(LOST, timed).await {
            Ok(Some(((tcp, connected), tls, http))) => {
                let probe = self.heard(t, tcp);
                self.put(|s| {
                    s.tcp.push(probe);
                    s.rpm.tcp_foreign.push((t, connected));
                    s.rpm.tls_foreign.extend(tls.map(|v| (t, v)));
                    s.rpm.http_foreign.push((t, http));
                    s.http.push(Probe::new(t, Some(http)));
                });
            }
            Ok(None) | Err(_) => self.put(|s| s.tcp.push(lost)),
        }
    }

    /// One on a connection that carries load.
    async fn on_load(self, turn: usize) {
        let Some(small) = &self.site.small else {
            return;
        };
        let mut c = {
            let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(loaded) = &*loaded else { return };
            let all = loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let same = all
                .iter()
                .filter(|c| c.socket.peer_addr().ok() == Some(small.address));
            let same: Vec<_> = same.collect();
            let Some(c) = same.get(turn % same.len().max(1)).and_then(|c| c.share()) else {
                return;
            };
            c
        };
        let t = self.now();
        if let Ok(Ok(ms)) = tokio::time::timeout(LOST, c.fetch(&small.uri)).await {
            self.put(|s| s.rpm.http_self.push((t, ms)));
        }
    }

    fn heard(&self, t: f64, ms: f64) -> Probe {
        self.latest.heard(Duration::from_secs_f64(ms / 1000.0));
        Probe::new(t, Some(ms))
    }

    fn put(&self, what: impl FnOnce(&mut Seen)) {
        what(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
