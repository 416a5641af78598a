//! JavaScript functions over cells, in QuickJS: no clock, no randomness, no compiler, frozen
//! built-ins; fuel, memory and stack are bounded.
//!
//! A function is compiled once and made anew for every call, so that nothing it keeps outlives the
//! call. Fuel is counted in steps of the engine, not in time: the same call uses the same on every
//! machine, to within one interrupt. Loops inside the engine are paid for by the size of what they go
//! through (`prelude.js`) and of the memory that they ask for (`meter`). After a limit was hit the sandbox
//! is thrown away and the next call gets a fresh one.

mod cells;
mod meter;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lope_model::{Failure, failure, limit::PAYLOAD_MAX};
use rquickjs::context::intrinsic;
use rquickjs::promise::MaybePromise;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, Object, Persistent, Runtime, Value,
};

use crate::json::Json;
use crate::project::Projected;
use crate::transaction::Transaction;
use cells::{CallCells, answer, encode};
use meter::{FuelMeter, MeteredAllocator};

/// The built-ins that scripts have. The compiler is needed to compile the functions themselves and
/// is taken away from them. There are no proxies: one could tell each loop inside the engine another length.
type Builtins = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

const PRELUDE: &str = include_str!("javascript/prelude.js");

/// JavaScript, as whoever calls scripts needs it.
pub trait ScriptHost: fmt::Debug {
    /// Calls the function that `source` is. No value means undefined.
    fn call(
        &mut self,
        source: &Arc<str>,
        arguments: &[Projected],
        transaction: &mut Transaction,
    ) -> Result<Option<Json>, Failure>;
}

/// What a script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// Interrupts in one call; between two of them are 10,000 calls and loops.
    pub fuel: u64,
    /// Time of the processor that one call may take: for what nothing else ends.
    pub time: Duration,
    /// Bytes of all functions of a space together.
    pub memory: usize,
    pub stack: usize,
    /// Elements that one operation on a list may go through.
    pub elements: usize,
    /// Compiled functions that are kept.
    pub functions: usize,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            fuel: 1_000,
            time: Duration::from_secs(20),
            memory: 64 * 1024 * 1024,
            stack: 256 * 1024,
            elements: 10_000_000,
            functions: 4_096,
        }
    }
}

/// The scripts of one space.
#[derive(Debug, Default)]
pub struct JavaScript {
    limits: ScriptLimits,
    /// Made when the first script is called.
    sandbox: Option<Sandbox>,
}

/// Values of the engine stand before the engine: they must be gone first.
struct Sandbox {
    functions: HashMap<Arc<str>, Persistent<Function<'static>>>,
    invoke: Persistent<Function<'static>>,
    show: Persistent<Function<'static>>,
    context: Context,
    runtime: Runtime,
    fuel: FuelMeter,
    cells: Rc<RefCell<CallCells>>,
}

impl JavaScript {
    pub fn new(limits: ScriptLimits) -> Self {
        Self {
            limits,
            sandbox: None,
        }
    }

    /// How many functions are compiled and kept.
    pub fn compiled(&self) -> usize {
        let sandbox = self.sandbox.as_ref();
        sandbox.map_or(0, |sandbox| sandbox.functions.len())
    }
}

impl JavaScript {
    /// Whether a source is a function; nothing of it is run.
    pub fn check(&mut self, source: &str) -> Result<(), Failure> {
        let sandbox = self.take_sandbox()?;
        sandbox.compiles(self.limits, source)?;
        sandbox.validate_literals(self.limits, source)?;
        self.sandbox = Some(sandbox);
        Ok(())
    }

    /// The sandbox, for whoever gives it back if it can be used again.
    fn take_sandbox(&mut self) -> Result<Sandbox, Failure> {
        match self.sandbox.take() {
            Some(sandbox) => Ok(sandbox),
            None => Sandbox::new(self.limits).map_err(no_sandbox),
        }
    }
}

/// The source of what makes a function anew for each call.
fn wrapped(source: &str) -> String {
    format!("(function () {{ \"use strict\"; return (\n{source}\n); }})")
}

impl ScriptHost for JavaScript {
    fn call(
        &mut self,
        source: &Arc<str>,
        arguments: &[Projected],
        transaction: &mut Transaction,
    ) -> Result<Option<Json>, Failure> {
        let mut sandbox = self.take_sandbox()?;
        if !sandbox.functions.contains_key(source) {
            sandbox.validate_literals(self.limits, source)?;
        }
        let outcome = sandbox.call(self.limits, source, arguments, transaction);
        let is_spent = matches!(&outcome, Err(failed) if &*failed.kind == failure::kind::LIMIT);
        if !is_spent && sandbox.settle() {
            self.sandbox = Some(sandbox);
        }
        outcome
    }
}

impl Sandbox {
    fn new(limits: ScriptLimits) -> rquickjs::Result<Self> {
        let fuel = FuelMeter::default();
        fuel.fill(limits.fuel.max(ScriptLimits::default().fuel), limits.time);
        let runtime = Runtime::new_with_alloc(MeteredAllocator(fuel.clone()))?;
        runtime.set_memory_limit(limits.memory);
        runtime.set_max_stack_size(limits.stack);
        let context = Context::custom::<Builtins>(&runtime)?;
        let cells = Rc::new(RefCell::new(CallCells::default()));
        let (invoke, show) = context.with(|ctx| prelude(&ctx, limits, &cells, &fuel))?;
        let left = fuel.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || !left.take_interrupt())));
        Ok(Self {
            functions: HashMap::new(),
            invoke,
            show,
            context,
            runtime,
            fuel,
            cells,
        })
    }

    fn call(
        &mut self,
        limits: ScriptLimits,
        source: &Arc<str>,
        arguments: &[Projected],
        transaction: &mut Transaction,
    ) -> Result<Option<Json>, Failure> {
        self.fuel.fill(limits.fuel, limits.time);
        if self.functions.len() >= limits.functions {
            self.functions.clear();
        }
        self.cells.borrow_mut().begin(transaction);
        let (texts, places) = encode(arguments, &mut self.cells.borrow_mut());
        let context = self.context.clone();
        let outcome = context.with(|ctx| {
            let shown = self.evaluate(&ctx, source, texts, places);
            let spent = self.fuel.spent();
            let shown = shown.catch(&ctx);
            shown.map_err(|error| spent.unwrap_or_else(|| describe(error)))
        });
        self.cells.borrow_mut().end(transaction);
        let Some(text) = outcome? else {
            return Ok(None);
        };
        if text.len() > PAYLOAD_MAX {
            let message = format!(
                "its result has {} bytes, more than {PAYLOAD_MAX}",
                text.len()
            );
            return Err(Failure::new("TooLarge", message));
        }
        let parsed = Json::parse(&text);
        parsed
            .map(Some)
            .map_err(|error| Failure::new("ScriptError", error.to_string()))
    }

    /// Whether a source can be compiled; nothing of it is run.
    fn compiles(&self, limits: ScriptLimits, source: &str) -> Result<(), Failure> {
        self.fuel.fill(limits.fuel, limits.time);
        self.context.with(|ctx| {
            let compiled = ctx.eval::<Function, _>(wrapped(source)).catch(&ctx);
            compiled.map(|_| ()).map_err(describe)
        })
    }

    /// Refuses literals like `12n`: arithmetic on numbers without bound cannot be interrupted. Those in
    /// texts, patterns and comments are no literals: the source can be compiled without them.
    fn validate_literals(&self, limits: ScriptLimits, source: &str) -> Result<(), Failure> {
        let Some(without) = without_big_integers(source) else {
            return Ok(());
        };
        let refused = || Failure::new("SyntaxError", "there are no big integers here");
        self.compiles(limits, &without).map_err(|_| refused())
    }

    /// The function's value as JSON; none for undefined.
    fn evaluate(
        &mut self,
        ctx: &Ctx<'_>,
        source: &Arc<str>,
        texts: String,
        places: String,
    ) -> rquickjs::Result<Option<String>> {
        let factory = match self.functions.get(source) {
            Some(known) => known.clone().restore(ctx)?,
            None => {
                let compiled: Function = ctx.eval(wrapped(source))?;
                let kept = Persistent::save(ctx, compiled.clone());
                self.functions.insert(Arc::clone(source), kept);
                compiled
            }
        };
        let invoke = self.invoke.clone().restore(ctx)?;
        let called: MaybePromise = invoke.call((factory, texts, places))?;
        let value: Value = called.finish()?;
        self.show.clone().restore(ctx)?.call((value,))
    }

    /// Runs what the call left behind; says whether the sandbox can be used again.
    fn settle(&mut self) -> bool {
        while !self.fuel.is_empty() && self.runtime.is_job_pending() {
            if self.runtime.execute_pending_job().is_err() {
                return false;
            }
        }
        !self.fuel.is_empty()
    }
}

type Entrances = (Persistent<Function<'static>>, Persistent<Function<'static>>);

fn prelude(
    ctx: &Ctx<'_>,
    limits: ScriptLimits,
    cells: &Rc<RefCell<CallCells>>,
    fuel: &FuelMeter,
) -> rquickjs::Result<Entrances> {
    let cells = Rc::clone(cells);
    let fuel = fuel.clone();
    let charge = Function::new(ctx.clone(), move |steps: f64| fuel.take(steps as u64))?;
    let host = Function::new(
        ctx.clone(),
        move |verb: String, index: usize, text: String| {
            answer(&mut cells.borrow_mut(), &verb, index, &text)
        },
    )?;
    let start: Function = ctx.eval(PRELUDE)?;
    let entrances: Object = start.call((host, charge, limits.elements))?;
    let save = |name: &str| {
        let function: Function = entrances.get(name)?;
        rquickjs::Result::Ok(Persistent::save(ctx, function))
    };
    Ok((save("invoke")?, save("show")?))
}

/// A source with an `@` in each word that looks like a big integer, so that it cannot be compiled if one of
/// them is; none if there is no such word.
fn without_big_integers(source: &str) -> Option<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let mut changed = String::new();
    let mut rest = source;
    while let Some(from) = rest.find(is_word) {
        let (before, word_and_rest) = rest.split_at(from);
        let length = word_and_rest.find(|letter| !is_word(letter));
        let (word, after) = word_and_rest.split_at(length.unwrap_or(word_and_rest.len()));
        changed.push_str(before);
        if is_big_integer(word) {
            changed.push('@');
        }
        changed.push_str(word);
        rest = after;
    }
    changed.push_str(rest);
    (changed.len() > source.len()).then_some(changed)
}

fn is_big_integer(word: &str) -> bool {
    let Some(digits) = word.strip_suffix('n') else {
        return false;
    };
    let radixes = [
        ("0x", 16),
        ("0X", 16),
        ("0o", 8),
        ("0O", 8),
        ("0b", 2),
        ("0B", 2),
    ];
    let based = radixes
        .iter()
        .find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)));
    let (digits, radix) = based.unwrap_or((digits, 10));
    let is_digit = |letter: char| letter == '_' || letter.is_digit(radix);
    !digits.is_empty()
        && digits.starts_with(|first: char| first.is_digit(radix))
        && digits.chars().all(is_digit)
}

/// A thrown error keeps its name, message and stack; what went beyond a limit of memory says so.
fn describe(error: CaughtError<'_>) -> Failure {
    match error {
        CaughtError::Exception(exception) => {
            let name = exception.as_object().get::<_, String>("name");
            let name = name.unwrap_or_else(|_| "Error".to_owned());
            let message = exception.message().unwrap_or_default();
            if message.contains("out of memory") || message.contains("call stack") {
                return Failure::new(failure::kind::LIMIT, message);
            }
            let mut failure = Failure::new(&name, message);
            failure.traceback = exception.stack();
            failure
        }
        CaughtError::Value(thrown) => {
            if thrown.is_null() {
                return Failure::new(failure::kind::LIMIT, "out of memory");
            }
            let text = thrown.as_string().and_then(|text| text.to_string().ok());
            let message = text.unwrap_or_else(|| format!("{} was thrown", shown(&thrown)));
            Failure::new("Error", message)
        }
        CaughtError::Error(rquickjs::Error::WouldBlock) => {
            Failure::new("ScriptError", "its promise never settles")
        }
        CaughtError::Error(error) => Failure::new("ScriptError", error.to_string()),
    }
}

/// A value as JSON; of one that has none, its type.
fn shown(value: &Value<'_>) -> String {
    let json = value.ctx().json_stringify(value.clone()).ok().flatten();
    let json = json.and_then(|json| json.to_string().ok());
    json.unwrap_or_else(|| format!("a {}", value.type_name()))
}

fn no_sandbox(error: rquickjs::Error) -> Failure {
    Failure::new("ScriptError", format!("no sandbox: {error}"))
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("functions", &self.functions.len())
            .finish_non_exhaustive()
    }
}
