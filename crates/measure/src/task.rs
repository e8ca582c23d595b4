//! A thread that works until it is done or nobody wants its result.
//!
//! Principle: dropping the handle wakes the thread through the descriptor it waits for. Non-goal:
//! sharing threads.

use std::sync::Arc;
use std::thread::JoinHandle;

use evenkeel_sys::poll::Waker;
use evenkeel_sys::{Error, Netns};

/// Work under way.
#[derive(Debug)]
pub struct Task<T> {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Result<T, Error>, Error>>>,
}

impl<T: Send + 'static + Default> Task<T> {
    /// Runs `work` on a thread inside `host`. It must return soon after its waker was woken.
    pub(crate) fn start(
        host: &Netns,
        name: &str,
        work: impl FnOnce(Arc<Waker>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let stop = Arc::new(Waker::new()?);
        let theirs = Arc::clone(&stop);
        Ok(Task {
            stop,
            thread: Some(host.spawn(name, move || work(theirs))?),
        })
    }

    /// Waits for the result.
    pub fn finish(mut self) -> Result<T, Error> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(T::default()),
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.stop.wake();
    }
}
