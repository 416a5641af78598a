//! Where secrets are found when a step needs one: in the environment that the program was started
//! with, or in files.
//!
//! Nothing is kept: a file that changes is read anew. This room does not read the environment
//! itself; who opens one says how.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

pub use lope_engine::secret::Secrets;

use crate::config::Secret;

/// Largest secret.
const SECRET_MAX: u64 = 64 * 1024;

/// Looks up a variable of the environment.
pub type Variable = fn(&str) -> Option<String>;

/// The secrets of a config file.
pub struct ConfiguredSecrets {
    sources: BTreeMap<String, Secret>,
    variable: Variable,
}

impl ConfiguredSecrets {
    pub fn new(sources: BTreeMap<String, Secret>, variable: Variable) -> Self {
        Self { sources, variable }
    }
}

impl Secrets for ConfiguredSecrets {
    fn value(&self, name: &str) -> Result<String, String> {
        match self.sources.get(name) {
            None => Err(
                "is not in the configuration: add it under 'secrets:' in config.yaml".to_owned(),
            ),
            Some(Secret::Env(variable)) => (self.variable)(variable).ok_or_else(|| {
                format!("should be in the variable {variable}, which this runner does not have")
            }),
            Some(Secret::File(path)) => {
                let told = |error: std::io::Error| {
                    format!("cannot be read from {}: {error}", path.display())
                };
                if fs::metadata(path).map_err(told)?.len() > SECRET_MAX {
                    return Err(format!(
                        "in {} is larger than {SECRET_MAX} bytes",
                        path.display()
                    ));
                }
                let text = fs::read_to_string(path).map_err(told)?;
                Ok(text.trim_end_matches(['\n', '\r']).to_owned())
            }
        }
    }
}

impl fmt::Debug for ConfiguredSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_variables_and_files_and_a_missing_one_says_where_it_should_be() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key"), "from the file\n").unwrap();
        let sources = [
            ("a", Secret::Env("HERE".to_owned())),
            ("b", Secret::Env("GONE".to_owned())),
            ("c", Secret::File(folder.path().join("key"))),
            ("d", Secret::File(folder.path().join("none"))),
        ];
        let sources = sources
            .into_iter()
            .map(|(name, source)| (name.to_owned(), source))
            .collect();
        let secrets = ConfiguredSecrets::new(sources, |name| {
            (name == "HERE").then(|| "from the variable".to_owned())
        });
        assert_eq!(secrets.value("a").unwrap(), "from the variable");
        assert_eq!(secrets.value("c").unwrap(), "from the file");
        for (name, part) in [("b", "GONE"), ("d", "none"), ("e", "config.yaml")] {
            let error = secrets.value(name).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(
            !format!("{secrets:?}").contains("from"),
            "values are never shown"
        );
    }
}
