//! One agent's process: started by argv as a tree of its own, attended to until nothing of it is
//! left. What it says is logged line by line and read by its adapter; it is stopped when the
//! watchdog or its runner says so.

use std::io;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use lope_agents::records::StopReason;
use lope_engine::executor::StartRight;
use lope_model::masks::Masks;
use lope_model::{Span, Timestamp};
use lope_workers::clock::wall;
use lope_workers::lines::{each_line, read_until};
use lope_workers::logs::{MaskedLog, Stream};
use lope_workers::process_tree::{
    CpuMeter, ProcessTree, ProcessTrees, TreeCommand, TreeWork, is_subreaper_lost, is_too_late,
};
use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::adapter::{AgentReader, AgentReport, ending, text_of};
use crate::watchdog::{AgentLimits, AgentSigns, StopCause, Watchdog};

/// Longest line that an adapter reads; of a longer one it sees nothing.
const EVENT_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of complaints that a failure shows: their end.
const COMPLAINT_MAX: usize = 2_000;

/// An agent to be started.
#[derive(Debug)]
pub struct AgentLaunch {
    pub work: TreeWork,
    pub command: TreeCommand,
    pub reader: AgentReader,
    /// What is hidden in what it says.
    pub masks: Masks,
    pub limits: AgentLimits,
    /// Until when it may be started.
    pub right: StartRight,
    /// How long it may take to end when it is told to.
    pub stop_grace: Span,
}

/// How an agent ended.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentEnd {
    pub reason: StopReason,
    pub exit_code: Option<i32>,
    pub report: AgentReport,
    /// Its last words if it did well, else what went wrong.
    pub message: Option<String>,
    pub wall: Span,
}

/// What an agent has said so far.
struct AgentOutput {
    reader: AgentReader,
    masks: Masks,
    log: MaskedLog,
    has_spoken: bool,
    event: Vec<u8>,
    is_too_long: bool,
    complaints: String,
}

/// The watchdog of an agent, and since when it looks.
struct AgentWatch {
    dog: Watchdog,
    begun: Instant,
}

/// Why an agent was told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AgentStop {
    ByWatchdog(StopCause),
    /// By its runner.
    ByRunner(StopReason),
}

/// Run an agent to its end. `stop` tells it to end, and what that means; `on_report` is told now and
/// then what it says about itself, and whether it said anything since the last time.
pub async fn attend(
    trees: &ProcessTrees,
    launch: AgentLaunch,
    log: MaskedLog,
    mut stop: watch::Receiver<Option<StopReason>>,
    on_report: impl Fn(&AgentReport, bool),
) -> AgentEnd {
    let begun = Instant::now();
    let AgentLaunch {
        work,
        command,
        reader,
        masks,
        limits,
        right,
        stop_grace,
    } = launch;
    let program = command.program.to_string_lossy().into_owned();
    let folder = command.folder.as_ref();
    let place = folder.map_or_else(String::new, |folder| format!(" in {}", folder.display()));
    let output = Mutex::new(AgentOutput::new(reader, masks, log));
    let started = tokio::select! {
        started = trees.start_work(&work, command, || right) => started,
        reason = asked(&mut stop) => return unstarted(begun, reason, None),
    };
    let mut tree = match started {
        Ok(tree) => tree,
        Err(error) if is_too_late(&error) => {
            return unstarted(begun, StopReason::LostLock, None);
        }
        Err(error) => {
            let message = format!("'{program}' cannot be started{place}: {error}");
            return unstarted(begun, StopReason::Startup, Some(message));
        }
    };
    let watch = AgentWatch {
        dog: Watchdog::new(limits),
        begun,
    };
    let reading = read(tree.stdout.take(), tree.stderr.take(), &output);
    let ending = async {
        match watched(&mut tree, &output, watch, &mut stop, &on_report).await {
            Ok(status) => (status, None),
            Err(told) => (tree.stop(stop_grace.to_duration()).await, Some(told)),
        }
    };
    let (status, told) = read_until(ending, reading).await;
    let mut output = output
        .into_inner()
        .expect("no panic while the lock is held");
    output.finish();
    output.conclude(status, told, begun)
}

/// What it says, also when it was told to end.
async fn read(
    stdout: Option<impl AsyncRead + Unpin>,
    stderr: Option<impl AsyncRead + Unpin>,
    output: &Mutex<AgentOutput>,
) {
    let out = async {
        if let Some(pipe) = stdout {
            each_line(pipe, || (), |line| lock(output).out(line)).await;
        }
    };
    let err = async {
        if let Some(pipe) = stderr {
            each_line(pipe, || (), |line| lock(output).err(line)).await;
        }
    };
    tokio::join!(out, err);
}

/// Look until the tree has ended, or must.
async fn watched(
    tree: &mut ProcessTree,
    output: &Mutex<AgentOutput>,
    watch: AgentWatch,
    stop: &mut watch::Receiver<Option<StopReason>>,
    on_report: &impl Fn(&AgentReport, bool),
) -> Result<io::Result<ExitStatus>, AgentStop> {
    let cpu = tree.cpu_meter();
    tokio::select! {
        biased;
        status = tree.wait() => Ok(status),
        cause = watch.until_stop(output, cpu, on_report) => Err(AgentStop::ByWatchdog(cause)),
        reason = asked(stop) => Err(AgentStop::ByRunner(reason)),
    }
}

impl AgentWatch {
    /// Look now and then, until the agent must end.
    async fn until_stop(
        mut self,
        output: &Mutex<AgentOutput>,
        cpu: CpuMeter,
        on_report: &impl Fn(&AgentReport, bool),
    ) -> StopCause {
        loop {
            tokio::time::sleep(self.dog.tick()).await;
            let signs = {
                let mut output = lock(output);
                on_report(&output.reader.report, output.has_spoken);
                AgentSigns {
                    elapsed: self.begun.elapsed(),
                    has_spoken: std::mem::take(&mut output.has_spoken),
                    is_final: output.reader.report.is_final,
                    cost_micros: output.reader.report.cost_micros,
                }
            };
            if let Some(cause) = self.dog.observe(&signs, || cpu.used()) {
                return cause;
            }
        }
    }
}

/// Until the runner says that it must end, and why.
async fn asked(stop: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    loop {
        if let Some(reason) = *stop.borrow_and_update() {
            return reason;
        }
        if stop.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn unstarted(begun: Instant, reason: StopReason, message: Option<String>) -> AgentEnd {
    AgentEnd {
        reason,
        exit_code: None,
        report: AgentReport::default(),
        message,
        wall: begun.elapsed().into(),
    }
}

fn lock(output: &Mutex<AgentOutput>) -> MutexGuard<'_, AgentOutput> {
    output.lock().expect("no panic while the lock is held")
}

impl AgentOutput {
    fn new(reader: AgentReader, masks: Masks, log: MaskedLog) -> Self {
        Self {
            reader,
            masks,
            log,
            has_spoken: false,
            event: Vec::new(),
            is_too_long: false,
            complaints: String::new(),
        }
    }

    /// A line of standard output, or a piece of a long one.
    fn out(&mut self, piece: &[u8]) {
        let now = wall();
        self.has_spoken = true;
        self.log.push(now, Stream::Out, piece);
        let is_whole = piece.ends_with(b"\n");
        self.is_too_long |= self.event.len() + piece.len() > EVENT_MAX;
        if !self.is_too_long {
            self.event.extend_from_slice(piece);
        }
        if is_whole {
            self.event_ended(now);
        }
    }

    fn event_ended(&mut self, now: Timestamp) {
        let event = std::mem::take(&mut self.event);
        if !std::mem::take(&mut self.is_too_long) {
            let text = String::from_utf8_lossy(&event);
            self.reader.line(text.trim_end_matches(['\n', '\r']), now);
        }
    }

    fn err(&mut self, piece: &[u8]) {
        let now = wall();
        self.has_spoken = true;
        for line in self.log.push(now, Stream::Err, piece) {
            self.complained(&line, now);
        }
    }

    fn complained(&mut self, line: &str, now: Timestamp) {
        self.reader.complaint(line, now);
        self.complaints.push_str(line.trim_end());
        self.complaints.push('\n');
        self.complaints = ending(&self.complaints, COMPLAINT_MAX).to_owned();
    }

    fn finish(&mut self) {
        let now = wall();
        for line in self.log.finish(now).err {
            self.complained(&line, now);
        }
        if !self.event.is_empty() {
            self.event_ended(now);
        }
    }

    /// What it came to.
    fn conclude(
        mut self,
        status: io::Result<ExitStatus>,
        told: Option<AgentStop>,
        begun: Instant,
    ) -> AgentEnd {
        let exit_code = status.as_ref().ok().and_then(ExitStatus::code);
        // The code of one that was stopped is that of a process that was killed.
        let exit_code = exit_code.filter(|_| told.is_none());
        let of_code = self.reader.exited(exit_code);
        let must_be_final = self.reader.must_be_final();
        let report = self.reader.report.masked(&self.masks);
        let reason = reason(&report, &status, told, must_be_final);
        let complaint = text_of(self.complaints.trim(), &self.masks);
        let complaint = Some(complaint).filter(|text| !text.is_empty());
        let message = if reason == StopReason::Success {
            report.text.clone()
        } else {
            let short = if told.is_some() {
                Some(how(&status, told, must_be_final))
            } else {
                of_code.map(str::to_owned)
            };
            let said = why(short, report.error.clone(), complaint);
            said.or_else(|| Some(how(&status, told, must_be_final)))
        };
        AgentEnd {
            reason,
            exit_code,
            report,
            message,
            wall: begun.elapsed().into(),
        }
    }
}

/// Why it did not end well, in words: what is known of that, then what it said of it itself.
fn why(short: Option<String>, error: Option<String>, complaint: Option<String>) -> Option<String> {
    let Some(short) = short else {
        return error.or(complaint);
    };
    let last = complaint.as_deref().and_then(|text| text.lines().last());
    Some(match error.as_deref().or(last) {
        Some(said) => format!("{short}; it said: {said}"),
        None => short,
    })
}

/// What its end means. A result counts however the process ended, a usage limit that no result
/// followed too, as long as nobody but the watchdog stopped it.
fn reason(
    report: &AgentReport,
    status: &io::Result<ExitStatus>,
    told: Option<AgentStop>,
    must_be_final: bool,
) -> StopReason {
    let is_told_well = report.is_final && report.error.is_none();
    let is_limited = report.limit.is_some();
    match (status, told) {
        (_, Some(AgentStop::ByRunner(StopReason::LostLock))) => StopReason::LostLock,
        (_, Some(_)) if is_told_well => StopReason::Success,
        (_, Some(AgentStop::ByRunner(reason))) => reason,
        (_, Some(AgentStop::ByWatchdog(StopCause::Budget))) => StopReason::Budget,
        (_, Some(AgentStop::ByWatchdog(StopCause::Lingers))) if report.is_over_budget => {
            StopReason::Budget
        }
        (_, Some(AgentStop::ByWatchdog(_))) if is_limited => StopReason::UsageLimit,
        (_, Some(AgentStop::ByWatchdog(StopCause::Timeout))) => StopReason::Timeout,
        (_, Some(AgentStop::ByWatchdog(StopCause::Hang))) => StopReason::Hang,
        (Err(error), None) if is_subreaper_lost(error) => StopReason::RunnerDeath,
        (Ok(status), None) if status.success() && is_told_well => StopReason::Success,
        (_, None) if report.is_over_budget => StopReason::Budget,
        (_, None) if is_limited => StopReason::UsageLimit,
        (Ok(status), None) if status.success() && report.error.is_none() && !must_be_final => {
            StopReason::Success
        }
        (_, None | Some(AgentStop::ByWatchdog(StopCause::Lingers))) => StopReason::Exit,
    }
}

/// How it ended, in words.
fn how(status: &io::Result<ExitStatus>, told: Option<AgentStop>, must_be_final: bool) -> String {
    match (status, told) {
        (_, Some(AgentStop::ByWatchdog(StopCause::Timeout))) => "it ran too long".to_owned(),
        (_, Some(AgentStop::ByWatchdog(StopCause::Hang))) => {
            "it was silent for too long".to_owned()
        }
        (_, Some(AgentStop::ByWatchdog(StopCause::Budget))) => "its budget is used up".to_owned(),
        (_, Some(_)) => "it was told to stop".to_owned(),
        (Err(error), None) => error.to_string(),
        (Ok(status), None) if status.success() && must_be_final => {
            "it ended without a result".to_owned()
        }
        (Ok(status), None) => status.to_string(),
    }
}
