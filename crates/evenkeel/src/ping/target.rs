//! Whom `ping` and `trace` probe, and how: host, kind of probe, fields of the header; names.
//!
//! Principles: an address is found before anything is opened; a name of an address is looked up
//! on a thread of its own. Non-goals: caching beyond the run.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use evenkeel_measure::ping::Kind;
use evenkeel_sys::PacketOptions;
use evenkeel_terminal::Failure;

/// What `ping` and `trace` share.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Name or address
    host: String,
    /// UDP datagrams to a port [-u, -uPORT]; 7 is the echo service
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "7",
          value_parser = clap::value_parser!(u16).range(1..), group = "kind")]
    udp: Option<u16>,
    /// TCP handshakes with a port, reset at once
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "80",
          value_parser = clap::value_parser!(u16).range(1..), group = "kind")]
    tcp: Option<u16>,
    /// ICMP time stamp requests instead of ICMP echo; root or CAP_NET_RAW [-M]
    #[arg(long, group = "kind")]
    icmp_timestamp: bool,
    /// Only IPv4 addresses [-4]
    #[arg(long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6 addresses [-6]
    #[arg(long)]
    ipv6: bool,
    /// TOS or traffic class, 0 to 255: four times the DSCP [-vTOS]
    #[arg(long, default_value_t = 0)]
    tos: u8,
    /// Never fragment [-f]
    #[arg(long)]
    dont_fragment: bool,
    /// Names of the addresses that answer [-a]
    #[arg(long)]
    pub(crate) names: bool,
}

/// A time with its unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("it has no unit: write {text}ms or {text}s"));
    }
    let time = humantime::parse_duration(text).map_err(|e| format!("{e}: write 200ms or 1s"))?;
    if time < Duration::from_millis(1) || time > Duration::from_secs(3600) {
        return Err("it must be from 1ms to 1h".into());
    }
    Ok(time)
}

impl Target {
    /// Kind and port.
    pub(crate) fn kind(&self) -> (Kind, u16) {
        match (self.udp, self.tcp) {
            (Some(port), _) => (Kind::Udp, port),
            (_, Some(port)) => (Kind::Tcp, port),
            _ if self.icmp_timestamp => (Kind::Timestamp, 0),
            _ => (Kind::Echo, 0),
        }
    }

    /// What kind and port are to people.
    pub(crate) fn kind_words(&self) -> String {
        match self.kind() {
            (Kind::Echo, _) => "ICMP echo".into(),
            (Kind::Timestamp, _) => "ICMP time stamp".into(),
            (Kind::Udp, port) => format!("UDP port {port}"),
            (Kind::Tcp, port) => format!("TCP port {port}"),
        }
    }

    /// The address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = self.host.as_str();
        let port = self.kind().1;
        let wanted = |a: &SocketAddr| !(self.ipv4 && a.is_ipv6() || self.ipv6 && a.is_ipv4());
        let found = (host, port).to_socket_addrs().map_err(|e| {
            let why = e.to_string();
            let why = why.rsplit(": ").next().unwrap_or_default().to_owned();
            Failure::work(format_args!(
                "{host}: unknown host ({why}): check the name, or name an address"
            ))
        })?;
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        found
            .into_iter()
            .find(wanted)
            .ok_or_else(|| Failure::work(format_args!("{host} has no {family} address")))
    }

    /// TOS or traffic class.
    pub(crate) fn tos(&self) -> u8 {
        self.tos
    }

    /// Fields of the IP header.
    pub(crate) fn options(&self, hops: Option<u8>) -> PacketOptions {
        PacketOptions {
            hops,
            tos: self.tos,
            dont_fragment: self.dont_fragment,
            device: None,
        }
    }

    /// As it was typed.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

/// Names of addresses, looked up on a thread of their own: a line never waits for one.
#[derive(Debug)]
pub(crate) struct Names {
    known: Arc<Mutex<HashMap<IpAddr, Option<String>>>>,
    ask: Option<Sender<IpAddr>>,
}

impl Names {
    pub(crate) fn new(wanted: bool) -> Names {
        let known = Arc::new(Mutex::new(HashMap::new()));
        let ask = wanted.then(|| {
            let (ask, asked) = channel();
            let known = Arc::clone(&known);
            std::thread::spawn(move || {
                for address in asked {
                    let name = evenkeel_sys::names::name_of(address);
                    known
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(address, name);
                }
            });
            ask
        });
        Names { known, ask }
    }

    /// `name (address)`, or the address as long as no name is known.
    pub(crate) fn show(&self, address: IpAddr) -> String {
        let Some(ask) = &self.ask else {
            return address.to_string();
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known.get(&address) {
            return match name {
                Some(name) => format!("{name} ({address})"),
                None => address.to_string(),
            };
        }
        known.insert(address, None);
        let _ = ask.send(address);
        address.to_string()
    }
}
