//! Emulated lines, experiments, kernels to run them on.
