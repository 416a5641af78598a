//! Named policies for common needs. They compose: a later one lies over those before it.

use lope_model::failure::kind;
use lope_model::policy::{Backoff, OnFailure};
use lope_model::{Policy, Priority, Span};

/// The names of the presets, with what each is for.
pub const PRESETS: [(&str, &str); 6] = [
    ("once", "never tried again"),
    ("quick", "three short retries of something near"),
    (
        "network",
        "calls to other machines: retries with jitter, each bounded in time",
    ),
    ("patient", "many retries over an hour"),
    ("critical", "goes first, and every dispatch is journalled"),
    ("optional", "if it fails it is skipped with what needs it"),
];

/// The preset with this name.
pub fn preset<E>(name: &str) -> Option<Policy<E>> {
    let silent = Policy::default();
    Some(match name {
        "once" => Policy {
            retries: Some(0),
            ..silent
        },
        "quick" => Policy {
            retries: Some(3),
            backoff: Some(Backoff::Exponential),
            base_delay: Some(Span::from_millis(100)),
            max_delay: Some(Span::from_secs(2)),
            ..silent
        },
        "network" => Policy {
            retries: Some(5),
            backoff: Some(Backoff::Jitter),
            base_delay: Some(Span::from_millis(500)),
            max_delay: Some(Span::from_secs(30)),
            timeout: Some(Span::from_secs(30)),
            never_retry_on: Some(vec![kind::UNKNOWN_ACTION.into()]),
            ..silent
        },
        "patient" => Policy {
            retries: Some(12),
            backoff: Some(Backoff::Jitter),
            base_delay: Some(Span::from_secs(5)),
            max_delay: Some(Span::from_secs(600)),
            ..silent
        },
        "critical" => Policy {
            priority: Some(Priority::HIGHEST),
            durable: Some(true),
            ..silent
        },
        "optional" => Policy {
            on_failure: Some(OnFailure::Skip),
            ..silent
        },
        _ => return None,
    })
}

/// The presets with these names laid over each other, the last on top; the first unknown name
/// otherwise.
pub fn compose<'a, E: Clone>(names: &[&'a str]) -> Result<Policy<E>, &'a str> {
    names.iter().try_fold(Policy::default(), |below, name| {
        preset(name)
            .map(|top: Policy<E>| top.over(&below))
            .ok_or(*name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_compose_and_every_listed_one_exists() {
        for (name, _) in PRESETS {
            assert!(preset::<()>(name).is_some(), "{name}");
        }
        let both: Policy<()> = compose(&["network", "optional", "once"]).unwrap();
        assert_eq!(
            (both.retries, both.timeout),
            (Some(0), Some(Span::from_secs(30)))
        );
        assert_eq!(both.on_failure, Some(OnFailure::Skip));
        assert_eq!(compose::<()>(&["network", "netwrk"]), Err("netwrk"));
    }
}
