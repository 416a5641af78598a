//! Secrets: opaque references in arguments become values here, when the task is about to start, and
//! nowhere before.
//!
//! Only the names that the step's own template holds are resolved; a reference that came in with
//! data is refused. What was resolved is taken out again of whatever the worker answers and of what
//! it logs.

use std::fmt;
use std::sync::Arc;

use lope_model::{Failure, Value};

pub use lope_model::masks::{MASK, Masks};

use crate::{SECRET, SECRET_TEXT};

/// The type of failure of a step whose secret is not to be had.
pub const MISSING: &str = "MissingSecret";
/// Where the values of secrets are found.
pub trait Secrets: Send + Sync + fmt::Debug {
    /// The value, or why there is none.
    fn value(&self, name: &str) -> Result<String, String>;
}

/// The arguments with every reference replaced by its value, and what must be hidden from then on.
pub fn resolve(
    arguments: &Value,
    named: &[Arc<str>],
    secrets: Option<&dyn Secrets>,
) -> Result<(Value, Masks), Failure> {
    let mut found = Vec::new();
    let mut look_up = |name: &str| {
        let missing = |why: &str| Failure::new(MISSING, format!("the secret '{name}' {why}"));
        if !named.iter().any(|known| &**known == name) {
            return Err(missing("is not named by this step"));
        }
        let secrets = secrets.ok_or_else(|| missing("is not known to this runner: it has none"))?;
        let value: Arc<str> = secrets.value(name).map_err(|why| missing(&why))?.into();
        found.push(Arc::clone(&value));
        Ok(value)
    };
    let resolved = replace(arguments, &mut look_up)?;
    Ok((resolved, Masks::of(found)))
}

type LookUp<'a> = dyn FnMut(&str) -> Result<Arc<str>, Failure> + 'a;

fn replace(value: &Value, look_up: &mut LookUp<'_>) -> Result<Value, Failure> {
    Ok(match value {
        Value::Tag(tag) if &*tag.name == SECRET => {
            Value::Str(look_up(tag.value.as_str().unwrap_or_default())?)
        }
        Value::Tag(tag) if &*tag.name == SECRET_TEXT => {
            let mut text = String::new();
            for part in tag.value.as_list().unwrap_or_default() {
                text.push_str(replace(part, look_up)?.as_str().unwrap_or_default());
            }
            Value::from(text)
        }
        Value::Tag(tag) => Value::tag(&tag.name, replace(&tag.value, look_up)?),
        Value::List(items) => {
            let items = items.iter().map(|item| replace(item, look_up));
            Value::list(items.collect::<Result<Vec<_>, _>>()?)
        }
        Value::Map(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| Ok((key, replace(value, look_up)?)));
            let entries = entries.collect::<Result<Vec<_>, Failure>>()?;
            Value::map(entries.iter().map(|(key, value)| (&***key, value.clone())))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Bytes(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct One;

    impl Secrets for One {
        fn value(&self, name: &str) -> Result<String, String> {
            if name == "token" {
                Ok("s3cr3t".to_owned())
            } else {
                Err("is not configured".to_owned())
            }
        }
    }

    fn secret(name: &str) -> Value {
        Value::tag(SECRET, Value::from(name))
    }

    #[test]
    fn references_become_values_in_texts_and_by_themselves() {
        let text = Value::tag(
            SECRET_TEXT,
            Value::list(vec![Value::from("Bearer "), secret("token")]),
        );
        let arguments = Value::map([
            ("headers", Value::map([("auth", text)])),
            ("plain", Value::Int(1)),
            ("t", secret("token")),
        ]);
        let (resolved, masks) = resolve(&arguments, &["token".into()], Some(&One)).unwrap();
        assert_eq!(
            resolved.get("headers").unwrap().get("auth"),
            Some(&Value::from("Bearer s3cr3t"))
        );
        assert_eq!(
            (resolved.get("t"), resolved.get("plain")),
            (Some(&Value::from("s3cr3t")), Some(&Value::Int(1)))
        );
        let answer = Value::list(vec![
            Value::from("got s3cr3t!"),
            Value::map([("s3cr3t", Value::Int(1))]),
        ]);
        assert_eq!(
            masks.hide_in(answer).to_string(),
            r#"["got ***!",{"***":1}]"#
        );
        let failure = masks.hide_in_failure(Failure::new("E", "bad s3cr3t"));
        assert_eq!(failure.message, "bad ***");
    }

    #[test]
    fn what_is_not_named_by_the_step_or_not_there_is_refused() {
        let rows = [
            (
                vec!["token".into()],
                "other",
                "the secret 'other' is not named by this step",
            ),
            (
                vec!["other".into()],
                "other",
                "the secret 'other' is not configured",
            ),
        ];
        for (named, name, expected) in rows {
            let failure = resolve(&secret(name), &named, Some(&One)).unwrap_err();
            assert_eq!(
                (&*failure.kind, failure.message.as_str()),
                (MISSING, expected)
            );
        }
        let none = resolve(&secret("token"), &["token".into()], None).unwrap_err();
        assert!(none.message.contains("it has none"), "{none:?}");
    }
}
