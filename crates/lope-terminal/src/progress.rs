//! Progress of a run while somebody waits for it: a live tree on a terminal, plain lines otherwise,
//! nothing when quiet.
//!
//! All of it goes to stderr. What is shown comes from the run's journal, so it is what is durable.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use anstream::AutoStream;
use anstream::ColorChoice;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lope::runs::RunRecord;
use lope::runs::Status;
use lope::runs::Watch;
use lope::runs::{Execution, ExecutionStatus, Historian};
use lope_model::{Span, Timestamp};
use terminal_size::{Height, Width, terminal_size_of};

use crate::clock::wall;
use crate::format::{SPINNER, TreeView, lasted, said};
use crate::output::{Output, remark};
use crate::table::shorten;

/// Between two looks at a run.
pub const TICK: Duration = Duration::from_millis(100);
/// Most lines of a live tree, however high the terminal is.
const ROWS_MAX: usize = 40;
/// Steps that are over and still known while a run is looked at, however long it lasts.
pub const KNOWN_MAX: usize = 1_000;
/// Lines of the terminal that are left free.
const FREE: usize = 4;
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
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    style: ProgressStyle,
    frame: usize,
    plain: bool,
}

impl ProgressView {
    pub fn new(record: &RunRecord, output: Output) -> Self {
        if output.quiet {
            return Self::Silent;
        }
        if lope_remote::caller::is_remote() || !std::io::stderr().is_terminal() {
            return Self::Lines(output);
        }
        Self::Tree(Box::new(Tree {
            title: format!("{} {}", record.workflow, record.run),
            started: record.created_at,
            screen: MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(20)),
            bars: Vec::new(),
            style: ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            frame: 0,
            plain: AutoStream::choice(&std::io::stderr()) == ColorChoice::Never,
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
            Self::Tree(tree) => drop(tree.screen.println(text)),
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
        self.frame += 1;
        let (width, height) = terminal_size_of(std::io::stderr())
            .map_or((80, 24), |(Width(width), Height(height))| {
                (usize::from(width), usize::from(height))
            });
        let rows = height.saturating_sub(FREE).clamp(3, ROWS_MAX);
        let lines = self.lines(history, Some(self.frame), rows);
        while self.bars.len() > lines.len() {
            if let Some(bar) = self.bars.pop() {
                self.screen.remove(&bar);
            }
        }
        while self.bars.len() < lines.len() {
            let bar = ProgressBar::no_length().with_style(self.style.clone());
            self.bars.push(self.screen.add(bar));
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_message(fit(&line, width.saturating_sub(1), self.plain));
        }
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
        // Nobody may be reading.
        let _ = self.screen.clear();
        self.screen.set_draw_target(ProgressDrawTarget::hidden());
        for line in lines {
            let _ =
                std::io::Write::write_all(&mut anstream::stderr(), format!("{line}\n").as_bytes());
        }
    }
}

fn fit(line: &str, width: usize, plain: bool) -> String {
    let bare = anstream::adapter::strip_str(line).to_string();
    if plain || bare.chars().count() > width {
        shorten(&bare, width)
    } else {
        line.to_owned()
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
    // The watch rings for new work, not for every commit; look again now and then.
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
