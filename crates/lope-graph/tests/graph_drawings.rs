//! Drawings look as they should: one file a workflow and format in `tests/drawings`. `LOPE_BLESS=1`
//! writes them anew; look at the pictures before you keep them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "tests may be slow where they are short"
)]

use std::path::Path;

use lope_definition::{Definition, yaml};
use lope_graph::{self as graph, Format, StepProgress, StepStanding, StepStandings};

fn example(name: &str) -> Definition {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}.yaml"));
    yaml::read(&std::fs::read_to_string(file).unwrap(), name).unwrap()
}

fn check(file: &str, drawing: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/drawings")
        .join(file);
    if std::env::var_os("LOPE_BLESS").is_some() {
        std::fs::write(&path, drawing).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawing, expected, "{file}");
}

fn standings() -> StepStandings {
    let standings = [
        ("none", StepStanding::Done, 1),
        ("book", StepStanding::Running, 1),
        ("book/train", StepStanding::Done, 1),
        ("book/note_train", StepStanding::Skipped, 1),
        ("book/hotel", StepStanding::Failed, 1),
        ("book/back", StepStanding::Running, 1),
        ("book/back/cancel", StepStanding::Running, 12),
    ];
    let progress = standings.map(|(path, standing, executions)| {
        let progress = StepProgress {
            standing,
            executions,
        };
        (path.to_owned(), progress)
    });
    progress.into_iter().collect()
}

#[test]
fn a_workflow_in_every_format() {
    let definition = example("welcome");
    for (word, format) in Format::ALL {
        check(
            &format!("welcome.{word}"),
            &graph::draw(&definition, None, format).unwrap(),
        );
    }
}

#[test]
fn a_run_shows_how_far_each_step_is() {
    let definition = example("saga");
    for (word, format) in Format::ALL {
        check(
            &format!("run.{word}"),
            &graph::draw(&definition, Some(&standings()), format).unwrap(),
        );
    }
}

#[test]
fn what_is_too_wide_for_boxes_becomes_a_tree() {
    let steps: String = (0..9)
        .map(|step| format!("  step_number_{step}: {{ action: do_something, needs: [first] }}\n"))
        .collect();
    let text = format!(
        "name: wide\nsteps:\n  first: {{ let: 1 }}\n{steps}  deep:\n    if: first > 0\n    steps: {{ a: {{ let: 1 }}, b: {{ let: \"${{{{ a }}}}\" }} }}\n    \
         else: {{ c: {{ sleep: 5s }} }}\n"
    );
    check(
        "wide.text",
        &graph::draw(&yaml::read(&text, "wide").unwrap(), None, Format::Text).unwrap(),
    );
}

/// Every tag that is opened is closed, in order; attributes are quoted; no text holds a bare sign
/// of markup.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>') || open.last() == Some(&"style"),
            "a bare '>' in {:?}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "an open quote in <{tag}>");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn names_and_texts_cannot_break_a_drawing() {
    let text = "name: \"<&>\\\"'\"\nsteps:\n  a: { let: \"<script>alert(\\\"x\\\")</script> & ]] --> #\" }\n  \
                b: { run: \"echo \\\\ `x` | } ]\", needs: [a], when: '\"<\" < \">\"' }\n";
    let definition = yaml::read(text, "t").unwrap();
    let svg = graph::draw(&definition, None, Format::Svg).unwrap();
    assert_well_formed(&svg);
    assert!(!svg.contains("<script"));
    let mermaid = graph::draw(&definition, None, Format::Mermaid).unwrap();
    assert!(!mermaid.contains("<script") && !mermaid.contains('\\'));
    let labels = mermaid
        .lines()
        .filter(|line| line.contains("s0_") && line.contains('['));
    assert!(
        labels.clone().count() == 2
            && labels
                .into_iter()
                .all(|line| line.matches('"').count() == 2),
        "{mermaid}"
    );
}

#[test]
fn every_example_is_well_formed_svg() {
    for name in [
        "saga",
        "welcome",
        "nested-each",
        "switch",
        "try-catch",
        "race",
        "policies",
    ] {
        assert_well_formed(
            &graph::draw(&example(name), Some(&StepStandings::new()), Format::Svg).unwrap(),
        );
    }
}

#[test]
fn a_workflow_with_too_many_steps_is_refused_but_for_text() {
    let steps: String = (0..=graph::DRAWN_MAX)
        .map(|step| format!("  s{step}: {{ let: 1 }}\n"))
        .collect();
    let definition = yaml::read(&format!("name: huge\nsteps:\n{steps}"), "huge").unwrap();
    let error = graph::draw(&definition, None, Format::Svg).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the workflow has 5001 steps; a drawing shows at most 5000"
    );
    assert!(
        graph::draw(&definition, None, Format::Text)
            .unwrap()
            .contains("s5000")
    );
}

#[test]
fn deep_blocks_are_drawn_without_a_deep_stack() {
    use lope_definition::{Block, Step, StepKind};
    use lope_expr::{Expr, Template};
    let mut definition = Definition::new("deep");
    let mut inner = definition.add_block(Block::of(vec![Step::new(
        "leaf",
        StepKind::Let {
            value: Template::default(),
        },
    )]));
    for level in 0..1_000 {
        let step = Step::new(
            &format!("s{level}"),
            StepKind::If {
                when: Expr::literal(true),
                then: inner,
                otherwise: None,
            },
        );
        if level == 999 {
            definition.root_mut().steps.push(step);
        } else {
            inner = definition.add_block(Block::of(vec![step]));
        }
    }
    let draw = move || {
        Format::ALL.into_iter().for_each(|(_, format)| {
            assert!(
                graph::draw(&definition, None, format)
                    .unwrap()
                    .contains("leaf")
            );
        });
    };
    std::thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(draw)
        .unwrap()
        .join()
        .expect("no stack overflow");
}

#[test]
fn every_example_can_be_drawn_in_every_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(!names.is_empty());
    for name in names {
        let definition = example(&name);
        for (_, format) in graph::Format::ALL {
            let drawing = graph::draw(&definition, None, format).unwrap();
            for step in definition.blocks.iter().flat_map(|block| &block.steps) {
                assert!(
                    drawing.contains(&*step.name),
                    "{name}: {format:?} does not show '{}'",
                    step.name
                );
            }
        }
    }
}
