//! Where secrets are found when a step needs one: in the environment that the program was started
//! with, or in files.
//!
//! Nothing is kept: a file that changes is read anew. This room does not read the environment
//! itself; who opens one says how.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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
                let shown = path.display();
                let text = read(path)
                    .map_err(|error| format!("cannot be read from {shown}: {error}"))?
                    .ok_or_else(|| format!("in {shown} is larger than {SECRET_MAX} bytes"))?;
                Ok(text.trim_end_matches(['\n', '\r']).to_owned())
            }
        }
    }
}

/// Nothing: it is too large, however large its file says that it is.
fn read(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(SECRET_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SECRET_MAX {
        return Ok(None);
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl fmt::Debug for ConfiguredSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
            ("f", Secret::File("/dev/zero".into())),
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
        for (name, part) in [
            ("b", "GONE"),
            ("d", "none"),
            ("e", "config.yaml"),
            ("f", "larger than 65536 bytes"),
        ] {
            let error = secrets.value(name).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(
            !format!("{secrets:?}").contains("from"),
            "values are never shown"
        );
    }
}
