//! What a `run` step asks for: argv or a shell line, folder, environment, input.

use std::ffi::OsString;
use std::io;

use lope_engine::executor::Task;
use lope_model::{Failure, Map, Value};

use crate::process_tree::TreeCommand;

/// A process to be started.
#[derive(Debug)]
pub(super) struct ProcessSpec {
    argv: Vec<String>,
    cwd: Option<String>,
    env: Vec<(String, String)>,
    stdin: Option<String>,
}

impl ProcessSpec {
    pub(super) fn read(arguments: &Value) -> Result<Self, Failure> {
        let map = arguments
            .as_map()
            .ok_or_else(|| bad("the arguments of a process must be a map"))?;
        let argv = argv(map)?;
        let env = match map.get("env") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Map(env)) => env
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            Some(_) => return Err(bad("'env' must be a map")),
        };
        let said = |key| map.get(key).filter(|value| !value.is_null()).map(text);
        Ok(Self {
            argv,
            cwd: said("cwd"),
            env,
            stdin: said("stdin"),
        })
    }

    /// The process with its environment: what it inherits, what the step names, whose it is.
    pub(super) fn command(&self, task: &Task, inherited: Vec<(OsString, OsString)>) -> TreeCommand {
        let token = &task.token;
        let mut own = vec![
            ("LOPE_RUN_ID", token.run.to_string()),
            ("LOPE_EXECUTION", token.execution.to_string()),
            ("LOPE_ATTEMPT", token.attempt.to_string()),
        ];
        let key = task.idempotency_key.clone();
        own.extend(key.map(|key| ("LOPE_IDEMPOTENCY_KEY", key)));
        let trace = task.trace.as_deref().map(str::to_owned);
        own.extend(trace.map(|trace| ("TRACEPARENT", trace)));
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let mut environment = inherited;
        environment.extend(self.env.iter().map(|(name, value)| pair(name, value)));
        environment.extend(own.iter().map(|(name, value)| pair(name, value)));
        TreeCommand {
            program: self.argv[0].clone().into(),
            arguments: self.argv[1..].iter().map(OsString::from).collect(),
            environment,
            folder: self.cwd.clone().map(Into::into),
            input: self.stdin.clone().map(String::into_bytes),
        }
    }

    pub(super) fn not_started(&self, error: &io::Error) -> Failure {
        let folder = self
            .cwd
            .as_ref()
            .map_or_else(String::new, |cwd| format!(" in {cwd}"));
        Failure::new(
            "NotStarted",
            format!("'{}' cannot be started{folder}: {error}", self.argv[0]),
        )
    }
}

fn argv(map: &Map) -> Result<Vec<String>, Failure> {
    let shell = map.get("shell").and_then(Value::as_str).unwrap_or("sh");
    match (map.get("argv"), map.get("command")) {
        (Some(Value::List(items)), _) if !items.is_empty() => Ok(items.iter().map(text).collect()),
        (_, Some(Value::Str(line))) => {
            Ok(vec![shell.to_owned(), "-c".to_owned(), line.to_string()])
        }
        _ => Err(bad("a process needs a list of arguments or a command line")),
    }
}

/// A value as an argument: text as it is, everything else as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn bad(message: &str) -> Failure {
    Failure::new("BadArguments", message)
}
