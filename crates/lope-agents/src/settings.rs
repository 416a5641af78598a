//! The settings of agents and runners, as `config.yaml` has them under `agents:` and `runners:`.
//! Keys are written in camelCase or with underscores.

mod in_force;

use std::collections::BTreeMap;

use lope_model::{Digest, Span};
use serde::{Deserialize, Deserializer};

use crate::law::TaskRules;
use crate::records::{Budget, ReviewBy, TaskStatus};

pub use in_force::{SettingInForce, settings_in_force};

/// What `runners:` may hold.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerSettings {
    /// How often a runner gives a sign of life and renews its lock.
    #[serde(alias = "heartbeat_interval", deserialize_with = "some_time")]
    pub heartbeat_interval: Span,
    /// When a runner is held to be dead.
    #[serde(alias = "stale_timeout", deserialize_with = "some_time")]
    pub stale_timeout: Span,
    /// How long an agent may be silent.
    #[serde(alias = "subprocess_hang_timeout", deserialize_with = "some_time")]
    pub subprocess_hang_timeout: Span,
    /// How long an agent may work.
    #[serde(alias = "task_timeout", deserialize_with = "some_time")]
    pub task_timeout: Span,
    /// How long an agent that was told to end may take.
    #[serde(alias = "stop_grace")]
    pub stop_grace: Span,
    /// Most runners of one project.
    #[serde(alias = "max_concurrent", deserialize_with = "some_count")]
    pub max_concurrent: u32,
    #[serde(alias = "lock_expiry", deserialize_with = "some_time")]
    pub lock_expiry: Span,
    /// How long logs are kept.
    #[serde(alias = "log_retention")]
    pub log_retention: Span,
    /// Attempts after which a task that hangs is given up.
    #[serde(alias = "max_attempts", deserialize_with = "some_count")]
    pub max_attempts: u32,
    /// Rejections after which a task is given up.
    #[serde(alias = "max_rejections", deserialize_with = "some_count")]
    pub max_rejections: u32,
    /// How long a usage limit without a reset time is waited for.
    #[serde(alias = "limit_pause")]
    pub limit_pause: Span,
    /// Who reviews tasks that do not say it themselves.
    #[serde(deserialize_with = "review")]
    pub review: ReviewBy,
    /// Does each attempt have a worktree of git of its own?
    pub worktrees: bool,
    pub budget: BudgetSettings,
    pub wakeup: WakeupSettings,
    /// Who else is told what became of tasks.
    pub hooks: Vec<HookSettings>,
}

/// One of `runners.hooks:`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "HookDocument")]
pub struct HookSettings {
    /// It is told of tasks that come to stand so.
    pub on: Vec<TaskStatus>,
    pub target: HookTarget,
    pub timeout: Span,
    /// How often it is tried again.
    pub retries: u32,
}

/// Who is told: the event comes as JSON, on standard input or as a body.
#[derive(Clone, PartialEq, Debug)]
pub enum HookTarget {
    Command(Vec<String>),
    Url(String),
}

/// A hook as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HookDocument {
    on: Vec<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, deserialize_with = "some_time_if_any")]
    timeout: Option<Span>,
    #[serde(default)]
    retries: Option<u32>,
}

impl TryFrom<HookDocument> for HookSettings {
    type Error = String;

    fn try_from(written: HookDocument) -> Result<Self, String> {
        let on = written.on.iter().map(|word| word.parse::<TaskStatus>());
        let on = on.collect::<Result<Vec<_>, _>>()?;
        if on.is_empty() {
            return Err("a hook needs 'on': statuses of tasks".to_owned());
        }
        let target = match (written.command.is_empty(), written.url) {
            (false, None) => HookTarget::Command(written.command),
            (true, Some(url)) => HookTarget::Url(url),
            _ => return Err("a hook has a 'command' or a 'url'".to_owned()),
        };
        target.validate()?;
        let retries = written.retries.unwrap_or(HOOK_RETRIES);
        if retries > HOOK_RETRIES_MAX {
            return Err(format!(
                "a hook is tried again at most {HOOK_RETRIES_MAX} times"
            ));
        }
        Ok(Self {
            on,
            target,
            timeout: written.timeout.unwrap_or(HOOK_TIMEOUT),
            retries,
        })
    }
}

impl HookSettings {
    /// What tells it from others in every configuration; its words may be a secret.
    pub fn id(&self) -> String {
        let words = match &self.target {
            HookTarget::Command(argv) => argv.join("\0"),
            HookTarget::Url(url) => url.clone(),
        };
        Digest::of(words.as_bytes()).to_string()
    }
}

impl HookTarget {
    fn validate(&self) -> Result<(), String> {
        match self {
            Self::Command(argv) if argv.first().is_none_or(String::is_empty) => {
                Err("a command needs a program".to_owned())
            }
            Self::Url(url) if !is_web(url) => {
                Err("a url begins with 'http://' or 'https://'".to_owned())
            }
            Self::Command(_) | Self::Url(_) => Ok(()),
        }
    }
}

fn is_web(url: &str) -> bool {
    let rest = ["http://", "https://"].iter();
    let mut rest = rest.filter_map(|scheme| url.strip_prefix(scheme));
    rest.any(|rest| !rest.is_empty())
}

impl std::fmt::Display for HookTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(argv) => f.write_str(argv.first().map_or("", String::as_str)),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// How long a hook may take.
const HOOK_TIMEOUT: Span = Span::from_secs(30);
const HOOK_RETRIES: u32 = 3;
const HOOK_RETRIES_MAX: u32 = 10;

/// What `runners.wakeup:` may hold.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WakeupSettings {
    pub enabled: bool,
    #[serde(alias = "check_interval", deserialize_with = "some_time")]
    pub check_interval: Span,
    /// Folders that are scanned for projects.
    #[serde(alias = "project_paths")]
    pub project_paths: Vec<String>,
}

/// What `runners.budget:` may hold.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetSettings {
    pub task: Budget,
    pub project: Budget,
    pub day: Budget,
}

/// An agent under `agents:`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSettings {
    #[serde(deserialize_with = "argv")]
    pub command: Vec<String>,
    #[serde(default)]
    pub prompt: PromptBy,
    /// How its output is read; guessed from its program if it is not said.
    #[serde(default)]
    pub adapter: Option<AdapterKind>,
    /// Variables that it inherits besides the usual ones.
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default, deserialize_with = "some_time_if_any")]
    pub timeout: Option<Span>,
    #[serde(default, deserialize_with = "some_time_if_any")]
    pub silence: Option<Span>,
}

/// How an agent gets its prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    #[default]
    Stdin,
    /// In a file of its own, whose path is the last argument.
    File,
    /// As the last argument.
    Argument,
}

/// Whose output it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    Claude,
    Codex,
    Gemini,
    Opencode,
    /// Any program: its exit code is its answer.
    Command,
}

/// `agents:` by name. The agent `default` works, `reviewer` reviews.
pub type AgentsSettings = BTreeMap<String, AgentSettings>;

impl Default for RunnerSettings {
    fn default() -> Self {
        Self {
            heartbeat_interval: Span::from_secs(30),
            stale_timeout: Span::from_secs(5 * 60),
            subprocess_hang_timeout: Span::from_secs(15 * 60),
            task_timeout: Span::from_secs(6 * 60 * 60),
            stop_grace: Span::from_secs(10),
            max_concurrent: 1,
            lock_expiry: Span::from_secs(60 * 60),
            log_retention: Span::from_secs(7 * 24 * 60 * 60),
            max_attempts: 3,
            max_rejections: 3,
            limit_pause: Span::from_secs(15 * 60),
            review: ReviewBy::None,
            worktrees: false,
            budget: BudgetSettings::default(),
            wakeup: WakeupSettings::default(),
            hooks: Vec::new(),
        }
    }
}

impl Default for WakeupSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            check_interval: Span::from_secs(60),
            project_paths: Vec::new(),
        }
    }
}

impl RunnerSettings {
    /// The rules that these settings give.
    pub fn rules(&self) -> TaskRules {
        TaskRules {
            lock_expiry: self.lock_expiry,
            places: self.max_concurrent,
            stale_timeout: self.stale_timeout,
            attempts_max: self.max_attempts,
            rejections_max: self.max_rejections,
            wakeup_interval: self.wakeup.check_interval,
            limit_pause: self.limit_pause,
            task_budget: self.budget.task,
            project_budget: self.budget.project,
            day_budget: self.budget.day,
        }
    }

    /// What must hold between settings; the name of the one that is wrong, and why.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let beat = self.heartbeat_interval;
        if beat.times(2) > self.stale_timeout {
            let message = format!(
                "{beat} is too slow for a staleTimeout of {}",
                self.stale_timeout
            );
            return Err(("heartbeatInterval", message));
        }
        if beat.times(2) > self.lock_expiry {
            let message = format!(
                "{} is too short for a heartbeat of {beat}",
                self.lock_expiry
            );
            return Err(("lockExpiry", message));
        }
        let budgets = [self.budget.task, self.budget.project, self.budget.day];
        if budgets.iter().any(|budget| !budget.is_sound()) {
            let message = "a cost is an amount of dollars, and attempts are at least one";
            return Err(("budget", message.to_owned()));
        }
        Ok(())
    }
}

impl AgentSettings {
    /// The usual agent, if none is configured.
    pub fn usual() -> Self {
        Self {
            command: vec!["claude".to_owned(), "-p".to_owned()],
            prompt: PromptBy::Stdin,
            adapter: None,
            env: Vec::new(),
            timeout: None,
            silence: None,
        }
    }

    pub fn adapter(&self) -> AdapterKind {
        let program = self.command.first().map_or("", String::as_str);
        let name = program.rsplit('/').next().unwrap_or(program);
        self.adapter.unwrap_or(match name {
            "claude" => AdapterKind::Claude,
            "codex" => AdapterKind::Codex,
            "gemini" => AdapterKind::Gemini,
            "opencode" => AdapterKind::Opencode,
            _ => AdapterKind::Command,
        })
    }
}

const NO_TIME: &str = "it must be longer than nothing";

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    let span = Span::deserialize(deserializer)?;
    if span == Span::ZERO {
        return Err(serde::de::Error::custom(NO_TIME));
    }
    Ok(span)
}

fn some_time_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    let span = Option::<Span>::deserialize(deserializer)?;
    if span == Some(Span::ZERO) {
        return Err(serde::de::Error::custom(NO_TIME));
    }
    Ok(span)
}

fn some_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let count = u32::deserialize(deserializer)?;
    if !(1..=1_000).contains(&count) {
        return Err(serde::de::Error::custom("it must be from 1 to 1000"));
    }
    Ok(count)
}

fn review<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReviewBy, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// A command as people write it; one that is no list is told how to be one.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a command is a list of words, as in [claude, -p]"
)]
enum CommandWords {
    List(Vec<String>),
    Line(String),
}

fn argv<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = match CommandWords::deserialize(deserializer)? {
        CommandWords::List(words) => words,
        CommandWords::Line(line) => {
            let list: Vec<&str> = line.split_whitespace().collect();
            return Err(serde::de::Error::custom(format!(
                "a command is a list, as in [{}]",
                list.join(", ")
            )));
        }
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(serde::de::Error::custom("a command needs a program"));
    }
    Ok(words)
}
