//! A task list as a Markdown check list.

use super::json::{TaskDocument, read_document};
use super::sound::sound;
use super::{BadTaskList, ListedTask, unmarked};
use crate::records::{Budget, TaskStatus};

/// How far what belongs to an item is indented.
const INDENT: &str = "  ";

pub fn read_markdown(text: &str) -> Result<Vec<ListedTask>, BadTaskList> {
    let mut list = ReadList::default();
    for (number, line) in unmarked(text).lines().enumerate() {
        list.line(number + 1, line)?;
    }
    for item in &mut list.items {
        // What stands below an item wins over what its comment says.
        let described = item.lines.trim_end();
        if !described.is_empty() {
            item.task.description = described.to_owned();
        }
    }
    let tasks = list.items.into_iter().map(|item| item.task);
    sound(tasks.map(ListedTask::checked).collect::<Result<_, _>>()?)
}

/// A list as far as it is read.
#[derive(Default)]
struct ReadList {
    items: Vec<ReadItem>,
    section: Option<String>,
    /// Do lines belong to the last item?
    is_open: bool,
    /// What began a block of code: nothing in it is read.
    fence: Option<String>,
}

struct ReadItem {
    task: ListedTask,
    /// What stands below it.
    lines: String,
}

impl ReadList {
    fn line(&mut self, number: usize, line: &str) -> Result<(), BadTaskList> {
        if let Some(begun) = &self.fence {
            let is_end = fence(line).is_some_and(|end| {
                end.starts_with(begun.as_str()) && line.trim().len() == end.len()
            });
            if is_end {
                self.fence = None;
            }
            self.described(line);
        } else if let Some(begun) = fence(line) {
            self.fence = Some(begun.to_owned());
            self.is_open &= line.starts_with([' ', '\t']);
            self.described(line);
        } else if let Some((mark, rest)) = item(line) {
            let task = read_item(number, mark, rest, self.section.as_ref())?;
            let lines = String::new();
            self.items.push(ReadItem { task, lines });
            self.is_open = true;
        } else if let Some(heading) = heading(line) {
            self.section = Some(heading).filter(|name| !name.is_empty());
            self.is_open = false;
        } else if line.trim().is_empty() || line.starts_with([' ', '\t']) {
            self.described(line);
        } else {
            self.is_open = false;
        }
        Ok(())
    }

    /// A line of the last item's description.
    fn described(&mut self, line: &str) {
        if let Some(item) = self.items.last_mut().filter(|_| self.is_open) {
            let own = line.strip_prefix(INDENT);
            item.lines
                .push_str(own.unwrap_or_else(|| line.trim_start()));
            item.lines.push('\n');
        }
    }
}

/// What begins or ends a block of code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| "`~".contains(*mark))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

/// The mark and the text of a check list's item.
fn item(line: &str) -> Option<(char, &str)> {
    let rest = line.trim_start();
    let number = rest.trim_start_matches(|char: char| char.is_ascii_digit());
    let rest = if number.len() == rest.len() {
        rest.strip_prefix(['-', '*', '+'])?
    } else {
        number.strip_prefix(['.', ')'])?
    };
    let rest = rest.trim_start();
    let mut chars = rest.strip_prefix('[')?.chars();
    let mark = chars.next()?;
    let rest = chars.as_str().strip_prefix(']')?;
    let is_item = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_item.then(|| (mark, rest.trim()))
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
        Some(text) => {
            read_document(text).map_err(|error| bad(format!("the comment of the task: {error}")))?
        }
        None => TaskDocument::default(),
    };
    // What a line cannot show stands in the comment, as long as nobody changed the line.
    let exact = document.title.take();
    let exact = exact.filter(|exact| one_line(exact) == title);
    document.title = Some(exact.unwrap_or_else(|| title.to_owned()));
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
    let plain = item_text(mark, task, &document);
    if is_read_back(&plain, task) {
        text.push_str(&plain);
        return;
    }
    // What lines cannot say stands in the comment.
    document.title = Some(task.title.clone()).filter(|title| one_line(title) != *title);
    let described = item_text(mark, task, &document);
    if is_read_back(&described, task) {
        text.push_str(&described);
        return;
    }
    document.title = Some(task.title.clone());
    document.description = Some(task.description.clone()).filter(|text| !text.is_empty());
    text.push_str(&item_text(mark, task, &document));
}

/// An item as it is written, with its description below it unless its comment has it.
fn item_text(mark: char, task: &ListedTask, document: &TaskDocument) -> String {
    let comment = serde_json::to_string(document).expect("a task's document is JSON");
    // Nothing within a comment may look like its end.
    let comment = comment.replace("--", "-\\u002d");
    let mut text = format!("- [{mark}] {}", one_line(&task.title));
    if comment != "{}" {
        text.push_str(&format!(" <!-- {comment} -->"));
    }
    text.push('\n');
    let below = match &document.description {
        Some(_) => "",
        None => &task.description,
    };
    for line in below.lines() {
        let indent = if line.is_empty() { "" } else { INDENT };
        text.push_str(&format!("{indent}{line}\n"));
    }
    text
}

/// Is an item read as its task, and what follows it as another?
fn is_read_back(item: &str, task: &ListedTask) -> bool {
    let Ok(tasks) = read_markdown(&format!("{item}- [ ] next\n")) else {
        return false;
    };
    let [own, next] = tasks.as_slice() else {
        return false;
    };
    let is_same = own.title == task.title && own.description == task.description;
    is_same && (next.title.as_str(), next.description.as_str()) == ("next", "")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
