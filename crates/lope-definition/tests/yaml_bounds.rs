//! No text makes the reader panic, hang or grow: what is too large, too deep or too often repeated
//! is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "tests may be slow where they are short"
)]

use lope_definition::{NESTING_MAX, yaml};
use proptest::prelude::*;

fn messages(text: &str) -> String {
    let problems = yaml::read(text, "t.yaml").expect_err("this file is too much");
    problems
        .iter()
        .map(|problem| format!("{}\n", problem.message))
        .collect()
}

#[test]
fn a_file_has_a_largest_size() {
    let text = format!(
        "name: t\n# {}\nsteps: {{ x: {{ let: 1 }} }}\n",
        "x".repeat(yaml::FILE_MAX)
    );
    assert!(messages(&text).contains("at most"), "{}", messages(&text));
}

#[test]
fn aliases_of_aliases_do_not_explode() {
    let mut text = String::from("name: t\nx-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let before = level - 1;
        text += &format!(
            "x-{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}, *a{before}, *a{before}]\n"
        );
    }
    text += "steps: { x: { let: *a29 } }\n";
    assert!(messages(&text).contains("aliases counted each time"));
}

#[test]
fn nesting_is_bounded_in_both_styles() {
    let flow = format!(
        "name: t\nsteps: {{ x: {{ let: {}{} }} }}\n",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let told = messages(&flow);
    assert!(told.contains("nested deeper than 4096 levels"), "{told}");
    let mut block = String::from("name: t\nsteps:\n  x:\n    let:\n");
    (0..5_000).for_each(|depth| block += &format!("{}a:\n", " ".repeat(depth % 900 + 5)));
    messages(&block);
}

/// Block style, as people write, and flow style, as programs do.
#[test]
fn blocks_in_blocks_need_no_stack_and_may_be_as_deep_as_documented() {
    let depth = NESTING_MAX - 1;
    let mut block = String::from("name: t\nsteps:\n");
    for level in 0..depth {
        let pad = " ".repeat(level * 2 + 1);
        block += &format!("{pad}s: \n{pad} if: true\n{pad} steps:\n");
    }
    block += &format!("{}s: {{ let: 1 }}\n", " ".repeat(depth * 2 + 1));
    let flow = |depth: usize| {
        let (open, close) = (
            "{ s: { if: true, steps: ".repeat(depth),
            " } }".repeat(depth),
        );
        format!("name: t\nsteps: {open}{{ s: {{ let: 1 }} }}{close}\n")
    };
    for text in [block, flow(depth)] {
        let read = std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(move || yaml::read(&text, "t.yaml"))
            .unwrap();
        let definition = read
            .join()
            .expect("no stack overflow")
            .expect("deep blocks are fine");
        assert_eq!(definition.blocks.len(), NESTING_MAX);
    }
    let deeper = messages(&flow(NESTING_MAX + 1));
    assert!(deeper.contains("nested at most 2000 deep"), "{deeper}");
}

#[test]
fn problems_are_bounded_too() {
    let mut text = String::from("name: t\nsteps:\n");
    (0..1_000).for_each(|step| text += &format!("  s{step}: {{ nonsense: 1 }}\n"));
    assert_eq!(
        yaml::read(&text, "t.yaml").unwrap_err().len(),
        yaml::PROBLEMS_MAX
    );
}

/// Lines of workflow files, to be shuffled and broken.
const LINES: [&str; 28] = [
    "name: t",
    "steps:",
    "  x: { let: 1 }",
    "  y:",
    "    let: ${{ x + 1 }}",
    "    run: |",
    "      echo ${{ x }}",
    "      echo ${{ y",
    "    each: ${{ x }}",
    "    steps:",
    "      z: { let: \"${{ item }}\" }",
    "    when: x > 1",
    "    needs: [x, y]",
    "    needs: x",
    "  a: &a { action: go, retries: 3 }",
    "  b: { <<: *a, timeout: 5s }",
    "    try: { q: break }",
    "    catch: [{ match: [A], steps: {} }]",
    "policies: [{ match: x, retries: 1 }]",
    "    switch: [{ when: true, steps: { k: { let: 1 } } }]",
    "    - one",
    "? [a, b] : c",
    "    let: 'it''s ${{ x }}'",
    "    let: \"\\u00e9 ${{ x }} \\",
    "---",
    "input: { type: object }",
    "\tx: 1",
    "    set: v",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_gives_a_definition_or_problems_with_places(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn broken_workflow_files_give_problems_with_places(
        picks in prop::collection::vec((0..LINES.len(), any::<u8>()), 0..25),
    ) {
        let mut text = String::new();
        for (line, damage) in picks {
            let mut line = LINES[line].to_owned();
            // Now and then a line loses its tail.
            if damage > 220 {
                let keep = usize::from(damage) % line.len();
                line = line.chars().take(keep).collect();
            }
            text += &line;
            text += "\n";
        }
        check(&text);
    }
}

fn check(text: &str) {
    if let Err(problems) = yaml::read(text, "t.yaml") {
        assert!(!problems.is_empty());
        let lines = text.lines().count().max(1) + 1;
        for problem in &problems {
            assert!(
                problem.at.line >= 1 && problem.at.column >= 1,
                "{problem:?} in {text:?}"
            );
            assert!(problem.at.line as usize <= lines, "{problem:?} in {text:?}");
        }
        let _ = yaml::ProblemReport {
            file_name: "t.yaml",
            text,
            problems: &problems,
        }
        .to_string();
    }
}
