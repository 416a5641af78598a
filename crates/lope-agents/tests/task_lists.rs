//! Task lists: what people write is read, and what is written is read back the same.

use lope_agents::records::{Budget, ReviewBy, TaskStatus};
use lope_agents::task_list::{ListedTask, read_json, read_markdown, write_json, write_markdown};
use lope_model::id::TaskId;
use proptest::prelude::*;

#[test]
fn a_check_list_is_read() {
    let text = "# Shop\n\nSome words.\n\n- [ ] First thing\n\n## Phase 2\n\n* [x] Done\n- [-] Skipped\n\
        - [ ] Login <!-- {\"priority\": 7, \"sourceFile\": \"docs/SPEC.md#login\", \"review\": \"person\"} -->\n  \
        In full,\n\n  in several lines.\n    - a point\n\n### Sub\n  1. no item\n- plain item\n+ [X] Also done\n";
    let tasks = read_markdown(text).unwrap();
    let told: Vec<_> = tasks
        .iter()
        .map(|task| {
            (
                task.line,
                task.title.as_str(),
                task.section.as_deref(),
                task.status,
            )
        })
        .collect();
    let expected = [
        (5, "First thing", None, TaskStatus::Pending),
        (9, "Done", Some("Phase 2"), TaskStatus::Completed),
        (10, "Skipped", Some("Phase 2"), TaskStatus::Skipped),
        (11, "Login", Some("Phase 2"), TaskStatus::Pending),
        (20, "Also done", Some("Sub"), TaskStatus::Completed),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        tasks[3].description,
        "In full,\n\nin several lines.\n  - a point"
    );
    assert_eq!(tasks[3].priority, Some(7));
    assert_eq!(tasks[3].source_file.as_deref(), Some("docs/SPEC.md#login"));
    assert_eq!(tasks[3].review, Some(ReviewBy::Person));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let rows = [
        ("- [ ] \n", 1, "needs a title"),
        ("- [ ] a\n- [?] b\n", 2, "[?] is none of"),
        ("\n- [ ] a <!-- {\"priority\": 12} -->\n", 2, "priority 12"),
        ("- [ ] a <!-- {\"priority\": -->\n", 1, "comment"),
        (
            "- [ ] a <!-- {\"status\": \"odd\"} -->\n",
            1,
            "'odd' is none of",
        ),
    ];
    for (text, line, words) in rows {
        let bad = read_markdown(text).unwrap_err();
        assert_eq!(bad.line, line, "{text}: {bad}");
        assert!(bad.message.contains(words), "{text}: {bad}");
    }
    let rows = [
        (
            "[\n {\"title\": \"a\"},\n {\"title\": \"\"}\n]",
            3,
            "needs a title",
        ),
        (
            "[{\"title\": \"a\",\n \"priority\": \"x\"}]",
            2,
            "invalid type",
        ),
        ("[{\"title\": \"a\"}", 1, "EOF"),
        ("{}", 1, "invalid type"),
        ("[{\"title\": \"a\", \"id\": \"x\"}]", 1, "UUID"),
    ];
    for (text, line, words) in rows {
        let bad = read_json(text).unwrap_err();
        assert_eq!(bad.line, line, "{text}: {bad}");
        assert!(bad.message.contains(words), "{text}: {bad}");
    }
}

fn listed() -> impl Strategy<Value = ListedTask> {
    let line = "[a-zA-Z0-9äß#*`'\"<>|-]([ a-zA-Z0-9äß#*`'\"<>|-]{0,20}[a-zA-Z0-9äß#*`'\"<>|-])?";
    let description = prop::collection::vec("[a-z][a-z0-9 .,]{0,20}[a-z]", 0..4);
    let statuses = [
        TaskStatus::Pending,
        TaskStatus::Completed,
        TaskStatus::Skipped,
        TaskStatus::Failed,
        TaskStatus::Review,
        TaskStatus::Blocked,
    ];
    let id = any::<u128>().prop_map(|bits| TaskId::from_uuid(uuid::Uuid::from_u128(bits)));
    (
        (
            id,
            line,
            description,
            prop::option::of("[a-zA-Z][a-zA-Z0-9 ]{0,10}[a-z]"),
        ),
        (
            prop::sample::select(statuses.to_vec()),
            0..=9_i64,
            prop::collection::vec(any::<u128>(), 0..3),
        ),
        (
            prop::option::of("docs/[a-z]{1,8}\\.md#[a-z-]{1,8}"),
            prop::sample::select(ReviewBy::ALL),
            prop::option::of(1..5_u32),
        ),
    )
        .prop_map(
            |(
                (id, title, description, section),
                (status, priority, needs),
                (source_file, review, attempts),
            )| {
                ListedTask {
                    line: 0,
                    id: Some(id),
                    title,
                    description: description.join("\n"),
                    section: section
                        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" ")),
                    status,
                    priority: Some(priority),
                    dependencies: needs
                        .into_iter()
                        .map(|bits| TaskId::from_uuid(uuid::Uuid::from_u128(bits)))
                        .collect(),
                    source_file,
                    review: Some(review),
                    budget: Budget {
                        attempts,
                        ..Budget::default()
                    },
                    parent: None,
                }
            },
        )
}

/// The same tasks in the order of their sections, without lines.
fn plain(mut tasks: Vec<ListedTask>) -> Vec<ListedTask> {
    tasks.iter_mut().for_each(|task| task.line = 0);
    tasks.sort_by_key(|task| task.id);
    tasks
}

proptest! {
    /// "Import and export of task lists (Markdown check lists, JSON), round trip."
    #[test]
    fn what_is_written_is_read_back_the_same(tasks in prop::collection::vec(listed(), 0..8)) {
        let tasks: Vec<ListedTask> = tasks
            .into_iter()
            .map(|mut task| {
                task.title = task.title.split_whitespace().collect::<Vec<_>>().join(" ");
                task
            })
            .collect();
        let markdown = write_markdown("List", &tasks);
        prop_assert_eq!(plain(read_markdown(&markdown).unwrap()), plain(tasks.clone()), "{}", markdown);
        let json = write_json(&tasks);
        prop_assert_eq!(plain(read_json(&json).unwrap()), plain(tasks), "{}", json);
    }
}
