//! The cells that a script was given: its transaction while it runs, and what it may do with them.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::address::CellAddress;
use crate::json::Json;
use crate::link::{Link, close_cycles};
use crate::path::CellPath;
use crate::project::{Cell, Projected, is_stream};
use crate::transaction::Transaction;

/// The transaction of the call that runs, and its cells by number.
#[derive(Debug, Default)]
pub(super) struct CallCells {
    transaction: Transaction,
    cells: Vec<Cell>,
}

impl CallCells {
    /// Takes the caller's transaction for the time of a call.
    pub(super) fn begin(&mut self, transaction: &mut Transaction) {
        std::mem::swap(&mut self.transaction, transaction);
        self.cells.clear();
    }

    /// Gives the transaction back.
    pub(super) fn end(&mut self, transaction: &mut Transaction) {
        std::mem::swap(&mut self.transaction, transaction);
        self.transaction = Transaction::default();
        self.cells.clear();
    }

    fn add(&mut self, cell: Cell) -> usize {
        self.cells.push(cell);
        self.cells.len() - 1
    }
}

/// The arguments as a JSON list, and where the cells stand in it.
pub(super) fn encode(arguments: &[Projected], cells: &mut CallCells) -> (String, String) {
    let mut places = Vec::new();
    let parts = arguments.iter().enumerate().map(|(index, argument)| {
        let at: CellPath = [index.to_string()].into_iter().collect();
        plain(argument, &at, cells, &mut places)
    });
    let texts = Json::array(parts).to_string();
    (texts, Json::array(places).to_string())
}

fn plain(part: &Projected, at: &CellPath, cells: &mut CallCells, places: &mut Vec<Json>) -> Json {
    match part {
        Projected::Plain(value) => value.clone(),
        Projected::Array(elements) => {
            let elements = elements.iter().enumerate();
            let mut show = |(index, element): (usize, &Projected)| {
                plain(element, &at.join(index.to_string()), cells, places)
            };
            Json::array(elements.map(&mut show).collect::<Vec<_>>())
        }
        Projected::Object(entries) => {
            let mut show = |(key, value): (&Arc<str>, &Projected)| {
                (
                    key.clone(),
                    plain(value, &at.join(key.clone()), cells, places),
                )
            };
            Json::object(entries.iter().map(&mut show).collect::<Vec<_>>())
        }
        Projected::Cell(cell) | Projected::Stream(cell) => {
            let index = Json::from(cells.add(cell.clone()) as i64);
            places.push(Json::object([("path", at.to_json()), ("index", index)]));
            Json::Null
        }
    }
}

/// Does what a script asks of a cell: `=` and JSON, nothing for undefined, or `!` and why not.
pub(super) fn answer(cells: &mut CallCells, verb: &str, index: usize, text: &str) -> String {
    match act(cells, verb, index, text) {
        Ok(Some(value)) => {
            let mut answer = String::from("=");
            // Writing to a text does not fail.
            let _written = write!(answer, "{value}");
            answer
        }
        Ok(None) => String::new(),
        Err(message) => format!("!{message}"),
    }
}

fn act(
    cells: &mut CallCells,
    verb: &str,
    index: usize,
    text: &str,
) -> Result<Option<Json>, String> {
    let cell = cells.cells.get(index).cloned();
    let cell = cell.ok_or("the cell belongs to another call")?;
    let at = &cell.address;
    let value = match text {
        "" => None,
        text => Some(Json::parse(text).map_err(|error| error.to_string())?),
    };
    let value = value.map(|value| close_cycles(&value, at).unwrap_or(value));
    let given = || value.clone().unwrap_or_default();
    let transaction = &mut cells.transaction;
    let shown = |error: &dyn std::fmt::Display| error.to_string();
    match verb {
        "get" => return Ok(cell.get(transaction).map(|value| value.to_json(at))),
        "link" => return Ok(Some(absolute_link(at))),
        "key" => {
            let key = given().as_str().map(str::to_owned).unwrap_or_default();
            let part = Cell::new(at.key(key.as_str()));
            return Ok(Some(Json::from(cells.add(part) as i64)));
        }
        "set" if is_closed(transaction, at, value.as_ref()) => {
            return Err("it is a stream: send events to it".to_owned());
        }
        "set" => match &value {
            Some(value) => transaction.set(at, value),
            None => transaction.remove(at),
        }
        .map_err(|error| shown(&error))?,
        "update" => {
            let entries = given();
            let entries = entries.as_object().ok_or("an object expected")?;
            for (key, value) in entries.iter() {
                let set = transaction.set(&at.key(key.clone()), value);
                set.map_err(|error| shown(&error))?;
            }
        }
        "push" => {
            let list = given();
            let list: Vec<Json> = list
                .as_array()
                .into_iter()
                .flat_map(|list| list.iter().cloned())
                .collect();
            transaction
                .append(at, &list)
                .map_err(|error| shown(&error))?;
        }
        "addUnique" => transaction
            .add_unique(at, &given())
            .map_err(|error| shown(&error))?,
        "removeValue" => transaction
            .remove_value(at, &given())
            .map_err(|error| shown(&error))?,
        "increment" => {
            let by = given().as_number().ok_or("a number expected")?;
            transaction
                .increment(at, by)
                .map_err(|error| shown(&error))?;
        }
        "send" => transaction
            .send(at, given())
            .map_err(|error| shown(&error))?,
        other => return Err(format!("a cell has no '{other}'")),
    }
    Ok(None)
}

/// Whether a cell takes events, so that no value is put in their place.
fn is_closed(transaction: &mut Transaction, at: &CellAddress, value: Option<&Json>) -> bool {
    let found = transaction.quietly(|transaction| transaction.get(at));
    found.as_ref().is_some_and(is_stream) && !value.is_some_and(is_stream)
}

/// A link that means the same wherever it is written.
fn absolute_link(at: &CellAddress) -> Json {
    Link::to(at, at).absolute(at).to_json()
}
