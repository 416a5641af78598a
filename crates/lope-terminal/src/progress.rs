//! Progress of a run while somebody waits for it: a live tree on a terminal, here or where the command
//! was typed, plain lines otherwise, nothing when quiet.
//!
//! All of it goes to stderr. What is shown comes from the run's journal, so it is what is durable.

use std::fmt;
use std::time::{Duration, Instant};

use lope::runs::RunRecord;
use lope::runs::Status;
use lope::runs::Watch;
use lope::runs::{Execution, ExecutionStatus, Historian};
use lope_model::{Span, Timestamp};
use lope_remote::{CommandCall, CommandFrame, ScreenSize, caller};

use crate::clock::wall;
use crate::format::{SPINNER, TreeView, lasted, said};
use crate::output::{Output, remark};
use crate::picture::{Picture, screen_size};

/// Between two looks at a run.
pub const TICK: Duration = Duration::from_millis(100);
/// Most lines of a live tree, however high the terminal is.
const ROWS_MAX: usize = 40;
/// Steps that are over and still known while a run is looked at, however long it lasts.
pub const KNOWN_MAX: usize = 1_000;
/// Lines of the terminal that are left free.
const FREE: usize = 4;
/// Between two pictures for a terminal elsewhere.
const CALLER_TICK: Duration = Duration::from_millis(200);
/// A step that took no time and had no attempt is not worth a line.
const WORTH: Span = Span::from_millis(1);

/// How progress is shown.
pub enum ProgressView {
    Tree(Box<Tree>),
    Lines(Output),
    Silent,
}

/// A tree that is drawn over and over in place.
pub struct Tree {
    title: String,
    started: Timestamp,
    canvas: Canvas,
    frame: usize,
}

/// What a tree is drawn on.
enum Canvas {
    /// The terminal of this process.
    Here(Picture),
    /// That of whoever the command is done for.
    Caller {
        screen: ScreenSize,
        drawn: Option<Instant>,
    },
}

impl Canvas {
    /// Nothing: there is no terminal.
    fn begin() -> Option<Self> {
        match CommandCall::current() {
            None => Picture::begin().map(Self::Here),
            Some(call) => call.order.screen.map(|screen| Self::Caller {
                screen,
                drawn: None,
            }),
        }
    }

    fn height(&self) -> usize {
        let size = match self {
            Self::Here(_) => screen_size(),
            Self::Caller { screen, .. } => Some(*screen),
        };
        size.map_or(24, |size| usize::from(size.height))
    }

    /// Is it worth drawing again?
    fn is_due(&self) -> bool {
        let Self::Caller { drawn, .. } = self else {
            return true;
        };
        let is_early = drawn.is_some_and(|at| at.elapsed() < CALLER_TICK);
        let is_behind = CommandCall::current().is_some_and(|call| call.is_behind());
        !is_early && !is_behind
    }

    fn draw(&mut self, lines: Vec<String>) {
        match self {
            Self::Here(picture) => picture.draw(&lines),
            Self::Caller { drawn, .. } => {
                *drawn = Some(Instant::now());
                caller::say(|| CommandFrame::Picture {
                    lines,
                    is_last: false,
                });
            }
        }
    }

    fn say(&self, text: &str) {
        match self {
            Self::Here(picture) => picture.say(text),
            Self::Caller { .. } => {
                caller::say(|| CommandFrame::Err(format!("{text}\n")));
            }
        }
    }

    fn end(self, lines: Vec<String>) {
        match self {
            Self::Here(picture) => picture.end(&lines),
            Self::Caller { .. } => {
                caller::say(|| CommandFrame::Picture {
                    lines,
                    is_last: true,
                });
            }
        }
    }
}

impl ProgressView {
    pub fn new(record: &RunRecord, output: Output) -> Self {
        if output.quiet {
            return Self::Silent;
        }
        let Some(canvas) = Canvas::begin() else {
            return Self::Lines(output);
        };
        Self::Tree(Box::new(Tree {
            title: format!("{} {}", record.workflow, record.run),
            started: record.created_at,
            canvas,
            frame: 0,
        }))
    }

    /// A row was folded: say what it changed.
    pub fn row(&self, history: &Historian<'_>) {
        let Self::Lines(output) = self else { return };
        let at = history.state().at();
        for line in history
            .touched()
            .filter_map(|execution| told(execution, at, output.verbose))
        {
            remark(*output, &line);
        }
    }

    /// Show how things are now.
    pub fn draw(&mut self, history: &Historian<'_>) {
        if let Self::Tree(tree) = self {
            tree.draw(history);
        }
    }

    /// A word beside the progress.
    pub fn say(&self, text: &str) {
        match self {
            Self::Tree(tree) => tree.canvas.say(text),
            Self::Lines(output) => remark(*output, text),
            Self::Silent => {}
        }
    }

    /// Leave the last picture standing.
    pub fn end(self, history: &Historian<'_>) {
        if let Self::Tree(tree) = self {
            tree.end(history);
        }
    }
}

impl Tree {
    fn draw(&mut self, history: &Historian<'_>) {
        if !self.canvas.is_due() {
            return;
        }
        self.frame += 1;
        let rows = self.canvas.height().saturating_sub(FREE).clamp(3, ROWS_MAX);
        let lines = self.lines(history, Some(self.frame), rows);
        self.canvas.draw(lines);
    }

    fn lines(&self, history: &Historian<'_>, frame: Option<usize>, rows: usize) -> Vec<String> {
        let now = if history.status().is_final() {
            history.state().at()
        } else {
            wall()
        };
        let resting = history.status() == Status::Paused && history.state().load().0 == 0;
        let mut lines = vec![self.head(history, frame, now)];
        lines.extend(
            TreeView {
                now,
                frame,
                rows,
                resting,
            }
            .lines(history),
        );
        lines
    }

    fn head(&self, history: &Historian<'_>, frame: Option<usize>, now: Timestamp) -> String {
        let status = history.status();
        let mark = match (status, frame) {
            (Status::Completed, _) => '✓',
            (Status::Failed, _) => '✗',
            (Status::Cancelled, _) => '⊘',
            (Status::Paused, _) => '⏸',
            (
                Status::Queued
                | Status::Running
                | Status::Idle
                | Status::Sleeping
                | Status::Waiting,
                frame,
            ) => SPINNER[frame.unwrap_or(0) % SPINNER.len()],
        };
        let (in_flight, _) = history.state().load();
        let working = if in_flight > 0 {
            format!(", {in_flight} at work")
        } else {
            String::new()
        };
        let time = lasted(now.since(self.started));
        let bold = anstyle::Style::new().bold();
        format!(
            "{mark} {bold}{}{bold:#}  {}{working}  {time}",
            self.title,
            status.as_str()
        )
    }

    fn end(self, history: &Historian<'_>) {
        let lines = self.lines(history, None, ROWS_MAX);
        self.canvas.end(lines);
    }
}

/// The line for an execution that a row changed, if it is worth one.
fn told(execution: &Execution, at: Timestamp, verbose: bool) -> Option<String> {
    let took = execution
        .finished_at
        .map_or(Span::from_millis(0), |end| end.since(execution.opened_at));
    let id = &execution.id;
    let worth = verbose || took >= WORTH || !execution.attempts.is_empty();
    let tries = execution.attempts.last().map_or(0, |last| last.number);
    let tries = if tries > 1 {
        format!(", attempt {tries}")
    } else {
        String::new()
    };
    match execution.status {
        ExecutionStatus::Running => running(execution, at, verbose),
        ExecutionStatus::Done => worth.then(|| format!("  ✓ {id} ({}{tries})", lasted(took))),
        ExecutionStatus::Failed => {
            let why = execution.failure.as_ref().map(said).unwrap_or_default();
            Some(format!("  ✗ {id} ({}{tries}): {why}", lasted(took)))
        }
        ExecutionStatus::Forgiven => {
            let why = execution.failure.as_ref().map(said).unwrap_or_default();
            Some(format!("  ⊘ {id}: skipped after {why}"))
        }
        ExecutionStatus::Cancelled => Some(format!("  ⊘ {id}: cancelled")),
        ExecutionStatus::Skipped | ExecutionStatus::Lost => {
            verbose.then(|| format!("  ⊘ {id}: skipped"))
        }
    }
}

fn running(execution: &Execution, at: Timestamp, verbose: bool) -> Option<String> {
    let id = &execution.id;
    let mut ended = execution
        .attempts
        .iter()
        .rev()
        .filter(|attempt| attempt.finished_at == Some(at));
    match ended.find(|attempt| attempt.status != ExecutionStatus::Done) {
        Some(lost) if lost.status == ExecutionStatus::Lost => Some(format!(
            "  ↻ {id}: attempt {} was lost, another is made",
            lost.number
        )),
        Some(failed) => {
            let why = failed.failure.as_ref().map(said).unwrap_or_default();
            Some(format!("  ↻ {id}: attempt {} failed: {why}", failed.number))
        }
        None => verbose.then(|| format!("  ▶ {id}")),
    }
}

/// Wait until something may have happened.
pub async fn pause(watch: &mut Watch) {
    // The watch notifies of new work, not for every commit; look again now and then.
    let _ = tokio::time::timeout(TICK, watch.changed()).await;
}

impl fmt::Debug for ProgressView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tree(_) => "Progress(tree)",
            Self::Lines(_) => "Progress(lines)",
            Self::Silent => "Progress(silent)",
        })
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({})", self.title)
    }
}
