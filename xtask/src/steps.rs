//! Steps with headings, elapsed times and a closing summary. In: commands and checks, one after the
//! other; out: what happened to each, and whether all went well. A step that failed does not stop
//! the next, so that one run shows all.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::sweeper::Sweeper;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    Passed,
    Failed,
    LeftOut,
}

#[derive(Debug)]
struct FinishedStep {
    title: String,
    outcome: StepOutcome,
    elapsed: Duration,
    /// What its processes used of the processors, where the system tells.
    cpu: Option<Duration>,
    remark: String,
}

/// When a step began, and what our processes had used until then.
struct Stopwatch {
    started: Instant,
    cpu: Option<Duration>,
}

impl Stopwatch {
    fn elapsed(&self) -> (Duration, Option<Duration>) {
        let used = children_cpu().zip(self.cpu);
        let used = used.map(|(now, before)| now.saturating_sub(before));
        (self.started.elapsed(), used)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<FinishedStep>,
    /// How long a command may take before it counts as hanging.
    patience: Option<Duration>,
}

impl Steps {
    pub(crate) fn within(patience: Duration) -> Self {
        Self {
            patience: Some(patience),
            ..Self::default()
        }
    }

    pub(crate) fn command(&mut self, title: &str, sweeper: &Sweeper, command: &mut Command) {
        self.commands(title, sweeper, std::slice::from_mut(command));
    }

    /// One step of several commands that run at the same time.
    pub(crate) fn commands(&mut self, title: &str, sweeper: &Sweeper, commands: &mut [Command]) {
        let lines: Vec<String> = commands.iter().map(shown).collect();
        let patience = self.patience.unwrap_or(Duration::MAX);
        self.check(title, || {
            for line in lines {
                println!("$ {line}");
            }
            sweeper.run_together(patience, commands)
        });
    }

    /// A step without which the others make no sense.
    pub(crate) fn require(&mut self, title: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let stopwatch = begin(title);
        work()?;
        let (elapsed, cpu) = stopwatch.elapsed();
        self.done.push(FinishedStep {
            title: title.to_owned(),
            outcome: StepOutcome::Passed,
            elapsed,
            cpu,
            remark: String::new(),
        });
        Ok(())
    }

    pub(crate) fn check(&mut self, title: &str, work: impl FnOnce() -> Result<bool>) {
        let stopwatch = begin(title);
        let (outcome, remark) = match work() {
            Ok(true) => (StepOutcome::Passed, String::new()),
            Ok(false) => (StepOutcome::Failed, String::new()),
            Err(error) => (StepOutcome::Failed, format!("{error:#}")),
        };
        if !remark.is_empty() {
            println!("error: {remark}");
        }
        let (elapsed, cpu) = stopwatch.elapsed();
        self.done.push(FinishedStep {
            title: title.to_owned(),
            outcome,
            elapsed,
            cpu,
            remark,
        });
    }

    pub(crate) fn leave_out(&mut self, title: &str, why: &str) {
        let step = FinishedStep {
            title: title.to_owned(),
            outcome: StepOutcome::LeftOut,
            elapsed: Duration::ZERO,
            cpu: None,
            remark: why.to_owned(),
        };
        self.done.push(step);
    }

    /// Prints the summary; the exit code says whether anything failed.
    pub(crate) fn finish(self) -> ExitCode {
        print!("\n== summary ==\n{}", self.summary());
        let failed = self
            .done
            .iter()
            .any(|step| step.outcome == StepOutcome::Failed);
        if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        for step in &self.done {
            let word = match step.outcome {
                StepOutcome::Passed => "passed",
                StepOutcome::Failed => "FAILED",
                StepOutcome::LeftOut => "left out",
            };
            let times = times(step.elapsed, step.cpu);
            let line = format!("{word:9}{times}  {}  {}", step.title, step.remark);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let total: Duration = self.done.iter().map(|step| step.elapsed).sum();
        let cpu: Duration = self.done.iter().filter_map(|step| step.cpu).sum();
        text + &format!("{:9}{}\n", "total", times(total, Some(cpu)))
    }
}

fn begin(title: &str) -> Stopwatch {
    println!("\n== {title} ==");
    let _ = std::io::stdout().flush();
    Stopwatch {
        started: Instant::now(),
        cpu: children_cpu(),
    }
}

fn times(elapsed: Duration, cpu: Option<Duration>) -> String {
    let cpu = cpu.map_or_else(String::new, |cpu| format!("{:.1}", cpu.as_secs_f64()));
    format!("{:8.1} s {cpu:>8} CPU s", elapsed.as_secs_f64())
}

/// What the processes that we started and that have ended used of the processors; nothing where
/// the system does not tell.
fn children_cpu() -> Option<Duration> {
    /// Linux counts for programs in hundredths of a second.
    const TICKS_A_SECOND: u64 = 100;
    let line = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name of the program, which may hold anything, the 14th and 15th field.
    let (_, fields) = line.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Duration::from_millis(
        (ticks(13)? + ticks(14)?) * 1_000 / TICKS_A_SECOND,
    ))
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy());
    std::iter::once(program)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_what_happened_to_each_step() {
        let mut steps = Steps::default();
        steps.require("good", || Ok(())).expect("it went well");
        steps
            .require("gone", || anyhow::bail!("not here"))
            .expect_err("it did not");
        steps.leave_out("slow", "--fast");
        assert_eq!(
            format!("{:?}", Steps::default().finish()),
            format!("{:?}", ExitCode::SUCCESS)
        );
        steps.check("bad", || Ok(false));
        steps.check("worse", || anyhow::bail!("no such thing"));
        let summary = steps.summary();
        let lines: Vec<&str> = summary.lines().collect();
        assert!(
            lines[0].starts_with("passed") && lines[0].ends_with("good"),
            "{summary}"
        );
        assert!(
            lines[1].starts_with("left out") && lines[1].ends_with("slow  --fast"),
            "{summary}"
        );
        assert!(
            lines[2].starts_with("FAILED") && lines[2].ends_with("bad"),
            "{summary}"
        );
        assert!(
            lines[3].starts_with("FAILED") && lines[3].ends_with("worse  no such thing"),
            "{summary}"
        );
        assert_eq!(
            format!("{:?}", steps.finish()),
            format!("{:?}", ExitCode::FAILURE)
        );
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        assert_eq!(
            shown(Command::new("/usr/bin/cargo").args(["test", "--workspace"])),
            "cargo test --workspace"
        );
    }
}
