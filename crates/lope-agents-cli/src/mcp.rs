//! `lope mcp`: the verbs of tasks for an agent that speaks the Model Context Protocol: JSON-RPC on
//! standard input and output, a message a line.

use std::io::{self, BufRead, Read};

use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::context::AgentsContext;
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::tasks::{self, TasksCommand};
use crate::tool_words::ToolWords;

use ArgumentKind::{Number, Text, Texts};

/// What is spoken unless the client names another version.
const PROTOCOL: &str = "2025-06-18";
/// Longest message that is read.
const MESSAGE_MAX: u64 = 4 * 1024 * 1024;

/// A verb that an agent may use.
struct Tool {
    name: &'static str,
    about: &'static str,
    arguments: &'static [ToolArgument],
}

/// What a verb is told.
struct ToolArgument {
    name: &'static str,
    about: &'static str,
    kind: ArgumentKind,
    is_required: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    Text,
    Texts,
    Number,
}

const fn required(name: &'static str, about: &'static str, kind: ArgumentKind) -> ToolArgument {
    ToolArgument {
        name,
        about,
        kind,
        is_required: true,
    }
}

const fn optional(name: &'static str, about: &'static str, kind: ArgumentKind) -> ToolArgument {
    ToolArgument {
        is_required: false,
        ..required(name, about, kind)
    }
}

/// Which task a verb is about, if it is not the agent's own.
const TASK: ToolArgument = optional(
    "task",
    "The id of a task; yours if you leave it away. You speak of your own alone",
    Text,
);

const TOOLS: &[Tool] = &[
    Tool {
        name: "task_show",
        about: "Show a task: what is to be done, earlier attempts, what was said about it",
        arguments: &[optional(
            "task",
            "The id of a task; the one you are at work on if you leave it away",
            Text,
        )],
    },
    Tool {
        name: "task_next",
        about: "Show which task of your project would be started next, and start nothing",
        arguments: &[],
    },
    Tool {
        name: "task_claim",
        about: "See whether you hold your task; another one you cannot take",
        arguments: &[optional(
            "task",
            "The id of a task; yours if you leave it away",
            Text,
        )],
    },
    Tool {
        name: "task_note",
        about: "Tell others how far you are",
        arguments: &[required("text", "What you want to say", Text), TASK],
    },
    Tool {
        name: "task_add",
        about: "Add a follow-up task to your project; yours does not wait for it",
        arguments: &[
            required("title", "What is to be done, in a line", Text),
            optional("description", "What is to be done, in full", Text),
            optional("section", "The part of the list it belongs to", Text),
            optional("priority", "0 to 9, higher first", Number),
            optional(
                "source",
                "The specification it comes from, as FILE#PART",
                Text,
            ),
            optional("needs", "Ids of tasks that must be completed first", Texts),
        ],
    },
    Tool {
        name: "task_split",
        about: "Add tasks that this one needs; it waits for them",
        arguments: &[
            required("titles", "What is to be done, a line each", Texts),
            TASK,
        ],
    },
    Tool {
        name: "task_ask",
        about: "Ask a person. End after that: you get the answer when you are started again",
        arguments: &[required("question", "What you want to know", Text), TASK],
    },
    Tool {
        name: "task_done",
        about: "Say that the task is done; for a reviewer: that it is approved",
        arguments: &[
            required("result", "What you did and how you checked it", Text),
            TASK,
        ],
    },
    Tool {
        name: "task_fail",
        about: "Say that the task cannot be done; for a reviewer: that it is rejected",
        arguments: &[required("reason", "Why", Text), TASK],
    },
];

/// Why a request is refused: a code of JSON-RPC, and words.
type Refusal = (i64, String);

pub(crate) async fn run(context: &AgentsContext) -> CommandResult {
    let mut messages = messages();
    while let Some(line) = messages.recv().await {
        let line = line.map_err(|error| CommandError::usage(format!("standard input: {error}")))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = answered(&line, context).await {
            (context.print)(&answer.to_string());
        }
    }
    Ok(CommandReport::streamed())
}

/// The lines of standard input, read by a thread of its own: it may stand still for hours. One that
/// is too long is an error, and the last.
fn messages() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(MESSAGE_MAX).read_until(b'\n', &mut line);
            let message = match read {
                Ok(0) => return,
                Ok(_) if line.len() as u64 == MESSAGE_MAX && !line.ends_with(b"\n") => {
                    let words = format!("a message has more than {MESSAGE_MAX} bytes");
                    Err(io::Error::other(words))
                }
                read => read.map(|_| line),
            };
            let is_last = message.is_err();
            if sender.blocking_send(message).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// The answer to a message; a notification has none.
async fn answered(line: &[u8], context: &AgentsContext) -> Option<Json> {
    let Ok(message) = serde_json::from_slice::<Json>(line) else {
        return Some(refused(&Json::Null, (-32700, "this is no JSON".to_owned())));
    };
    if !message.is_object() {
        let words = "a message is one object; batches are not taken".to_owned();
        return Some(refused(&Json::Null, (-32600, words)));
    }
    if message["jsonrpc"] != "2.0" {
        let id = message.get("id").unwrap_or(&Json::Null);
        let words = "\"jsonrpc\" must be \"2.0\"".to_owned();
        return Some(refused(id, (-32600, words)));
    }
    let id = message.get("id")?.clone();
    let Some(method) = message["method"].as_str() else {
        // An answer to a request of ours, of which there are none.
        return message
            .get("result")
            .is_none()
            .then(|| refused(&id, (-32600, "there is no method".to_owned())));
    };
    let result = match method {
        "initialize" => Ok(initialized(&message["params"])),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": TOOLS.iter().map(Tool::described).collect::<Json>() })),
        "tools/call" => called(&message["params"], context).await,
        other => Err((-32601, format!("there is no method '{other}'"))),
    };
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(refusal) => refused(&id, refusal),
    })
}

fn refused(id: &Json, (code, message): Refusal) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn initialized(params: &Json) -> Json {
    let version = params["protocolVersion"].as_str().unwrap_or(PROTOCOL);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "lope", "version": env!("CARGO_PKG_VERSION") },
    })
}

impl Tool {
    fn described(&self) -> Json {
        let arguments = self.arguments.iter();
        let properties: serde_json::Map<String, Json> = arguments
            .map(|it| (it.name.to_owned(), it.described()))
            .collect();
        let needed = self.arguments.iter().filter(|it| it.is_required);
        let needed: Vec<&str> = needed.map(|it| it.name).collect();
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": needed,
                "additionalProperties": false,
            },
        })
    }

    /// The command that does it. What it knows nothing of is refused: dropped, it would do something
    /// else than what was asked for, and say that it did it.
    fn command(&self, given: &Json) -> Result<TasksCommand, Refusal> {
        let names = match given {
            Json::Null => Vec::new(),
            Json::Object(given) => given.keys().collect(),
            _ => {
                let words = format!("the arguments of '{}' are an object", self.name);
                return Err((-32602, words));
            }
        };
        let mut names = names.into_iter();
        if let Some(unknown) = names.find(|name| self.arguments.iter().all(|it| it.name != **name))
        {
            return Err((-32602, self.unknown(unknown)));
        }
        let mut told = ToolWords::default();
        for argument in self.arguments {
            let words = argument.read(self.name, &given[argument.name])?;
            told.tell(argument.name, words);
        }
        Ok(tasks::of_agent(self.name, told))
    }

    fn unknown(&self, argument: &str) -> String {
        let own: Vec<&str> = self.arguments.iter().map(|it| it.name).collect();
        let own = match own.as_slice() {
            [] => "it has none".to_owned(),
            own => format!("it has {}", own.join(", ")),
        };
        format!("'{}' has no argument '{argument}': {own}", self.name)
    }
}

impl ToolArgument {
    fn described(&self) -> Json {
        let about = self.about;
        match self.kind {
            Text => json!({ "type": "string", "description": about }),
            Number => json!({ "type": "integer", "description": about }),
            Texts => json!({
                "type": "array", "description": about, "minItems": u8::from(self.is_required),
                "items": { "type": "string" },
            }),
        }
    }

    /// What was given for it, as texts.
    fn read(&self, tool: &str, given: &Json) -> Result<Vec<String>, Refusal> {
        let name = self.name;
        let bad = || (-32602, format!("'{tool}' needs '{name}'"));
        let texts = match (given, self.kind) {
            (Json::Null, _) => Vec::new(),
            (Json::String(text), Text) => vec![text.clone()],
            (Json::Number(number), Number) if number.is_i64() => vec![number.to_string()],
            (Json::Array(items), Texts) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<String>>>().ok_or_else(bad)?
            }
            (_, kind) => {
                let wanted = match kind {
                    Text => "a text",
                    Number => "a whole number",
                    Texts => "a list of texts",
                };
                return Err((-32602, format!("'{name}' of '{tool}' is {wanted}")));
            }
        };
        if self.is_required && texts.is_empty() {
            return Err(bad());
        }
        if texts.iter().any(|text| text.contains('\0')) {
            return Err((-32602, format!("'{name}' holds a zero byte")));
        }
        Ok(texts)
    }
}

async fn called(params: &Json, context: &AgentsContext) -> Result<Json, Refusal> {
    let name = params["name"].as_str().unwrap_or_default();
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| (-32602, format!("there is no tool '{name}'")))?;
    let command = tool.command(&params["arguments"])?;
    let (text, is_error) = match tasks::run(command, context).await {
        Ok(report) => (report.value.to_string(), false),
        Err(error) => (error.to_string(), true),
    };
    Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that names a task of another one, or a project, is not to believe that it was heard.
    #[test]
    fn what_a_tool_knows_nothing_of_is_refused() {
        for tool in TOOLS {
            let schema = &tool.described()["inputSchema"];
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let texts = tool.arguments.iter().map(|it| match it.kind {
                Text => (it.name.to_owned(), json!("1")),
                Texts => (it.name.to_owned(), json!(["1"])),
                Number => (it.name.to_owned(), json!(1)),
            });
            let mut given: Json = Json::Object(texts.collect());
            assert!(tool.command(&given).is_ok(), "{}", tool.name);
            given["project"] = json!("q");
            let (code, words) = tool.command(&given).unwrap_err();
            assert_eq!(code, -32602, "{}", tool.name);
            let beginning = format!("'{}' has no argument 'project': it has ", tool.name);
            assert!(words.starts_with(&beginning), "{words}");
            let (code, _) = tool.command(&json!([1])).unwrap_err();
            assert_eq!(code, -32602, "{}", tool.name);
        }
    }

    #[test]
    fn a_tool_that_speaks_of_a_task_is_told_which_one() {
        for tool in TOOLS {
            let needed = tool.arguments.iter().filter(|it| it.is_required);
            let given = needed.map(|it| match it.kind {
                Texts => (it.name.to_owned(), json!(["x"])),
                Text | Number => (it.name.to_owned(), json!("x")),
            });
            let mut given: Json = Json::Object(given.collect());
            let takes_a_task = tool.arguments.iter().any(|it| it.name == "task");
            if !takes_a_task {
                assert!(
                    ["task_next", "task_add"].contains(&tool.name),
                    "{}",
                    tool.name
                );
                continue;
            }
            given["task"] = json!("a1b2");
            let command = format!("{:?}", tool.command(&given).unwrap());
            assert!(command.contains("task: Some(\"a1b2\")"), "{command}");
        }
    }
}
