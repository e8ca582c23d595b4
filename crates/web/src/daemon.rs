//! Asks the daemon at its control socket.
//!
//! Principles: a connection for each question, and only so many at once; an answer that does not come is one that
//! failed. Non-goals: who may ask what (the daemon knows).

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_socket::{LONGEST_REPLY, Reply, Request};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Questions at once: the daemon hears a few dozen clients.
const AT_ONCE: usize = 8;
/// An answer comes within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon.
pub(crate) struct Daemon {
    path: PathBuf,
    free: Semaphore,
}

/// Why there is no answer to show: an HTTP status and a line.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) why: String,
}

impl Daemon {
    pub(crate) fn new(path: &Path) -> Self {
        Daemon {
            path: path.to_owned(),
            free: Semaphore::new(AT_ONCE),
        }
    }

    /// What it answers.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Value, Refused> {
        let gone = |why: &str| Refused {
            status: 503,
            why: format!("the daemon does not answer: {why}"),
        };
        match timeout(PATIENCE, self.try_ask(request)).await {
            Err(_) => Err(gone("it takes too long")),
            Ok(Err(e)) => Err(gone(&e.to_string())),
            Ok(Ok(Reply::Done { ok })) => Ok(ok),
            Ok(Ok(Reply::Refused { error, code })) => Err(Refused {
                status: match code {
                    2 => 400,
                    3 => 403,
                    4 => 501,
                    _ => 500,
                },
                why: error,
            }),
        }
    }

    async fn try_ask(&self, request: &Request) -> std::io::Result<Reply> {
        let _free = self.free.acquire().await.map_err(std::io::Error::other)?;
        let mut stream = UnixStream::connect(&self.path).await?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        let mut reader = BufReader::new(stream.take(LONGEST_REPLY));
        reader.read_until(b'\n', &mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}
