//! The probes of a run: which kinds a far end gets.
//!
//! Non-goals: sending them (`prober`, `crate::web`).

use std::net::SocketAddr;
use std::time::Duration;

use super::far_end::FarEnd;
use super::irtt;
use super::options::Test;
use super::pace::OTHERS;
use super::prober::{Kind, Prober};
use crate::failed::Failed;
use crate::web::WebProbes;

/// The probes of a run.
pub(super) struct Probing {
    pub(super) prober: Option<Prober>,
    pub(super) web: Option<WebProbes>,
}

impl Probing {
    /// Begins to probe a far end at `address`; the judged kind every `interval`. `zero` and `wall`:
    /// the run's beginning on the steady clock, and on the wall's.
    pub(super) fn start(
        far: &FarEnd,
        address: SocketAddr,
        (test, interval, irtt): (Test, Duration, Option<irtt::Session>),
        (zero, wall): (Duration, Duration),
    ) -> Result<Self, Failed> {
        let kind = |tos, mark, interval| Kind {
            icmp: false,
            tos,
            mark,
            interval,
            bytes: 0,
        };
        let others = interval * OTHERS;
        let (session, kinds) = match far {
            FarEnd::Own(control) => (
                control.session as u32,
                vec![
                    kind(0, "BE", interval),
                    kind(0xb8, "EF", others),
                    kind(0x20, "BK", others),
                    Kind::echo(others),
                ]
                .into_iter()
                .chain((test == Test::Household).then_some(Kind::CALL))
                .collect(),
            ),
            FarEnd::Iperf(_) | FarEnd::Web(_) | FarEnd::Irtt => {
                (wall.as_nanos() as u32, vec![Kind::echo(interval)])
            }
        };
        let prober = match Prober::start(address, session, &kinds, wall, irtt) {
            Ok(p) => Some(p),
            // Without echo requests connections are probed by themselves.
            Err(e) if e.is_permission() && !matches!(far, FarEnd::Own(_)) => None,
            Err(e) => return Err(e.into()),
        };
        let web = match far {
            FarEnd::Web(site) => Some(WebProbes::start((**site).clone(), zero)?),
            FarEnd::Own(_) | FarEnd::Iperf(_) | FarEnd::Irtt => None,
        };
        Ok(Probing { prober, web })
    }

    /// The median of what came since the last call, ms.
    pub(super) fn latest(&self) -> Option<f64> {
        let web = self.web.as_ref().and_then(|w| w.latest.take());
        web.or_else(|| self.prober.as_ref()?.latest.take())
    }
}
