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

/// Whatever looks like a task is one; what stands in a block of code is not read.
#[test]
fn numbered_items_are_tasks_and_code_is_left_alone() {
    let text = "1. [ ] First\n2) [x] Second\n\n```md\n- [ ] in code\n## No section\n```\n- [ ] Third\n  ~~~\n  - [ ] shown\n  ~~~\n- [ ] Last\n";
    let tasks = read_markdown(text).unwrap();
    let told: Vec<_> = tasks
        .iter()
        .map(|it| (it.title.as_str(), it.description.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("First", ""),
            ("Second", ""),
            ("Third", "~~~\n- [ ] shown\n~~~"),
            ("Last", "")
        ]
    );
    assert!(tasks.iter().all(|task| task.section.is_none()));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let rows = [
        ("- [ ] \n", 1, "needs a title"),
        ("- [ ] a\n- [ ]\n", 2, "needs a title"),
        ("- [ ] a <!-- {\"prio\": 1} -->\n", 1, "unknown key 'prio'"),
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
        (
            "[{\"title\": \"a\"},\n {\"title\": \"b\", \"prio\": 1}]",
            2,
            "unknown key 'prio'",
        ),
        (
            "[{\"title\": \"a\", \"budget\": {\"cost\": -1}}]",
            1,
            "dollars",
        ),
        ("[{\"title\": \"a\", \"id\": \"x\"}]", 1, "UUID"),
        (
            "[{\"title\": \"a\"},\n {\"title\": \"b\", \"section\": \" \"}]",
            2,
            "a section needs a name",
        ),
    ];
    let long = format!("- [ ] a\n- [ ] {}\n", "x".repeat(1_001));
    let of_board = [
        (long.as_str(), 2, "at most 1000 bytes"),
        ("- [ ] a\n- [ ] b\n  c\0d\n", 2, "zero bytes"),
    ];
    for (text, line, words) in of_board {
        let bad = read_markdown(text).unwrap_err();
        assert_eq!(bad.line, line, "{bad}");
        assert!(bad.message.contains(words), "{bad}");
    }
    for (text, line, words) in rows {
        let bad = read_json(text).unwrap_err();
        assert_eq!(bad.line, line, "{text}: {bad}");
        assert!(bad.message.contains(words), "{text}: {bad}");
    }
}

/// Some editors begin a file with a mark that nobody sees.
#[test]
fn a_byte_order_mark_hides_no_task() {
    let tasks = read_markdown("\u{feff}- [ ] a\n- [ ] b\n").unwrap();
    let titles: Vec<&str> = tasks.iter().map(|task| task.title.as_str()).collect();
    assert_eq!(titles, ["a", "b"]);
    let tasks = read_json("\u{feff}[{\"title\": \"a\"}]").unwrap();
    assert_eq!(tasks[0].title, "a");
}

fn listed() -> impl Strategy<Value = ListedTask> {
    let piece = prop::sample::select(vec![
        "a",
        "ß",
        "word",
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "-",
        "--",
        "-->",
        "<!--",
        "<!-- {} -->",
        "<!-- {\"priority\":1} -->",
        "- [ ] b",
        "\n- [x] c",
        "\n  1. [ ] d",
        "\n## e",
        "# f",
        "\n```\n",
        "\n~~~",
        "`",
        "\"",
        "\\",
        "|",
        "*",
        "\u{a0}",
        "\u{2028}",
        "\u{85}",
    ]);
    let text =
        |most| prop::collection::vec(piece.clone(), 0..most).prop_map(|parts| parts.concat());
    let line = text(6).prop_map(|text| format!("x{text}"));
    let line = prop_oneof![line, text(6).prop_map(|text| format!("{text}y"))];
    let description = text(12);
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
            prop::option::of(text(4).prop_map(|text| format!("{text}s"))),
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
                    description,
                    section,
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
        let markdown = write_markdown("List", &tasks);
        prop_assert_eq!(plain(read_markdown(&markdown).unwrap()), plain(tasks.clone()), "{}", markdown);
        let json = write_json(&tasks);
        prop_assert_eq!(plain(read_json(&json).unwrap()), plain(tasks), "{}", json);
    }
}

/// A list that is wrong is refused with the line that is wrong, in either form.
#[test]
fn tasks_that_do_not_go_together_are_told_with_their_line() {
    let id = |number: u128| TaskId::from_uuid(uuid::Uuid::from_u128(number));
    let [a, b, c] = [id(10), id(11), id(12)];
    let task = |own: TaskId, needs: Option<TaskId>| {
        let needs = needs.map_or(String::new(), |id| format!(r#","dependencies":["{id}"]"#));
        format!(r#""id":"{own}"{needs}"#)
    };
    let waits = format!("task {b} waits for itself, through {c}");
    let rows = [
        (
            vec![task(a, None), task(b, None), task(a, None)],
            4,
            format!("task {a} stands in line 2 already"),
        ),
        (
            vec![task(a, Some(a))],
            2,
            format!("task {a} waits for itself"),
        ),
        (
            vec![task(a, Some(b)), task(b, Some(c)), task(c, Some(b))],
            3,
            waits,
        ),
    ];
    for (tasks, line, message) in rows {
        let items = tasks
            .iter()
            .map(|task| format!("- [ ] x <!-- {{{task}}} -->\n"));
        let markdown = format!("# List\n{}", items.collect::<String>());
        let items: Vec<String> = tasks
            .iter()
            .map(|task| format!(r#"{{"title":"x",{task}}}"#))
            .collect();
        let json = format!("[\n{}\n]", items.join(",\n"));
        for bad in [read_markdown(&markdown), read_json(&json)] {
            let bad = bad.unwrap_err();
            assert_eq!((bad.line, &bad.message), (line, &message), "{tasks:?}");
        }
    }
}
