//! Lines of bounded length.
//!
//! Principle: what is too long is known before it is kept. Non-goals: what stands in them.

use std::io::{self, BufRead, Read as _};

/// Bytes of a request, at most: a hundred rules fit.
pub const LONGEST_REQUEST: u64 = 16 << 10;
/// Bytes of an answer, at most: 2000 minutes and 4096 happenings fit.
pub const LONGEST_REPLY: u64 = 8 << 20;

/// The next line without its end; `None`: there is no more. One that is longer than `most` is an error.
pub(crate) fn next(from: &mut impl BufRead, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let n = from.by_ref().take(most + 1).read_until(b'\n', &mut line)?;
    match line.pop() {
        _ if n == 0 => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        // The other side ended in the middle: nobody waits for an answer.
        _ if (n as u64) <= most => Ok(None),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the line is too long",
        )),
    }
}
