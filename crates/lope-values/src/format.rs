//! Values put into text by Python's format specs:
//! `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
//!
//! What f-strings and `format()` do is here; `str.format` is in `braces`, the `%` operator in
//! `percent`.

use lope_model::Value;

use super::error::EvalError;
use super::fuel::Fuel;
use super::py;
use crate::unicode;

mod braces;
mod numeric;
mod percent;

pub use braces::braces;
pub use percent::percent;

/// Widest field and most digits behind the point that a spec may ask for.
const WIDTH_MAX: usize = 1 << 20;
const PRECISION_MAX: usize = 2_000;

/// A format spec, read.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str, value: &Value) -> Result<Self, EvalError> {
        let invalid =
            || EvalError::value("Invalid format specifier".to_owned() + &for_type(text, value));
        let chars: Vec<char> = text.chars().collect();
        let mut rest = chars.as_slice();
        let mut spec = Self::default();
        spec.read_align(&mut rest);
        spec.sign = take(&mut rest, |c| matches!(c, '+' | '-' | ' '));
        spec.alternate = take(&mut rest, |c| c == '#').is_some();
        if take(&mut rest, |c| c == '0').is_some() {
            spec.fill = spec.fill.or(Some('0'));
            spec.align = spec
                .align
                .or_else(|| (!matches!(value, Value::Str(_))).then_some('='));
        }
        spec.width = number(&mut rest)?.unwrap_or(0);
        if spec.width > WIDTH_MAX {
            return Err(EvalError::value(format!(
                "a width of more than {WIDTH_MAX} is not supported"
            )));
        }
        spec.grouping = take(&mut rest, |c| matches!(c, ',' | '_'));
        if take(&mut rest, |c| c == '.').is_some() {
            let digits = number(&mut rest)?
                .ok_or_else(|| EvalError::value("Format specifier missing precision"))?;
            spec.precision = Some(digits);
        }
        spec.kind = take(&mut rest, |c| unicode::is_alphabetic(c) || c == '%');
        if !rest.is_empty() {
            return Err(invalid());
        }
        spec.check_grouping().map(|()| spec)
    }

    /// Commas go with decimal digits, underscores also with those of other bases.
    fn check_grouping(&self) -> Result<(), EvalError> {
        let (Some(separator), Some(kind)) = (self.grouping, self.kind) else {
            return Ok(());
        };
        let groups = if separator == ',' {
            "deEfFgG%"
        } else {
            "deEfFgG%boxX"
        };
        if groups.contains(kind) {
            return Ok(());
        }
        Err(EvalError::value(format!(
            "Cannot specify '{separator}' with '{kind}'."
        )))
    }

    fn read_align(&mut self, rest: &mut &[char]) {
        let is_align = |c: char| matches!(c, '<' | '>' | '=' | '^');
        match rest {
            [fill, align, tail @ ..] if is_align(*align) => {
                (self.fill, self.align) = (Some(*fill), Some(*align));
                *rest = tail;
            }
            _ => self.align = take(rest, is_align),
        }
    }

    /// Fills `body` to the width; `lead` is the sign or prefix that `=` keeps in front of the
    /// filling.
    fn pad(
        &self,
        lead: &str,
        body: &str,
        default: char,
        fuel: &mut Fuel,
    ) -> Result<String, EvalError> {
        let length = lead.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        fuel.grow((self.width * 4 + lead.len() + body.len()) as u64)?;
        let fill = |count: usize| self.fill.unwrap_or(' ').to_string().repeat(count);
        Ok(match self.align.unwrap_or(default) {
            '<' => format!("{lead}{body}{}", fill(missing)),
            '^' => format!(
                "{}{lead}{body}{}",
                fill(missing / 2),
                fill(missing - missing / 2)
            ),
            '=' => format!("{lead}{}{body}", fill(missing)),
            _ => format!("{}{lead}{body}", fill(missing)),
        })
    }
}

fn take(rest: &mut &[char], wanted: impl Fn(char) -> bool) -> Option<char> {
    let (first, tail) = rest.split_first().filter(|(first, _)| wanted(**first))?;
    *rest = tail;
    Some(*first)
}

fn number(rest: &mut &[char]) -> Result<Option<usize>, EvalError> {
    let mut digits = String::new();
    while let Some(digit) = take(rest, |c| c.is_ascii_digit()) {
        digits.push(digit);
    }
    if digits.is_empty() {
        return Ok(None);
    }
    digits
        .parse()
        .map(Some)
        .map_err(|_| EvalError::value("Too many decimal digits in format string"))
}

fn for_type(spec: &str, value: &Value) -> String {
    format!(" '{spec}' for object of type '{}'", py::type_name(value))
}

/// `format(value, spec)`.
pub fn format(value: &Value, spec: &str, fuel: &mut Fuel) -> Result<String, EvalError> {
    if spec.is_empty() {
        return py::str_of(value, fuel);
    }
    match value {
        Value::Str(text) => format_text(text, value, spec, fuel),
        Value::Bool(_) | Value::Int(_) => numeric::format_int(value, spec, fuel),
        Value::Float(number) => numeric::format_float(*number, value, spec, fuel),
        other => {
            super::text::no_secret(other)?;
            let kind = py::type_name(other);
            Err(EvalError::typed(format!(
                "unsupported format string passed to {kind}.__format__"
            )))
        }
    }
}

fn unknown_code(code: char, value: &Value) -> EvalError {
    EvalError::value(format!(
        "Unknown format code '{code}' for object of type '{}'",
        py::type_name(value)
    ))
}

fn format_text(
    text: &str,
    value: &Value,
    spec: &str,
    fuel: &mut Fuel,
) -> Result<String, EvalError> {
    let spec = Spec::parse(spec, value)?;
    match spec {
        Spec {
            kind: Some(code), ..
        } if code != 's' => return Err(unknown_code(code, value)),
        Spec {
            sign: Some(' '), ..
        } => {
            return Err(EvalError::value(
                "Space not allowed in string format specifier",
            ));
        }
        Spec { sign: Some(_), .. } => {
            return Err(EvalError::value(
                "Sign not allowed in string format specifier",
            ));
        }
        Spec {
            alternate: true, ..
        } => {
            return Err(EvalError::value(
                "Alternate form (#) not allowed in string format specifier",
            ));
        }
        Spec {
            align: Some('='), ..
        } => {
            return Err(EvalError::value(
                "'=' alignment not allowed in string format specifier",
            ));
        }
        Spec {
            grouping: Some(sign),
            ..
        } => {
            return Err(EvalError::value(format!(
                "Cannot specify '{sign}' with 's'."
            )));
        }
        _ => {}
    }
    let cut: String = text
        .chars()
        .take(spec.precision.unwrap_or(usize::MAX))
        .collect();
    spec.pad("", &cut, '<', fuel)
}
