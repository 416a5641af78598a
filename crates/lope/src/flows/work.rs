//! Closures as work: arguments come in as values, leave as values, and everything between is the
//! closure's own types.

use std::future::Future;
use std::sync::Arc;

use lope_model::{Failure, Value};
use lope_workers::function::{BoxedFunction, CallFuture};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::convert::{from_value, to_value};
use crate::step_error::StepError;

/// The type of a failure whose arguments or output do not fit their Rust types.
pub const BAD_VALUE: &str = "BadValue";

/// An async function of one argument: what a step does. Every `Fn(A) -> impl Future<Output =
/// StepResult<T>>` is one, for an `A` that can be read by serde and a `T` that can be written.
pub trait Work<A>: Send + Sync + 'static {
    fn into_function(self) -> BoxedFunction;
}

impl<A, T, F, W> Work<A> for F
where
    A: DeserializeOwned,
    T: Serialize,
    F: Fn(A) -> W + Send + Sync + 'static,
    W: Future<Output = Result<T, StepError>> + Send + 'static,
{
    fn into_function(self) -> BoxedFunction {
        Arc::new(move |value| match read::<A>(&value) {
            Ok(argument) => {
                let work = self(argument);
                let answer: CallFuture = Box::pin(async move { write(&work.await?) });
                answer
            }
            Err(failure) => at_once(Err(failure)),
        })
    }
}

/// A predicate as work: the answer is journalled, so that it is asked once.
pub(super) fn asked<A: DeserializeOwned + 'static>(
    holds: impl Fn(&A) -> bool + Send + Sync + 'static,
) -> BoxedFunction {
    Arc::new(move |value| at_once(read::<A>(&value).map(|argument| Value::Bool(holds(&argument)))))
}

/// A fold over a list.
pub(super) fn folded<S, T>(
    init: Value,
    fold: impl Fn(S, T) -> S + Send + Sync + 'static,
) -> BoxedFunction
where
    S: DeserializeOwned + Serialize + 'static,
    T: DeserializeOwned + 'static,
{
    Arc::new(move |value| {
        let total = read::<Vec<T>>(&value)
            .and_then(|items| Ok(items.into_iter().fold(read::<S>(&init)?, &fold)));
        at_once(total.and_then(|total| write(&total)))
    })
}

/// One step of an accumulator: `[previous, value]` to the next.
pub(super) fn accumulated<S, T>(next: impl Fn(S, T) -> S + Send + Sync + 'static) -> BoxedFunction
where
    S: DeserializeOwned + Serialize + 'static,
    T: DeserializeOwned + 'static,
{
    Arc::new(move |value| {
        let total = read::<(S, T)>(&value).map(|(previous, value)| next(previous, value));
        at_once(total.and_then(|total| write(&total)))
    })
}

/// A round of a loop: the next value and whether there is another round.
pub(super) fn round<A: DeserializeOwned + 'static>(
    work: Option<BoxedFunction>,
    again: impl Fn(&A) -> bool + Send + Sync + 'static,
) -> BoxedFunction {
    let again = Arc::new(again);
    Arc::new(move |value| {
        let again = Arc::clone(&again);
        let work = work.as_ref().map(Arc::clone);
        Box::pin(async move {
            let value = match work {
                Some(work) => work(value).await?,
                None => value,
            };
            let goes_on = again(&read::<A>(&value)?);
            Ok(Value::map([
                ("value", value),
                ("again", Value::Bool(goes_on)),
            ]))
        })
    })
}

fn read<A: DeserializeOwned>(value: &Value) -> Result<A, Failure> {
    from_value(value).map_err(|error| {
        let wanted = std::any::type_name::<A>();
        Failure::new(BAD_VALUE, format!("the argument is no {wanted}: {error}"))
    })
}

fn write<T: Serialize>(value: &T) -> Result<Value, Failure> {
    to_value(value).map_err(|error| {
        Failure::new(
            BAD_VALUE,
            format!("the output has no form as a value: {error}"),
        )
    })
}

fn at_once(result: Result<Value, Failure>) -> CallFuture {
    Box::pin(std::future::ready(result))
}
