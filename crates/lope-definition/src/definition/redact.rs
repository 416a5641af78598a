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

    /// All that a path may mean: a step's name may have dots itself, as in `pay.v2.token`, and what
    /// any of the steps gives there is hidden.
    pub fn readings(text: &str, steps: &[String]) -> Vec<Self> {
        let plain = Self::parse(text);
        let dotted = steps.iter().filter(|step| step.contains('.'));
        let dotted = dotted.filter_map(|step| {
            let rest = text.strip_prefix(step.as_str())?;
            let keys = match rest.strip_prefix('.') {
                Some(keys) => keys.split('.').map(Arc::from).collect(),
                None if rest.is_empty() => Vec::new(),
                None => return None,
            };
            let of = RedactedOf::Step(step.as_str().into());
            Some(Self { of, keys })
        });
        plain
            .into_iter()
            .flat_map(|plain| std::iter::once(plain).chain(dotted.clone()))
            .collect()
    }

    /// Is it of something that is there?
    pub fn is_known(&self, steps: &[String]) -> bool {
        match &self.of {
            RedactedOf::Step(step) => steps.iter().any(|known| **known == **step),
            RedactedOf::Input | RedactedOf::Result => true,
        }
    }
}

impl Definition {
    /// What must not be shown. A path that cannot be read hides nothing; files with one are
    /// refused.
    pub fn redacted(&self) -> Vec<RedactedPath> {
        if self.redact.is_empty() {
            return Vec::new();
        }
        let steps = self.step_paths();
        let paths = self.redact.iter();
        paths
            .flat_map(|text| RedactedPath::readings(text, &steps))
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
            assert!(RedactedPath::readings(bad, &["input.".to_owned()]).is_empty());
        }
    }

    #[test]
    fn a_step_with_a_dot_in_its_name_is_meant_too() {
        let steps = ["pay", "pay.v2", "each/pay.v2", "pay.v22"].map(str::to_owned);
        let read = |text: &str| {
            let readings = RedactedPath::readings(text, &steps);
            let known = readings.into_iter().filter(|path| path.is_known(&steps));
            let shown = known.map(|path| match path.of {
                RedactedOf::Step(step) => format!("{step}: {}", path.keys.join(" ")),
                of => format!("{of:?}: {}", path.keys.join(" ")),
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(read("pay.token"), ["pay: token"]);
        assert_eq!(read("pay.v2"), ["pay: v2", "pay.v2: "]);
        assert_eq!(read("pay.v2.a.*"), ["pay: v2 a *", "pay.v2: a *"]);
        assert_eq!(read("each/pay.v2.token"), ["each/pay.v2: token"]);
        assert_eq!(read("input.pay"), ["Input: pay"]);
        assert_eq!(read("pay/v2.token"), [""; 0]);
    }
}
