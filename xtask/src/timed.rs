//! `xtask time-each-test PROGRAM ARGUMENT...`: runs a test program as cargo would, hands on what it
//! prints as it is, and writes down how long each of its tests took. In: the program; out: its exit
//! code, and lines `seconds<TAB>package test` at the end of the file that `LOPE_TEST_TIMES` names.
//!
//! Several cargos go through the same programs at the same time, since one alone leaves a core idle
//! while the longest test of a program ends. Whoever is first claims a program in the folder that
//! `LOPE_TEST_CLAIMS` names, and the others pass it over; what a program printed is told when it has
//! ended, so that what it said stays together.
//!
//! The stable test harness tells when a test ends but not how long it took. It starts tests in the
//! order of their names, as many at a time as there are threads, and the next whenever one ends: so
//! the ends and the names tell the beginnings.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

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
    let claims = std::env::var_os(CLAIMS).map(PathBuf::from);
    if let Some(claims) = &claims
        && !claim(claims, Path::new(program))?
    {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(program);
    // Cargos are quiet about what they pass over; programs are not.
    command.args(rest.iter().filter(|word| *word != "--quiet"));
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start {program}"))?;
    let output = child.stdout.take().context("its output is a pipe")?;
    let ends = match claims {
        Some(claims) => tell_at_the_end(BufReader::new(output), &claims, program)?,
        None => hand_on(BufReader::new(output), &mut std::io::stdout().lock())?,
    };
    let status = child.wait().context("lost the test program")?;
    if let Some(file) = std::env::var_os(TIMES) {
        write_down(Path::new(&file), durations(ends, threads()))?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if code.is_none() {
        println!("{program} ended with {status}");
    }
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// As many tests at a time as the harness runs when it is not told otherwise.
fn threads() -> usize {
    let told = std::env::var(THREADS).ok();
    let told = told.and_then(|word| word.parse().ok());
    told.unwrap_or_else(cores)
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
    let ends = hand_on(output, &mut told)?;
    let printing = File::create(claims.join(PRINTING)).context("no lock")?;
    printing.lock().context("no lock")?;
    let mut screen = std::io::stdout().lock();
    let heading = format!("\n     Ended {package} ({program})\n");
    screen
        .write_all(heading.as_bytes())
        .and_then(|()| screen.write_all(&told))
        .and_then(|()| screen.flush())
        .context("nobody reads us")?;
    Ok(ends)
}

/// Prints everything, and answers with the tests in the order in which they ended.
fn hand_on(mut output: impl BufRead, screen: &mut impl Write) -> Result<Vec<TestTime>> {
    let started = Instant::now();
    let mut ends = Vec::new();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).context("no output")? > 0 {
        screen.write_all(&line).context("nobody reads us")?;
        screen.flush().context("nobody reads us")?;
        if let Some(name) = std::str::from_utf8(&line).ok().and_then(ended) {
            let name = name.to_owned();
            let took = started.elapsed();
            ends.push(TestTime { name, took });
        }
        line.clear();
    }
    Ok(ends)
}

/// The test whose end a line tells.
fn ended(line: &str) -> Option<&str> {
    let (name, result) = line
        .trim_end()
        .strip_prefix("test ")?
        .rsplit_once(" ... ")?;
    let known = ["ok", "FAILED", "ignored"];
    known
        .iter()
        .any(|word| result.starts_with(word))
        .then(|| name.trim_end_matches(" - should panic"))
}

/// From the ends of tests, in order, to how long each took.
fn durations(ends: Vec<TestTime>, threads: usize) -> Vec<TestTime> {
    let mut order: Vec<&str> = ends.iter().map(|end| end.name.as_str()).collect();
    order.sort_unstable();
    let ends_before = |index: usize| index.checked_sub(threads).map(|before| ends[before].took);
    let took = |end: &TestTime| {
        let index = order.binary_search(&end.name.as_str()).unwrap_or_default();
        let began = ends_before(index).unwrap_or_default();
        end.took.saturating_sub(began)
    };
    let took: Vec<Duration> = ends.iter().map(took).collect();
    let times = ends.into_iter().zip(took);
    times.map(|(end, took)| TestTime { took, ..end }).collect()
}

fn write_down(file: &Path, times: Vec<TestTime>) -> Result<()> {
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
        assert_eq!(ended("test a::b ... ok\n"), Some("a::b"));
        assert_eq!(ended("test a - should panic ... FAILED\n"), Some("a"));
        assert_eq!(ended("test a ... ignored, why\n"), Some("a"));
        let others = [
            "running 2 tests\n",
            "test result: ok. 3 passed\n",
            "test a ... \n",
        ];
        assert_eq!(others.map(ended), [None; 3]);
    }

    /// Two threads: `a` and `b` begin at once, `c` when `b` ends, `d` when `c` does.
    #[test]
    fn ends_and_names_tell_how_long_each_took() {
        let ends = vec![time("b", 2), time("c", 3), time("d", 8), time("a", 9)];
        let expected = [time("b", 2), time("c", 1), time("d", 5), time("a", 9)];
        assert_eq!(durations(ends, 2), expected);
        let ends = vec![time("a", 2), time("b", 3)];
        assert_eq!(durations(ends, 1), [time("a", 2), time("b", 1)]);
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
        write_down(&file, vec![time("a", 1), time("b", 7)]).expect("written");
        write_down(&file, vec![time("c", 4)]).expect("written behind it");
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
