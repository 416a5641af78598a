//! One workflow a kind of step: what it does when everything goes well, and when it does not.

mod build;

use build::*;
use lope_flow::law::{Status, drive};
use lope_model::Value;

#[test]
fn an_action_gets_its_arguments_and_gives_its_output() {
    let flow = flow([action("a", "double", "{'x': input}"), give("r", "a + 1")]);
    let run = drive(&flow, vec![Value::Int(5)], |it| {
        assert_eq!((&*it.execution, &*it.step, it.attempt), ("a", "a", 1));
        done(it.with.get("x").unwrap().as_int().unwrap() * 2)
    });
    assert_eq!((run.value(), run.status()), (Some(&Value::Int(11)), Status::Completed));
}
