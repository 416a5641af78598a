//! The limits of the law. All of them are part of it: another number may give other effects.

use lope_model::Span;

/// Most attempts of one run in flight, and most elements of one `each` open at once.
pub const WINDOW_MAX: u32 = 1_024;
/// Above this many live blocks an `each` opens no second element beside its first.
pub const CROWD: usize = 16_384;
/// Most inputs of one run at work at once; more wait.
pub const INPUTS_MAX: usize = 1_024;
/// Deepest live nesting of blocks, calls included.
pub const DEPTH_MAX: u32 = 10_000;
/// Most signals that wait for somebody to want them; more are dropped, with a notice.
pub const SIGNALS_MAX: usize = 10_000;
/// Results of one `each`, in bytes.
pub const RESULTS_MAX: usize = 256 * 1024 * 1024;
/// Results of an `each` are kept in chunks of this many.
pub const CHUNK: usize = 512;
/// How long `finally` may take after a cancel, where the definition does not say.
pub const GRACE: Span = Span::from_secs(30);

/// What one turn of the machine costs, beside evaluation.
pub const TURN_FUEL: u64 = 30;
/// How much fuel one slice may use before the caller gets a say.
pub const SLICE_FUEL: u64 = 1_000_000;
/// How much fuel one event may use; then the step at hand fails as `Limit`.
pub const EVENT_FUEL: u64 = 100_000_000;
/// What handlers may use after that; then the input fails for good.
pub const HANDLER_FUEL: u64 = 10_000_000;
/// How much fuel one evaluation may use.
pub const EVAL_FUEL: u64 = 20_000_000;
