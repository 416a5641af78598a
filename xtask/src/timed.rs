//! `xtask time-each-test PROGRAM ARGUMENT...`: runs a test program as cargo would, hands on what it
//! prints as it is, and writes down how long each of its tests took. In: the program; out: its exit
//! code, and lines `seconds<TAB>package test` at the end of the file that `LOPE_TEST_TIMES` names.
//!
//! Several cargos go through the same programs at the same time, since one alone leaves a core idle
//! while the longest test of a program ends. Whoever is first claims a program in the folder that
//! `LOPE_TEST_CLAIMS` names, and the others pass it over; what a program printed is told when it has
//! ended, so that what it said stays together.
//!
//! The test harness tells how long a test took only if it may do what is not stable yet, which the
//! environment of its own process allows.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The hidden command under which cargo starts us as the runner of test programs.
pub(crate) const VERB: &str = "time-each-test";
/// The file that the times go to.
pub(crate) const TIMES: &str = "LOPE_TEST_TIMES";

/// The folder in which programs are claimed, if several cargos run them.
pub(crate) const CLAIMS: &str = "LOPE_TEST_CLAIMS";
/// How many cargos run test programs.
pub(crate) const CARGOS: usize = 2;
/// In the folder of claims: who holds it may print.
const PRINTING: &str = "printing";

/// How many tests the harness runs at a time.
pub(crate) const THREADS: &str = "RUST_TEST_THREADS";

/// A test of a package, and how long it took.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestTime {
    pub(crate) name: String,
    pub(crate) took: Duration,
}

/// What cargo must be told to run test programs through us.
pub(crate) fn as_runner() -> Result<[String; 2]> {
    let ourselves = std::env::current_exe().context("we do not know our own file")?;
    let runner = format!(
        "target.'cfg(all())'.runner=[{:?}, {VERB:?}]",
        ourselves.display().to_string()
    );
    Ok(["--config".to_owned(), runner])
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let Some((program, rest)) = arguments.split_first() else {
        bail!("{VERB} takes a program and its arguments");
    };
    if !is_test_program(Path::new(program)) {
        let status = Command::new(program).args(rest).status();
        let status = status.with_context(|| format!("cannot start {program}"))?;
        return Ok(exit_code(program, status));
    }
    let claims = std::env::var_os(CLAIMS).map(PathBuf::from);
    if let Some(claims) = &claims
        && !claim(claims, Path::new(program))?
    {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(program);
    // Cargos are quiet about what they pass over; programs are not.
    command.args(rest.iter().filter(|word| *word != "--quiet"));
    command.args(["-Zunstable-options", "--report-time"]);
    command.env("RUSTC_BOOTSTRAP", "1");
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start {program}"))?;
    let output = child.stdout.take().context("its output is a pipe")?;
    let times = match claims {
        Some(claims) => tell_at_the_end(BufReader::new(output), &claims, program)?,
        None => hand_on(BufReader::new(output), &mut std::io::stdout().lock())?,
    };
    let status = child.wait().context("lost the test program")?;
    if let Some(file) = std::env::var_os(TIMES) {
        write_down(Path::new(&file), &times)?;
    }
    Ok(exit_code(program, status))
}

/// What cargo builds lies where it keeps what it builds. Examples of the documentation are run through
/// us, too: they all have one name, are no harness of ours, and only one of the cargos runs them.
fn is_test_program(program: &Path) -> bool {
    program.parent().and_then(Path::file_name) == Some("deps".as_ref())
}

fn exit_code(program: &str, status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if code.is_none() {
        println!("{program} ended with {status}");
    }
    ExitCode::from(code.unwrap_or(1))
}

/// Of each of the cargos: the longer tests wait for processes more than they compute.
pub(crate) fn threads_for_waiting() -> usize {
    cores() + 1
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Is this program ours to run?
fn claim(claims: &Path, program: &Path) -> Result<bool> {
    let name = program.file_name().context("a program has a name")?;
    match File::create_new(claims.join(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).context("the program cannot be claimed"),
    }
}

/// As `hand_on`, in one piece when the program has ended.
fn tell_at_the_end(output: impl BufRead, claims: &Path, program: &str) -> Result<Vec<TestTime>> {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    println!("     Running {package} ({program})");
    let mut told = Vec::new();
    let times = hand_on(output, &mut told)?;
    let printing = File::create(claims.join(PRINTING)).context("no lock")?;
    printing.lock().context("no lock")?;
    let mut screen = std::io::stdout().lock();
    let heading = format!("\n     Ended {package} ({program})\n");
    screen
        .write_all(heading.as_bytes())
        .and_then(|()| screen.write_all(&told))
        .and_then(|()| screen.flush())
        .context("nobody reads us")?;
    Ok(times)
}

/// Prints everything, and answers with the tests and how long they took.
fn hand_on(mut output: impl BufRead, screen: &mut impl Write) -> Result<Vec<TestTime>> {
    let mut times = Vec::new();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).context("no output")? > 0 {
        screen.write_all(&line).context("nobody reads us")?;
        screen.flush().context("nobody reads us")?;
        times.extend(std::str::from_utf8(&line).ok().and_then(ended));
        line.clear();
    }
    Ok(times)
}

/// The test whose end a line tells, as in `test a::b ... ok <0.012s>`.
fn ended(line: &str) -> Option<TestTime> {
    let (name, result) = line
        .trim_end()
        .strip_prefix("test ")?
        .rsplit_once(" ... ")?;
    let (_, took) = result.rsplit_once('<')?;
    let took: f64 = took.strip_suffix("s>")?.parse().ok()?;
    Some(TestTime {
        name: name.trim_end_matches(" - should panic").to_owned(),
        took: Duration::try_from_secs_f64(took).ok()?,
    })
}

fn write_down(file: &Path, times: &[TestTime]) -> Result<()> {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let opened = OpenOptions::new().append(true).create(true).open(file);
    let mut file = opened.with_context(|| format!("cannot write {}", file.display()))?;
    let lines = times.iter().map(|time| {
        let seconds = time.took.as_secs_f64();
        format!("{seconds:.3}\t{package} {}\n", time.name)
    });
    let lines: String = lines.collect();
    file.write_all(lines.as_bytes())
        .context("the times cannot be written")
}

/// The slowest tests that were written down, the slowest first.
pub(crate) fn slowest(file: &Path, count: usize) -> Vec<TestTime> {
    let Ok(file) = File::open(file) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut times: Vec<TestTime> = lines.filter_map(|line| read(&line)).collect();
    times.sort_by_key(|time| std::cmp::Reverse(time.took));
    times.truncate(count);
    times
}

fn read(line: &str) -> Option<TestTime> {
    let (seconds, name) = line.split_once('\t')?;
    let took = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    let name = name.to_owned();
    Some(TestTime { name, took })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(name: &str, seconds: u64) -> TestTime {
        TestTime {
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn lines_of_the_harness_are_told_from_what_tests_print() {
        assert_eq!(ended("test a::b ... ok <2.000s>\n"), Some(time("a::b", 2)));
        assert_eq!(
            ended("test a - should panic ... FAILED <61.000s>\n"),
            Some(time("a", 61))
        );
        let others = [
            "running 2 tests\n",
            "test result: ok. 3 passed\n",
            "test a ... ignored, why\n",
            "test a ... \n",
            "test a <1.0s>\n",
        ];
        assert_eq!(others.map(ended), [const { None }; 5]);
    }

    /// Claimed by their name, all but the first one's would be passed over.
    #[test]
    fn examples_of_the_documentation_are_nobodys_to_claim() {
        assert!(is_test_program(Path::new("target/debug/deps/all-1")));
        assert!(!is_test_program(Path::new("tmp/rustdoctestAbc/rust_out")));
    }

    #[test]
    fn a_program_is_run_by_whoever_claims_it_first() {
        let claims = tempfile::tempdir().expect("a folder");
        let all = Path::new("deps/all-1");
        assert!(claim(claims.path(), all).expect("claimed"));
        assert!(!claim(claims.path(), all).expect("asked again"));
        assert!(claim(claims.path(), Path::new("deps/all-2")).expect("another"));
        claim(&claims.path().join("none"), all).expect_err("no folder, no claim");
    }

    #[test]
    fn the_slowest_are_read_back_from_all_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("times");
        write_down(&file, &[time("a", 1), time("b", 7)]).expect("written");
        write_down(&file, &[time("c", 4)]).expect("written behind it");
        let names: Vec<String> = slowest(&file, 2)
            .into_iter()
            .map(|time| time.name)
            .collect();
        assert!(
            names[0].ends_with(" b") && names[1].ends_with(" c"),
            "{names:?}"
        );
        assert!(slowest(&folder.path().join("none"), 2).is_empty());
    }
}
