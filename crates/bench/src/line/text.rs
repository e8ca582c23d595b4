//! What `line` found, in words.
//!
//! Principles: the verdict first, then its evidence, then what others say and what to do; a figure is as
//! exact as it is known. Non-goals: JSON (`form`).

use std::fmt::Write as _;

use evenkeel_core::linklayer::SURE;
use evenkeel_core::linklayer::idle::Stairs;
use evenkeel_core::units::rounded;
use evenkeel_core::{Direction, Framing};

use super::device::Facts;
use super::form::{Answering, DirectionForm, Form, words};
use super::igd::Router;

/// For people.
pub fn text(f: &Form) -> String {
    let mut t = device(&f.device);
    match &f.near {
        Some(n) => {
            let silent = if n.answers {
                ""
            } else {
                ", which answers nobody itself"
            };
            let _ = writeln!(t, "  behind the line: hop {}, {}{silent}", n.ttl, n.address);
        }
        None => t += "  behind the line: no hop that says so\n",
    }
    if let (Some(server), Some(answering)) = (&f.server, f.answering) {
        let what = match answering {
            Answering::Serves => "evenkeel serve",
            Answering::Echoes => "a host that answers echoes, so only what goes from you is loaded",
        };
        let _ = writeln!(t, "  far end: {server}, {what}");
    }
    for way in Direction::BOTH {
        if let Some(w) = f.direction(way) {
            t += &direction(way, w);
        }
    }
    t += &echoes(f);
    if let Some(r) = &f.router {
        let _ = writeln!(t, "{}", r.says());
        for line in compared(r, f) {
            let _ = writeln!(t, "  {line}");
        }
    }
    t += &what_to_do(f);
    t
}

/// What the interface tells.
pub fn device(d: &Facts) -> String {
    let on =
        d.on.as_ref()
            .map_or(String::new(), |on| format!(" on {on}"));
    let mut t = format!(
        "{}: {}{on}, packets of up to {} bytes\n",
        d.name, d.kind, d.mtu
    );
    for hint in &d.hints {
        let _ = writeln!(t, "  {hint}");
    }
    t
}

fn direction(way: Direction, w: &DirectionForm) -> String {
    let mut t = String::new();
    let v = &w.verdict;
    let rate = match v.rate {
        Some(rate) if v.within.is_finite() => {
            format!(
                "{} at the link layer, within {:.2} %",
                rounded::rate(rate),
                (100.0 * v.within).max(0.01)
            )
        }
        _ => "rate not measured".into(),
    };
    let _ = writeln!(t, "{}: {rate}", capital(words(way)));
    if let Some(f) = v.framing {
        let _ = writeln!(
            t,
            "  framing {}: {} ({})",
            w.tc_cake,
            explained(f),
            belief(v.confidence)
        );
    } else {
        let _ = writeln!(
            t,
            "  framing: not enough evidence: {}",
            v.why.as_deref().unwrap_or("nothing was seen")
        );
        if let Some(best) = v.best {
            let _ = writeln!(
                t,
                "    most likely {} ({})",
                explained(best),
                belief(v.confidence)
            );
        }
        let cost = if w.price > 0.0005 {
            format!(
                ", which takes {:.1} % of the rate from full packets",
                100.0 * w.price
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            t,
            "    assumed, on the safe side: {} ({}){cost}",
            w.tc_cake,
            explained(w.assumed)
        );
    }
    t + &evidence(w)
}

/// What trains showed of a direction.
fn evidence(w: &DirectionForm) -> String {
    let mut t = String::new();
    if w.trains > 0 {
        let _ = write!(t, "  {} trains, {:.1} s of the line", w.trains, w.spent_s);
        if let (Some(idle), Some(noise)) = (w.idle_ms, w.noise_ms) {
            let _ = write!(
                t,
                "; idle round trip {}, noise {}",
                rounded::milliseconds(idle),
                rounded::milliseconds(noise)
            );
        }
        t += "\n";
    }
    if !w.slopes.is_empty() {
        let each = w.slopes.iter().map(|s| {
            let sizes: Vec<String> = s.sizes.iter().map(u32::to_string).collect();
            format!(
                "{} bytes {:.1} % (expected {:.1})",
                sizes.join("/"),
                100.0 * s.grew,
                100.0 * s.expected
            )
        });
        let _ = writeln!(
            t,
            "  null test, the queue grew by: {}",
            each.collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(depth) = w.depth {
        let _ = writeln!(
            t,
            "  the queue ends at {}, about {} packets of {} bytes",
            rounded::milliseconds(depth.ms),
            depth.packets,
            depth.size
        );
    }
    if let Some(mtu) = w.mtu {
        let _ = writeln!(t, "  packets of {mtu} bytes arrive whole");
    }
    t
}

/// What a router says, beside what was measured.
fn compared(r: &Router, f: &Form) -> Vec<String> {
    let mut lines = Vec::new();
    for (d, theirs) in [(Direction::Down, r.down), (Direction::Up, r.up)] {
        let measured = f
            .direction(d)
            .and_then(|w| w.verdict.rate.filter(|_| w.trains > 0));
        let (Some(theirs), Some(measured)) = (theirs, measured) else {
            continue;
        };
        let share = measured.bps() as f64 / theirs.bps().max(1) as f64;
        if !(0.95..=1.05).contains(&share) {
            lines.push(format!(
                "{}: {:.0} % of that was measured: the bottleneck is elsewhere, or it says what it was told",
                words(d),
                100.0 * share
            ));
        }
    }
    lines
}

fn echoes(f: &Form) -> String {
    let Some(e) = &f.echoes else {
        return "Echoes of many sizes: nobody on the way answers\n".into();
    };
    let says = match e.stairs {
        Stairs::Cells { overhead, per_byte } => format!(
            "stairs of 48 bytes: cells, {overhead} bytes of overhead; {} for a cell both ways",
            rounded::milliseconds(1e3 * 53.0 * per_byte)
        ),
        Stairs::Straight { .. } => "a straight line: no cells".into(),
        Stairs::Fast => "too fast for ADSL".into(),
        Stairs::Unknown => "nothing that stands out of the noise".into(),
    };
    let base = e.base_ms.map_or("–".into(), rounded::milliseconds);
    format!(
        "Echoes of many sizes to {}: {says}; {} of {} answered, the quickest in {base}\n",
        e.to, e.answered, e.sent
    )
}

fn what_to_do(f: &Form) -> String {
    let (framing, found) = f.framing();
    let sure = if found { "" } else { ", which is assumed" };
    let mut t = format!(
        "evenkeel would shape with --framing {framing} (tc-cake: {}){sure}\n",
        f.tc_cake()
    );
    if !found && f.server.is_none() {
        t += "More is known with trains: evenkeel line --server HOST, a host beyond the line; best one of yours with `evenkeel serve`\n";
    }
    t
}

/// A framing in words.
pub(crate) fn explained(f: Framing) -> String {
    use evenkeel_core::framing::Mode;
    let mode = match f.mode {
        Mode::None => "no cells",
        Mode::Atm => "ATM cells",
        Mode::Ptm => "PTM's 64b/65b",
    };
    let mpu = if f.mpu > 0 {
        format!(", at least {}", f.mpu)
    } else {
        String::new()
    };
    format!("{mode}, {} bytes more for each packet{mpu}", f.overhead)
}

fn belief(share: f64) -> String {
    if share >= 0.9995 {
        "sure".into()
    } else if share >= SURE {
        format!("{:.1} % sure", 100.0 * share)
    } else {
        format!("{:.0} % sure", 100.0 * share)
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
