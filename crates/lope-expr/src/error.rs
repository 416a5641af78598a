//! Text that is not an expression: what is wrong with it, and where. Failed evaluations are
//! `lope_values::EvalError`.

use lope_values::TextLocation;
use thiserror::Error;

/// Text that is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Byte offset in the text that was parsed.
    pub offset: usize,
    pub at: TextLocation,
    pub message: String,
    pub hint: Option<String>,
}
