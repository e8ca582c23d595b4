//! Asks a daemon something.
//!
//! Principles: where none listens that is said, so that who asks can do it himself; one that hangs is given up; what a
//! killed one left behind is removed. Non-goals: more than one request at a time.

use std::io::{BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::line::{LONGEST_REPLY, next};
use crate::{Reply, Request};

/// Why there is no answer to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No daemon listens, or it does not answer.
    Nobody,
    /// It answered that it does not.
    Said {
        /// Why.
        error: String,
        /// As an exit code.
        code: u8,
    },
}

/// Asks the daemon behind the socket at `path`, and waits no longer than `patience`.
pub fn ask(path: &Path, request: &Request, patience: Duration) -> Result<Value, Refused> {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(e) => {
            if e.kind() == ErrorKind::ConnectionRefused {
                // Nobody listens any more: it is of one that was killed.
                let _ = std::fs::remove_file(path);
            }
            return Err(Refused::Nobody);
        }
    };
    let nobody = |_| Refused::Nobody;
    stream.set_read_timeout(Some(patience)).map_err(nobody)?;
    stream.set_write_timeout(Some(patience)).map_err(nobody)?;
    let mut line = serde_json::to_vec(request).map_err(|_| Refused::Nobody)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(nobody)?;
    let answer = next(&mut BufReader::new(&stream), LONGEST_REPLY).map_err(nobody)?;
    let answer = answer.ok_or(Refused::Nobody)?;
    match serde_json::from_slice(&answer) {
        Ok(Reply::Done { ok }) => Ok(ok),
        Ok(Reply::Refused { error, code }) => Err(Refused::Said { error, code }),
        Err(_) => Err(Refused::Nobody),
    }
}
