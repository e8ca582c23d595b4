//! One flow that is raised or lowered by hand.
//!
//! Principle: a flow is meant by its number, which it keeps as long as it lives. Non-goals: rules.

use clap::Args;
use evenkeel_core::classify::Tier;
use evenkeel_datapath::values::{Flow, Name, NameKey};
use evenkeel_kernel::{Error, StateDir};
use evenkeel_socket::Request;
use evenkeel_terminal::{Failure, print};

use super::maps::{no_programs, open};
use super::named::{end, number, proto, tuple};
use crate::args::StateArg;
use crate::ask;

/// Which flow.
#[derive(Debug, Args)]
pub(super) struct One {
    /// Its number, as `evenkeel flows` shows it
    number: u16,
    /// The device; without it, the one that is shaped
    device: Option<String>,
    #[command(flatten)]
    state: StateArg,
}

/// `evenkeel flows raise`, `evenkeel flows lower`.
pub(super) fn move_one(one: &One, raise: bool) -> Result<(), Failure> {
    let dir = StateDir::new(&one.state.state_dir);
    let request = Request::Move {
        device: one.device.clone(),
        flow: one.number,
        raise,
        token: None,
    };
    let said: String = ask::ask(&dir, &request, || {
        let moved = Moved::find(&dir, one.device.as_deref(), one.number, raise)?;
        moved.tell()?;
        Ok(moved.said)
    })?;
    print(&(said + "\n"))
}

/// A flow that is put into another tier.
pub(crate) struct Moved {
    pub(crate) device: String,
    pub(crate) key: NameKey,
    pub(crate) tier: Tier,
    pub(crate) said: String,
}

impl Moved {
    /// The flow of this number, and where it goes.
    pub(crate) fn find(
        dir: &StateDir,
        device: Option<&str>,
        wanted: u16,
        raise: bool,
    ) -> Result<Self, Failure> {
        let (device, maps) = open(dir, device)?;
        let flows = maps.flows().map_err(Error::from)?;
        let live = |f: &Flow| f.direction.iter().map(|d| d.last).max().unwrap_or_default();
        let found = flows.iter().filter(|(k, _)| number(k) == wanted);
        // Of two that share a number the one that moved last is meant: the other is most likely over.
        let Some((key, flow)) = found.max_by_key(|(_, f)| live(f)) else {
            return Err(Failure::usage(format_args!(
                "{device}: there is no flow {wanted}; `evenkeel flows` has the numbers"
            )));
        };
        let at = flow.tier as usize;
        let next = if raise {
            at.checked_sub(1)
        } else {
            Some(at + 1)
        };
        let Some(tier) = next.and_then(|n| Tier::ALL.get(n)).copied() else {
            let end = if raise { "most" } else { "least" };
            let name = flow.tier;
            return Err(Failure::usage(format_args!(
                "{device}: flow {wanted} is {name}, the {end} urgent tier"
            )));
        };
        Ok(Moved {
            device,
            key: tuple(key),
            tier,
            said: format!(
                "{} to {} is {tier} now, until it ends",
                proto(key.proto),
                end(key.remote, key.remote_port)
            ),
        })
    }

    /// Tells the programs at once.
    pub(crate) fn tell(&self) -> Result<(), Failure> {
        let maps = evenkeel_kernel::maps(&self.device)?;
        let mut maps = maps.ok_or_else(|| no_programs(&self.device))?;
        let name = Name {
            tier: Some((0, self.tier)),
            ..Name::default()
        };
        maps.say(self.key, name).map_err(Error::from)?;
        Ok(())
    }
}
