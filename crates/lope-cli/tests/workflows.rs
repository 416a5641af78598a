//! `lope workflows` as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn lope(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
    command
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .output()
        .unwrap()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const BAD: &str = "name: bad\nsteps:\n  a: { rnu: echo }\n  b: { let: \"${{ nobody }}\" }\n";

#[test]
fn sound_files_are_named_and_bad_ones_get_every_problem_and_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("good.yaml"),
        "name: good\nsteps: { a: { let: 1 } }\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("bad.yaml"), BAD).unwrap();
    let good = lope(folder.path(), &["workflows", "check", "good.yaml"]);
    assert_eq!(
        (good.status.code(), text(&good.stdout).as_str()),
        (Some(0), "good.yaml: good is sound, 1 step\n")
    );
    let both = lope(
        folder.path(),
        &[
            "workflows",
            "check",
            "good.yaml",
            "bad.yaml",
            "nowhere.yaml",
        ],
    );
    assert_eq!(
        (both.status.code(), text(&both.stdout).as_str()),
        (Some(2), "good.yaml: good is sound, 1 step\n")
    );
    let expected = "error: bad.yaml:3:8: step 'a': unknown key 'rnu' in a step\n   |\n 3 |   a: { rnu: echo }\n   |        ^^^\n  \
                    hint: did you mean 'run'?\nerror: bad.yaml:4:18: step 'b': unknown name 'nobody'\n   |\n 4 |   b: { let: \"${{ nobody }}\" }\n   \
                    |                  ^^^^^^\nerror: nowhere.yaml: No such file or directory (os error 2)\n";
    assert_eq!(text(&both.stderr), expected);
    assert!(
        !folder.path().join(".lope").exists(),
        "checking makes no store"
    );
}

#[test]
fn with_json_a_script_can_read_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), BAD).unwrap();
    let output = lope(folder.path(), &["workflows", "check", "bad.yaml", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = json!([
        { "line": 3, "column": 8, "step": "a", "message": "unknown key 'rnu' in a step", "hint": "did you mean 'run'?" },
        { "line": 4, "column": 18, "step": "b", "message": "unknown name 'nobody'", "hint": null },
    ]);
    assert_eq!(
        value,
        json!([{ "file": "bad.yaml", "ok": false, "problems": problems }])
    );
    let hello = examples().join("hello.yaml").display().to_string();
    let output = lope(folder.path(), &["workflows", "check", &hello, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&value[0]["ok"], &value[0]["workflow"], &value[0]["steps"]),
        (&true.into(), &"hello".into(), &4.into())
    );
}

#[test]
fn every_example_is_sound() {
    let mut files: Vec<String> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| path.display().to_string())
        .collect();
    files.sort();
    let args: Vec<&str> = ["workflows", "check"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let output = lope(&examples(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_workflow_is_drawn_in_every_format_and_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let hello = examples().join("hello.yaml").display().to_string();
    for (format, start) in [
        ("text", "hello\n"),
        ("mermaid", "---\n"),
        ("dot", "digraph"),
        ("svg", "<svg"),
    ] {
        let output = lope(
            folder.path(),
            &["workflows", "graph", &hello, "--format", format],
        );
        assert!(
            output.status.success() && text(&output.stdout).starts_with(start),
            "{format}"
        );
    }
    let output = lope(
        folder.path(),
        &[
            "workflows",
            "graph",
            &hello,
            "--format",
            "svg",
            "-o",
            "hello.svg",
        ],
    );
    assert!(output.status.success());
    assert!(
        std::fs::read_to_string(folder.path().join("hello.svg"))
            .unwrap()
            .ends_with("</svg>\n")
    );
    let output = lope(folder.path(), &["workflows", "graph", &hello, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["drawing"].as_str().unwrap().contains("greet"));
    let wrong = lope(
        folder.path(),
        &["workflows", "graph", &hello, "--format", "png"],
    );
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("'png' is not a format: text, mermaid, dot or svg"));
}
