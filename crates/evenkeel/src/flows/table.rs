//! Flows as a table for people.
//!
//! Non-goals: which flows there are.

use std::fmt::Write as _;
use std::net::SocketAddr;

use evenkeel_core::units::rounded;
use evenkeel_kernel::lan::Place;
use evenkeel_terminal::table::{Table, figures, words};

use super::row::Row;

/// Rows for people; the rest is counted.
const ROWS: usize = 40;

/// Whose flow it is, and its port.
fn local(row: &Row) -> String {
    let (Some(host), Ok(at)) = (&row.host, row.local.parse::<SocketAddr>()) else {
        return row.host.as_ref().unwrap_or(&row.local).clone();
    };
    let port = at.port();
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

pub(super) fn table(device: &str, rows: &[Row]) -> String {
    if rows.is_empty() {
        return format!("{device}: no flow has moved within ten seconds\n");
    }
    let ms = |v: Option<f64>| v.map_or("–".to_owned(), rounded::three_digits);
    let rate = |kbit| match kbit {
        0 => "–".to_owned(),
        kbit => rounded::three_digits(kbit as f64 / 1e3),
    };
    let mut shown = Table::new(&[
        words("no."),
        words(""),
        words("local"),
        words("remote"),
        figures("Mbit/s down"),
        figures("up"),
        figures("RTT ms"),
        figures("least"),
        figures("window"),
        words("queue"),
        words("tier"),
        words("why"),
    ]);
    for r in rows.iter().take(ROWS) {
        let group = r.cgroup.as_ref().map(|g| format!(" [{g}]"));
        shown.row([
            r.number.to_string(),
            r.proto.clone(),
            local(r),
            r.remote.clone(),
            rate(r.down_kbit),
            rate(r.up_kbit),
            ms(r.rtt_ms),
            ms(r.rtt_min_ms),
            r.window_bytes
                .map_or("–".to_owned(), |b| rounded::bytes(b.into())),
            r.queue.map_or("–", Place::words).to_owned(),
            r.tier.to_string(),
            format!(
                "{}{}{}",
                if r.ended { "ended; " } else { "" },
                r.why,
                group.unwrap_or_default()
            ),
        ]);
    }
    let mut text = shown.wrapped().to_string();
    if rows.len() > ROWS {
        let _ = writeln!(text, "and {} more", rows.len() - ROWS);
    }
    text
}
