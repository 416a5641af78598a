//! Steps with headings, elapsed times and a closing summary. In: commands and checks, one after the other; out: what
//! happened to each, and whether all went well. A step that failed does not stop the next, so that one run shows all.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::sweeper::Sweeper;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    LeftOut,
}

#[derive(Debug)]
struct Step {
    title: String,
    outcome: Outcome,
    elapsed: Duration,
    remark: String,
}

#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    /// How long a command may take before it counts as hanging.
    patience: Option<Duration>,
}

impl Steps {
    pub(crate) fn within(patience: Duration) -> Self {
        Self { patience: Some(patience), ..Self::default() }
    }

    pub(crate) fn command(&mut self, title: &str, sweeper: &Sweeper, command: &mut Command) {
        let (line, patience) = (shown(command), self.patience.unwrap_or(Duration::MAX));
        self.check(title, || {
            println!("$ {line}");
            sweeper.run_within(patience, command)
        });
    }

    /// A step without which the others make no sense.
    pub(crate) fn require(&mut self, title: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let started = begin(title);
        work()?;
        let remark = String::new();
        self.done.push(Step { title: title.to_owned(), outcome: Outcome::Passed, elapsed: started.elapsed(), remark });
        Ok(())
    }

    pub(crate) fn check(&mut self, title: &str, work: impl FnOnce() -> Result<bool>) {
        let started = begin(title);
        let (outcome, remark) = match work() {
            Ok(true) => (Outcome::Passed, String::new()),
            Ok(false) => (Outcome::Failed, String::new()),
            Err(error) => (Outcome::Failed, format!("{error:#}")),
        };
        if !remark.is_empty() {
            println!("error: {remark}");
        }
        self.done.push(Step { title: title.to_owned(), outcome, elapsed: started.elapsed(), remark });
    }

    pub(crate) fn leave_out(&mut self, title: &str, why: &str) {
        let step = Step {
            title: title.to_owned(),
            outcome: Outcome::LeftOut,
            elapsed: Duration::ZERO,
            remark: why.to_owned(),
        };
        self.done.push(step);
    }

    /// Prints the summary; the exit code says whether anything failed.
    pub(crate) fn finish(self) -> ExitCode {
        print!("\n== summary ==\n{}", self.summary());
        let failed = self.done.iter().any(|step| step.outcome == Outcome::Failed);
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        for step in &self.done {
            let word = match step.outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "FAILED",
                Outcome::LeftOut => "left out",
            };
            let seconds = step.elapsed.as_secs_f64();
            let line = format!("{word:9}{seconds:8.1} s  {}  {}", step.title, step.remark);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let total: Duration = self.done.iter().map(|step| step.elapsed).sum();
        text + &format!("{:9}{:8.1} s\n", "total", total.as_secs_f64())
    }
}

fn begin(title: &str) -> Instant {
    println!("\n== {title} ==");
    let _ = std::io::stdout().flush();
    Instant::now()
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_what_happened_to_each_step() {
        let mut steps = Steps::default();
        steps.require("good", || Ok(())).expect("it went well");
        steps.require("gone", || anyhow::bail!("not here")).expect_err("it did not");
        steps.leave_out("slow", "--fast");
        assert_eq!(format!("{:?}", Steps::default().finish()), format!("{:?}", ExitCode::SUCCESS));
        steps.check("bad", || Ok(false));
        steps.check("worse", || anyhow::bail!("no such thing"));
        let summary = steps.summary();
        let lines: Vec<&str> = summary.lines().collect();
        assert!(lines[0].starts_with("passed") && lines[0].ends_with("good"), "{summary}");
        assert!(lines[1].starts_with("left out") && lines[1].ends_with("slow  --fast"), "{summary}");
        assert!(lines[2].starts_with("FAILED") && lines[2].ends_with("bad"), "{summary}");
        assert!(lines[3].starts_with("FAILED") && lines[3].ends_with("worse  no such thing"), "{summary}");
        assert_eq!(format!("{:?}", steps.finish()), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        assert_eq!(shown(Command::new("/usr/bin/cargo").args(["test", "--workspace"])), "cargo test --workspace");
    }
}
