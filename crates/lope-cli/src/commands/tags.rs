//! Tags as users write them.

use std::collections::BTreeMap;

use crate::error::{CliError, CliResult};

pub(crate) fn tags(said: &[String]) -> CliResult<BTreeMap<String, String>> {
    said.iter().map(|text| tag(text)).collect()
}

fn tag(text: &str) -> CliResult<(String, String)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        pair.ok_or_else(|| CliError::usage(format!("'{text}' is no tag: write NAME=VALUE")))?;
    Ok((name.to_owned(), value.to_owned()))
}
