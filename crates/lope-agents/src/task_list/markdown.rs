//! A task list as a Markdown check list.

use super::json::TaskDocument;
use super::{BadTaskList, ListedTask};
use crate::records::{Budget, TaskStatus};

/// How far what belongs to an item is indented.
const INDENT: &str = "  ";

pub fn read_markdown(text: &str) -> Result<Vec<ListedTask>, BadTaskList> {
    let mut tasks: Vec<ListedTask> = Vec::new();
    let mut section: Option<String> = None;
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if let Some((mark, rest)) = item(line) {
            tasks.push(read_item(number, mark, rest, section.as_ref())?);
            is_open = true;
        } else if let Some(heading) = heading(line) {
            section = Some(heading).filter(|name| !name.is_empty());
            is_open = false;
        } else if line.trim().is_empty() {
            if let Some(task) = tasks.last_mut().filter(|_| is_open) {
                task.description.push('\n');
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some(task) = tasks.last_mut().filter(|_| is_open) {
                let own = line
                    .strip_prefix(INDENT)
                    .unwrap_or_else(|| line.trim_start());
                task.description.push_str(own);
                task.description.push('\n');
            }
        } else {
            is_open = false;
        }
    }
    for task in &mut tasks {
        task.description.truncate(task.description.trim_end().len());
    }
    Ok(tasks)
}

/// The mark and the text of a check list's item.
fn item(line: &str) -> Option<(char, &str)> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix(['-', '*', '+'])?.trim_start();
    let mut chars = rest.strip_prefix('[')?.chars();
    let mark = chars.next()?;
    let rest = chars.as_str().strip_prefix(']')?;
    rest.starts_with([' ', '\t']).then(|| (mark, rest.trim()))
}

/// The text of a heading from the second level on.
fn heading(line: &str) -> Option<String> {
    let rest = line.strip_prefix("##")?;
    let rest = rest.trim_start_matches('#');
    let is_heading = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_heading.then(|| rest.trim().to_owned())
}

fn read_item(
    line: usize,
    mark: char,
    rest: &str,
    section: Option<&String>,
) -> Result<ListedTask, BadTaskList> {
    let bad = |message: String| BadTaskList { line, message };
    let (title, comment) = match rest.rsplit_once("<!--") {
        Some((title, comment)) => (title.trim(), comment.trim().strip_suffix("-->")),
        None => (rest, None),
    };
    let comment = comment.map(str::trim).filter(|text| text.starts_with('{'));
    let mut document: TaskDocument = match comment {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| bad(format!("the comment of the task: {error}")))?,
        None => TaskDocument::default(),
    };
    document.title = Some(title.to_owned());
    document.section = document.section.or_else(|| section.cloned());
    let marked = match mark {
        ' ' => TaskStatus::Pending,
        'x' | 'X' => TaskStatus::Completed,
        '-' => TaskStatus::Skipped,
        other => return Err(bad(format!("[{other}] is none of [ ], [x], [-]"))),
    };
    // The mark is what people change; it wins over what the comment says of an ended task.
    let told = document
        .status
        .as_deref()
        .and_then(|text| text.parse().ok());
    let status = match (marked, told) {
        (TaskStatus::Pending, Some(TaskStatus::Completed | TaskStatus::Skipped)) => marked,
        (TaskStatus::Pending, Some(told)) => told,
        (marked, _) => marked,
    };
    if told.is_some() || document.status.is_none() {
        document.status = Some(status.as_str().to_owned());
    }
    document.listed(line)
}

pub fn write_markdown(title: &str, tasks: &[ListedTask]) -> String {
    let mut text = format!("# {title}\n");
    let mut sections: Vec<Option<&String>> = Vec::new();
    for task in tasks {
        if !sections.contains(&task.section.as_ref()) {
            sections.push(task.section.as_ref());
        }
    }
    // What has no section comes before the first heading.
    sections.sort_by_key(Option::is_some);
    for section in sections {
        text.push('\n');
        if let Some(section) = section {
            text.push_str(&format!("## {}\n\n", one_line(section)));
        }
        let own = tasks.iter().filter(|task| task.section.as_ref() == section);
        own.for_each(|task| write_item(&mut text, task));
    }
    text
}

fn write_item(text: &mut String, task: &ListedTask) {
    let mark = match task.status {
        TaskStatus::Completed => 'x',
        TaskStatus::Skipped => '-',
        TaskStatus::Pending
        | TaskStatus::InProgress
        | TaskStatus::Review
        | TaskStatus::Failed
        | TaskStatus::Blocked => ' ',
    };
    let mut document = TaskDocument::of(task);
    document.title = None;
    document.description = None;
    // A section that a heading cannot say stands in the comment.
    let plain = task
        .section
        .as_ref()
        .filter(|name| one_line(name) == **name);
    if plain.is_some() {
        document.section = None;
    }
    if matches!(
        task.status,
        TaskStatus::Pending | TaskStatus::Completed | TaskStatus::Skipped
    ) {
        document.status = None;
    }
    document.budget = document
        .budget
        .filter(|budget| *budget != Budget::default());
    let comment = serde_json::to_string(&document).expect("a task's document is JSON");
    // Nothing within a comment may look like its end.
    let comment = comment.replace("--", "-\\u002d");
    text.push_str(&format!("- [{mark}] {}", one_line(&task.title)));
    if comment != "{}" {
        text.push_str(&format!(" <!-- {comment} -->"));
    }
    text.push('\n');
    for line in task.description.lines() {
        let indent = if line.is_empty() { "" } else { INDENT };
        text.push_str(&format!("{indent}{line}\n"));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
