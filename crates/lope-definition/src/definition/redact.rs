//! Paths of values that must not be shown: in a run's input, in its result, in what a step gave.

use std::sync::Arc;

use super::Definition;

/// Whose value a path leads into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedactedOf {
    Input,
    Result,
    /// The output of a step, by its path in the workflow, as in `mail/send`.
    Step(Arc<str>),
}

/// A path of what must not be shown; without keys it is all of the value. `*` is any key and any
/// place in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedactedPath {
    pub of: RedactedOf,
    pub keys: Vec<Arc<str>>,
}

impl RedactedPath {
    /// Reads `input.card.number`, `result`, `pay.receipts.*.token`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split('.');
        let first = words.next().unwrap_or_default();
        let keys: Vec<Arc<str>> = words.map(Arc::from).collect();
        if first.trim() != first || first.is_empty() || keys.iter().any(|key| key.is_empty()) {
            return Err(format!(
                "'{text}' is no path: write it as in input.card.number, result.token or STEP.key"
            ));
        }
        let of = match first {
            "input" => RedactedOf::Input,
            "result" => RedactedOf::Result,
            step => RedactedOf::Step(step.into()),
        };
        Ok(Self { of, keys })
    }
}

impl Definition {
    /// What must not be shown. A path that cannot be read hides nothing; files with one are
    /// refused.
    pub fn redacted(&self) -> Vec<RedactedPath> {
        let paths = self.redact.iter();
        paths
            .filter_map(|text| RedactedPath::parse(text).ok())
            .collect()
    }

    /// The paths of all steps, as in `mail/send`.
    pub(crate) fn step_paths(&self) -> Vec<String> {
        let prefixes = self.prefixes();
        let blocks = self.blocks.iter().zip(&prefixes);
        let paths = blocks.flat_map(|(block, prefix)| {
            let steps = block.steps.iter();
            steps.map(move |step| format!("{prefix}{}", step.name))
        });
        paths.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let path = RedactedPath::parse("mail/send.to.*.name").unwrap();
        assert_eq!(path.of, RedactedOf::Step("mail/send".into()));
        assert_eq!(path.keys, ["to", "*", "name"].map(Arc::from));
        let whole = RedactedPath::parse("result").unwrap();
        assert_eq!((whole.of, whole.keys.len()), (RedactedOf::Result, 0));
        for bad in ["", ".", "input.", "input..a", " input"] {
            assert!(RedactedPath::parse(bad).is_err(), "{bad}");
        }
    }
}
