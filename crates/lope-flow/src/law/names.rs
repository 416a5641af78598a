//! What expressions see: the names of their block and of those around it, and what the law itself
//! binds.

use lope_definition::scope::SlotAddress;
use lope_expr::Scope;
use lope_model::{Failure, Value};

use super::arena::Key;
use super::plan::Plan;
use super::state::State;

/// The names that an expression in an open block sees.
pub(crate) struct BlockNames<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a State,
    pub(crate) act: Key,
    /// Bound by the law for this one expression.
    pub(crate) extra: &'a [(&'static str, Value)],
}

impl BlockNames<'_> {
    fn address(&self, address: SlotAddress) -> Option<&Value> {
        let act = self
            .state
            .acts
            .get(self.state.outward(self.act, address.hops)?)?;
        act.slots.get(address.slot as usize)?.as_ref()
    }
}

impl Scope for BlockNames<'_> {
    fn lookup(&self, name: &str) -> Option<&Value> {
        if let Some((_, value)) = self.extra.iter().find(|(known, _)| *known == name) {
            return Some(value);
        }
        let act = self.state.acts.get(self.act)?;
        match name {
            "input" => self
                .state
                .inputs
                .get(&act.input)
                .map(|input| &input.fed.value),
            "run" => Some(self.state.run_value()),
            "env" => self.state.run.as_ref().map(|run| &run.env),
            _ => self.address(self.plan.scopes.resolve(act.block, name)?),
        }
    }

    fn slot(&self, slot: u32) -> Option<&Value> {
        self.address(*self.plan.addresses.get(slot as usize)?)
    }
}

impl State {
    /// The block that many blocks around an open one.
    pub(crate) fn outward(&self, act: Key, hops: u32) -> Option<Key> {
        let mut key = act;
        for _ in 0..hops {
            key = self.execs.get(self.acts.get(key)?.parent?)?.act;
        }
        Some(key)
    }
}

/// A failure as handlers see it.
pub(crate) fn failure_value(failure: &Failure) -> Value {
    let mut entries: Vec<(&str, Value)> = vec![
        ("type", Value::Str(failure.kind.clone())),
        ("message", Value::str(&failure.message)),
    ];
    if !failure.bases.is_empty() {
        entries.push((
            "bases",
            Value::list(
                failure
                    .bases
                    .iter()
                    .map(|base| Value::Str(base.clone()))
                    .collect(),
            ),
        ));
    }
    let texts = [
        ("step", failure.step.as_deref()),
        ("traceback", failure.traceback.as_deref()),
    ];
    entries.extend(
        texts
            .into_iter()
            .filter_map(|(name, text)| text.map(|text| (name, Value::str(text)))),
    );
    entries.extend(
        failure
            .attempt
            .map(|attempt| ("attempt", Value::Int(attempt.into()))),
    );
    if !failure.detail.is_null() {
        entries.push(("detail", failure.detail.clone()));
    }
    Value::map(entries)
}

/// The failure that a `raise` means: a map as handlers see it, an exception, or a text.
pub(crate) fn failure_of(value: &Value) -> Result<Failure, Failure> {
    if let Value::Tag(tag) = value
        && &*tag.name == "exception"
    {
        return failure_of(&tag.value);
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    match value {
        Value::Str(message) => Ok(Failure::new("Error", &**message)),
        Value::Map(_) => {
            let mut failure = Failure::new(
                text("type").unwrap_or("Error"),
                text("message").unwrap_or_default(),
            );
            if let Some(bases) = value.get("bases").and_then(Value::as_list) {
                failure.bases = bases
                    .iter()
                    .filter_map(|base| base.as_str().map(Into::into))
                    .collect();
            }
            failure.traceback = text("traceback").map(Into::into);
            failure.detail = value.get("detail").cloned().unwrap_or_default();
            Ok(failure)
        }
        other => Err(Failure::new(
            "TypeError",
            format!(
                "'raise' needs a map with type and message, not {}",
                other.kind()
            ),
        )),
    }
}
