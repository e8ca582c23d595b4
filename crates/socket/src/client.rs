//! Asks a daemon something.
//!
//! Principles: where none listens that is said, so that who asks can do it himself; one that hangs is given up; what a
//! killed one left behind is removed. Non-goals: more than one request at a time.

use std::io::{self, BufReader, ErrorKind, Write as _};
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
    match UnixStream::connect(path) {
        Ok(stream) => ask_over(&stream, request, patience),
        Err(e) => {
            if e.kind() == ErrorKind::ConnectionRefused {
                // Nobody listens any more: it is of one that was killed.
                let _ = std::fs::remove_file(path);
            }
            Err(Refused::Nobody)
        }
    }
}

fn ask_over(stream: &UnixStream, request: &Request, patience: Duration) -> Result<Value, Refused> {
    match exchange(stream, request, patience) {
        Ok(Some(Reply::Done { ok })) => Ok(ok),
        Ok(Some(Reply::Refused { error, code })) => Err(Refused::Said { error, code }),
        Ok(None) | Err(_) => Err(Refused::Nobody),
    }
}

/// Sends a request and reads its reply; `None`: the other side ended without one.
fn exchange(
    mut stream: &UnixStream,
    request: &Request,
    patience: Duration,
) -> io::Result<Option<Reply>> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    match stream.write_all(&line) {
        // A daemon with too many clients refuses and closes before it reads; its reply waits for us.
        Err(e) if has_closed(&e) => {}
        sent => sent?,
    }
    let reply = next(&mut BufReader::new(stream), LONGEST_REPLY)?;
    Ok(reply.map(|r| serde_json::from_slice(&r)).transpose()?)
}

fn has_closed(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_came_first_is_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs)
            .write_all(b"{\"error\":\"too many clients\",\"code\":1}\n")
            .unwrap();
        drop(theirs);
        let request = Request::Status { device: None };
        let refused = ask_over(&ours, &request, Duration::from_secs(10));
        let said = Refused::Said {
            error: "too many clients".into(),
            code: 1,
        };
        assert_eq!(refused, Err(said));
    }
}
