//! What a far end is, where it is, and what it takes.
//!
//! Principles: a far end is asked for nothing that it has not said it takes.
//! Non-goals: speaking with each kind (`own`, `iperf`, `crate::web`).

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use super::options::{Options, Test};
use super::own::Control;
use super::{iperf, irtt};
use crate::failed::Failed;
use crate::web;

/// An irtt server shall answer longer than the phases last: connecting and what is late take time, too.
const SLACK: Duration = Duration::from_secs(60);

/// Whom a run speaks with.
pub(super) enum FarEnd {
    Own(Box<Control>),
    Iperf(SocketAddr),
    Web(Box<web::Site>),
    /// Pings only.
    Irtt,
}

impl FarEnd {
    /// What results call it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            FarEnd::Own(_) => "evenkeel serve",
            FarEnd::Iperf(_) => "iperf3",
            FarEnd::Irtt => "irtt",
            FarEnd::Web(site) if site.small.is_some() => "responsiveness server",
            FarEnd::Web(_) => "web server",
        }
    }
}

/// An address of `host` or `host:port`.
fn find(to: &str, port: u16) -> Result<SocketAddr, Failed> {
    let failed = |e: std::io::Error| Failed::Work(format!("look up {to}: {e}"));
    let bare = to.trim_start_matches('[').trim_end_matches(']');
    let numbered = to.parse::<SocketAddr>().is_ok()
        || (to.matches(':').count() == 1
            && to
                .rsplit(':')
                .next()
                .is_some_and(|p| p.parse::<u16>().is_ok()));
    let mut found = if numbered {
        to.to_socket_addrs().map_err(failed)?
    } else {
        (bare, port).to_socket_addrs().map_err(failed)?
    };
    found
        .next()
        .ok_or_else(|| Failed::Work(format!("look up {to}: no address")))
}

/// Finds out what the far end is, and speaks with it.
pub(super) fn reach(o: &Options) -> Result<(FarEnd, SocketAddr), Failed> {
    if let Some(host) = o.to.strip_prefix("iperf3://") {
        let address = find(host.trim_end_matches('/'), iperf::PORT)?;
        return Ok((FarEnd::Iperf(address), address));
    }
    if let Some(address) = irtt_at(&o.to) {
        if o.test != Test::Idle {
            return Err(Failed::Usage(format!(
                "{} answers pings and carries no load: --test idle, or --pings {0} and another --to",
                o.to
            )));
        }
        let address = address?;
        return Ok((FarEnd::Irtt, address));
    }
    if o.to.contains("://") {
        let site = web::look(&o.to, o.ca.as_deref(), o.test.is_rpm())?;
        let address = site.large.address;
        return Ok((FarEnd::Web(Box::new(site)), address));
    }
    let address = find(&o.to, crate::proto::PORT)?;
    if o.test.is_rpm() {
        // Its HTTP side, without TLS unless a URL says so.
        let site = web::look(&format!("http://{address}/"), o.ca.as_deref(), true)?;
        return Ok((FarEnd::Web(Box::new(site)), address));
    }
    let control = Control::open(address, &o.token)?;
    Ok((FarEnd::Own(Box::new(control)), address))
}

/// The address in `irtt://HOST`, if it is that.
fn irtt_at(to: &str) -> Option<Result<SocketAddr, Failed>> {
    let host = to.strip_prefix("irtt://")?;
    Some(find(host.trim_end_matches('/'), irtt::PORT))
}

/// Opens the connection of an irtt server whose pings are judged, if one was named.
pub(super) fn pings(o: &Options, interval: Duration) -> Result<Option<irtt::Session>, Failed> {
    let to = o.pings.as_ref().unwrap_or(&o.to);
    let Some(address) = irtt_at(to) else {
        return match &o.pings {
            None => Ok(None),
            Some(p) => Err(Failed::Usage(format!("{p}: pings go to irtt://HOST"))),
        };
    };
    let run = o.idle + Duration::from_secs(o.seconds.into()) + o.tail;
    let session = irtt::Session::open(address?, interval, run + SLACK, o.irtt_key.as_ref())?;
    if session.duration < run {
        return Err(Failed::Usage(format!(
            "{to} answers for {} s: --seconds N",
            session.duration.as_secs()
        )));
    }
    Ok(Some(session))
}

/// What a server takes, before it is asked for it.
pub(super) fn limits(control: &Control, o: &Options, down: usize, up: usize) -> Result<(), Failed> {
    let too_much = |what: String| Err(Failed::Usage(format!("{}: {what}", o.to)));
    if down + up + 2 > control.streams.into() {
        return too_much(format!(
            "it takes {} streams: --streams N",
            control.streams.saturating_sub(2)
        ));
    }
    if o.seconds > control.seconds {
        return too_much(format!(
            "it takes {} s: --seconds {}",
            control.seconds, control.seconds
        ));
    }
    if control.bytes == 0 {
        return too_much(
            "this address has moved as many bytes as it may in an hour; try again later".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        assert_eq!(
            find("127.0.0.1", 7).unwrap(),
            "127.0.0.1:7".parse().unwrap()
        );
        assert_eq!(
            find("127.0.0.1:8", 7).unwrap(),
            "127.0.0.1:8".parse().unwrap()
        );
        assert_eq!(find("::1", 7).unwrap(), "[::1]:7".parse().unwrap());
        assert_eq!(find("[::1]:8", 7).unwrap(), "[::1]:8".parse().unwrap());
        assert_eq!(find("[::1]", 7).unwrap(), "[::1]:7".parse().unwrap());
    }
}
