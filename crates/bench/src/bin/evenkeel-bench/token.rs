//! The word that both ends of a measurement must know.

/// Argument of `bench` and `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Token {
    /// A word that both ends must know; without it anybody may measure
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        env = "EVENKEEL_BENCH_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: String,
}
