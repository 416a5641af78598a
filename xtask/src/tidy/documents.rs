//! Rule `documents`: what the documents point at exists, and they stay short enough to be read. In:
//! the Markdown files of the root and of `docs/`; out: findings for dead links and headings,
//! documents over their length, and papers in the root that do not belong there. Links to the web
//! are not followed.

use super::report::TidyReport;
use crate::tree::{SourceTree, TextFile, has_extension};

/// The documents of the root, with the lines they may have.
const ROOT: &[(&str, Option<usize>)] = &[
    ("README.md", Some(150)),
    ("ARCHITECTURE.md", Some(300)),
    ("DESIGN.md", None),
    ("STYLE.md", None),
    ("CHANGELOG.md", None),
    ("CONTRIBUTING.md", None),
];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let is_document = |file: &&TextFile| !file.path.contains('/') || file.path.starts_with("docs/");
    for file in tree
        .files
        .iter()
        .filter(|file| has_extension(&file.path, "md"))
        .filter(is_document)
    {
        check_place_and_length(file, report);
        for (line, target) in links(&file.text) {
            if let Some(message) = objection(tree, &file.path, &target) {
                report.find(&file.path, line, message);
            }
        }
    }
}

fn check_place_and_length(file: &TextFile, report: &mut TidyReport) {
    if file.path.contains('/') {
        return;
    }
    let Some((_, limit)) = ROOT.iter().find(|(name, _)| *name == file.path) else {
        report.find(
            &file.path,
            1,
            "the root holds no other document than those in STYLE.md; put it into `docs/`",
        );
        return;
    };
    let lines = file.text.lines().count();
    if let Some(limit) = limit.filter(|limit| lines > *limit) {
        report.find(
            &file.path,
            limit + 1,
            format!("{lines} lines, more than {limit}"),
        );
    }
}

fn objection(tree: &SourceTree, from: &str, target: &str) -> Option<String> {
    let (path, heading) = target
        .split_once('#')
        .map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() {
        from.to_owned()
    } else {
        resolve(from, path)?
    };
    let is_folder = tree.paths.iter().any(|known| {
        known
            .strip_prefix(&path)
            .is_some_and(|rest| rest.starts_with('/'))
    });
    if !path.is_empty() && !is_folder && !tree.paths.contains(&path) {
        return Some(format!("`{target}` leads nowhere"));
    }
    let heading = heading.filter(|_| has_extension(&path, "md"))?;
    let text = tree.text(&path).unwrap_or_default();
    let known = headings(text).any(|title| anchor(title) == heading);
    (!known).then(|| format!("`{target}` leads to a heading that is not there"))
}

/// The path from the root that a link means; nothing when it leaves for the web.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = if link.starts_with('/') {
        Vec::new()
    } else {
        from.split('/').collect()
    };
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." if parts.pop().is_none() => return Some(link.to_owned()),
            "" | "." | ".." => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Every link target with its line, code left out.
fn links(text: &str) -> Vec<(usize, String)> {
    prose(text)
        .flat_map(|(line, words)| {
            line_links(&words)
                .into_iter()
                .map(move |target| (line, target))
        })
        .collect()
}

fn line_links(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        let target = rest.split([')', ' ']).next().unwrap_or_default();
        found.push(target.trim_matches(['<', '>']).to_owned());
    }
    found
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= is_fence(line);
        line.strip_prefix('#')
            .filter(|_| !fenced)
            .map(|rest| rest.trim_start_matches('#').trim())
    })
}

/// Lines outside code fences, with code spans blanked, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = is_fence(line);
        fenced ^= fence;
        (!fenced && !fence).then(|| (index + 1, without_code(line)))
    })
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// The line without what stands between backticks; the link around a code span stays.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The anchor that code forges give a heading.
fn anchor(title: &str) -> String {
    let letters = title
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    letters
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect::<String>()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn links_that_lead_somewhere_pass() {
        let guide = "# Guide\n[home](../README.md) [folder](../docs) [up](#guide) [web](https://a.b/c)\n\n[r]: ../README.md\n";
        let readme = "# A `b` c!\n[guide](docs/guide.md#guide), `[not](a link)`, [self](#a-b-c)\n```\n[no](link)\n```\n";
        assert_eq!(
            lines(
                check,
                &SourceTree::made_of(&[("README.md", readme), ("docs/guide.md", guide)])
            ),
            [""; 0]
        );
    }

    #[test]
    fn dead_links_and_headings_are_found_with_their_line() {
        let readme = "# A\n[x](docs/gone.md)\n[`y`](#b)\n[z]: ../outside.md\n";
        let expected = [
            "README.md:2: rule: `docs/gone.md` leads nowhere",
            "README.md:3: rule: `#b` leads to a heading that is not there",
            "README.md:4: rule: `../outside.md` leads nowhere",
        ];
        assert_eq!(
            lines(check, &SourceTree::made_of(&[("README.md", readme)])),
            expected
        );
    }

    #[test]
    fn documents_over_their_length_are_found() {
        let text = |lines: usize| "a\n".repeat(lines);
        assert!(
            lines(
                check,
                &SourceTree::made_of(&[("README.md", &text(150)), ("DESIGN.md", &text(900))])
            )
            .is_empty()
        );
        assert_eq!(
            lines(check, &SourceTree::made_of(&[("README.md", &text(151))])),
            ["README.md:151: rule: 151 lines, more than 150"]
        );
        assert_eq!(
            lines(
                check,
                &SourceTree::made_of(&[("ARCHITECTURE.md", &text(301))])
            )
            .len(),
            1
        );
    }

    #[test]
    fn stray_papers_in_the_root_are_found() {
        assert_eq!(
            lines(
                check,
                &SourceTree::made_of(&[("NOTES.md", "a"), ("docs/notes.md", "a")])
            )
            .len(),
            1
        );
    }
}
