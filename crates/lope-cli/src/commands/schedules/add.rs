//! `lope schedules add`: everything that is said is judged before anything is stored.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use lope::describe;
use lope::runs::RunStartOptions;
use lope::schedules::ScheduleRecord;
use lope::schedules::{BadTiming, CatchUp, Overlap, Schedule, ScheduleEntry, Timing};
use lope::stores::{CreateStore, StoreError};
use lope::workflows::Plan;
use lope::{Client, PreparedRun};
use lope_model::time::BadSpan;
use lope_model::{Priority, QueueName, Span, Timestamp, Value};

use super::query::when;
use crate::clock::{later, wall};
use crate::commands::begin::captured;
use crate::commands::python::{PythonArgs, PythonWorkflow};
use crate::commands::start::missing_workflow;
use crate::commands::tags::tags;
use crate::commands::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

/// Runners looked at, to say whether anybody is there to start anything.
const RUNNERS: usize = 100;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("timing").required(true).args(["cron", "every"]))]
pub(crate) struct AddArgs {
    name: String,
    /// A workflow file, a workflow in Python (MODULE.py:NAME), or the name of a deployed workflow.
    /// A tick starts the version that was deployed last
    #[arg(value_name = "FILE|WORKFLOW")]
    workflow: String,
    #[command(flatten)]
    python: PythonArgs,
    /// Minute, hour, day of month, month, day of week, as in '30 6 * * MON-FRI'; or @hourly,
    /// @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The time zone of --cron, as in Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// An interval, as in 90s, 15m, 2h; counted from --from, else from now
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// Start each run up to so much later than its tick
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// No tick before this time: RFC 3339, or in how long
    #[arg(long, value_name = "TIME|DURATION")]
    from: Option<String>,
    /// No tick after this time: RFC 3339, or in how long
    #[arg(long, value_name = "TIME|DURATION")]
    until: Option<String>,
    /// What becomes of a tick that comes while the last run is still going
    #[arg(long, value_enum, default_value_t)]
    overlap: OverlapWord,
    /// What becomes of ticks that came while no runner was up
    #[arg(long, value_enum, default_value_t)]
    catch_up: CatchUpWord,
    /// The input of each run: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    #[arg(long)]
    queue: Option<String>,
    /// 0 to 9, higher first
    #[arg(long)]
    priority: Option<i64>,
    /// A tag of each run, as NAME=VALUE; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Start nothing until it is resumed
    #[arg(long)]
    paused: bool,
    /// Write over a schedule of the same name; what became of its earlier ticks stays known
    #[arg(long)]
    replace: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OverlapWord {
    /// It starts nothing
    #[default]
    Skip,
    /// It waits until that run has ended
    Queue,
    /// That run is cancelled
    CancelOther,
    /// It starts its run beside the other
    Allow,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CatchUpWord {
    /// They are given up
    None,
    /// The last of them starts its run
    #[default]
    Last,
    /// Each starts its run, the last hundred at most
    All,
}

pub(crate) async fn run(args: AddArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    settings.lasting("the schedule")?;
    let mut options = options(&args, settings)?;
    let said = schedule(&args, &options, wall())?;
    let plans = plans(&args, &mut options)?;
    let create = if plans.is_empty() {
        CreateStore::Never
    } else {
        CreateStore::IfMissing
    };
    let client = match settings.open(create).await {
        Err(StoreError::Missing { .. }) => {
            return Err(missing_workflow(&args.workflow));
        }
        opened => opened?,
    };
    let entry = enter(&client, &args, said, options, plans).await;
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => {
            client.close().await?;
            return Err(error);
        }
    };
    if !client
        .runners(RUNNERS)
        .await?
        .iter()
        .any(|runner| runner.live)
    {
        remark(
            output,
            &format!("no runner is up to start its runs: {} up", settings.called),
        );
    }
    client.close().await?;
    announce(&entry, output);
    Ok(Exit::Done)
}

fn announce(entry: &ScheduleEntry, output: Output) {
    let record = ScheduleRecord {
        entry: entry.clone(),
        last_run: None,
        running: false,
    };
    let ScheduleEntry { schedule, .. } = entry;
    let first = match entry.due() {
        Some(due) => format!("first at {}", when(schedule, due)),
        None => "paused".to_owned(),
    };
    let text = format!(
        "{}: {}, {}, {first}",
        schedule.name, schedule.workflow, schedule.timing
    );
    output.result(&describe::schedule(&record), &text);
}

/// Of a name that is taken nothing is stored, not even the workflow.
async fn enter(
    client: &Client,
    args: &AddArgs,
    said: Schedule,
    options: RunStartOptions,
    plans: Vec<Arc<Plan>>,
) -> CliResult<ScheduleEntry> {
    if !args.replace && client.has_schedule(&args.name).await? {
        return Err(taken(&args.name));
    }
    let plan = match plans.first() {
        Some(plan) => Arc::clone(plan),
        None => client
            .latest_plan(&args.workflow)
            .await?
            .ok_or_else(|| missing_workflow(&args.workflow))?,
    };
    PreparedRun::validate(&plan, &options)?;
    let input = options.input.unwrap_or_default();
    for plan in &plans {
        client.deploy(plan).await?;
    }
    let now = client.now().await?;
    let schedule = Schedule {
        workflow: plan.name().to_string(),
        input,
        timing: timing(args, said.from, now)?,
        added_at: now,
        ..said
    };
    if args.replace {
        return Ok(client.put_schedule(schedule).await?);
    }
    client
        .add_schedule(schedule)
        .await?
        .ok_or_else(|| taken(&args.name))
}

fn taken(name: &str) -> CliError {
    let error = CliError::new(
        Exit::Refused,
        format!("there is a schedule '{name}' already"),
    );
    error.hint("--replace writes over it, 'lope schedules show' shows it")
}

/// How each run is started.
fn options(args: &AddArgs, settings: &Settings) -> CliResult<RunStartOptions> {
    let bad = |error: &dyn std::fmt::Display| CliError::usage(error.to_string());
    let queue = args
        .queue
        .as_deref()
        .map(QueueName::parse)
        .transpose()
        .map_err(|error| bad(&error))?;
    let queue = queue.unwrap_or_default();
    let priority = args.priority.map(Priority::new).transpose();
    let priority = priority.map_err(|error| bad(&error))?;
    Ok(RunStartOptions {
        input: Some(workflow_file::input(args.input.as_deref())?),
        priority: Some(settings.config.engine.priority(&queue, priority)),
        queue,
        tags: tags(&args.tags)?,
        env: captured(settings),
        ..RunStartOptions::default()
    })
}

/// What was said, as a schedule, if it makes sense.
fn schedule(args: &AddArgs, options: &RunStartOptions, now: Timestamp) -> CliResult<Schedule> {
    let time = |flag: &str, text: &Option<String>| {
        text.as_deref().map(|text| later(flag, text)).transpose()
    };
    let (from, until) = (time("--from", &args.from)?, time("--until", &args.until)?);
    let jitter = args
        .jitter
        .as_deref()
        .map(|text| span("--jitter", text))
        .transpose()?;
    let schedule = Schedule {
        name: args.name.clone(),
        workflow: args.workflow.clone(),
        input: options.input.clone().unwrap_or(Value::Null),
        timing: timing(args, from, now)?,
        jitter: jitter.unwrap_or_default(),
        from,
        until,
        overlap: args.overlap.meant(),
        catch_up: args.catch_up.meant(),
        queue: options.queue.clone(),
        priority: options.priority.unwrap_or_default(),
        tags: options.tags.clone(),
        env: options.env.clone(),
        paused: args.paused,
        added_at: now,
    };
    schedule
        .validate(now)
        .map_err(|error| CliError::usage(error.to_string()).hint(error.hint()))?;
    Ok(schedule)
}

fn timing(args: &AddArgs, from: Option<Timestamp>, now: Timestamp) -> CliResult<Timing> {
    let bad = |error: BadTiming| CliError::usage(error.to_string()).hint(error.hint());
    match (&args.cron, &args.every) {
        (Some(expression), _) => Timing::cron(expression, &args.zone).map_err(bad),
        (None, every) => {
            let every = span("--every", every.as_deref().unwrap_or_default())?;
            Timing::every(every, from.unwrap_or(now.plus(every))).map_err(bad)
        }
    }
}

fn span(flag: &str, text: &str) -> CliResult<Span> {
    text.parse()
        .map_err(|error: BadSpan| CliError::usage(format!("{flag}: {error}")))
}

/// What must be deployed first: a file's workflow, or that of a Python module with those it starts.
fn plans(args: &AddArgs, options: &mut RunStartOptions) -> CliResult<Vec<Arc<Plan>>> {
    if let Some(target) = PythonWorkflow::parse(&args.workflow) {
        return args.python.bundle(&target, options);
    }
    if workflow_file::is_file(&args.workflow) {
        return Ok(vec![workflow_file::read(Path::new(&args.workflow))?]);
    }
    Ok(Vec::new())
}

impl OverlapWord {
    const fn meant(self) -> Overlap {
        match self {
            Self::Skip => Overlap::Skip,
            Self::Queue => Overlap::Queue,
            Self::CancelOther => Overlap::CancelOther,
            Self::Allow => Overlap::Allow,
        }
    }
}

impl CatchUpWord {
    const fn meant(self) -> CatchUp {
        match self {
            Self::None => CatchUp::None,
            Self::Last => CatchUp::Last,
            Self::All => CatchUp::All,
        }
    }
}
