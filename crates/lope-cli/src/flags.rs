//! Flags that every command takes.

use std::path::PathBuf;

use clap::Args;

use crate::output::Output;

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
    /// Have a running server do it, as in http://127.0.0.1:7420, instead of opening a store
    #[arg(long, global = true, env = "LOPE_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The token that the server asks for
    #[arg(
        long,
        global = true,
        env = "LOPE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,
    /// Certificates in PEM that a server with https:// is known by, instead of those of this machine
    #[arg(long, global = true, env = "LOPE_SERVER_CA", value_name = "FILE")]
    pub(crate) server_ca: Option<PathBuf>,
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

impl Everywhere {
    /// How much is said, and in which form.
    pub(crate) const fn output(&self) -> Output {
        Output {
            json: self.json,
            tagged: self.tagged,
            quiet: self.quiet,
            verbose: self.verbose,
        }
    }
}
