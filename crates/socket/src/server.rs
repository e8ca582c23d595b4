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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::peer::peer;
use evenkeel_sys::poll::{Interest, Poller, Waker};

use crate::line::{LONGEST_REQUEST, next};
use crate::{Reply, Request, Right, Rights, parse};

/// Clients at once.
pub const CLIENTS: usize = 32;
/// Of those, so many that may only read what is in force.
const STRANGERS: usize = 8;
/// Who says nothing, or does not read, for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// After an error of accept(2), such as too many open files, another try comes after this.
const AGAIN: Duration = Duration::from_millis(50);

/// An answer that is under way is waited for so long when the daemon ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Who answers.
pub type Answer = dyn Fn(Request) -> Reply + Send + Sync;

/// A socket that is served until this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    over: Arc<AtomicBool>,
    /// Wakes the thread, since it is over.
    waker: Arc<Waker>,
    answering: Arc<Answering>,
    thread: Option<JoinHandle<()>>,
}

/// How many requests are being answered.
#[derive(Debug, Default)]
struct Answering(Mutex<usize>, Condvar);

impl Answering {
    /// Answers one.
    fn during<T>(&self, answer: impl FnOnce() -> T) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let answered = answer();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.1.notify_all();
        answered
    }

    /// Waits until all are answered, but not for one who does not read.
    fn wait(&self) {
        let some = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.1.wait_timeout_while(some, LAST_WORDS, |n| *n > 0));
    }
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
        let acceptor = Acceptor::new(listener).map_err(io::Error::other)?;
        let waker = Arc::clone(&acceptor.waker);
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let answering = Arc::new(Answering::default());
        let answers = Arc::clone(&answering);
        let thread = std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || listen(&acceptor, &Arc::new(rights), &answer, &answers, &ends))?;
        Ok(Server {
            path: path.to_owned(),
            over,
            waker,
            answering,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.answering.wait();
        let _ = fs::remove_file(&self.path);
    }
}

/// Accepts clients; its thread sleeps until one connects or the waker says that it is over.
struct Acceptor {
    listener: UnixListener,
    waker: Arc<Waker>,
    poller: Poller,
}

impl Acceptor {
    fn new(listener: UnixListener) -> Result<Self, evenkeel_sys::Error> {
        let (waker, poller) = (Arc::new(Waker::new()?), Poller::new()?);
        poller.add(&listener, 0, Interest::Read)?;
        poller.add(&*waker, 1, Interest::Read)?;
        Ok(Acceptor {
            listener,
            waker,
            poller,
        })
    }

    /// Waits for the next one; `None`: nobody is there after all, or it is over.
    fn accept(&self) -> Option<UnixStream> {
        if self.poller.wait(&mut Vec::new()).is_err() {
            std::thread::sleep(AGAIN);
        }
        match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                // Too many files, which passes.
                std::thread::sleep(AGAIN);
                None
            }
        }
    }
}

fn listen(
    acceptor: &Acceptor,
    rights: &Arc<Rights>,
    answer: &Arc<Answer>,
    answering: &Arc<Answering>,
    over: &Arc<AtomicBool>,
) {
    let count = Arc::new(Count::default());
    while !over.load(Ordering::Relaxed) {
        let Some(stream) = acceptor.accept() else {
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
        let answering = Arc::clone(answering);
        let serve = move || {
            // Who does not read or breaks it off wants no more.
            let _ = serve(&stream, right, &rights, &*answer, &answering, &over);
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
    answering: &Answering,
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
        answering.during(|| {
            let reply = match parse(&line) {
                Ok(request) => rights
                    .refuse(right, &request)
                    .unwrap_or_else(|| answer(request)),
                Err(refused) => refused,
            };
            write(stream, &reply)
        })?;
    }
    Ok(())
}

fn write(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}
