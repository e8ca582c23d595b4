//! What can go wrong, in the kernel's words.
//!
//! Principles: the object, then what the kernel said; of a verifier's log only the line that counts.

/// What can go wrong, with the kernel's words.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not take the programs.
    #[error("load eBPF: {0}")]
    Load(String),
    /// A map could not be read or written.
    #[error("{what} eBPF map {map}: {why}")]
    Map {
        /// `open`, `read` or `set`.
        what: &'static str,
        /// Its name.
        map: &'static str,
        /// The kernel's words.
        why: String,
    },
}

/// An error with what caused it: the kernel's words stand at the end.
pub(crate) fn words(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        let more = e.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        next = e.source();
    }
    // A verifier's log has thousands of lines, of which the one before the statistics counts.
    let Some((refusal, log)) = text.split_once("Verifier output:") else {
        return text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    };
    let last = log
        .lines()
        .rfind(|l| !l.is_empty() && !l.contains("verification time") && !l.contains("processed"));
    let last: String = last.unwrap_or_default().chars().take(200).collect();
    format!("{} {last}", refusal.trim())
}
