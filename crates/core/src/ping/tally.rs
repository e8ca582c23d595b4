//! What a run of probes came to: counts, times by fate, and a summary of the last seconds.
//!
//! Principles: replies and each kind of error have times of their own; loss is what timed out,
//! by the probes whose fate is known; all of it takes constant memory. Non-goals: wording.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fit::SizeRow;
use super::spread::Spread;
use super::track::Event;
use super::{Fate, Outcome};

/// Counts and times.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Probes with a known fate.
    pub sent: u64,
    /// Replies.
    pub replies: u64,
    /// Errors that answered: timed, and no replies.
    pub errors: u64,
    /// Timed out.
    pub lost: u64,
    /// Answered with less than was sent.
    pub damaged: u64,
    /// Void, because the wall clock was stepped.
    pub void: u64,
    /// Not sent by this machine.
    pub unsent: u64,
    /// Answers after the timeout (their probes are among the lost).
    pub late: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// Answers after the answer to a later probe.
    pub reordered: u64,
    /// Answers from addresses that were not asked.
    pub foreign: u64,
    /// Answers that belong to no probe.
    pub strays: u64,
    /// Probes without the kernel's stamps at both ends, of those that were timed.
    pub unstamped: u64,
    times: BTreeMap<Fate, Spread>,
    /// Our own egress queue.
    pub queue: Spread,
    /// From the driver to the answer, without our own ingress queue where that is known.
    pub path: Spread,
    /// Our own ingress queue.
    pub ingress: Spread,
    /// By payload size.
    pub sizes: BTreeMap<u32, SizeRow>,
    highest: Option<u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts what a tracker told.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Outcome(o) => self.outcome(o),
            Event::Late(..) => self.late += 1,
            Event::Duplicate(_) => self.duplicates += 1,
            Event::Foreign(..) => self.foreign += 1,
            Event::Stray => self.strays += 1,
            Event::Far(..) => {}
        }
    }

    fn outcome(&mut self, o: &Outcome) {
        self.sent += 1;
        match o.fate {
            Fate::Reply => self.replies += 1,
            Fate::Damaged => self.damaged += 1,
            Fate::Timeout => self.lost += 1,
            Fate::Void => self.void += 1,
            Fate::Unsent => self.unsent += 1,
            _ => self.errors += 1,
        }
        let row = self.sizes.entry(o.size).or_default();
        row.sent += 1;
        let Some(delays) = o.delays.filter(|_| o.fate.is_timed()) else {
            return;
        };
        row.answered += 1;
        row.min = Some(row.min.map_or(delays.felt, |m| m.min(delays.felt)));
        self.times.entry(o.fate).or_default().add(delays.felt);
        self.unstamped += u64::from(!o.stamped);
        for (part, spread) in [
            (delays.queue, &mut self.queue),
            (delays.path, &mut self.path),
            (delays.ingress, &mut self.ingress),
        ] {
            if let Some(time) = part {
                spread.add(time);
            }
        }
        match self.highest {
            Some(highest) if o.seq < highest => self.reordered += 1,
            _ => self.highest = Some(o.seq),
        }
    }

    /// Round trips that ended with `fate`.
    pub fn times(&self, fate: Fate) -> Option<&Spread> {
        self.times.get(&fate)
    }

    /// All fates that were timed, with their round trips.
    pub fn all_times(&self) -> impl Iterator<Item = (Fate, &Spread)> {
        self.times.iter().map(|(f, s)| (*f, s))
    }

    /// Answers of both kinds.
    pub fn answered(&self) -> u64 {
        self.replies + self.errors
    }

    /// Share of the lost among the probes that could be answered, 0..1.
    pub fn loss(&self) -> f64 {
        let could = self.sent - self.unsent - self.void;
        if could == 0 {
            0.0
        } else {
            self.lost as f64 / could as f64
        }
    }
}

/// The last so many seconds, again and again.
#[derive(Debug, Clone)]
pub struct Recent {
    every: Duration,
    next: Option<Duration>,
    tally: Tally,
}

impl Recent {
    /// A summary every `every`.
    pub fn new(every: Duration) -> Self {
        Recent {
            every,
            next: None,
            tally: Tally::new(),
        }
    }

    /// Counts an event at `now` (steady clock); returns what the time until then came to, if it
    /// is over.
    pub fn add(&mut self, event: &Event, now: Duration) -> Option<Tally> {
        let over = self.advance(now);
        self.tally.add(event);
        over
    }

    /// What the last seconds came to, if they are over at `now`.
    pub fn advance(&mut self, now: Duration) -> Option<Tally> {
        let next = *self.next.get_or_insert(now + self.every);
        if now < next {
            return None;
        }
        // Silent stretches are skipped, the beat is kept.
        let behind = now.saturating_sub(next).as_nanos() / self.every.as_nanos().max(1);
        self.next = Some(next + self.every * (behind as u32 + 1));
        Some(std::mem::take(&mut self.tally))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Delays;
    use super::*;

    fn event(seq: u64, fate: Fate, ms: Option<u64>) -> Event {
        Event::Outcome(Outcome {
            seq,
            sent: Duration::ZERO,
            size: 32,
            fate,
            from: None,
            received: None,
            ttl: None,
            delays: ms.map(|ms| Delays {
                felt: Duration::from_millis(ms),
                queue: None,
                path: None,
                ingress: None,
            }),
            stamped: true,
        })
    }

    #[test]
    fn each_fate_is_counted_as_what_it_is() {
        let mut t = Tally::new();
        for e in [
            event(0, Fate::Reply, Some(10)),
            event(2, Fate::Reply, Some(30)),
            event(1, Fate::Expired, Some(5)),
            event(3, Fate::PortUnreachable, Some(7)),
            event(4, Fate::Timeout, None),
            event(5, Fate::Void, None),
            event(6, Fate::Unsent, None),
            event(7, Fate::Damaged, Some(9)),
            Event::Duplicate(0),
            Event::Late(4, Duration::from_secs(3)),
            Event::Foreign(0, None),
            Event::Stray,
        ] {
            t.add(&e);
        }
        assert_eq!((t.sent, t.replies, t.errors, t.lost), (8, 2, 2, 1));
        assert_eq!((t.void, t.unsent, t.damaged, t.reordered), (1, 1, 1, 1));
        assert_eq!((t.duplicates, t.late, t.foreign, t.strays), (1, 1, 1, 1));
        let avg = t.times(Fate::Reply).unwrap().summary().unwrap().avg;
        assert!((avg - 20.0).abs() < 1e-9);
        assert_eq!(t.times(Fate::Expired).unwrap().count(), 1);
        assert!((t.loss() - 1.0 / 6.0).abs() < 1e-12);
        let row = t.sizes[&32];
        assert_eq!((row.sent, row.answered), (8, 4));
        assert_eq!(row.min, Some(Duration::from_millis(5)));
        assert!(Tally::new().loss() < 1e-12);
    }

    /// A reply or what `fate` says, with all its parts in ms.
    fn timed(seq: u64, fate: Fate, parts: [Option<u64>; 3], stamped: bool) -> Event {
        let ms = |ms: Option<u64>| ms.map(Duration::from_millis);
        let Event::Outcome(mut o) = event(seq, fate, Some(50)) else {
            unreachable!();
        };
        let delays = o.delays.as_mut().unwrap();
        [delays.queue, delays.path, delays.ingress] = parts.map(ms);
        o.stamped = stamped;
        Event::Outcome(o)
    }

    #[test]
    fn each_part_of_a_round_trip_has_times_of_its_own() {
        let mut t = Tally::new();
        t.add(&timed(0, Fate::Reply, [Some(1), Some(20), Some(3)], true));
        t.add(&timed(1, Fate::Reply, [None, Some(30), None], false));
        t.add(&timed(2, Fate::Expired, [Some(2), None, None], false));
        t.add(&timed(3, Fate::Damaged, [Some(9), Some(9), Some(9)], false));
        t.add(&timed(4, Fate::Reply, [None, None, None], false));
        let ms = |s: &Spread| (s.count(), s.min().map(|d| d.as_millis()));
        assert_eq!(ms(&t.queue), (2, Some(1)));
        assert_eq!(ms(&t.path), (2, Some(20)));
        assert_eq!(ms(&t.ingress), (1, Some(3)));
        assert_eq!(t.unstamped, 3, "what is not timed needs no stamps");
        assert_eq!(t.answered(), 3 + 1);
        let all: Vec<_> = t.all_times().map(|(f, s)| (f, s.count())).collect();
        assert_eq!(all, [(Fate::Reply, 3), (Fate::Expired, 1)]);
        assert!(t.times(Fate::Timeout).is_none());
    }

    #[test]
    fn only_an_answer_after_that_of_a_later_probe_is_reordered() {
        let reordered = |seqs: &[u64]| {
            let mut t = Tally::new();
            for seq in seqs {
                t.add(&event(*seq, Fate::Reply, Some(1)));
            }
            t.reordered
        };
        for (seqs, count) in [
            (&[0, 1, 2][..], 0),
            (&[0, 5, 9], 0),
            (&[1, 0, 2], 1),
            (&[3, 0, 1, 2], 3),
            (&[0, 3, 1, 4, 2], 2),
            (&[4, 4], 0),
        ] {
            assert_eq!(reordered(seqs), count, "{seqs:?}");
        }
        // What timed out was not overtaken.
        let mut t = Tally::new();
        t.add(&event(1, Fate::Reply, Some(1)));
        t.add(&event(0, Fate::Timeout, None));
        assert_eq!(t.reordered, 0);
    }

    #[test]
    fn loss_leaves_out_what_could_not_be_answered() {
        for (fates, loss) in [
            (&[Fate::Timeout][..], 1.0),
            (&[Fate::Timeout, Fate::Reply], 0.5),
            (
                &[Fate::Timeout, Fate::Timeout, Fate::Expired, Fate::Reply],
                0.5,
            ),
            (&[Fate::Timeout, Fate::Unsent, Fate::Void, Fate::Reply], 0.5),
            (&[Fate::Unsent, Fate::Void], 0.0),
        ] {
            let mut t = Tally::new();
            for (seq, fate) in (0..).zip(fates) {
                t.add(&event(seq, *fate, None));
            }
            assert!((t.loss() - loss).abs() < 1e-12, "{fates:?}: {}", t.loss());
        }
    }

    #[test]
    fn the_beat_is_kept_after_a_silence() {
        let s = Duration::from_secs;
        let mut r = Recent::new(s(10));
        assert!(r.advance(s(100)).is_none());
        assert!(r.advance(s(135)).is_some(), "due since 110");
        assert!(r.advance(s(139)).is_none());
        assert!(r.advance(s(140)).is_some());
        assert!(r.advance(s(149)).is_none());
        assert!(r.advance(s(170)).is_some(), "just on a beat");
        assert!(r.advance(s(179)).is_none() && r.advance(s(180)).is_some());
    }

    #[test]
    fn the_last_seconds() {
        let s = Duration::from_secs;
        let mut r = Recent::new(s(10));
        assert!(r.add(&event(0, Fate::Reply, Some(1)), s(100)).is_none());
        assert!(r.add(&event(1, Fate::Reply, Some(1)), s(109)).is_none());
        let first = r.add(&event(2, Fate::Reply, Some(1)), s(110)).unwrap();
        assert_eq!(first.sent, 2);
        // After a long silence the beat is still at ...0.
        assert_eq!(r.advance(s(145)).unwrap().sent, 1);
        assert!(r.advance(s(149)).is_none());
        assert_eq!(r.advance(s(150)).unwrap().sent, 0);
    }
}
