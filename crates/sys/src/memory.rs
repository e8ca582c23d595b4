//! Memory that is no longer needed goes back to the system.
//!
//! Principle: a process that stays should not keep what only its start needed. Non-goals: an
//! allocator of our own; C libraries other than glibc, which keep less.

/// From now on all threads share one heap: for a process whose threads do not compete for it, and
/// which should be small.
pub fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers; a value that it does not like changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free pages of the heap back to the kernel.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number, is safe in threads, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
