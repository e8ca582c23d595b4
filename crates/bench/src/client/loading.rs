//! The load of a run, whatever the far end: connected first, begun together, ended.
//!
//! Non-goals: moving bytes (`load`, `iperf`, `crate::web`).

use std::sync::Arc;
use std::time::Duration;

use evenkeel_report::bench::form::{Page, Stream, Way};

use super::far_end::FarEnd;
use super::household::Household;
use super::iperf::{self, Iperf};
use super::load::{self, Live, Load, LoadStream};
use super::options::{Options, Test};
use super::own::{Control, Opener};
use super::probing::Probing;
use crate::failed::Failed;
use crate::web::{self, WebLoad};

/// The draft's interval.
const DRAFT_INTERVAL: Duration = Duration::from_secs(1);
/// RRUL's classes: name and TOS.
const CLASSES: [(&str, u8); 4] = [("BE", 0), ("BK", 0x20), ("CS5", 0xa0), ("EF", 0xb8)];

/// Everything that a load may be.
pub(super) enum Loading {
    Nothing,
    Own(Load, Option<Household>),
    Iperf(Load, Box<Iperf>),
    Web(WebLoad),
}

/// A load that is connected.
pub(super) enum Prepared {
    Nothing,
    Own(Vec<LoadStream>, Option<Opener>),
    Iperf(Box<Iperf>, Vec<LoadStream>),
    Web(Box<web::Site>),
}

/// What a load moved.
pub(super) enum Moved {
    /// To be told apart with the server's report; and what a household did.
    Own(Vec<load::StreamOutcome>, (Vec<Stream>, Vec<Page>)),
    /// As it stands in results.
    Told(Vec<Stream>),
}

/// What is asked of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Everything that the user says.
    pub(super) o: &'a Options,
    /// Streams each way.
    pub(super) down: usize,
    pub(super) up: usize,
}

impl Prepared {
    /// Connects all streams, so that they begin together.
    pub(super) fn connect(wanted: Wanted<'_>, far: &FarEnd) -> Result<Self, Failed> {
        let Wanted { o, down, up } = wanted;
        if down + up == 0 {
            return Ok(Prepared::Nothing);
        }
        match far {
            FarEnd::Own(control) => {
                let home = (o.test == Test::Household).then(|| control.opener());
                Ok(Prepared::Own(own_streams(wanted, control)?, home))
            }
            _ if o.test == Test::Household => Err(Failed::Usage(format!(
                "{}: --test household wants `evenkeel serve` at the far end",
                o.to
            ))),
            // It was asked for none.
            FarEnd::Irtt => Ok(Prepared::Nothing),
            FarEnd::Iperf(address) => {
                let (iperf, streams) = Iperf::open(*address, down, up, o.seconds)?;
                Ok(Prepared::Iperf(Box::new(iperf), streams))
            }
            FarEnd::Web(site) => {
                if up > 0 && site.upload.is_none() {
                    return Err(Failed::Usage(format!(
                        "{} takes no uploads: --test download, or another far end",
                        o.to
                    )));
                }
                Ok(Prepared::Web(site.clone()))
            }
        }
    }

    /// Begins to move bytes. `zero`: the run's beginning, steady clock.
    pub(super) fn begin(
        self,
        wanted: Wanted<'_>,
        zero: Duration,
        live: Arc<Live>,
        probing: &Probing,
    ) -> Result<Loading, Failed> {
        Ok(match self {
            Prepared::Nothing => Loading::Nothing,
            Prepared::Own(streams, home) => {
                let load = Load::start(streams, zero, Arc::clone(&live))?;
                let home = home.map(|opener| Household::start(opener, zero, live));
                Loading::Own(load, home.transpose()?)
            }
            Prepared::Iperf(mut iperf, streams) => {
                let load = Load::start(streams, zero, live)?;
                iperf.begin()?;
                Loading::Iperf(load, iperf)
            }
            Prepared::Web(site) => {
                let every = if wanted.o.test.is_rpm() {
                    DRAFT_INTERVAL
                } else {
                    Duration::ZERO
                };
                let growth = web::Growth {
                    streams: (wanted.down, wanted.up),
                    every,
                };
                let load = WebLoad::start(*site, growth, zero, live)?;
                if let Some(w) = &probing.web {
                    w.carried_by(&load);
                }
                Loading::Web(load)
            }
        })
    }
}

fn own_streams(wanted: Wanted<'_>, control: &Control) -> Result<Vec<LoadStream>, Failed> {
    let mut streams = Vec::new();
    // A household's downloads open connections of their own.
    let down = match wanted.o.test {
        Test::Household => 0,
        _ => wanted.down,
    };
    for (way, n) in [(Way::Down, down), (Way::Up, wanted.up)] {
        for i in 0..n {
            let class = if wanted.o.test == Test::Rrul {
                i % CLASSES.len()
            } else {
                0
            };
            let (mark, tos) = CLASSES[class];
            let id = streams.len() as u16;
            // A second longer than needed: we end it.
            let seconds = wanted.o.seconds.saturating_add(1);
            streams.push(control.opener().stream(id, way, mark, tos, seconds)?);
        }
    }
    Ok(streams)
}

impl Loading {
    /// Why it is of no use any more, if so.
    pub(super) fn failure(&self) -> Option<Failed> {
        match self {
            Loading::Web(w) => w.failure(),
            Loading::Nothing | Loading::Own(..) | Loading::Iperf(..) => None,
        }
    }

    /// Ends it.
    pub(super) fn end(self) -> Result<Moved, Failed> {
        Ok(match self {
            Loading::Nothing => Moved::Told(Vec::new()),
            Loading::Own(load, home) => {
                let mut outcomes = load.finish()?;
                // Nothing of them stays on the line.
                outcomes.iter_mut().for_each(load::StreamOutcome::close);
                Moved::Own(outcomes, home.map(Household::finish).unwrap_or_default())
            }
            Loading::Iperf(load, mut iperf) => {
                let outcomes = load.finish()?;
                let theirs = iperf.end()?;
                Moved::Told(iperf::merge(outcomes, Some(&theirs)))
            }
            Loading::Web(load) => Moved::Told(load.finish()),
        })
    }
}
