//! A load over HTTP(S): downloads of a URL again and again, uploads without an end.
//!
//! Principle: as many connections as streams; bytes of downloads are those of bodies. Non-goals: probes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_report::bench::form::{Stream, Way};
use evenkeel_sys::{clock, tcp};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Bytes;

use super::{Connection, Outgoing, Site, connect, refused};
use crate::client::load::{Live, count};
use crate::failed::Failed;
use crate::unsent::{LOOK, Unsent};

/// A load under way.
#[derive(Debug)]
pub(crate) struct WebLoad {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Stream>>>,
    /// Why it cannot go on.
    failure: Arc<Mutex<Option<Failed>>>,
    /// Connections that a probe can share.
    pub(crate) shared: SharedConnections,
    /// Connections that are loaded.
    pub(crate) connections: Arc<Mutex<usize>>,
}

/// Connections of HTTP/2 that carry load.
pub(crate) type SharedConnections = Arc<Mutex<Vec<Connection>>>;

/// How a load grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    /// Streams down at the end, and up.
    pub(crate) streams: (usize, usize),
    /// One more of each in so long (the draft's interval); zero: all at once.
    pub(crate) every: Duration,
}

type Counted = Arc<Mutex<Stream>>;

impl WebLoad {
    /// Starts it. `zero` is the steady clock at the run's beginning.
    pub(crate) fn start(
        site: Site,
        growth: Growth,
        zero: Duration,
        live: Arc<Live>,
    ) -> Result<Self, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failed::Work(format!("start an HTTP client: {e}")))?;
        let load = WebLoad {
            stop: Arc::new(AtomicBool::new(false)),
            thread: None,
            failure: Arc::default(),
            shared: Arc::default(),
            connections: Arc::default(),
        };
        let worker = Worker {
            site,
            zero,
            live,
            failure: Arc::clone(&load.failure),
            shared: Arc::clone(&load.shared),
            connections: Arc::clone(&load.connections),
            chunk: Bytes::from(crate::payload(64 * 1024)),
        };
        let stop = Arc::clone(&load.stop);
        let thread = std::thread::Builder::new()
            .name("web-load".into())
            .spawn(move || {
                let streams = runtime.block_on(worker.run(growth, &stop));
                runtime.shutdown_background();
                streams
            })
            .map_err(|e| Failed::Work(format!("start a thread: {e}")))?;
        Ok(WebLoad {
            thread: Some(thread),
            ..load
        })
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<Failed> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ends it.
    pub(crate) fn finish(mut self) -> Vec<Stream> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(streams)) => streams,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Vec::new(),
        }
    }
}

#[derive(Clone)]
struct Worker {
    site: Site,
    zero: Duration,
    live: Arc<Live>,
    failure: Arc<Mutex<Option<Failed>>>,
    shared: SharedConnections,
    connections: Arc<Mutex<usize>>,
    chunk: Bytes,
}

impl Worker {
    async fn run(self, growth: Growth, stop: &AtomicBool) -> Vec<Stream> {
        let mut streams: Vec<Counted> = Vec::new();
        let mut tasks = Vec::new();
        let (mut down, mut up) = (0, 0);
        let mut next = clock::monotonic();
        while !stop.load(Ordering::Relaxed) {
            while clock::monotonic() >= next && (down < growth.streams.0 || up < growth.streams.1) {
                for (way, n, most) in [
                    (Way::Down, &mut down, growth.streams.0),
                    (Way::Up, &mut up, growth.streams.1),
                ] {
                    if *n >= most {
                        continue;
                    }
                    *n += 1;
                    let counted = Arc::new(Mutex::new(Stream {
                        way,
                        mark: "BE".into(),
                        bytes: Vec::new(),
                        by_sender: way == Way::Up,
                        retransmits: None,
                        rtt_ms: Vec::new(),
                    }));
                    streams.push(Arc::clone(&counted));
                    tasks.push(tokio::spawn(self.clone().stream(way, counted)));
                }
                next += growth.every;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let shared = &mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clear();
        let taken = streams
            .iter()
            .map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).clone());
        taken.collect()
    }

    async fn stream(self, way: Way, counted: Counted) {
        let result = match way {
            Way::Down => self.download(&counted).await,
            Way::Up => self.upload(&counted).await,
        };
        if let Err(e) = result {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
        }
    }

    fn opened(&self, c: &Connection) {
        tcp::reset_on_close(&c.socket);
        *self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
        if let Some(shared) = c.share() {
            self.shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(shared);
        }
    }

    fn now(&self) -> f64 {
        clock::monotonic().saturating_sub(self.zero).as_secs_f64()
    }

    async fn download(&self, counted: &Counted) -> Result<(), Failed> {
        let target = &self.site.large;
        let h2 = self.site.small.is_some();
        loop {
            let mut c = connect(target, &self.site.trust, h2).await?;
            self.opened(&c);
            // As long as the connection lasts, its thing is got again and again.
            loop {
                let Ok(answer) = c.request(Method::GET, &target.uri, Outgoing::Nothing).await
                else {
                    break;
                };
                refused(&target.uri, answer.status())?;
                let mut body = answer.into_body();
                let mut any = false;
                while let Some(Ok(frame)) = body.frame().await {
                    let n = frame.data_ref().map_or(0, Bytes::len) as u64;
                    any |= n > 0;
                    let mut s = counted.lock().unwrap_or_else(PoisonError::into_inner);
                    count(&mut s.bytes, self.now(), n);
                    self.live.down.fetch_add(n, Ordering::Relaxed);
                }
                if !any {
                    // Something without content would be asked for in a circle.
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    async fn upload(&self, counted: &Counted) -> Result<(), Failed> {
        let target = self.site.upload.as_ref().ok_or_else(|| {
            Failed::Usage("this server takes no uploads: --test download, or another server".into())
        })?;
        loop {
            let mut c = connect(target, &self.site.trust, true).await?;
            self.opened(&c);
            let socket = c.socket.try_clone();
            let mut unsent = c.socket.try_clone().ok().map(Unsent::bound);
            let piece = unsent.as_ref().map(Unsent::piece).unwrap_or_default();
            let body = Outgoing::Endless(self.chunk.clone(), piece);
            let mut sending = std::pin::pin!(c.request(Method::POST, &target.uri, body));
            let mut acked = socket
                .as_ref()
                .ok()
                .and_then(tcp::info)
                .map_or(0, |i| i.acked);
            loop {
                tokio::select! {
                    answer = &mut sending => {
                        refused(&target.uri, answer?.status())?;
                        break;
                    }
                    () = tokio::time::sleep(LOOK) => {
                        let Some(info) = socket.as_ref().ok().and_then(tcp::info) else { break };
                        let n = info.acked.saturating_sub(acked);
                        acked = acked.max(info.acked);
                        unsent.iter_mut().for_each(Unsent::look);
                        let now = self.now();
                        let mut s = counted.lock().unwrap_or_else(PoisonError::into_inner);
                        count(&mut s.bytes, now - LOOK.as_secs_f64() / 2.0, n);
                        s.rtt_ms.push((now, info.rtt.as_secs_f64() * 1000.0));
                        s.retransmits = Some(info.retransmits);
                        self.live.up.fetch_add(n, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
