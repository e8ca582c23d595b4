//! Hears requests and has them answered.
//!
//! Principles: a thread for each client, and only so many; of those only some for users without rights, so that they
//! cannot keep the others out; who says nothing for a minute is let go; the socket is there for everybody, since the
//! kernel says who connects. Non-goals: what is answered.

use std::fs::{self, Permissions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::peer::peer;

use crate::line::{LONGEST_REQUEST, next};
use crate::{Reply, Request, Right, Rights, parse};

/// Clients at once.
pub const CLIENTS: usize = 32;
/// Of those, so many that may only read what is in force.
const STRANGERS: usize = 8;
/// Who says nothing, or does not read, for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// Who answers.
pub type Answer = dyn Fn(Request) -> Reply + Send + Sync;

/// A socket that is served until this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How many are connected.
#[derive(Default)]
struct Count {
    all: AtomicUsize,
    strangers: AtomicUsize,
}

/// One of them.
struct Counted {
    count: Arc<Count>,
    is_stranger: bool,
}

impl Counted {
    /// `None`: there are enough.
    fn new(count: &Arc<Count>, right: Right) -> Option<Self> {
        let one = Counted {
            count: Arc::clone(count),
            is_stranger: right == Right::Status,
        };
        let strangers = count
            .strangers
            .fetch_add(usize::from(one.is_stranger), Ordering::Relaxed);
        let all = count.all.fetch_add(1, Ordering::Relaxed);
        (all < CLIENTS && !(one.is_stranger && strangers >= STRANGERS)).then_some(one)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.all.fetch_sub(1, Ordering::Relaxed);
        self.count
            .strangers
            .fetch_sub(usize::from(self.is_stranger), Ordering::Relaxed);
    }
}

impl Server {
    /// Listens at `path`; an error of kind `AddrInUse` says that another daemon does.
    pub fn start(path: &Path, rights: Rights, answer: Arc<Answer>) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || listen(&listener, &Arc::new(rights), &answer, &ends))?;
        Ok(Server {
            path: path.to_owned(),
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(
    listener: &UnixListener,
    rights: &Arc<Rights>,
    answer: &Arc<Answer>,
    over: &Arc<AtomicBool>,
) {
    let count = Arc::new(Count::default());
    while !over.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // Nobody, or too many files: both pass.
            std::thread::sleep(LOOK);
            continue;
        };
        let Ok(who) = peer(&stream) else {
            continue;
        };
        let right = rights.of(&who);
        let Some(counted) = Counted::new(&count, right) else {
            refuse(&stream);
            continue;
        };
        let (rights, answer, over) = (Arc::clone(rights), Arc::clone(answer), Arc::clone(over));
        let serve = move || {
            // Who does not read or breaks it off wants no more.
            let _ = serve(&stream, right, &rights, &*answer, &over);
            drop(counted);
        };
        // A machine that has no thread for it has other worries; the client sees the end.
        let _ = std::thread::Builder::new()
            .name("client".into())
            .spawn(serve);
    }
}

fn refuse(stream: &UnixStream) {
    let _ = stream.set_nonblocking(true);
    let _ = write(stream, &Reply::refused(1, "too many clients; try again"));
}

fn serve(
    stream: &UnixStream,
    right: Right,
    rights: &Rights,
    answer: &Answer,
    over: &AtomicBool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    while !over.load(Ordering::Relaxed) {
        let line = match next(&mut reader, LONGEST_REQUEST) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return write(stream, &Reply::refused(2, "the request is too long"));
            }
            Err(e) => return Err(e),
        };
        let reply = match parse(&line) {
            Ok(request) => rights
                .refuse(right, &request)
                .unwrap_or_else(|| answer(request)),
            Err(refused) => refused,
        };
        write(stream, &reply)?;
    }
    Ok(())
}

fn write(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}
