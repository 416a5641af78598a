//! What a `run` step asks for: argv or a shell line, folder, environment, input.

use std::io::{self, Seek, Write};
use std::process::Stdio;

use lope_engine::executor::Task;
use lope_model::{Failure, Map, Value};
use tokio::process::Command;

/// A process to be started.
#[derive(Debug)]
pub(super) struct Order {
    argv: Vec<String>,
    cwd: Option<String>,
    env: Vec<(String, String)>,
    stdin: Option<String>,
}

impl Order {
    pub(super) fn read(arguments: &Value) -> Result<Self, Failure> {
        let map = arguments.as_map().ok_or_else(|| bad("the arguments of a process must be a map"))?;
        let argv = argv(map)?;
        let env = match map.get("env") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Map(env)) => env.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            Some(_) => return Err(bad("'env' must be a map")),
        };
        let said = |key| map.get(key).filter(|value| !value.is_null()).map(text);
        Ok(Self { argv, cwd: said("cwd"), env, stdin: said("stdin") })
    }

    pub(super) fn command(&self, task: &Task) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).process_group(0).kill_on_drop(true);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("LOPE_RUN_ID", task.token.run.to_string());
        command.env("LOPE_EXECUTION", &*task.token.execution);
        command.env("LOPE_ATTEMPT", task.token.attempt.to_string());
        if let Some(key) = &task.idempotency_key {
            command.env("LOPE_IDEMPOTENCY_KEY", key);
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// The input lies there as a whole, in a file without a name, before the process begins. From a pipe, a process whose runner is
    /// killed would read the first part and an end, and take it for all of it.
    pub(super) fn input(&self) -> io::Result<Stdio> {
        let Some(text) = &self.stdin else { return Ok(Stdio::null()) };
        let mut file = tempfile::tempfile()?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file.into())
    }

    pub(super) fn not_started(&self, error: &io::Error) -> Failure {
        let place = self.cwd.as_ref().map_or_else(String::new, |cwd| format!(" in {cwd}"));
        Failure::new("NotStarted", format!("'{}' cannot be started{place}: {error}", self.argv[0]))
    }
}

fn argv(map: &Map) -> Result<Vec<String>, Failure> {
    let shell = map.get("shell").and_then(Value::as_str).unwrap_or("sh");
    match (map.get("argv"), map.get("command")) {
        (Some(Value::List(items)), _) if !items.is_empty() => Ok(items.iter().map(text).collect()),
        (_, Some(Value::Str(line))) => Ok(vec![shell.to_owned(), "-c".to_owned(), line.to_string()]),
        _ => Err(bad("a process needs a list of arguments or a command line")),
    }
}

/// A value as an argument: text as it is, everything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn bad(message: &str) -> Failure {
    Failure::new("BadArguments", message)
}
