//! `evenkeel serve`: the far end that a person puts up himself.
//!
//! One port, TCP and UDP, IPv4 and IPv6. Its own protocol ([`crate::proto`]) and HTTP, with TLS by a
//! given certificate, with the URLs of draft-ietf-ippm-responsiveness. Principles: nothing is sent
//! to an address that has not shown to be there, but answers no longer than their questions;
//! nothing is written to a disk; connections, seconds and bytes are limited by client; what is
//! too slow, silent or wrong is closed, and the others do not notice. Non-goals: users, logs, files.

mod clients;
mod config;
mod http;
mod tcp;
mod udp;

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use evenkeel_measure::echo::Echo;
use evenkeel_sys::Error;
use evenkeel_sys::poll::Waker;

pub use clients::{Clients, Limits};
pub use config::{Config, ServeError};

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<Waker>,
    threads: Vec<JoinHandle<()>>,
    /// Who answers probes.
    echoes: Vec<Echo>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Listens, in the calling thread's network namespace.
    pub fn start(config: &Config) -> Result<Self, ServeError> {
        let stop = Arc::new(Waker::new()?);
        let sessions = Arc::new(Mutex::new(HashSet::new()));
        let clients = Arc::new(Mutex::new(Clients::new(config.limits)));
        let mut server = Server {
            stop: Arc::clone(&stop),
            threads: Vec::new(),
            echoes: Vec::new(),
            addresses: Vec::new(),
        };
        let (http, web) = http::start(config, Arc::clone(&clients), Arc::clone(&stop))?;
        server.threads.push(web);
        let mut listeners = Vec::new();
        for wanted in &config.listen {
            let refused = |e: std::io::Error| Error::io(format!("listen on TCP {wanted}"), &e);
            let listener = TcpListener::bind(wanted).map_err(refused)?;
            listener.set_nonblocking(true).map_err(refused)?;
            let local = listener.local_addr().map_err(refused)?;
            let strangers = config.token.is_empty();
            let echo = udp::start(local, Arc::clone(&sessions), strangers)?;
            server.echoes.push(echo);
            server.addresses.push(local);
            listeners.push(listener);
        }
        let shared = tcp::Shared {
            token: config.token.clone(),
            limits: config.limits,
            clients,
            sessions,
            http,
        };
        server.threads.push(tcp::start(listeners, shared, stop)?);
        Ok(server)
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
