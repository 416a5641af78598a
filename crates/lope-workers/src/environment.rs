//! What processes inherit of the runner's environment: a small base, and what the configuration
//! names. Never the runner's own access to its store and workers, nor a variable that holds a
//! secret.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// What every process gets.
const BASE: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LC_*",
    "SSL_CERT_*",
];
/// What a Python finds its modules and libraries by.
const PYTHON: [&str; 5] = [
    "PYTHON*",
    "VIRTUAL_ENV",
    "CONDA_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];
/// What no process gets, whoever names it.
const WITHHELD: [&str; 4] = [
    "LOPE_WORKER_TOKEN",
    "LOPE_STORE",
    "LOPE_TOKEN",
    "LOPE_PROCESS_TREE*",
];

/// Which variables processes inherit.
#[derive(Clone, Debug, Default)]
pub struct InheritedEnvironment {
    allowed: BTreeSet<String>,
    withheld: BTreeSet<String>,
}

impl InheritedEnvironment {
    /// Besides the base, these; a name may end in `*`.
    #[must_use]
    pub fn allow(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.allowed.extend(names);
        self
    }

    /// Not these, also if they are allowed: a secret is read from them.
    #[must_use]
    pub fn withhold(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.withheld.extend(names);
        self
    }

    /// Of these names, those that may be shown: no process gets the others, whoever names them.
    pub fn without_withheld<'a>(&self, names: &'a [String]) -> Vec<&'a String> {
        let is_withheld = |name: &str| {
            WITHHELD
                .iter()
                .any(|known| matches(known, OsStr::new(name)))
                || self
                    .withheld
                    .iter()
                    .any(|known| matches(known, OsStr::new(name)))
        };
        names.iter().filter(|name| !is_withheld(name)).collect()
    }

    /// What a `run` step inherits.
    pub fn for_processes(&self) -> Vec<(OsString, OsString)> {
        self.of(std::env::vars_os(), &[])
    }

    /// What a worker process inherits.
    pub(crate) fn for_workers(&self) -> Vec<(OsString, OsString)> {
        self.of(std::env::vars_os(), &PYTHON)
    }

    fn of(
        &self,
        variables: impl Iterator<Item = (OsString, OsString)>,
        more: &[&str],
    ) -> Vec<(OsString, OsString)> {
        let passes = |name: &OsStr| {
            let any = |names: &[&str]| names.iter().any(|pattern| matches(pattern, name));
            let of_set = |names: &BTreeSet<String>| names.iter().any(|known| matches(known, name));
            let allowed = any(&BASE) || any(more) || of_set(&self.allowed);
            allowed && !any(&WITHHELD) && !of_set(&self.withheld)
        };
        variables.filter(|(name, _)| passes(name)).collect()
    }
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_passes_and_secrets_never() {
        let environment = InheritedEnvironment::default()
            .allow(["REGION", "AWS_*", "TOKEN", "LOPE_STORE"].map(str::to_owned))
            .withhold(["TOKEN", "AWS_SECRET"].map(str::to_owned));
        let names = [
            "PATH",
            "LC_ALL",
            "REGION",
            "AWS_REGION",
            "AWS_SECRET",
            "TOKEN",
            "LOPE_STORE",
            "LOPE_WORKER_TOKEN",
            "PYTHONPATH",
            "OTHER",
            "PATHS",
        ];
        let given = |more: &[&str]| {
            let variables = names.iter().map(|name| ((*name).into(), "x".into()));
            let passed = environment.of(variables, more);
            let names = passed.into_iter().map(|(name, _)| name.into_string());
            names.collect::<Result<Vec<_>, _>>().unwrap()
        };
        assert_eq!(given(&[]), ["PATH", "LC_ALL", "REGION", "AWS_REGION"]);
        assert_eq!(
            given(&PYTHON),
            ["PATH", "LC_ALL", "REGION", "AWS_REGION", "PYTHONPATH"]
        );
    }
}
