//! `lope config show`: which settings are in force, and where each came from.

use clap::Subcommand;
use lope::config::{Setting, SettingSource};
use serde_json::{Value as Json, json};

use crate::error::Exit;
use crate::flags::Everywhere;
use crate::home::{Settings, typed};
use crate::output::Output;
use crate::table::{Column, Table, width};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the settings in force and where each came from: flag, environment, file or default
    Show,
}

pub(crate) fn run(
    command: ConfigCommand,
    flags: &Everywhere,
    settings: &Settings,
    output: Output,
) -> Exit {
    match command {
        ConfigCommand::Show => {
            let all: Vec<Setting> = store_settings(flags, settings)
                .into_iter()
                .chain(settings.config.settings())
                .collect();
            show(&all, output);
            Exit::Done
        }
    }
}

fn store_settings(flags: &Everywhere, settings: &Settings) -> [Setting; 3] {
    let said = |variable: &str, value: Option<&std::ffi::OsStr>| match value {
        Some(value) if typed(variable, value) => Some(SettingSource::Flag),
        Some(_) => Some(SettingSource::Environment),
        None => None,
    };
    let home = said(
        "LOPE_HOME",
        flags.home.as_ref().map(|home| home.as_os_str()),
    )
    .unwrap_or(SettingSource::Default);
    let in_file = if settings.config.store.is_some() {
        SettingSource::File
    } else {
        SettingSource::Default
    };
    let store =
        said("LOPE_STORE", flags.store.as_ref().map(std::ffi::OsStr::new)).unwrap_or(in_file);
    let setting = |name: &str, value: String, source| Setting {
        name: name.to_owned(),
        value,
        source,
    };
    [
        setting("home", settings.home.display().to_string(), home),
        setting("store", settings.store.to_string(), store),
        setting("logs", settings.logs.display().to_string(), home),
    ]
}

fn show(all: &[Setting], output: Output) {
    let values: Vec<Json> = all
        .iter()
        .map(|it| json!({ "name": it.name, "value": it.value, "source": it.source.to_string() }))
        .collect();
    let mut table = Table::new([
        Column::whole("SETTING"),
        Column::cut("VALUE"),
        Column::whole("FROM"),
    ]);
    for setting in all {
        table.row(vec![
            setting.name.clone(),
            setting.value.clone(),
            setting.source.to_string(),
        ]);
    }
    output.document(&Json::Array(values), &table.lines(width()).join("\n"));
}
