//! `lope converse`: the commands of a program's client without a process for each. A request is a
//! line of JSON with a number, and so is its answer; answers come in any order.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};

use lope::runs::RunStartOptions;
use lope::stores::CreateStore;
use lope::workflows::Plan;
use lope::{Client, PreparedRun, describe};
use lope_model::{Priority, QueueName, Span, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinSet;

use super::begin::captured;
use super::python::{Module, plans_of};
use super::runs::find::{find, found};
use super::runs::steer::taken;
use crate::clock::later;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;

/// Requests that wait to be taken up.
const WAITING_MAX: usize = 1_024;

#[derive(Deserialize)]
struct NumberedRequest {
    id: u64,
    #[serde(flatten)]
    asked: ClientRequest,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum ClientRequest {
    /// Definitions of a module's workflow and of those it starts; answered with a number.
    Load {
        module: String,
        definitions: Vec<Json>,
    },
    Start(Box<StartWords>),
    Wait {
        run: String,
        timeout_ms: Option<u64>,
    },
    Signal {
        run: String,
        name: String,
        value: Value,
    },
    Cancel {
        run: String,
    },
    Show {
        run: String,
    },
}

#[derive(Deserialize)]
struct StartWords {
    plan: usize,
    input: Value,
    key: Option<String>,
    queue: Option<String>,
    priority: Option<i64>,
    at: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

struct Conversation {
    settings: Settings,
    client: OnceCell<Client>,
    loaded: Mutex<Vec<Arc<Plan>>>,
}

pub(crate) async fn run(settings: Settings) -> CliResult<Exit> {
    let (sender, mut lines) = mpsc::channel::<String>(WAITING_MAX);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let shared = Arc::new(Conversation {
        settings,
        client: OnceCell::new(),
        loaded: Mutex::default(),
    });
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.recv().await {
        let shared = Arc::clone(&shared);
        under_way.spawn(async move { say(&shared.answer(&line).await) });
        while under_way.try_join_next().is_some() {}
    }
    Ok(Exit::Done)
}

fn say(answer: &Json) {
    let mut out = std::io::stdout().lock();
    // Whoever asked may be gone.
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

impl Conversation {
    async fn answer(&self, line: &str) -> Json {
        let request: NumberedRequest = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                return json!({ "id": null, "error": format!("not a request: {error}"), "code": 2 });
            }
        };
        let id = request.id;
        match self.act(request.asked).await {
            Ok(answer) => json!({ "id": id, "answer": answer }),
            Err(error) => {
                json!({ "id": id, "error": error.to_string(), "code": error.exit as u8 })
            }
        }
    }

    async fn act(&self, asked: ClientRequest) -> CliResult<Json> {
        match asked {
            ClientRequest::Load {
                module,
                definitions,
            } => self.load(&module, &definitions).await,
            ClientRequest::Start(words) => self.start(*words).await,
            ClientRequest::Wait { run, timeout_ms } => self.wait(&run, timeout_ms).await,
            ClientRequest::Signal { run, name, value } => {
                let client = self.client().await?;
                let record = find(client, &run).await?;
                let delivered = client.signal(record.run, &name, value).await?;
                taken(client, record.run, &delivered).await?;
                Ok(Json::Null)
            }
            ClientRequest::Cancel { run } => {
                let client = self.client().await?;
                let record = find(client, &run).await?;
                taken(client, record.run, &client.cancel(record.run).await?).await?;
                Ok(Json::Null)
            }
            ClientRequest::Show { run } => {
                let record = find(self.client().await?, &run).await?;
                Ok(describe::run(&record))
            }
        }
    }

    async fn client(&self) -> CliResult<&Client> {
        let url = self.settings.lasting("the run")?;
        let opened = || async { Client::open_store(url, CreateStore::IfMissing).await };
        Ok(self.client.get_or_try_init(opened).await?)
    }

    async fn load(&self, module: &str, definitions: &[Json]) -> CliResult<Json> {
        let plans = plans_of(definitions, &Module::parse(module)?)?;
        let client = self.client().await?;
        for plan in &plans {
            client.deploy(plan).await?;
        }
        let first = plans
            .into_iter()
            .next()
            .ok_or_else(|| CliError::usage("there are no definitions"))?;
        let mut loaded = self.loaded.lock().expect("no panic while the lock is held");
        loaded.push(first);
        Ok(json!({ "plan": loaded.len() - 1 }))
    }

    async fn start(&self, words: StartWords) -> CliResult<Json> {
        let plan = {
            let loaded = self.loaded.lock().expect("no panic while the lock is held");
            loaded.get(words.plan).cloned()
        };
        let plan = plan.ok_or_else(|| CliError::usage("no such plan"))?;
        let limits = &self.settings.config.engine.queue_limits;
        let prepared = PreparedRun::new(&plan, self.options(words)?, limits)?;
        let client = self.client().await?;
        let (run, _) = client.start(prepared).await?;
        let record = found(client.run(run).await?, run)?;
        Ok(json!({ "run_id": run, "status": record.status.as_str() }))
    }

    fn options(&self, words: StartWords) -> CliResult<RunStartOptions> {
        let bad = |error: &dyn std::fmt::Display| CliError::usage(error.to_string());
        let queue = words.queue.as_deref().map(QueueName::parse).transpose();
        let queue = queue.map_err(|error| bad(&error))?.unwrap_or_default();
        let priority = words.priority.map(Priority::new).transpose();
        let at = words.at.as_deref().map(|time| later("at", time));
        Ok(RunStartOptions {
            input: Some(words.input),
            key: words.key,
            env: captured(&self.settings),
            at: at.transpose()?,
            tags: words.tags,
            priority: priority.map_err(|error| bad(&error))?,
            queue,
            ..RunStartOptions::default()
        })
    }

    async fn wait(&self, run: &str, timeout_ms: Option<u64>) -> CliResult<Json> {
        let client = self.client().await?;
        let run = find(client, run).await?.run;
        let waiting = client.wait(run);
        let ended = match timeout_ms {
            None => waiting.await?,
            Some(millis) => {
                let span = Span::from_millis(millis);
                match tokio::time::timeout(span.to_duration(), waiting).await {
                    Ok(ended) => ended?,
                    Err(_) => return Ok(json!({ "run_id": run, "late": true })),
                }
            }
        };
        let record = found(ended, run)?;
        let mut value = describe::run(&record);
        if !value["error"].is_null() {
            describe::add_sources(&mut value, client.plan(&record).await?.definition());
        }
        Ok(value)
    }
}
