//! `bench --compare`: the line without evenkeel and with it, in turn.
//!
//! Principles: A B A B ..., so that a line that drifts spoils neither; the shaping is taken away by
//! `clear` and brought back by `shape` from its own record; a process of its own waits to bring it back
//! if this one is killed, and hears no signal of the terminal's; where `evenkeel run` follows the line it
//! is asked to pause. Non-goals: measuring.

mod followed;

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use evenkeel_core::plan::{Backend, Choice, Ingress, Segments};
use evenkeel_core::segments::Mss;
use evenkeel_kernel::{Request, State, StateDir};

use crate::failed::Failed;
use followed::Followed;

/// What the process that waits is called with.
pub const RESTORE: &str = "restore-shaping";
/// The byte that says that all is as it was.
const DONE: u8 = b'd';

/// Shaping that is taken away and brought back.
#[derive(Debug)]
pub struct Shaping {
    of: Of,
    shaped: bool,
}

/// Who shapes.
#[derive(Debug)]
enum Of {
    /// Nobody watches: it was told once.
    Told(Box<Told>),
    /// `evenkeel run`.
    Run(Followed),
}

impl Shaping {
    /// What is in force on `device`, by the records in `dir`.
    pub fn found(dir: &Path, device: &str) -> Result<Self, Failed> {
        let states = StateDir::new(dir);
        // Who follows the device holds its lock; nobody does if this can have it.
        let of = match states.lock(device) {
            Ok(lock) => {
                drop(lock);
                Of::Told(Box::new(Told::found(&states, dir, device)?))
            }
            Err(e) => match Followed::found(&states, device) {
                Some(followed) => Of::Run(followed),
                None => return Err(Failed::Work(e.to_string())),
            },
        };
        Ok(Shaping { of, shaped: true })
    }

    /// Takes it away, or brings it back.
    pub fn set(&mut self, shaped: bool) -> Result<(), Failed> {
        if shaped == self.shaped {
            return Ok(());
        }
        match &mut self.of {
            Of::Told(told) => told.set(shaped)?,
            Of::Run(followed) => followed.set(shaped)?,
        }
        self.shaped = shaped;
        Ok(())
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        // If this fails whoever waits tries as well: the keeper's process, or the daemon's lease.
        let back = self.set(true);
        if let Of::Told(told) = &mut self.of {
            told.done(back.is_ok());
        }
    }
}

/// Shaping by `evenkeel shape`.
#[derive(Debug)]
struct Told {
    dir: StateDir,
    state: State,
    keeper: Option<(Child, ChildStdin)>,
}

impl Told {
    /// What is in force on `device`, by the records in `dir`. Starts who brings it back.
    fn found(states: &StateDir, dir: &Path, device: &str) -> Result<Self, Failed> {
        let state = states
            .load(device)
            .map_err(|e| Failed::Work(e.to_string()))?;
        let state = state.filter(|s| s.complete).ok_or_else(|| {
            Failed::Usage(format!(
                "evenkeel does not shape {device}: `evenkeel run {device}`, or `evenkeel shape {device} DOWN UP` first"
            ))
        })?;
        request(&state)?;
        let keeper = keeper(dir, &state)?;
        Ok(Told {
            dir: states.clone(),
            state,
            keeper: Some(keeper),
        })
    }

    fn set(&self, shaped: bool) -> Result<(), Failed> {
        let failed = |e: evenkeel_kernel::Error| Failed::Work(e.to_string());
        if shaped {
            let wanted = request(&self.state)?;
            evenkeel_kernel::shape(&self.dir, &wanted).map_err(failed)?;
        } else {
            evenkeel_kernel::clear(&self.dir, &self.state.device).map_err(failed)?;
        }
        Ok(())
    }

    /// The keeper has nothing to do any more, if all `is_back`.
    fn done(&mut self, is_back: bool) {
        if let Some((mut child, mut pipe)) = self.keeper.take() {
            if is_back {
                let _ = pipe.write_all(&[DONE]);
            }
            drop(pipe);
            let _ = child.wait();
        }
    }
}

/// The request that makes what a record says.
pub fn request(state: &State) -> Result<Request, Failed> {
    let rules: Result<Vec<_>, _> = state.rules.iter().map(|r| r.parse()).collect();
    Ok(Request {
        device: state.device.clone(),
        down: state.down,
        up: state.up,
        framing: (!state.framing_assumed).then_some(state.framing),
        choice: match state.backend {
            Backend::Cake => Choice::Cake,
            Backend::HtbFqCodel => Choice::Htb,
            Backend::HtbBuckets => Choice::Bare,
        },
        ingress: match state.policer {
            None => Ingress::Ifb,
            Some(p) => Ingress::Police { mark: p.mark },
        },
        mode: state.mode,
        windows: state.windows.is_some(),
        lan: state.lan,
        mss: if state.segments == Segments::default() {
            Mss::Off
        } else {
            Mss::Auto
        },
        replace: false,
        rules: rules
            .map_err(|e| Failed::Work(format!("read the rules of {}: {e}", state.device)))?,
    })
}

/// Starts the process that waits: it has a pipe from us, whose end it sees whatever becomes of us.
fn keeper(dir: &Path, state: &State) -> Result<(Child, ChildStdin), Failed> {
    let failed =
        |e: std::io::Error| Failed::Work(format!("start who brings the shaping back: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .arg(RESTORE)
        .arg(dir)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut pipe = child
        .stdin
        .take()
        .ok_or_else(|| Failed::Work("start who brings the shaping back".into()))?;
    let json = serde_json::to_vec(state).map_err(|e| Failed::Work(e.to_string()))?;
    let length = (json.len() as u32).to_be_bytes();
    pipe.write_all(&length)
        .and_then(|()| pipe.write_all(&json))
        .map_err(failed)?;
    Ok((child, pipe))
}

/// What that process does: waits for the pipe's end, and shapes unless it was told that all is done.
pub fn restore(dir: &Path) -> Result<(), Failed> {
    // Neither Ctrl-C nor a hangup of the terminal ends it; its group is its own.
    for signal in [
        nix::sys::signal::Signal::SIGHUP,
        nix::sys::signal::Signal::SIGINT,
        nix::sys::signal::Signal::SIGTERM,
    ] {
        let mut set = nix::sys::signal::SigSet::empty();
        set.add(signal);
        let _ = set.thread_block();
    }
    let failed = |e: std::io::Error| Failed::Work(format!("hear what is to be brought back: {e}"));
    let mut input = std::io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(failed)?;
    let mut json = vec![0; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut json).map_err(failed)?;
    let state: State = serde_json::from_slice(&json).map_err(|e| Failed::Work(e.to_string()))?;
    let mut rest = Vec::new();
    input.read_to_end(&mut rest).map_err(failed)?;
    if rest == [DONE] {
        return Ok(());
    }
    let states = StateDir::new(dir);
    evenkeel_kernel::shape(&states, &request(&state)?).map_err(|e| Failed::Work(e.to_string()))?;
    Ok(())
}
