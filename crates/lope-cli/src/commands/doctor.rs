//! `lope doctor`: is everything there that work needs? A line each, with a hint; exit 1 if
//! something fails.

use anstyle::AnsiColor;
use lope::doctor::{self, Health, HealthCheck};
use lope::stores::StoreUrl;
use serde_json::{Value as Json, json};

use crate::clock::wall;
use crate::error::{CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

pub(crate) async fn run(settings: CliResult<Settings>, output: Output) -> CliResult<Exit> {
    let verdicts = match settings {
        Ok(settings) => examine(&settings, output).await,
        Err(error) => vec![HealthCheck::fail(
            "config",
            error.to_string(),
            "mend the settings; nothing works before",
        )],
    };
    let values: Vec<Json> = verdicts
        .iter()
        .map(|it| json!({ "check": it.check, "health": it.health.as_str(), "message": it.message, "hint": it.hint }))
        .collect();
    let lines: Vec<String> = verdicts.iter().map(line).collect();
    output.document(&Json::Array(values), &lines.join("\n"));
    let failed = verdicts
        .iter()
        .any(|verdict| verdict.health == Health::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

async fn examine(settings: &Settings, output: Output) -> Vec<HealthCheck> {
    let mut verdicts = vec![doctor::home(&settings.home)];
    let folder = match &settings.store {
        StoreUrl::Sqlite(path) => path,
        StoreUrl::Memory | StoreUrl::Postgres(_) => &settings.home,
    };
    verdicts.extend(doctor::space(folder));
    verdicts.extend(doctor::inspect(&settings.store, wall()).await);
    verdicts.push(doctor::python().await);
    if let Ok(context) = super::agents::context(settings, output) {
        verdicts.extend(lope_agents_cli::health::examine(&context).await);
    }
    verdicts
}

fn line(verdict: &HealthCheck) -> String {
    let style = match verdict.health {
        Health::Ok => AnsiColor::Green.on_default(),
        Health::Warn => AnsiColor::Yellow.on_default(),
        Health::Fail => AnsiColor::Red.on_default().bold(),
    };
    let hint = verdict
        .hint
        .as_ref()
        .map_or_else(String::new, |hint| format!("\n      hint: {hint}"));
    format!(
        "{style}{:<4}{style:#}  {:<9} {}{hint}",
        verdict.health.as_str(),
        verdict.check,
        verdict.message
    )
}
