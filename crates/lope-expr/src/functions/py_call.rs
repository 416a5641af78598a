//! Calls whose arguments are only known when they run: `f(*args, **kwargs)`.

use lope_model::Value;
use lope_values::py::{Dict, Pairs, iterate, tuple};
use lope_values::{EvalError, Fuel};

use super::{FunctionEntry, FunctionKind::PyFunction, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line(
        "py.bind",
        "function, parameters, arguments, keywords",
        PyFunction,
        bind,
    ),
    line("py.arguments", "arguments, keywords", PyFunction, arguments),
];

/// Arguments for a worker, which binds them itself.
fn arguments(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    iterate(&args[0], fuel)?;
    keywords_of("a call", &args[1])?;
    fuel.build(2)?;
    Ok(Value::tag("arguments", Value::list(args.to_vec())))
}

/// How a parameter takes its argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Positional,
    Any,
    Keyword,
    Rest,
    More,
}

struct Parameter<'a> {
    name: &'a str,
    takes: Takes,
    default: Option<&'a Value>,
}

impl<'a> Parameter<'a> {
    /// `[name, kind]` or `[name, kind, default]`.
    fn read(value: &'a Value) -> Option<Self> {
        let parts = value.as_list()?;
        let takes = match parts.get(1)?.as_str()? {
            "positional" => Takes::Positional,
            "any" => Takes::Any,
            "keyword" => Takes::Keyword,
            "rest" => Takes::Rest,
            "more" => Takes::More,
            _ => return None,
        };
        Some(Self {
            name: parts.first()?.as_str()?,
            takes,
            default: parts.get(2),
        })
    }

    const fn in_order(&self) -> bool {
        matches!(self.takes, Takes::Positional | Takes::Any)
    }
}

/// The value of every parameter, in order, with Python's complaints.
fn bind(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let function = args[0].as_str().unwrap_or_default();
    let read: Option<Vec<Parameter<'_>>> = args[1]
        .as_list()
        .and_then(|all| all.iter().map(Parameter::read).collect());
    let parameters = read.ok_or_else(|| EvalError::typed("a list of parameters expected"))?;
    let given = iterate(&args[2], fuel)?;
    fuel.build(parameters.len() + given.len())?;
    let mut keywords = keywords_of(function, &args[3])?;
    let in_order = parameters.iter().filter(|each| each.in_order()).count();
    if given.len() > in_order && !parameters.iter().any(|each| each.takes == Takes::Rest) {
        return Err(too_many(function, &parameters, given.len()));
    }
    let mut found = Vec::with_capacity(parameters.len());
    let mut index = 0;
    for each in &parameters {
        let value = match each.takes {
            Takes::Rest => Some(tuple(given.get(in_order..).unwrap_or_default().to_vec())),
            Takes::More => None,
            Takes::Keyword => keywords.take(each.name),
            Takes::Positional | Takes::Any => {
                let positional = given.get(index).cloned();
                index += 1;
                let named = if each.takes == Takes::Any {
                    keywords.take(each.name)
                } else {
                    None
                };
                if positional.is_some() && named.is_some() {
                    return Err(complaint(
                        function,
                        &format!("got multiple values for argument '{}'", each.name),
                    ));
                }
                positional.or(named)
            }
        };
        found.push(value.or_else(|| each.default.cloned()));
    }
    finish(function, &parameters, found, keywords, fuel)
}

/// Puts the keywords that are left into `**kwargs`, or complains.
fn finish(
    function: &str,
    parameters: &[Parameter<'_>],
    mut found: Vec<Option<Value>>,
    keywords: Keywords,
    fuel: &mut Fuel,
) -> FunctionResult {
    match parameters.iter().position(|each| each.takes == Takes::More) {
        Some(index) => {
            let mut pairs = Pairs::default();
            for (name, value) in keywords.0 {
                pairs.insert(Value::from(name), value, fuel)?;
            }
            found[index] = Some(pairs.into_value());
        }
        None => {
            if let Some((name, _)) = keywords.0.first() {
                return Err(complaint(
                    function,
                    &format!("got an unexpected keyword argument '{name}'"),
                ));
            }
        }
    }
    for (what, keyword) in [("positional", false), ("keyword-only", true)] {
        let missing = parameters
            .iter()
            .zip(&found)
            .filter(|(each, value)| value.is_none() && (each.takes == Takes::Keyword) == keyword);
        let names: Vec<String> = missing
            .map(|(each, _)| format!("'{}'", each.name))
            .collect();
        if !names.is_empty() {
            let plural = if names.len() == 1 { "" } else { "s" };
            let message = format!(
                "missing {} required {what} argument{plural}: {}",
                names.len(),
                listed(&names)
            );
            return Err(complaint(function, &message));
        }
    }
    Ok(Value::list(found.into_iter().flatten().collect()))
}

/// Keywords that nobody has taken yet.
struct Keywords(Vec<(String, Value)>);

impl Keywords {
    fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(index).1)
    }
}

fn keywords_of(function: &str, value: &Value) -> Result<Keywords, EvalError> {
    let dict = Dict::of(value)
        .ok_or_else(|| complaint(function, "argument after ** must be a mapping"))?;
    let text = |(key, value): (std::borrow::Cow<'_, Value>, &Value)| {
        let name = key
            .as_str()
            .ok_or_else(|| EvalError::typed("keywords must be strings"))?;
        Ok((name.to_owned(), value.clone()))
    };
    dict.iter()
        .map(text)
        .collect::<Result<_, EvalError>>()
        .map(Keywords)
}

fn too_many(function: &str, parameters: &[Parameter<'_>], given: usize) -> EvalError {
    let most = parameters.iter().filter(|each| each.in_order()).count();
    let least = parameters
        .iter()
        .filter(|each| each.in_order() && each.default.is_none())
        .count();
    let takes = if least == most {
        most.to_string()
    } else {
        format!("from {least} to {most}")
    };
    let plural = if most == 1 && least == most { "" } else { "s" };
    let were = if given == 1 { "was" } else { "were" };
    complaint(
        function,
        &format!("takes {takes} positional argument{plural} but {given} {were} given"),
    )
}

/// `'a'`, `'a' and 'b'`, `'a', 'b', and 'c'`.
fn listed(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
        [] => String::new(),
    }
}

fn complaint(function: &str, message: &str) -> EvalError {
    EvalError::typed(format!("{function}() {message}"))
}
