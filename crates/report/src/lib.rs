//! Figures, HTML and tables from result files.
