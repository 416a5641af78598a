//! Settings as people see them: each by its key, with its value in words and whether somebody said it.

use lope_model::Span;
use serde_json::Value as Json;

use super::{AdapterKind, AgentSettings, AgentsSettings, HookSettings, PromptBy, RunnerSettings};
use crate::records::Budget;

/// What a setting says that bounds nothing.
const UNLIMITED: &str = "unlimited";
const NONE: &str = "none";

/// A setting of agents or of their runners.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingInForce {
    /// Its path in the file, as in `runners.wakeup.enabled`.
    pub name: String,
    pub value: String,
    /// The file says it; otherwise it is the default.
    pub is_said: bool,
}

impl RunnerSettings {
    /// Every setting of runners. `said` is their section as it was written.
    fn in_force(&self, said: &Json) -> Vec<SettingInForce> {
        let spans = [
            ("heartbeatInterval", self.heartbeat_interval),
            ("staleTimeout", self.stale_timeout),
            ("subprocessHangTimeout", self.subprocess_hang_timeout),
            ("taskTimeout", self.task_timeout),
            ("stopGrace", self.stop_grace),
            ("lockExpiry", self.lock_expiry),
            ("logRetention", self.log_retention),
            ("limitPause", self.limit_pause),
            ("wakeup.checkInterval", self.wakeup.check_interval),
        ];
        let others = [
            ("maxConcurrent", self.max_concurrent.to_string()),
            ("maxAttempts", self.max_attempts.to_string()),
            ("maxRejections", self.max_rejections.to_string()),
            ("review", self.review.to_string()),
            ("worktrees", self.worktrees.to_string()),
            ("wakeup.enabled", self.wakeup.enabled.to_string()),
            (
                "wakeup.projectPaths",
                list(self.wakeup.project_paths.iter().cloned()),
            ),
            ("hooks", list(self.hooks.iter().map(hook))),
        ];
        let budgets = [
            ("task", self.budget.task),
            ("project", self.budget.project),
            ("day", self.budget.day),
        ];
        let spans = spans.map(|(name, span)| (name.to_owned(), span.to_string()));
        let others = others.map(|(name, value)| (name.to_owned(), value));
        let budgets = budgets
            .iter()
            .flat_map(|(name, budget)| limits(name, budget));
        let rows = spans.into_iter().chain(others).chain(budgets);
        rows.map(|(name, value)| row("runners", &name, value, said))
            .collect()
    }
}

/// Every setting of agents and of their runners. `said` is the file as it is written.
pub fn settings_in_force(
    agents: &AgentsSettings,
    runners: &RunnerSettings,
    said: &Json,
) -> Vec<SettingInForce> {
    let mut rows = agents_in_force(agents, &said["agents"]);
    rows.extend(runners.in_force(&said["runners"]));
    rows
}

/// Every setting of every agent, the usual one among them if no other is the `default`. `said` is their
/// section as it was written.
fn agents_in_force(agents: &AgentsSettings, said: &Json) -> Vec<SettingInForce> {
    let usual = AgentSettings::usual();
    let is_missing = !agents.contains_key("default");
    let usual = is_missing.then_some(("default", &usual));
    let named = agents.iter().map(|(name, agent)| (name.as_str(), agent));
    let rows = usual.into_iter().chain(named).flat_map(|(name, agent)| {
        let own = of_agent(agent);
        own.map(|(key, value)| row("agents", &format!("{name}.{key}"), value, said))
    });
    rows.collect()
}

fn of_agent(agent: &AgentSettings) -> [(&'static str, String); 6] {
    let span = |span: Option<Span>, usual: &str| {
        span.map_or_else(|| format!("runners.{usual}"), |span| span.to_string())
    };
    [
        ("command", agent.command.join(" ")),
        ("prompt", agent.prompt.as_str().to_owned()),
        ("adapter", agent.adapter().as_str().to_owned()),
        ("env", list(agent.env.iter().cloned())),
        ("timeout", span(agent.timeout, "taskTimeout")),
        ("silence", span(agent.silence, "subprocessHangTimeout")),
    ]
}

impl PromptBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::File => "file",
            Self::Argument => "argument",
        }
    }
}

impl AdapterKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Command => "command",
        }
    }
}

fn limits(of: &str, budget: &Budget) -> [(String, String); 3] {
    let word = |limit: Option<String>| limit.unwrap_or_else(|| UNLIMITED.to_owned());
    [
        ("attempts", word(budget.attempts.map(|it| it.to_string()))),
        ("wallTime", word(budget.wall_time.map(|it| it.to_string()))),
        ("cost", word(budget.cost.map(|it| format!("${it:.2}")))),
    ]
    .map(|(key, value)| (format!("budget.{of}.{key}"), value))
}

fn list(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        NONE.to_owned()
    } else {
        words.join(", ")
    }
}

/// Whom a hook tells of what. What follows the host of a URL may be a secret.
fn hook(hook: &HookSettings) -> String {
    let on: Vec<&str> = hook.on.iter().map(|status| status.as_str()).collect();
    let target = hook.target.to_string();
    let target = match target.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or(rest);
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}")
        }
        None => target,
    };
    format!("{} → {target}", on.join("|"))
}

fn row(section: &str, name: &str, value: String, said: &Json) -> SettingInForce {
    SettingInForce {
        is_said: is_said(said, name),
        name: format!("{section}.{name}"),
        value,
    }
}

/// Does a section hold what stands at this path, in either spelling?
fn is_said(section: &Json, path: &str) -> bool {
    let mut at = section;
    for key in path.split('.') {
        let found = at.get(key).or_else(|| at.get(underscored(key)));
        let Some(found) = found.filter(|it| !it.is_null()) else {
            return false;
        };
        at = found;
    }
    true
}

fn underscored(key: &str) -> String {
    let mut spelt = String::new();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            spelt.push('_');
        }
        spelt.push(letter.to_ascii_lowercase());
    }
    spelt
}
