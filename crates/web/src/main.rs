//! evenkeel-web: a page that shows what evenkeel does, metrics for Prometheus, sensors for Home Assistant.
//!
//! It is a program of its own so that nothing that comes over the network is read by a process that may change the
//! network. Principles: it has no rights, and takes from itself what it does not need before the first byte is read;
//! all that it knows it asks at the daemon's control socket; all that is held is bounded. Non-goals: TLS (a proxy's
//! business), users (there is one token), deciding anything.

mod bench;
mod confine;
mod daemon;
mod guard;
mod live;
mod metrics;
mod mqtt;
mod pages;
mod serve;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use evenkeel_terminal::Failure;

use crate::bench::Bench;
use crate::daemon::Daemon;
use crate::guard::Names;
use crate::live::Live;

/// Shows what evenkeel does: a page, metrics for Prometheus, sensors for Home Assistant.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    /// Serve pages and metrics at this address
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "mqtt")]
    listen: Option<SocketAddr>,
    /// The daemon's control socket
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/run/evenkeel/control.sock"
    )]
    socket: PathBuf,
    /// A name by which those who look call this machine; addresses and localhost need not be named
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Reading needs the token as well
    #[arg(long)]
    read_with_token: bool,
    /// Tell Home Assistant: `mqtt://USER:PASSWORD@HOST:PORT`, of which user, password and port may be left out
    #[arg(
        long,
        value_name = "URL",
        env = "EVENKEEL_MQTT",
        hide_env_values = true
    )]
    mqtt: Option<String>,
    /// What measures the line; without it, the evenkeel-bench beside this program
    #[arg(long, value_name = "FILE", hide = true)]
    bench: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli: Cli = match evenkeel_terminal::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let broker = cli
        .mqtt
        .as_deref()
        .map(mqtt::Broker::parse)
        .transpose()
        .map_err(Failure::usage)?;
    let listener = cli.listen.map(|address| {
        std::net::TcpListener::bind(address)
            .map_err(|e| Failure::work(format_args!("listen at {address}: {e}")))
    });
    let listener = listener.transpose()?;
    let bench = bench::find(cli.bench.as_deref());
    confine::confine(&cli.socket, bench.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Failure::work)?;
    runtime.block_on(async {
        let daemon = Arc::new(Daemon::new(&cli.socket));
        let live = Live::start(Arc::clone(&daemon));
        if let Some(broker) = broker {
            tokio::spawn(mqtt::tell(broker, Arc::clone(&live)));
        }
        let Some(listener) = listener else {
            return ended().await;
        };
        let address = listener.local_addr().map_err(Failure::work)?;
        let _ = evenkeel_terminal::print(&format!("http://{address}/\n"));
        let state = pages::State {
            daemon,
            live,
            bench: Bench::new(bench),
            names: Names::new(&cli.names),
            read_with_token: cli.read_with_token,
        };
        tokio::select! {
            served = serve::serve(listener, pages::router(state)) => served,
            ended = ended() => ended,
        }
    })
}

/// Until a signal asks to end.
async fn ended() -> Result<(), Failure> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(Failure::work)?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Failure::work),
        _ = terminate.recv() => Ok(()),
    }
}
