//! How things look to people: ages, colours of statuses, a run's steps as a tree.

mod tree;

use anstyle::{AnsiColor, Style};
use lope::runs::{FinalStatus, LiveStatus, RunStatus};
use lope_model::Span;

pub use tree::{SPINNER, TreeView, said, step_lines};

/// How long ago, roughly: `12s`, `5m`, `3h`, `9d`.
pub fn age(span: Span) -> String {
    let seconds = span.millis() / 1_000;
    match seconds {
        0..=99 => format!("{seconds}s"),
        100..=5_999 => format!("{}m", seconds / 60),
        6_000..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long something took: `12ms`, `4.2s`, `3m12s`.
pub fn lasted(span: Span) -> String {
    match span.millis() {
        millis @ 0..=999 => format!("{millis}ms"),
        millis @ 1_000..=59_999 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        millis => Span::from_secs(millis / 1_000).to_string(),
    }
}

pub fn paint_status(status: RunStatus) -> String {
    let style = match status {
        RunStatus::Final(FinalStatus::Completed) => AnsiColor::Green.on_default(),
        RunStatus::Final(FinalStatus::Failed) => AnsiColor::Red.on_default(),
        RunStatus::Final(FinalStatus::Cancelled) | RunStatus::Live(LiveStatus::Paused) => {
            AnsiColor::Yellow.on_default()
        }
        RunStatus::Live(LiveStatus::Running) => AnsiColor::Blue.on_default(),
        RunStatus::Live(_) => Style::new(),
    };
    format!("{style}{status}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let spans = [
            (0, "0s", "0ms"),
            (99_000, "99s", "1m39s"),
            (7_200_000, "2h", "2h"),
            (4_250, "4s", "4.2s"),
        ];
        for (millis, old, long) in spans {
            let span = Span::from_millis(millis);
            assert_eq!((age(span).as_str(), lasted(span).as_str()), (old, long));
        }
        assert_eq!(age(Span::from_secs(9 * 86_400)), "9d");
    }
}
