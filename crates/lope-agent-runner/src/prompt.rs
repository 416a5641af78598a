//! What an agent is told: its task, where its specification is, what was said about it, what became
//! of earlier attempts, and how it reports.

use std::fmt::Write;

use lope_agents::board::TaskDetail;
use lope_agents::law::settle::ReviewVerdict;
use lope_agents::records::{
    AttemptRole, TaskAttemptRecord, TaskEventKind, TaskEventRecord, TaskRecord,
};

use crate::adapter::ending;

/// Most bytes of one thing that was said.
const QUOTE_MAX: usize = 4_000;
/// Most of them.
const QUOTES_MAX: usize = 30;

/// The prompt for a task. A workflow of the project's own may say the first words.
pub fn prompt(detail: &TaskDetail, role: AttemptRole, first: Option<&str>) -> String {
    let task = &detail.task;
    let usual = match role {
        AttemptRole::Work => "You are at work on one task of this project. Do it completely.",
        AttemptRole::Review => {
            "Another agent says that it has done the task below. Review its work: read what it changed, \
             check it against the task and its specification, run the tests. Change nothing."
        }
    };
    let mut text = first.unwrap_or(usual).to_owned();
    text.push('\n');
    describe(&mut text, task);
    history(&mut text, detail);
    text.push_str(match role {
        AttemptRole::Work => WORK_END,
        AttemptRole::Review => REVIEW_END,
    });
    text
}

const WORK_END: &str = "
In your shell, `lope tasks show` shows this task, `lope tasks note TEXT` tells others how far you are, \
`lope tasks ask TEXT` asks a person (end then; you get the answer when you are started again), \
`lope tasks split TITLE…` adds tasks that this one needs, `lope tasks fail TEXT` says that it cannot be \
done. Your last words are taken as the result: say what you did and how you checked it.
";

const REVIEW_END: &str = "
End with one line of its own: `VERDICT: APPROVED` if the task is done as it should be, otherwise \
`VERDICT: REJECTED`, and above it what is to be changed. Your words go back to whoever did the work.
";

fn describe(text: &mut String, task: &TaskRecord) {
    let _ = writeln!(text, "\nTask: {}\nId: {}", task.title, task.id);
    if let Some(section) = &task.section_id {
        let _ = writeln!(text, "Section: {section}");
    }
    if let Some(source) = &task.source_file {
        let _ = writeln!(text, "Specification: {source} (read it before you begin)");
    }
    if !task.description.is_empty() {
        let _ = writeln!(text, "\n{}", task.description);
    }
    if let Some(result) = &task.result {
        let _ = writeln!(text, "\nResult so far:\n{}", quoted(result));
    }
}

fn history(text: &mut String, detail: &TaskDetail) {
    let attempts = detail
        .attempts
        .iter()
        .filter_map(|attempt| Some((attempt.started_at, attempt_line(attempt)?)));
    let events = detail
        .events
        .iter()
        .filter_map(|event| Some((event.at, event_line(event)?)));
    let mut lines: Vec<_> = attempts.chain(events).collect();
    if lines.is_empty() {
        return;
    }
    lines.sort_by_key(|(at, _)| *at);
    lines.drain(..lines.len().saturating_sub(QUOTES_MAX));
    text.push_str("\nWhat happened so far:\n");
    for (at, line) in lines {
        let _ = writeln!(text, "- {at} {line}");
    }
}

fn attempt_line(attempt: &TaskAttemptRecord) -> Option<String> {
    let reason = attempt.stop_reason?;
    let words = attempt.summary.as_deref().map(quoted).unwrap_or_default();
    Some(match attempt.role {
        AttemptRole::Work => format!("attempt {} ended: {reason}. {words}", attempt.number),
        AttemptRole::Review => format!("a reviewer said: {words}"),
    })
}

fn event_line(event: &TaskEventRecord) -> Option<String> {
    let words = quoted(&event.message);
    let who = event.author;
    match event.kind {
        TaskEventKind::Note => Some(format!("{who} noted: {words}")),
        TaskEventKind::Question => Some(format!("{who} asked: {words}")),
        TaskEventKind::Answer => Some(format!("{who} answered: {words}")),
        TaskEventKind::Rejected => Some(format!("{who} rejected the work: {words}")),
        TaskEventKind::Split => Some(format!("{who}: {words}")),
        TaskEventKind::Approved
        | TaskEventKind::Skipped
        | TaskEventKind::Reset
        | TaskEventKind::Done
        | TaskEventKind::Failed
        | TaskEventKind::Refused
        | TaskEventKind::Unstarted
        | TaskEventKind::Released => None,
    }
}

fn quoted(words: &str) -> String {
    ending(words.trim(), QUOTE_MAX).replace('\n', "\n  ")
}

/// What a reviewer's last words come to. A reason may stand behind a rejection; whoever says more of an
/// approval than that has not given one.
pub fn verdict(words: &str) -> Option<ReviewVerdict> {
    let mut lines = words.lines().rev();
    lines.find_map(|line| {
        let line = line
            .trim()
            .trim_matches(['*', '`', '#', ' ', '.'])
            .to_ascii_uppercase();
        let rest = line.strip_prefix("VERDICT:")?;
        match rest.trim().trim_matches(['*', '`', ' ', '.']) {
            "APPROVED" => Some(ReviewVerdict::Approved),
            said if is_rejection(said) => Some(ReviewVerdict::Rejected),
            _ => None,
        }
    })
}

/// The word, and whatever a reviewer says of it; not the two words to choose from.
fn is_rejection(said: &str) -> bool {
    let reason = said.strip_prefix("REJECTED");
    reason.is_some_and(|reason| {
        !reason.starts_with(|letter: char| letter.is_alphanumeric()) && !reason.contains("APPROVED")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_may_have_its_reason_behind_it() {
        use ReviewVerdict::{Approved, Rejected};
        let rows = [
            ("VERDICT: APPROVED", Some(Approved)),
            ("fine\n**VERDICT: approved.**\n", Some(Approved)),
            ("VERDICT: REJECTED", Some(Rejected)),
            ("VERDICT: REJECTED not enough", Some(Rejected)),
            (
                "**VERDICT: REJECTED** - the tests are missing.",
                Some(Rejected),
            ),
            ("VERDICT: REJECTED: no tests", Some(Rejected)),
            (
                "VERDICT: APPROVED\nVERDICT: REJECTED (no tests)",
                Some(Rejected),
            ),
            ("VERDICT: REJECTED or APPROVED", None),
            ("VERDICT: APPROVED or REJECTED", None),
            ("VERDICT: APPROVED is not what I can say", None),
            ("VERDICT: REJECTEDLY", None),
            ("it is rejected", None),
        ];
        for (words, wanted) in rows {
            assert_eq!(verdict(words), wanted, "{words}");
        }
    }
}
