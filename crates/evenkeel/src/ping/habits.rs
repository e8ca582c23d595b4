//! Short flags of `ping` and `trace`: hrPing's, turned into the long ones.
//!
//! Principles: short flags mean what they mean to hrPing; where ping(8) has the same letter for
//! something else, the value must be attached (`-i3`), and what a ping(8) user types (`-i 3`,
//! `-c 5`, `-W 1`) is refused with the name of the right flag: nothing ever means silently
//! something else. Non-goals: values (the long flags' business).

use std::ffi::OsString;
use std::iter::Peekable;

/// Short flags without a value, and their long ones.
const SWITCHES: [(char, &str); 10] = [
    ('t', "--forever"),
    ('g', "--graph"),
    ('f', "--dont-fragment"),
    ('M', "--icmp-timestamp"),
    ('T', "--time"),
    ('a', "--names"),
    ('4', "--ipv4"),
    ('6', "--ipv6"),
    ('h', "--help"),
    ('p', "--watch"),
];

/// Short flags with a value: letter, long flag, unit to add, and what to say if it stands apart
/// (empty: it may).
const VALUES: [(char, &str, &str, &str); 9] = [
    (
        'i',
        "--ttl=",
        "",
        "-i is the TTL and takes it attached (-i3); an interval is -s200 or --interval 200ms",
    ),
    (
        's',
        "--interval=",
        "ms",
        "-s is the interval in ms and takes it attached (-s200); a payload size is -l200 or --size 200",
    ),
    (
        'w',
        "--timeout=",
        "ms",
        "-w is the timeout in ms and takes it attached (-w1000); or --timeout 1s",
    ),
    (
        'c',
        "--in-flight=",
        "",
        "-c is how many may be in flight and takes it attached (-c5); a count is -n5 or --count 5",
    ),
    (
        'l',
        "--size=",
        "",
        "-l is the payload size and takes it attached (-l200); or --size 200",
    ),
    (
        'L',
        "--ip-size=",
        "",
        "-L is the size of the IP packet and takes it attached (-L228); or --ip-size 228",
    ),
    (
        'v',
        "--tos=",
        "",
        "-v is the TOS and takes it attached (-v184); or --tos 184",
    ),
    ('n', "--count=", "", ""),
    ('F', "--log=", "", ""),
];

/// Short flags whose value may be left out; it is attached.
const OPTIONAL: [(char, &str, &str); 4] = [
    ('u', "--udp", ""),
    ('y', "--summary", "s"),
    ('q', "--quiet", ""),
    ('r', "--rounds", ""),
];

/// Flags of ping(8) that do not exist here, and what to use.
const FOREIGN: [(char, &str); 8] = [
    ('W', "the timeout is -w1000 (ms) or --timeout 1s"),
    ('Q', "the TOS is -v184 or --tos 184"),
    ('D', "a time before each line is -T or --time"),
    ('O', "probes without an answer are always told"),
    ('A', "the next probe as soon as one is answered: --flood"),
    ('m', "the TTL is -i3 or --ttl 3"),
    ('I', "the route to the target decides on the device"),
    ('V', "the version is evenkeel --version"),
];

/// The command line with long flags only; or why not.
pub(crate) fn translate(args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let is_ours = args
        .get(1)
        .is_some_and(|command| command == "ping" || command == "trace");
    if !is_ours {
        return Ok(args);
    }
    let mut line = Line {
        out: args[..2].to_vec(),
        rest: args[2..].iter().peekable(),
    };
    while let Some(arg) = line.rest.next() {
        let text = arg.to_string_lossy();
        let mut letters = text.chars();
        let (dash, letter) = (letters.next(), letters.next());
        let (Some('-'), Some(letter)) = (dash, letter.filter(|l| *l != '-')) else {
            line.out.push(arg.clone());
            continue;
        };
        line.flag(letter, letters.as_str())?;
    }
    Ok(line.out)
}

/// A command line that is half translated.
struct Line<'a> {
    /// With long flags: the program, the command and so on.
    out: Vec<OsString>,
    /// What comes next, as it was given.
    rest: Peekable<std::slice::Iter<'a, OsString>>,
}

impl Line<'_> {
    /// A short flag, and what stands behind its letter.
    fn flag(&mut self, letter: char, value: &str) -> Result<(), String> {
        if let Some((_, why)) = FOREIGN.iter().find(|f| f.0 == letter) {
            return Err(format!("-{letter} is ping(8)'s: {why}"));
        }
        if let Some((_, long, unit, apart)) = VALUES.iter().find(|v| v.0 == letter) {
            return self.with_value(letter, value, long, unit, apart);
        }
        if let Some((_, long, unit)) = OPTIONAL.iter().find(|o| o.0 == letter) {
            return self.with_optional(letter, value, long, unit);
        }
        // Several at once: -tg.
        std::iter::once(letter)
            .chain(value.chars())
            .try_for_each(|letter| self.switch(letter))
    }

    /// A flag that needs a value: attached, or the next argument unless `apart` says why not.
    fn with_value(
        &mut self,
        letter: char,
        value: &str,
        long: &str,
        unit: &str,
        apart: &str,
    ) -> Result<(), String> {
        let value = match (value, self.rest.peek()) {
            ("", Some(next)) if apart.is_empty() => {
                let next = next.to_string_lossy().into_owned();
                self.rest.next();
                next
            }
            ("", _) if apart.is_empty() => return Err(format!("-{letter} needs a value")),
            ("", _) => return Err(apart.to_owned()),
            (value, _) => value.trim_start_matches('=').to_owned(),
        };
        if letter == 'n' && value.parse::<u64>().is_err() {
            return Err(format!(
                "-n {value}: the count is a number (-n5); addresses are names only with -a"
            ));
        }
        if letter == 'i' && value.parse::<u8>().is_err() {
            return Err(format!(
                "-i{value}: a TTL is 1 to 255; an interval is -s200 or --interval 200ms"
            ));
        }
        let unit = if value.chars().all(|c| c.is_ascii_digit()) {
            unit
        } else {
            ""
        };
        self.out.push(format!("{long}{value}{unit}").into());
        Ok(())
    }

    /// A flag whose value may be left out, and is attached.
    fn with_optional(
        &mut self,
        letter: char,
        value: &str,
        long: &str,
        unit: &str,
    ) -> Result<(), String> {
        if value.is_empty() && self.number_follows() {
            return Err(format!("-{letter} takes its number attached: -{letter}10"));
        }
        // hrPing's traceroute is a command of its own here.
        if letter == 'r' {
            self.out[1] = "trace".into();
        }
        self.out.push(match value {
            "" => long.into(),
            value => format!("{long}={value}{unit}").into(),
        });
        Ok(())
    }

    /// A flag without a value.
    fn switch(&mut self, letter: char) -> Result<(), String> {
        let Some((_, long)) = SWITCHES.iter().find(|s| s.0 == letter) else {
            return Err(format!(
                "there is no flag -{letter} (evenkeel {} --help lists them)",
                self.out[1].to_string_lossy()
            ));
        };
        if letter == 't' && self.number_follows() {
            return Err("-t is \"until Ctrl-C\" and has no value; a TTL is -i64".into());
        }
        if letter == 'p' {
            self.out[1] = "trace".into();
        }
        self.out.push((*long).into());
        Ok(())
    }

    fn number_follows(&mut self) -> bool {
        self.rest
            .peek()
            .is_some_and(|next| next.to_string_lossy().parse::<f64>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let args = line.split(' ').map(OsString::from).collect();
        let out = translate(args)?;
        let words: Vec<_> = out[1..].iter().map(|w| w.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn the_papers_command() {
        assert_eq!(
            translated("evenkeel ping heise.de -t -y -g -s200 -u -l0 -i3 -F values.txt").unwrap(),
            "ping heise.de --forever --summary --graph --interval=200ms --udp --size=0 --ttl=3 \
             --log=values.txt"
        );
        assert_eq!(
            translated("evenkeel ping x -tg -u53 -y5 -qre -n 3 -w500 -c4 -l0:100:10 --ttl 4")
                .unwrap(),
            "ping x --forever --graph --udp=53 --summary=5s --quiet=re --count=3 --timeout=500ms \
             --in-flight=4 --size=0:100:10 --ttl 4"
        );
        assert_eq!(
            translated("evenkeel ping x -r5").unwrap(),
            "trace x --rounds=5"
        );
        assert_eq!(translated("evenkeel ping x -p").unwrap(), "trace x --watch");
        assert_eq!(translated("evenkeel status -x").unwrap(), "status -x");
    }

    #[test]
    fn habits_of_ping_name_the_right_flag() {
        for (line, says) in [
            ("-i 0.2", "--interval"),
            ("-i 1", "--interval"),
            ("-i0.2", "--interval"),
            ("-c 5", "--count 5"),
            ("-W 1", "--timeout"),
            ("-w 5", "--timeout"),
            ("-s 56", "--size"),
            ("-t 64", "-i64"),
            ("-n x", "count"),
            ("-u 53", "-u10"),
            ("-Q 16", "--tos"),
            ("-D", "--time"),
            ("-Z", "no flag -Z"),
            ("-F", "needs a value"),
        ] {
            let e = translated(&format!("evenkeel ping x {line}")).unwrap_err();
            assert!(e.contains(says), "{line}: {e}");
        }
    }
}
