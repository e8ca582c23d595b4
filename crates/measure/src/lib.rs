//! Prober and load generation.
