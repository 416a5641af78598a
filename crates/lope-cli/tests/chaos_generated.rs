//! Programs made by dice, under CPython and under the law: "100,000 generated programs with zero
//! silent differences", and "the same programs with the runner killed at a random journal row: the
//! same result". A few by default, the whole series with LOPE_CHAOS=full.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::python;

use std::path::Path;
use std::process::{Child, Stdio};

use python::Ground;

/// Processes that try programs side by side.
const SIDES: usize = 2;

fn is_full() -> bool {
    std::env::var("LOPE_CHAOS").is_ok_and(|it| it == "full")
}

/// A program of the Python tests, which says what it found.
fn begun(ground: &Ground, script: &str, words: &[usize]) -> Child {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests");
    let mut command = ground.python(&[]);
    command
        .arg(path.join(script))
        .args(words.iter().map(ToString::to_string))
        .env("LOPE_BIN", env!("CARGO_BIN_EXE_lope"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn programs_made_by_dice_mean_what_cpython_means() {
    let Some(ground) = Ground::new() else { return };
    let each = if is_full() { 50_000 } else { 3 };
    let sides: Vec<Child> = (0..SIDES)
        .map(|side| begun(&ground, "generated.py", &[1_000_000 + side * each, each]))
        .collect();
    for side in sides {
        let said = ended(side);
        assert!(
            said.contains(&format!("{each} tried")) && said.contains(" 0 differ"),
            "{said}"
        );
    }
}

#[test]
fn programs_whose_runner_is_killed_end_the_same() {
    let Some(ground) = Ground::new() else { return };
    let (batches, programs, kills) = if is_full() { (20, 100, 40) } else { (1, 2, 1) };
    for batch in 0..batches {
        let first = 2_000_000 + batch * programs;
        let said = ended(begun(&ground, "killed.py", &[first, programs, kills]));
        assert!(said.contains(" 0 differ"), "{said}");
    }
}
