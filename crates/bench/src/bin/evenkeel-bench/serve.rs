//! The command line of `evenkeel serve`.
//!
//! Non-goals: serving (`evenkeel_bench::serve`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_bench::proto::PORT;
use evenkeel_bench::serve::{Config, Limits, Server};
use evenkeel_terminal::{Failure, print};

use crate::token::Token;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port of TCP and UDP
    #[arg(long, value_name = "N", default_value_t = PORT)]
    port: u16,
    /// Address to listen on; without it all, of IPv6 and IPv4
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<IpAddr>,
    #[command(flatten)]
    token: Token,
    /// Certificate chain for HTTPS, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connections at most
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Connections of one address (IPv6: of one /64) at most
    #[arg(long, value_name = "N", default_value_t = Limits::default().per_client)]
    per_client: usize,
    /// Longest load
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().seconds)]
    seconds: u16,
    /// What one address may move in an hour, both ways together, gigabytes
    #[arg(long, value_name = "GB", default_value_t = Limits::default().bytes_per_hour / 1_000_000_000)]
    gigabytes: u64,
}

/// `evenkeel serve`.
pub(crate) fn serve(args: Args) -> Result<(), Failure> {
    let mut listen: Vec<SocketAddr> = args
        .listen
        .iter()
        .map(|a| SocketAddr::new(*a, args.port))
        .collect();
    if listen.is_empty() {
        // On Linux this takes IPv4 as well, unless the machine was told otherwise, or has no IPv6.
        let v6 = std::net::UdpSocket::bind("[::]:0").is_ok();
        let any: IpAddr = if v6 {
            [0u16; 8].into()
        } else {
            [0, 0, 0, 0].into()
        };
        listen.push(SocketAddr::new(any, args.port));
    }
    let config = Config {
        listen,
        token: args.token.token,
        tls: args.cert.zip(args.key),
        limits: Limits {
            connections: args.connections,
            per_client: args.per_client,
            seconds: args.seconds,
            bytes_per_hour: args.gigabytes.saturating_mul(1_000_000_000),
        },
    };
    let cancel = evenkeel_terminal::cancelled_by_signals()?;
    let server = Server::start(&config).map_err(|e| match &e {
        evenkeel_bench::serve::ServeError::Sys(s) if s.is_permission() => Failure::denied(&e),
        _ => Failure::work(&e),
    })?;
    for address in server.addresses() {
        let http = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        print(&format!(
            "Serving on {address}, TCP and UDP: evenkeel bench --to HOST, or {http}://HOST:{}/\n",
            address.port()
        ))?;
    }
    while !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
