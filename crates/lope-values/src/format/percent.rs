//! Python's `text % values`.

use lope_model::Value;

use super::{PRECISION_MAX, WIDTH_MAX, format};
use crate::error::{ErrorKind, EvalError};
use crate::fuel::Fuel;
use crate::py::{self, Dict};

/// The text with every conversion replaced by its value: one, a tuple of them, or those of a dict
/// by name.
pub fn percent(text: &str, values: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    crate::text::no_secret(values)?;
    let single = [values.clone()];
    let tuple = py::tagged(values, py::TUPLE);
    let mut arguments = Arguments {
        values,
        list: tuple.map_or(&single[..], |items| items),
        used: 0,
    };
    let mut filled = String::new();
    let mut rest = text;
    while let Some(index) = rest.find('%') {
        filled.push_str(&rest[..index]);
        rest = &rest[index + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            filled.push('%');
            rest = behind;
            continue;
        }
        let (mut conversion, behind) = Conversion::read(rest, &mut arguments)?;
        conversion.index = text[..text.len() - behind.len()].chars().count() - 1;
        filled.push_str(&conversion.fill(&mut arguments, fuel)?);
        rest = behind;
    }
    filled.push_str(rest);
    fuel.grow(filled.len() as u64)?;
    // Whatever can be indexed passes for a mapping, whose entries need not all be used.
    let mapping = matches!(values, Value::List(_) | Value::Bytes(_)) || Dict::of(values).is_some();
    if arguments.used < arguments.list.len() && !mapping {
        return Err(EvalError::typed(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(Value::from(filled))
}

struct Arguments<'v> {
    values: &'v Value,
    list: &'v [Value],
    used: usize,
}

impl Arguments<'_> {
    fn next(&mut self) -> Result<Value, EvalError> {
        self.used += 1;
        let found = self.list.get(self.used - 1).cloned();
        found.ok_or_else(|| EvalError::typed("not enough arguments for format string"))
    }

    fn named(&mut self, name: &str, fuel: &mut Fuel) -> Result<Value, EvalError> {
        let dict =
            Dict::of(self.values).ok_or_else(|| EvalError::typed("format requires a mapping"))?;
        let found = dict.get(&Value::str(name), fuel)?.cloned();
        found.ok_or_else(|| EvalError::new(ErrorKind::Key, format!("'{name}'")))
    }
}

#[derive(Default)]
struct Conversion {
    name: Option<String>,
    flags: String,
    width: usize,
    precision: Option<usize>,
    kind: char,
    /// Where its letter stands in the text.
    index: usize,
}

impl Conversion {
    fn read<'t>(
        text: &'t str,
        arguments: &mut Arguments<'_>,
    ) -> Result<(Self, &'t str), EvalError> {
        let mut found = Self::default();
        let mut rest = text;
        if let Some(inside) = rest.strip_prefix('(') {
            let (name, behind) = inside
                .split_once(')')
                .ok_or_else(|| EvalError::value("incomplete format key"))?;
            (found.name, rest) = (Some(name.to_owned()), behind);
        }
        let flags = rest.find(|c| !"#0- +".contains(c)).unwrap_or(rest.len());
        found.flags.push_str(&rest[..flags]);
        rest = &rest[flags..];
        found.width = size(&mut rest, arguments, &mut found.flags)?.unwrap_or(0);
        if let Some(behind) = rest.strip_prefix('.') {
            rest = behind;
            found.precision = Some(size(&mut rest, arguments, &mut String::new())?.unwrap_or(0));
        }
        if found.width > WIDTH_MAX || found.precision.is_some_and(|digits| digits > PRECISION_MAX) {
            return Err(EvalError::value("width or precision too big"));
        }
        rest = rest.trim_start_matches(['h', 'l', 'L']);
        let kind = rest
            .chars()
            .next()
            .ok_or_else(|| EvalError::value("incomplete format"))?;
        found.kind = kind;
        Ok((found, &rest[kind.len_utf8()..]))
    }

    fn fill(&self, arguments: &mut Arguments<'_>, fuel: &mut Fuel) -> Result<String, EvalError> {
        if !"sradiuxXoeEfFgGc".contains(self.kind) {
            let kind = self.kind;
            let code = self.kind as u32;
            let index = self.index;
            return Err(EvalError::value(format!(
                "unsupported format character '{kind}' ({code:#x}) at index {index}"
            )));
        }
        let value = match &self.name {
            Some(name) => arguments.named(name, fuel)?,
            None => arguments.next()?,
        };
        match self.kind {
            's' => self.text(py::str_of(&value, fuel)?, fuel),
            'r' | 'a' => self.text(py::repr(&value, fuel)?, fuel),
            'd' | 'i' | 'u' => self.whole(&value, fuel),
            'x' | 'X' | 'o' => self.based(&value, fuel),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => self.real(&value, fuel),
            _ => self.character(&value, fuel),
        }
    }

    fn text(&self, text: String, fuel: &mut Fuel) -> Result<String, EvalError> {
        let cut = text
            .chars()
            .take(self.precision.unwrap_or(usize::MAX))
            .collect::<String>();
        let align = if self.flags.contains('-') { '<' } else { '>' };
        format(
            &Value::from(cut),
            &format!("{align}{}", self.spec_width()),
            fuel,
        )
    }

    /// The width as it stands in a format spec.
    fn spec_width(&self) -> String {
        if self.width == 0 {
            String::new()
        } else {
            self.width.to_string()
        }
    }

    fn number(&self, value: &Value, kind: &str, fuel: &mut Fuel) -> Result<String, EvalError> {
        let left = self.flags.contains('-');
        let zero = self.flags.contains('0') && !left;
        let sign = if self.flags.contains('+') {
            "+"
        } else if self.flags.contains(' ') {
            " "
        } else {
            ""
        };
        let align = if left {
            "<"
        } else if zero {
            "0="
        } else {
            ">"
        };
        let alternate = if self.flags.contains('#') { "#" } else { "" };
        format(
            value,
            &format!("{align}{sign}{alternate}{}{kind}", self.spec_width()),
            fuel,
        )
    }

    /// A whole number with at least as many digits as the precision says.
    fn digits(&self, value: &Value, kind: &str, fuel: &mut Fuel) -> Result<String, EvalError> {
        let Some(least) = self.precision else {
            return self.number(value, kind, fuel);
        };
        let plain = Self {
            width: 0,
            flags: self.flags.replace(['0', '-'], ""),
            ..Self::default()
        };
        let text = plain.number(value, kind, fuel)?;
        let lead = lead_of(&text);
        let digits = &text[lead..];
        let padded = format!(
            "{}{}{digits}",
            &text[..lead],
            "0".repeat(least.saturating_sub(digits.len()))
        );
        let sign = usize::from(padded.starts_with(['-', '+', ' ']));
        let missing = self.width.saturating_sub(padded.len());
        fuel.grow((missing + least) as u64)?;
        Ok(match (self.flags.contains('-'), self.flags.contains('0')) {
            (true, _) => padded + &" ".repeat(missing),
            (false, true) => format!(
                "{}{}{}",
                &padded[..sign],
                "0".repeat(missing),
                &padded[sign..]
            ),
            (false, false) => " ".repeat(missing) + &padded,
        })
    }

    fn whole(&self, value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
        let number = match value {
            Value::Float(number) => crate::number::float_to_int(number.trunc())?,
            _ => Value::Int(py::int(value).ok_or_else(|| self.needs("a real number", value))?),
        };
        self.digits(&number, "d", fuel)
    }

    fn based(&self, value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
        let number = py::int(value).ok_or_else(|| self.needs("an integer", value))?;
        self.digits(&Value::Int(number), &self.kind.to_string(), fuel)
    }

    fn real(&self, value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
        let number = py::float(value).ok_or_else(|| {
            EvalError::typed(format!("must be real number, not {}", py::type_name(value)))
        })?;
        self.number(
            &Value::Float(number),
            &format!(".{}{}", self.precision.unwrap_or(6), self.kind),
            fuel,
        )
    }

    fn character(&self, value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
        let c = match value {
            Value::Str(text) if text.chars().count() == 1 => text.to_string(),
            _ => match py::int(value)
                .and_then(|code| u32::try_from(code).ok())
                .and_then(char::from_u32)
            {
                Some(c) => c.to_string(),
                None => return Err(EvalError::typed("%c requires int or char")),
            },
        };
        self.text(c, fuel)
    }

    fn needs(&self, what: &str, value: &Value) -> EvalError {
        EvalError::typed(format!(
            "%{} format: {what} is required, not {}",
            self.kind,
            py::type_name(value)
        ))
    }
}

/// How much of a number is its sign and the prefix of its base.
fn lead_of(text: &str) -> usize {
    let sign = usize::from(text.starts_with(['-', '+', ' ']));
    let prefix = ["0x", "0X", "0o"]
        .iter()
        .any(|prefix| text[sign..].starts_with(prefix));
    if prefix { sign + 2 } else { sign }
}

/// A width or precision: digits, or `*` for the next argument (a negative width means left).
fn size(
    rest: &mut &str,
    arguments: &mut Arguments<'_>,
    flags: &mut String,
) -> Result<Option<usize>, EvalError> {
    if let Some(behind) = rest.strip_prefix('*') {
        *rest = behind;
        let number = py::int(&arguments.next()?).ok_or_else(|| EvalError::typed("* wants int"))?;
        if number < 0 {
            flags.push('-');
        }
        return Ok(Some(number.unsigned_abs() as usize));
    }
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(end);
    *rest = behind;
    if digits.is_empty() {
        return Ok(None);
    }
    digits
        .parse()
        .map(Some)
        .map_err(|_| EvalError::value("width or precision too big"))
}
