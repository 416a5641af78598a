//! Bad workflow files give exactly the expected messages, lines and columns.
//!
//! `tests/bad/NAME.yaml` is the file, `tests/bad/NAME.txt` what is printed for it. `LOPE_BLESS=1`
//! writes the latter anew; read the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use lope_definition::yaml::{self, ProblemReport};

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .collect();
    files.sort();
    files
}

fn printed(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let problems = yaml::read(&text, name).expect_err(name);
    let places: Vec<(u32, u32)> = problems
        .iter()
        .map(|problem| (problem.at.line, problem.at.column))
        .collect();
    assert!(
        places.iter().all(|(line, column)| *line > 0 && *column > 0),
        "{name}: a problem without a place"
    );
    assert!(
        places.is_sorted(),
        "{name}: problems are not in the order of the file"
    );
    ProblemReport {
        file_name: name,
        text: &text,
        problems: &problems,
    }
    .to_string()
}

#[test]
fn every_bad_file_gives_its_messages_at_their_places() {
    let files = bad_files();
    assert!(files.len() >= 40, "only {} bad files", files.len());
    for file in files {
        let expected = file.with_extension("txt");
        let printed = printed(&file);
        if std::env::var_os("LOPE_BLESS").is_some() {
            std::fs::write(&expected, &printed).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(printed, expected, "{}", file.display());
    }
}
