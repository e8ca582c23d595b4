//! A device that `evenkeel run` follows: its daemon is asked to let go of it for a while.
//!
//! Principles: a pause is a lease that the daemon ends by itself, so that nothing has to be brought back
//! if this process is killed; while it lasts it is asked for again and again.
//! Non-goals: devices that `evenkeel shape` shapes.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_kernel::StateDir;
use evenkeel_socket::{Refused, Request, ask};

use crate::failed::Failed;

/// `run` comes back after this if we are killed, s.
const LEASE: u16 = 20;
/// How often it is prolonged.
const AGAIN: Duration = Duration::from_secs(5);
/// A line is let go of, or followed again, within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it is shaped.
const LOOK: Duration = Duration::from_millis(100);

/// A device of a daemon's.
#[derive(Debug)]
pub(super) struct Followed {
    dir: StateDir,
    socket: PathBuf,
    device: String,
    pause: Option<Pause>,
}

/// A pause that is prolonged by a thread until this is dropped.
#[derive(Debug)]
struct Pause {
    /// Its other end is gone: it is over.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.over = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Followed {
    /// `device`, by the records in `dir`, if a daemon is there that follows it.
    pub(super) fn found(dir: &StateDir, device: &str) -> Option<Self> {
        let socket = dir.socket_file();
        let status = Request::Status {
            device: Some(device.to_owned()),
        };
        ask(&socket, &status, PATIENCE).ok()?;
        Some(Followed {
            dir: dir.clone(),
            socket,
            device: device.to_owned(),
            pause: None,
        })
    }

    fn tell(&self, request: &Request) -> Result<(), Failed> {
        match ask(&self.socket, request, PATIENCE) {
            Ok(_) => Ok(()),
            Err(Refused::Nobody) => Err(Failed::Work(format!(
                "{}: `evenkeel run` does not answer any more",
                self.device
            ))),
            Err(Refused::Said { error, code: 3 }) => Err(Failed::Denied(error)),
            Err(Refused::Said { error, .. }) => Err(Failed::Work(error)),
        }
    }

    fn request(&self) -> Request {
        Request::Pause {
            device: self.device.clone(),
            seconds: LEASE,
            token: None,
        }
    }

    /// Has it let go of, or followed again.
    pub(super) fn set(&mut self, shaped: bool) -> Result<(), Failed> {
        if !shaped {
            let request = self.request();
            self.tell(&request)?;
            self.pause = Some(self.prolong(request)?);
            return Ok(());
        }
        self.pause = None;
        let device = self.device.clone();
        self.tell(&Request::Resume {
            device,
            token: None,
        })?;
        self.wait()
    }

    fn prolong(&self, request: Request) -> Result<Pause, Failed> {
        let (over, heard) = channel::<()>();
        let socket = self.socket.clone();
        let thread = std::thread::Builder::new()
            .name("pause".into())
            .spawn(move || {
                while heard.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
                    // If it is refused the device is followed again, which the run's checks show.
                    let _ = ask(&socket, &request, PATIENCE);
                }
            })
            .map_err(|e| Failed::Work(format!("start who prolongs the pause: {e}")))?;
        Ok(Pause {
            over: Some(over),
            thread: Some(thread),
        })
    }

    /// Until the device is shaped.
    fn wait(&self) -> Result<(), Failed> {
        let end = Instant::now() + PATIENCE;
        let shaped = || {
            let state = self.dir.load(&self.device);
            state.ok().flatten().is_some_and(|s| s.complete)
        };
        while !shaped() {
            if Instant::now() > end {
                return Err(Failed::Work(format!(
                    "{}: `evenkeel run` does not shape it again",
                    self.device
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
