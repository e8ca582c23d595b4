//! What can be said of samples only once all are there.
//!
//! Non-goals: figures (`evenkeel_report::bench`).

use evenkeel_report::bench::form::{self, Phases, Probe, Probes, Stream};

/// Half the least round trip, s: what a stream's head takes to arrive on the idle line.
pub(super) fn half_rtt(probes: &[Probes]) -> f64 {
    let all = probes.iter().flat_map(|p| &p.probes).filter_map(|p| p.rtt);
    all.reduce(f64::min).unwrap_or(0.0) / 2000.0
}

/// Where no probe came back at all, the round trips of the load's own senders stand in.
pub(super) fn fall_back(probes: &mut Vec<Probes>, streams: &[Stream]) {
    probes.retain(|p| p.probes.iter().any(|p| p.rtt.is_some()));
    if !probes.is_empty() {
        return;
    }
    let all = streams.iter().flat_map(|s| &s.rtt_ms);
    let mut seen: Vec<Probe> = all.map(|(t, ms)| Probe::new(*t, Some(*ms))).collect();
    seen.sort_by(|a, b| a.t.total_cmp(&b.t));
    if !seen.is_empty() {
        probes.push(Probes::new("TCP_INFO", "BE", seen));
    }
}

/// The draft's rule: the last four intervals count; stable if the moving averages (over four) of the
/// goodput of the last four intervals vary by less than 5 %.
pub(super) fn finished(
    mut rpm: form::RpmSamples,
    streams: &[Stream],
    phases: Phases,
) -> form::RpmSamples {
    const COUNTED: f64 = 4.0;
    rpm.from = (phases.tail - COUNTED).max(phases.load);
    let before_end = |of: &mut Vec<(f64, f64)>| of.retain(|s| s.0 < phases.tail);
    for of in [
        &mut rpm.tcp_foreign,
        &mut rpm.tls_foreign,
        &mut rpm.http_foreign,
        &mut rpm.http_self,
    ] {
        before_end(of);
    }
    rpm.connections = streams.len();
    let goodput = |from: f64, to: f64| -> f64 {
        let bin = |t: f64| (t / form::BIN_S).max(0.0) as usize;
        let sum = |s: &Stream| -> u64 { s.bytes.iter().take(bin(to)).skip(bin(from)).sum() };
        streams.iter().map(sum).sum::<u64>() as f64 / (to - from)
    };
    let averages: Vec<f64> = (0..4)
        .map(|i| phases.tail - f64::from(i))
        .filter(|end| end - COUNTED >= phases.load)
        .map(|end| goodput(end - COUNTED, end))
        .collect();
    rpm.stable = averages.len() == 4
        && evenkeel_core::Summary::of(&averages).is_some_and(|s| s.stddev < 0.05 * s.avg);
    rpm
}

#[cfg(test)]
mod tests {
    use evenkeel_report::bench::form::Way;

    use super::*;

    #[test]
    fn without_probes_the_load_tells() {
        let stream = Stream {
            way: Way::Up,
            mark: "BE".into(),
            bytes: Vec::new(),
            by_sender: true,
            retransmits: None,
            rtt_ms: vec![(2.0, 30.0), (1.0, 20.0)],
        };
        let mut probes = vec![Probes::new("ICMP", "BE", vec![Probe::new(0.0, None)])];
        fall_back(&mut probes, &[stream]);
        assert_eq!((probes.len(), probes[0].kind.as_str()), (1, "TCP_INFO"));
        assert_eq!(probes[0].probes[0].rtt, Some(20.0));
    }
}
