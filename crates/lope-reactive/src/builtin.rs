//! Modules that every runner has: `ifElse`, `map`, `filter`, `effect`.
//!
//! The first three hand on cells instead of copying values, so that only what is looked at is computed.

use lope_model::{Failure, failure};

use crate::limit;
use crate::module::{ChildRequest, Modules, RawCall};
use lope_cells::address::CellAddress;
use lope_cells::element::identity;
use lope_cells::id::EntityId;
use lope_cells::json::Json;
use lope_cells::link::Link;
use lope_cells::project::{Projected, project_value};
use lope_cells::read::{Extent, Reads};
use lope_cells::resolve::{Follow, resolve};
use lope_cells::schema::Schema;
use lope_cells::transaction::{EffectRequest, Transaction};
use lope_cells::write::replace;

/// Adds the built-in modules.
pub fn install(modules: &mut Modules) {
    modules.raw("ifElse", |call| Ok(if_else(call)));
    modules.raw("map", map);
    modules.raw("filter", filter);
    modules.effect("effect", effect);
}

/// `{condition, ifTrue, ifFalse}` → the branch itself, not its value: the other one is not
/// computed.
fn if_else(call: &mut RawCall<'_>) -> Option<Json> {
    let condition = input(call, "condition").is_some_and(|value| value.is_truthy());
    let branch = if condition { "ifTrue" } else { "ifFalse" };
    call.input(branch).as_ref().map(as_plain_link)
}

/// `{list, op, params?}` → the results of `op`, one child an element. Elements with an identity
/// keep their child wherever they stand; others have one by index.
fn map(call: &mut RawCall<'_>) -> Result<Option<Json>, Failure> {
    let Some(elements) = elements(call) else {
        return Ok(None);
    };
    let results = children(call, &elements)?.into_iter();
    let links = results.map(|result| Link::to(&result, call.base).to_json());
    Ok(Some(Json::array(links)))
}

/// `{list, op, params?}` → the elements for which the result of `op` is truthy.
fn filter(call: &mut RawCall<'_>) -> Result<Option<Json>, Failure> {
    let Some(elements) = elements(call) else {
        return Ok(None);
    };
    let mut kept = Vec::new();
    for (element, result) in elements.iter().zip(children(call, &elements)?) {
        let verdict = call.transaction.project(&result, &Schema::any());
        if matches!(verdict, Some(Projected::Plain(value)) if value.is_truthy()) {
            kept.push(element.link.clone());
        }
    }
    Ok(Some(Json::array(kept)))
}

/// `{name, request}` → `{pending, requestHash, result?, error?}`: asks for the effect `name` once for
/// each request, after the commit that says so. A request that was under way when its runner died
/// is asked for again.
fn effect(call: &mut RawCall<'_>) -> Result<Option<Json>, Failure> {
    let name = input(call, "name").unwrap_or_default();
    let request = input(call, "request").filter(|request| !request.is_null());
    let Some(request) = request else {
        return Ok(None);
    };
    // A durable run waits until there is something to give it.
    let given = |request: &Json| request.child("input").is_some_and(|input| !input.is_null());
    if name == Json::from("workflow") && !given(&request) {
        return Ok(None);
    }
    let output = Link::from_json(call.outputs).map(|link| link.target(call.base));
    let notes = output.as_ref().unwrap_or(call.notes);
    let known = call
        .transaction
        .quietly(|transaction| transaction.get(notes));
    let part = |known: &Json, key: &str| known.child(key).cloned();
    let known_hash = known.as_ref().and_then(|known| part(known, "requestHash"));
    let hash = hash_of(&name, &request, known_hash.as_ref());
    let known = known.filter(|_| known_hash.as_ref() == Some(&hash));
    let is_done =
        known.as_ref().and_then(|known| part(known, "pending")) == Some(Json::Bool(false));
    if !is_done {
        let key = format!("{}/{}", call.node, hash.as_str().unwrap_or_default());
        let request = Json::object([("name", name), ("request", request)]);
        call.request(EffectRequest::new(key.into(), request));
    }
    let pending = || Json::object([("pending", Json::Bool(true)), ("requestHash", hash)]);
    let value = known.unwrap_or_else(pending);
    if output.is_none() {
        let noted = |transaction: &mut Transaction| replace(transaction, call.notes, &value);
        let noted = call.transaction.quietly(noted);
        noted.map_err(|error| Failure::new("Write", error.to_string()))?;
    }
    Ok(Some(value))
}

/// What an effect is known by: its name and its request. A durable run is known by its request, which
/// names the workflow; so is what was asked for before names counted.
fn hash_of(name: &Json, request: &Json, known: Option<&Json>) -> Json {
    let former = Json::from(request.digest().to_string());
    if *name == Json::from("workflow") || known == Some(&former) {
        return former;
    }
    let both = [("name", name.clone()), ("request", request.clone())];
    Json::from(Json::object(both).digest().to_string())
}

/// An element of a list: what it is known by, and a link to it.
struct Element {
    key: Json,
    link: Json,
}

/// The elements of the list; none if there is no list.
fn elements(call: &mut RawCall<'_>) -> Option<Vec<Element>> {
    let given = call.input("list")?;
    let link = Link::from_json(&given);
    let list = link.map_or_else(|| call.base.key("list"), |link| link.target(call.base));
    let found = resolve(call.transaction, &list, Follow::Every);
    let found = found.ok()?;
    call.transaction.record(&found.address, Extent::Whole);
    let value = found.value.or(Some(given))?;
    let array = value.as_array()?.clone();
    let element = |(index, element): (usize, &Json)| known_by(&found.address, index, element);
    Some(array.iter().enumerate().map(element).collect())
}

fn known_by(list: &CellAddress, index: usize, element: &Json) -> Element {
    if let Some(link) = Link::from_json(element) {
        let mut link = link.absolute(list).plain();
        link.schema = None;
        let (key, link) = (link.to_json(), link.to_json());
        return Element { key, link };
    }
    let base = CellAddress::document(list.space.clone(), EntityId::named(""));
    let link = Link::to(&list.key(index.to_string()), &base).to_json();
    let key = identity(element).cloned();
    Element {
        key: key.unwrap_or_else(|| Json::from(index as i64)),
        link,
    }
}

/// A child for each element, and the result cell of each.
fn children(call: &mut RawCall<'_>, elements: &[Element]) -> Result<Vec<CellAddress>, Failure> {
    let recipe = input(call, "op");
    let recipe = recipe.ok_or_else(|| Failure::new("TypeError", "`op` is no recipe"))?;
    if elements.len() > limit::CHILDREN_MAX {
        let message = format!("more than {} children", limit::CHILDREN_MAX);
        return Err(Failure::new(failure::kind::LIMIT, message));
    }
    let params = call.input("params").unwrap_or_default();
    let results = elements.iter().enumerate().map(|(index, element)| {
        call.run(ChildRequest {
            key: element.key.clone(),
            recipe: recipe.clone(),
            argument: Json::object([
                ("element", element.link.clone()),
                ("index", Json::from(index as i64)),
                ("params", params.clone()),
            ]),
        })
    });
    results.collect()
}

/// The value of an input, links followed.
fn input(call: &mut RawCall<'_>, name: &str) -> Option<Json> {
    let value = call.input(name)?;
    match project_value(call.transaction, call.base, &value, &Schema::any())? {
        Projected::Plain(value) => Some(value),
        _ => None,
    }
}

/// A binding as a value: a redirect would send writes to the output into the branch.
fn as_plain_link(binding: &Json) -> Json {
    let link = Link::from_json(binding);
    link.map_or_else(|| binding.clone(), |link| link.plain().to_json())
}
