//! `lope mailbox work`: a worker whose messages a program handles, or a workflow run each. It stops
//! when it is asked to, or when nothing is left to do; what it has in hand it finishes first, and
//! what it holds it gives back.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lope::Client;
use lope::executors::inherited;
use lope::mailbox::key::WorkerId;
use lope::mailbox::process::ProcessHandler;
use lope::mailbox::time::{StoreClock, TimeHooks};
use lope::mailbox::trace::Observer;
use lope::mailbox::{
    ConsumerConfig, ConsumerError, ConsumerLoop, ConsumerLoopError, Counters, Handler,
    HandlerError, StopSignal, Until, WorkflowSource, limit,
};
use lope::process_tree::{self, TreeOutput};
use lope_model::{Clock, Span};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::owner::{self, Named};
use super::python;
use super::watching::Watcher;
use crate::commands::python::PythonArgs;
use crate::commands::start::plan;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};
use crate::signals::Stops;

/// Messages taken at a time by a worker that is alone.
const BATCH: usize = 8;
/// How often the store's clock is read again.
const CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Most workers of one process.
const CONCURRENCY_MAX: usize = 256;

const PROGRAMS: &str = "The program gets the payload on its standard input, and LOPE_MESSAGE_ID, LOPE_MESSAGE_KIND, \
LOPE_WORKER, LOPE_FROM_WORKER and LOPE_ATTEMPT in its environment. Its exit status says what becomes of the message:
  0      handled
  65     never will be: a dead letter at once
  other  (or a signal) it may pass: tried again a little later, up to --attempts times, then a dead letter";

#[derive(Debug, Args)]
#[command(after_help = PROGRAMS)]
pub(crate) struct WorkArgs {
    /// Whose inbox
    #[arg(allow_negative_numbers = true)]
    worker: WorkerId,
    /// Stop when nothing is left to do
    #[arg(long)]
    until_idle: bool,
    /// Start a run of this workflow for each message: the payload is its input (JSON), the
    /// message's id its key
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "command")]
    workflow: Option<String>,
    /// Call this action of a Python module for each message; a failure of the type Never is not
    /// tried again
    #[arg(long, value_name = "MODULE:ACTION", conflicts_with_all = ["command", "workflow"])]
    python: Option<String>,
    #[command(flatten)]
    interpreters: PythonArgs,
    /// Messages handled at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Messages taken at a time by each that handles them  [default: 8; 1 with --concurrency, so
    /// that nobody sits on what another could handle]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Attempts before a message that fails becomes a dead letter
    #[arg(long, default_value_t = 4, value_name = "N")]
    attempts: u32,
    /// Longest time for one message; a program that takes longer is killed, with what it started
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// How long others wait for a worker that died elsewhere
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    lease: Span,
    /// Append a line for every attempt to this file: time, worker, place, attempt, result, frame
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present_any = ["workflow", "python"])]
    command: Vec<OsString>,
}

/// Workers, each on a task of its own.
type Team = JoinSet<Result<(), ConsumerLoopError>>;

/// What the workers of this process have together.
struct MailboxWork {
    client: Client,
    handler: Arc<dyn Handler>,
    clock: Arc<StoreClock>,
    counters: Arc<Counters>,
    observer: Arc<dyn Observer>,
    stop: StopSignal,
}

impl WorkArgs {
    fn batch(&self) -> usize {
        self.batch
            .unwrap_or(if self.concurrency > 1 { 1 } else { BATCH })
    }
}

pub(super) async fn run(args: WorkArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    validate(&args)?;
    let observer = Arc::new(Watcher::new(output, args.trace.as_deref())?);
    let client = super::open(settings).await?;
    let work = MailboxWork {
        handler: handler(&args, &client, settings, output).await?,
        clock: Arc::new(client.clock().await?),
        counters: Arc::default(),
        observer,
        stop: StopSignal::default(),
        client,
    };
    let names = (0..args.concurrency).map(|_| owner::take(&settings.home, args.worker));
    let names: Vec<Named> = names.collect::<CliResult<_>>()?;
    let stops = Stops::listen()?;
    let mut team = Team::new();
    for name in &names {
        let mut worker = work.worker(&args, name).await?;
        let until = if args.until_idle {
            Until::Idle
        } else {
            Until::Stopped
        };
        team.spawn(async move { worker.run(until).await });
    }
    let how = if args.until_idle {
        "until nothing is left"
    } else {
        "Ctrl-C stops it"
    };
    remark(
        output,
        &format!("worker {} works on {}; {how}", args.worker, settings.store),
    );
    let ended = work.watch_over(team, stops, output).await;
    super::counting::summary(args.worker, &work.counters.read(), output);
    work.client.close().await?;
    ended
}

fn validate(args: &WorkArgs) -> CliResult<()> {
    let within = |flag: &str, value: usize, max: usize| {
        let bad = || {
            CliError::usage(format!(
                "--{flag} {value}: a number from 1 to {max} is expected"
            ))
        };
        if (1..=max).contains(&value) {
            Ok(())
        } else {
            Err(bad())
        }
    };
    within("concurrency", args.concurrency, CONCURRENCY_MAX)?;
    within("batch", args.batch(), limit::BATCH_MAX)?;
    within("attempts", args.attempts as usize, 1_000)?;
    if args.timeout == Some(Span::ZERO) {
        return Err(
            CliError::usage("--timeout 0s: nothing can be handled in no time")
                .hint("leave it out for none"),
        );
    }
    if args.lease < limit::LEASE_MIN {
        return Err(CliError::usage(format!(
            "--lease {}: at least {} are needed",
            args.lease,
            limit::LEASE_MIN
        )));
    }
    Ok(())
}

async fn handler(
    args: &WorkArgs,
    client: &Client,
    settings: &Settings,
    output: Output,
) -> CliResult<Arc<dyn Handler>> {
    if let Some(named) = &args.python {
        let interpreters = args.interpreters.for_so_many(args.concurrency);
        return python::handler(named, &interpreters, args.timeout, settings).await;
    }
    if let Some(named) = &args.workflow {
        let plan = plan(client, named).await?;
        let is_file = **plan.name() != **named;
        let source = if is_file {
            WorkflowSource::Plan(plan)
        } else {
            WorkflowSource::Latest(named.clone())
        };
        return Ok(Arc::new(client.workflow_handler(source)));
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CliError::usage("no program is named")
            .hint("write it behind --, as in: work 7 -- ./handle.sh"));
    };
    // What a worker that was killed has left is gone before a message of its is handled again.
    process_tree::end_abandoned().await;
    let arguments = arguments.iter().cloned();
    let mut handler = ProcessHandler::new(program, arguments, &Handle::current());
    handler.timeout = args.timeout;
    handler.environment = inherited(&settings.config);
    handler.store = settings.store.to_string();
    if output.json {
        // Standard output is for the result alone.
        handler = handler.with_output(TreeOutput::ToErrors);
    }
    Ok(Arc::new(handler))
}

impl MailboxWork {
    async fn worker(&self, args: &WorkArgs, name: &Named) -> CliResult<ConsumerLoop> {
        let mut config = ConsumerConfig::new(args.worker, name.owner.clone());
        (config.max_batch, config.lease, config.retry.budget) =
            (args.batch(), args.lease, args.attempts);
        let mut consumer = self.client.consumer(Arc::clone(&self.handler), config);
        consumer.set_time(TimeHooks::on(Arc::clone(&self.clock) as Arc<dyn Clock>));
        consumer.set_counters(Arc::clone(&self.counters));
        consumer.set_observer(Arc::clone(&self.observer));
        consumer.set_stop(self.stop.clone());
        consumer.boot().await?;
        Ok(ConsumerLoop::of(consumer))
    }

    /// Until every worker has ended. The first Ctrl-C or TERM asks them to, the second ends them at
    /// once.
    async fn watch_over(
        &self,
        mut team: Team,
        mut stops: Stops,
        output: Output,
    ) -> CliResult<Exit> {
        let mut first = Ok(Exit::Done);
        let mut asked = false;
        loop {
            tokio::select! {
                ended = team.join_next() => match ended {
                    None => return first,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => {
                        self.stop.request();
                        first = first.and(Err(error.into()));
                    }
                    Some(Err(error)) => return Err(CliError::new(Exit::Bug, error.to_string())),
                },
                _ = stops.asked() => {
                    if asked {
                        remark(output, "stopped; what was in hand is handled again by the next worker");
                        return Ok(Exit::Failed);
                    }
                    asked = true;
                    self.stop.request();
                    remark(output, "finishing what is in hand; once more to stop at once");
                }
                () = tokio::time::sleep(CLOCK_EVERY) => {
                    // A store that is out of reach is the workers' to wait for; the clock goes on
                    // by itself.
                    let _ = self.clock.refresh().await;
                }
            }
        }
    }
}

impl From<ConsumerLoopError> for CliError {
    fn from(error: ConsumerLoopError) -> Self {
        match error {
            ConsumerLoopError::Consumer(ConsumerError::Store(error)) => error.into(),
            ConsumerLoopError::Consumer(ConsumerError::Handler(HandlerError::Unfit(why))) => {
                Self::usage(why).hint("no message was touched; mend it and start again")
            }
            other => Self::new(Exit::Failed, other.to_string()),
        }
    }
}
