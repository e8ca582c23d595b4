//! Asks the kernel what it can do; applies, changes and removes a plan.
