//! Figures and lines as people read them at a glance: three significant digits and a unit, no more than 100 columns.
//!
//! Principles: rounding is for eyes only, what programs read stays exact (`Display` of [`Rate`] reads back); a figure
//! that rounds up to a thousand takes the next unit. Non-goals: tables and colours.

use super::Rate;

/// Three significant digits of `value`, and no more than three behind the point: `0.031`, `1.24`, `20.6`, `345`, `1235`.
pub fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        s if s < 0.000_5 => 0,
        s if s < 0.999_5 => 3,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// `value` in the unit among `units` (each a thousand of the one before) that leaves one to three digits before the
/// point.
fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if value.abs() < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// A rate: `20.6 Mbit/s`, `634 kbit/s`, `1.25 Gbit/s`.
pub fn rate(rate: Rate) -> String {
    match rate.bps() {
        0 => "0 bit/s".to_owned(),
        bps => scaled(bps as f64, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]),
    }
}

/// So many bytes: `999 B`, `1.24 kB`, `12.3 MB`.
pub fn bytes(bytes: f64) -> String {
    if bytes.abs() < 999.5 {
        return format!("{bytes:.0} B");
    }
    scaled(bytes, &["B", "kB", "MB", "GB", "TB"])
}

/// So many things: `999`, `1.24 k`, `12.3 M`.
pub fn count(n: u64) -> String {
    if n < 1000 {
        return n.to_string();
    }
    scaled(n as f64, &["", "k", "M", "G", "T"])
}

/// A time that is short: `0.031 ms`, `12.3 ms`, `1.24 s`.
pub fn milliseconds(ms: f64) -> String {
    if ms.abs() < 0.000_5 {
        return "0 ms".to_owned();
    }
    scaled(ms, &["ms", "s"])
}

/// How long something has lasted: `3 s`, `5 min`, `2 h`, `12 d`.
pub fn age(seconds: f64) -> String {
    match seconds.max(0.0) {
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 7170.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_000.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// `text` behind `head`, in lines of at most 100 columns.
pub fn wrapped(head: &str, text: &str) -> String {
    const WIDTH: usize = 100;
    let indent = head.chars().count();
    let (mut out, mut line) = (String::new(), head.to_owned());
    for word in text.split(' ') {
        let used = line.chars().count();
        if used > indent && used + 1 + word.chars().count() > WIDTH {
            out += line.trim_end();
            out.push('\n');
            line = " ".repeat(indent);
        } else if used > indent {
            line.push(' ');
        }
        line += word;
    }
    out + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (bps, text) in [
            (0, "0 bit/s"),
            (12, "12.0 bit/s"),
            (634_000, "634 kbit/s"),
            (999_499, "999 kbit/s"),
            (999_500, "1.00 Mbit/s"),
            (20_639_675, "20.6 Mbit/s"),
            (9_965_000_000, "9.96 Gbit/s"),
            (400_000_000_000, "400 Gbit/s"),
        ] {
            assert_eq!(rate(Rate::from_bps(bps)), text);
        }
        assert_eq!(
            [0, 999, 1000, 12_345_678].map(count),
            ["0", "999", "1.00 k", "12.3 M"]
        );
        let sizes = [0.0, 999.4, 999.5, 9949.0, 118_272.0, 4.295e9].map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "999 B", "1.00 kB", "9.95 kB", "118 kB", "4.29 GB"]
        );
        let times = [0.0, 0.0312, 0.26, 9.949, 12.34, 1234.0].map(milliseconds);
        assert_eq!(
            times,
            [
                "0 ms", "0.031 ms", "0.260 ms", "9.95 ms", "12.3 ms", "1.23 s"
            ]
        );
        let ages = [0.4, 119.0, 120.0, 7200.0, 86_400.0 * 3.0].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "2 h", "3 d"]);
        assert_eq!(three_digits(f64::NAN), "–");
    }

    #[test]
    fn lines_have_a_hundred_columns() {
        let text = wrapped("  head  ", &"größer ".repeat(40));
        assert!(
            text.lines().count() > 2 && text.lines().all(|l| l.chars().count() <= 100),
            "{text}"
        );
        assert!(
            text.starts_with("  head  größer größer")
                && text.lines().nth(1).unwrap().starts_with("        größer")
        );
        assert_eq!(wrapped("a ", "b"), "a b\n");
        // What has no place to break stays whole.
        assert_eq!(wrapped("a ", &"x".repeat(120)).len(), 123);
    }

    proptest! {
        #[test]
        fn never_far_from_the_truth(bps in 1u64..=400_000_000_000) {
            let text = rate(Rate::from_bps(bps));
            let (number, unit) = text.split_once(' ').unwrap();
            let scale = match unit { "bit/s" => 1.0, "kbit/s" => 1e3, "Mbit/s" => 1e6, _ => 1e9 };
            let shown: f64 = number.parse::<f64>().unwrap() * scale;
            prop_assert!((shown - bps as f64).abs() <= 0.005_1 * bps as f64, "{bps} {text}");
            prop_assert!(number.len() <= 4, "{text}");
        }
    }
}
