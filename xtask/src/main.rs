//! `cargo xtask`: the commands that keep the house in order. This file holds the table of commands
//! and nothing else; arguments come in, an exit code goes out. What a command does is in the file
//! of its name. Knows no crate of Lope.

mod bench;
mod chaos;
mod counts;
mod needs;
mod peers;
mod python;
mod steps;
mod sweeper;
mod test;
mod tidy;
mod timed;
mod tree;
mod wheel;
mod with;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

/// A command as `cargo xtask` lists it.
struct Verb {
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "test",
        usage: "test [--no-postgres] [--no-python] [--no-browser] [--fast]",
        summary: "the one test command: formatting, clippy, tidy, all tests; brings what they need",
        run: test::run,
    },
    Verb {
        name: "tidy",
        usage: "tidy",
        summary: "layers, cycles, sizes, names of things and types, headers, SQL names, licences, documents, test programs, walks",
        run: tidy::run,
    },
    Verb {
        name: "chaos",
        usage: "chaos [--no-postgres] [--no-python] [NAME...]",
        summary: "the long runs: every chaos_* module, or those named, with the whole series",
        run: chaos::run,
    },
    Verb {
        name: "bench",
        usage: "bench [NAME...] [-- ARGUMENT...]",
        summary: "benchmarks in release: store, flow, mailbox; arguments after -- go to the benchmark",
        run: bench::run,
    },
    Verb {
        name: "wheel",
        usage: "wheel [FOLDER]",
        summary: "the Python package as a wheel with the command inside, in release",
        run: wheel::run,
    },
    Verb {
        name: "bench peers",
        usage: "bench peers [--rounds N] [--scale PERCENT] …",
        summary: "Lope beside other engines, same work on the same server; writes docs/benchmarks.md",
        run: peers::run,
    },
    Verb {
        name: "bench counts",
        usage: "bench counts [--write]",
        summary: "instructions of the law, a shard and the stores, against benches/counts.json",
        run: counts::run,
    },
    Verb {
        name: "with",
        usage: "with COMMAND [ARGUMENT...]",
        summary: "run any command with the Postgres server and the Python that the tests get",
        run: with::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    }
    if name == sweeper::VERB {
        return sweeper::sweep();
    }
    if name == timed::VERB {
        return timed::run(rest);
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        eprint!("error: no command `{name}`\n\n{}", help());
        return Ok(ExitCode::from(2));
    };
    (verb.run)(rest)
}

fn help() -> String {
    let lines = VERBS
        .iter()
        .map(|verb| format!("  {:46}{}", verb.usage, verb.summary));
    format!(
        "usage: cargo xtask COMMAND\n\n{}\n",
        lines.collect::<Vec<_>>().join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command() {
        let help = help();
        assert!(
            VERBS
                .iter()
                .all(|verb| help.contains(verb.usage) && help.contains(verb.summary)),
            "{help}"
        );
    }

    #[test]
    fn an_unknown_command_is_refused() {
        let code = dispatch(&["tset".to_owned()]).expect("dispatch answers");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)));
    }
}
