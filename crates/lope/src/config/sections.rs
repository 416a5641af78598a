//! The sections beside `engine`: queues, secrets, the environment that expressions see, retention
//! by workflow.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use lope_agents::settings::settings_in_force;
use lope_engine::settings::QueueLimit;
use lope_model::policy::RateLimit;
use lope_model::{Priority, QueueName, Span};
use serde_saphyr::Spanned;

use super::engine::{FOREVER, kept, whole};
use super::file::{File, Said, location};
use super::{BadConfig, Config, Setting, SettingSource};

/// Where the value of a secret is found when a step needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Secret {
    /// In this variable of the runner's environment.
    Env(String),
    /// In this file; line ends at its end do not count.
    File(PathBuf),
}

impl Config {
    pub(super) fn take_file(&mut self, name: &str, file: File) -> Result<(), BadConfig> {
        self.store = file.store;
        for (setting, said) in file.engine {
            self.set_engine(
                &setting,
                &said.value.0,
                SettingSource::File,
                &location(name, &said),
            )?;
        }
        for (queue, said) in file.queues {
            let at = location(name, &said);
            let bad = |message: String| BadConfig::new(&at, format!("queue '{queue}': {message}"));
            let name = QueueName::parse(&queue).map_err(|error| bad(error.to_string()))?;
            let limit = queue_limit(said.value).map_err(bad)?;
            self.engine.queue_limits.insert(name, limit);
        }
        for (secret, said) in file.secrets {
            let found = self::secret(&said)
                .map_err(|message| BadConfig::new(location(name, &said), message))?;
            self.secrets.insert(secret, found);
        }
        for (workflow, said) in file.retention {
            let span = kept(&said.value.0)
                .map_err(|message| BadConfig::new(location(name, &said), message))?;
            self.engine.retention_of.insert(workflow, span);
        }
        self.env = file.env;
        self.agents = file.agents;
        if let Some(said) = file.runners {
            said.value.validate().map_err(|(setting, message)| {
                BadConfig::new(
                    location(name, &said),
                    format!("runners.{setting}: {message}"),
                )
            })?;
            self.runners = said.value;
        }
        let server = file.server.map(|json| ("server".to_owned(), json));
        let telemetry = file.telemetry.map(|json| ("telemetry".to_owned(), json));
        self.others = server.into_iter().chain(telemetry).collect();
        Ok(())
    }

    /// What the file says beside `engine`, and what is in force for agents and their runners.
    pub(super) fn sections(&self) -> Vec<Setting> {
        let row = |name: String, value: String| Setting {
            name,
            value,
            source: SettingSource::File,
        };
        let limits = self.engine.queue_limits.iter();
        let queues = limits.map(|(name, limit)| row(format!("queues.{name}"), show(limit)));
        let secrets = self.secrets.iter().map(|(name, secret)| {
            let value = match secret {
                Secret::Env(variable) => format!("env {variable}"),
                Secret::File(path) => format!("file {}", path.display()),
            };
            row(format!("secrets.{name}"), value)
        });
        let retention = self.engine.retention_of.iter().map(|(workflow, span)| {
            let span = span.map_or_else(|| FOREVER.to_owned(), |span| span.to_string());
            row(format!("retention.{workflow}"), span)
        });
        let env = (!self.env.is_empty()).then(|| row("env".to_owned(), self.env.join(", ")));
        let agents = settings_in_force(&self.agents, &self.runners, &self.said).into_iter();
        let agents = agents.map(|it| {
            let mut row = row(it.name, it.value);
            if !it.is_said {
                row.source = SettingSource::Default;
            }
            row
        });
        let said = queues.chain(secrets).chain(retention).chain(env);
        said.chain(agents).collect()
    }
}

fn queue_limit(fields: BTreeMap<String, Said>) -> Result<QueueLimit, String> {
    let mut limit = QueueLimit::default();
    for (name, Said(text)) in fields {
        match name.as_str() {
            "concurrency" => limit.concurrency = Some(whole(&text, 1, u32::MAX as usize)?),
            "rate" => limit.rate = Some(rate(&text)?),
            "priority" => {
                let level = text
                    .parse::<i64>()
                    .map_err(|_| format!("'{text}' is not a priority from 0 to 9"))?;
                limit.priority = Some(Priority::new(level).map_err(|error| error.to_string())?);
            }
            other => {
                return Err(format!(
                    "'{other}' is no limit of a queue: concurrency, rate, priority"
                ));
            }
        }
    }
    Ok(limit)
}

/// `COUNT/DURATION`, as in `10/1s`; a unit alone means one of it.
fn rate(text: &str) -> Result<RateLimit, String> {
    let read = text.split_once('/').and_then(|(count, per)| {
        let count = count.trim().parse().ok().filter(|count| *count > 0)?;
        let per = per.trim();
        let span = Span::from_str(per)
            .or_else(|_| Span::from_str(&format!("1{per}")))
            .ok()?;
        Some(RateLimit {
            count,
            per: span,
            name: None,
        })
    });
    read.ok_or_else(|| format!("'{text}' is not a rate: write COUNT/DURATION as in 10/1s"))
}

fn secret(said: &Spanned<BTreeMap<String, Said>>) -> Result<Secret, String> {
    let mut fields = said.value.iter();
    match (
        fields.next().map(|(name, said)| (name.as_str(), &said.0)),
        fields.next(),
    ) {
        (Some(("env", variable)), None) => Ok(Secret::Env(variable.clone())),
        (Some(("file", path)), None) => Ok(Secret::File(path.into())),
        _ => Err("a secret is found in one place: {env: VARIABLE} or {file: PATH}".to_owned()),
    }
}

fn show(limit: &QueueLimit) -> String {
    let concurrency = limit.concurrency.map(|most| format!("concurrency {most}"));
    let rate = limit
        .rate
        .as_ref()
        .map(|rate| format!("rate {}/{}", rate.count, rate.per));
    let priority = limit
        .priority
        .map(|level| format!("priority {}", level.level()));
    [concurrency, rate, priority]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}
