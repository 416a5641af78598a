//! Flags that every command takes.

use std::path::PathBuf;

use clap::Args;

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Everywhere {
    /// memory:, sqlite:PATH or postgres://…  [default: lope.db in the home folder]
    #[arg(
        long,
        global = true,
        env = "LOPE_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) store: Option<String>,
    /// Folder of config.yaml, lope.db and logs  [default: ~/.lope]
    #[arg(long, global = true, env = "LOPE_HOME", value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON value on stdout and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Keep the types of values in what is printed: {"$tag": [NAME, VALUE]}
    #[arg(long, global = true)]
    pub(crate) tagged: bool,
    /// Say less
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}
