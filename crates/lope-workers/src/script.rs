//! JavaScript, as the executor of `js` steps: an expression, or a function that is called with the
//! step's arguments.
//!
//! Every attempt has a fresh sandbox with bounded memory and stack, and nothing to reach outside
//! it. A cancel or a timeout interrupts it. Entries of `with` are variables of an expression and
//! properties of a function's argument. Values cross as JSON; promises are driven to their end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::{Failure, Value, failure, limit, value};
use rquickjs::promise::MaybePromise;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Runtime};
use tokio::runtime::Handle;

/// Most memory of one script.
const MEMORY_MAX: usize = 128 * 1024 * 1024;
/// Largest stack of one script; threads of the pool have 2 MiB.
const STACK_MAX: usize = 512 * 1024;

/// Runs scripts.
#[derive(Debug)]
pub struct Scripts {
    runtime: Handle,
    running: Arc<Mutex<HashMap<Token, Arc<AtomicBool>>>>,
}

impl Scripts {
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            running: Arc::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, Arc<AtomicBool>>> {
        self.running
            .lock()
            .expect("no panic while the lock is held")
    }
}

impl Executor for Scripts {
    fn returns_at_once(&self) -> bool {
        true
    }

    fn start(&self, task: Task, done: Done) {
        let stop = Arc::new(AtomicBool::new(false));
        self.lock().insert(task.token.clone(), Arc::clone(&stop));
        let running = Arc::clone(&self.running);
        self.runtime.spawn_blocking(move || {
            let result = run(&task.arguments, &stop);
            running
                .lock()
                .expect("no panic while the lock is held")
                .remove(&task.token);
            done.finish(result, None);
        });
    }

    fn cancel(&self, token: &Token) {
        if let Some(stop) = self.lock().get(token) {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

fn run(arguments: &Value, stop: &Arc<AtomicBool>) -> Result<Value, Failure> {
    let source = arguments
        .get("source")
        .and_then(Value::as_str)
        .ok_or_else(|| Failure::new("BadArguments", "a script needs its source"))?;
    let with = arguments
        .get("with")
        .filter(|with| !with.is_null())
        .cloned();
    let with = with.unwrap_or_else(|| Value::map::<&str>([]));
    let sandbox =
        |error: rquickjs::Error| Failure::new("ScriptError", format!("no sandbox: {error}"));
    let runtime = Runtime::new().map_err(sandbox)?;
    runtime.set_memory_limit(MEMORY_MAX);
    runtime.set_max_stack_size(STACK_MAX);
    let asked = Arc::clone(stop);
    runtime.set_interrupt_handler(Some(Box::new(move || asked.load(Ordering::Relaxed))));
    let context = Context::full(&runtime).map_err(sandbox)?;
    let answer = context.with(|ctx| {
        let answer = evaluate(&ctx, source, &with);
        answer
            .catch(&ctx)
            .map_err(|error| describe(error, stop.load(Ordering::Relaxed)))
    })?;
    if answer.len() > limit::PAYLOAD_MAX {
        let message = format!(
            "its result has {} bytes, more than {} are allowed",
            answer.len(),
            limit::PAYLOAD_MAX
        );
        return Err(Failure::new(failure::kind::LIMIT, message));
    }
    value::from_json(&answer).map_err(|error| Failure::new("ScriptError", error.to_string()))
}

/// The script's value as JSON; `undefined` is null.
fn evaluate(ctx: &Ctx<'_>, source: &str, with: &Value) -> rquickjs::Result<String> {
    let arguments = ctx.json_parse(with.to_string())?;
    for name in with.as_map().iter().flat_map(|map| map.keys()) {
        let entry: rquickjs::Value = arguments
            .as_object()
            .map_or_else(|| Ok(arguments.clone()), |map| map.get(&**name))?;
        ctx.globals().set(&**name, entry)?;
    }
    // In parentheses a function or an object is an expression; what is none then (several
    // statements) is run as it stands.
    let evaluated = match ctx.eval::<rquickjs::Value, _>(format!("({source}\n)")) {
        Err(rquickjs::Error::Exception) if is_syntax_error(ctx) => ctx.eval(source)?,
        other => other?,
    };
    let called = match evaluated.as_function() {
        Some(function) => function.call::<_, MaybePromise>((arguments,))?,
        None => ctx
            .eval::<rquickjs::Function, _>("(value => value)")?
            .call((evaluated,))?,
    };
    let value: rquickjs::Value = called.finish()?;
    let text = ctx.json_stringify(value)?;
    text.map_or_else(|| Ok("null".to_owned()), |text| text.to_string())
}

/// Takes the pending exception; puts it back unless it is a `SyntaxError`.
fn is_syntax_error(ctx: &Ctx<'_>) -> bool {
    let thrown = ctx.catch();
    let name = thrown
        .as_object()
        .and_then(|error| error.get::<_, String>("name").ok());
    if name.as_deref() == Some("SyntaxError") {
        return true;
    }
    let _pending = ctx.throw(thrown);
    false
}

/// A thrown error keeps its name, message and stack; anything else thrown is shown as it is.
fn describe(error: CaughtError<'_>, stopped: bool) -> Failure {
    if stopped {
        return Failure::new(failure::kind::CANCELLED, "the script was stopped");
    }
    match error {
        CaughtError::Exception(exception) => {
            let name = exception
                .as_object()
                .get::<_, String>("name")
                .unwrap_or_else(|_| "Error".to_owned());
            let mut failure = Failure::new(&name, exception.message().unwrap_or_default());
            failure.traceback = exception.stack();
            failure
        }
        CaughtError::Value(thrown) => {
            let text = thrown.as_string().and_then(|text| text.to_string().ok());
            Failure::new(
                "Error",
                text.unwrap_or_else(|| format!("{} was thrown", shown(&thrown))),
            )
        }
        CaughtError::Error(error) => Failure::new("ScriptError", error.to_string()),
    }
}

/// A value as JSON; of one that has none, its type.
fn shown(value: &rquickjs::Value<'_>) -> String {
    let json = value.ctx().json_stringify(value.clone()).ok().flatten();
    let json = json.and_then(|json| json.to_string().ok());
    json.unwrap_or_else(|| format!("a {}", value.type_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_tests::Bench;

    fn js(source: &str, with: &str) -> Result<Value, Failure> {
        let source = serde_json::json!(source);
        Bench::new(Scripts::new).run("js", &format!(r#"{{"source": {source}, "with": {with}}}"#))
    }

    #[test]
    fn an_expression_a_function_and_a_promise_have_values() {
        assert_eq!(js("a + 1", r#"{"a": 1}"#), Ok(Value::Int(2)));
        assert_eq!(
            js("({a}) => a.map(x => x * 2)", r#"{"a": [1, 2]}"#),
            Ok(vec![Value::Int(2), Value::Int(4)].into())
        );
        assert_eq!(
            js("async (with_) => ({n: await with_.n})", r#"{"n": 7}"#),
            Ok(Value::map([("n", Value::Int(7))]))
        );
        assert_eq!(js("{n: 1}", "null"), Ok(Value::map([("n", Value::Int(1))])));
        assert_eq!(js("const b = 2; b * 2", "{}"), Ok(Value::Int(4)));
        assert_eq!(js("undefined", "{}"), Ok(Value::Null));
    }

    #[test]
    fn what_is_thrown_is_a_failure_of_its_type() {
        let failure = js("() => { throw new RangeError('too far') }", "{}").unwrap_err();
        assert_eq!(
            (&*failure.kind, failure.message.as_str()),
            ("RangeError", "too far")
        );
        assert!(failure.traceback.is_some());
        assert_eq!(
            js("() => { throw 'plain' }", "{}").unwrap_err().message,
            "plain"
        );
        assert_eq!(&*js("nobody", "{}").unwrap_err().kind, "ReferenceError");
        assert_eq!(&*js("1 +", "{}").unwrap_err().kind, "SyntaxError");
        assert_eq!(
            &*js("async () => { throw new TypeError('x') }", "{}")
                .unwrap_err()
                .kind,
            "TypeError"
        );
    }

    #[test]
    fn memory_and_stack_are_bounded_and_nothing_is_reachable() {
        assert!(
            js(
                "() => { let a = []; for (;;) a.push(new Array(1e6).fill(0)) }",
                "{}"
            )
            .is_err()
        );
        assert!(js("() => { const f = () => f() + 1; return f() }", "{}").is_err());
        assert_eq!(
            js(
                "typeof fetch + typeof require + typeof std + typeof os",
                "{}"
            ),
            Ok(Value::from("undefined".repeat(4)))
        );
    }

    #[test]
    fn an_endless_script_can_be_stopped() {
        let bench = Bench::new(Scripts::new);
        let token = bench.start("js", r#"{"source": "() => { for (;;) {} }"}"#);
        bench.executor.cancel(&token);
        assert_eq!(
            &*bench.outcome().unwrap_err().kind,
            failure::kind::CANCELLED
        );
    }
}
