//! The words users type. Every flag is defined here, once.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use lope_flow::graph::Format;

/// A durable runner: it runs your work to its end through crashes, restarts and lost machines.
#[derive(Debug, Parser)]
#[command(name = "lope", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Lope {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Everywhere {
    /// memory:, sqlite:PATH or postgres://…  [default: lope.db in the home folder]
    #[arg(long, global = true, env = "LOPE_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Folder of config.yaml, lope.db and logs  [default: ~/.lope]
    #[arg(long, global = true, env = "LOPE_HOME", value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON value on stdout and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say less
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow file to its end here, show progress, print the result
    Run(RunArgs),
    /// Work on runs until stopped
    Up(UpArgs),
    /// Start a run for whoever works on its queue
    Start(StartArgs),
    /// Look at runs and steer them
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Check workflow files and draw them
    #[command(subcommand)]
    Workflows(WorkflowsCommand),
    /// Look after the store: check it, bring it up to date, see its schema, back it up
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print a completion script for a shell
    Completions { shell: Shell },
    /// Print the version
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// Say everything that is wrong with workflow files; exit 2 if anything is
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Draw a workflow file
    Graph {
        file: PathBuf,
        /// text, mermaid, dot or svg
        #[arg(long, default_value = "text")]
        format: Format,
        /// Write the drawing to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Prove the store sound: schema, marker, journal gaps, orphaned leases; exit 1 if it is not
    Check,
    /// Create the store, or bring it to the schema of this program
    Migrate {
        /// Say what would happen and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Print the schema as SQL
    Schema,
    /// Copy the store, while it is in use, into a new file
    Backup {
        /// The file to write; it must not exist
        file: PathBuf,
    },
}

/// How a run is begun.
#[derive(Debug, Args)]
pub(crate) struct Begin {
    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// A name of your own for the run: a second start with it returns the first run
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The workflow file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) begin: Begin,
    /// Start it and leave it to a runner
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Work on this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// Attempts in flight at once
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// A workflow file, or the name of a deployed workflow
    pub(crate) workflow: String,
    #[command(flatten)]
    pub(crate) begin: Begin,
    /// When it may begin (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// 0 to 9, higher first
    #[arg(long)]
    pub(crate) priority: Option<i64>,
    /// A tag, as NAME=VALUE; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
    /// Stay open for more inputs
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, youngest first
    List {
        /// queued, running, idle, sleeping, waiting, paused, completed, failed or cancelled
        #[arg(long)]
        status: Option<String>,
        #[arg(long)]
        workflow: Option<String>,
        /// A tag, as NAME=VALUE; may be given several times
        #[arg(long = "tag", value_name = "NAME=VALUE")]
        tags: Vec<String>,
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Show one run
    Show { id: String },
    /// Print a run's journal
    Journal { id: String },
    /// Wait until a run has ended and print its result
    Wait {
        id: String,
        /// Give up after this long
        #[arg(long, value_name = "DURATION")]
        timeout: Option<String>,
    },
    /// Print the logs of a run's steps
    Logs { id: String },
    /// Send a signal
    Signal { id: String, name: String, value: Option<String> },
    /// Feed an open run an input
    Feed { id: String, input: String },
    /// Ask a run to end; `finally` blocks still run
    Cancel {
        id: String,
        /// End it at once
        #[arg(long)]
        force: bool,
    },
    /// Start no further step
    Pause { id: String },
    /// Go on after a pause
    Resume { id: String },
    /// Go on with a failed run where it failed
    Retry { id: String },
}
