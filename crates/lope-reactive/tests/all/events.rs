//! Events: order, handlers, receipts, waves.

use lope_cells::error::CommitError;
use lope_cells::transaction::{EffectRequest, Transaction};
use lope_model::Failure;
use lope_reactive::Json;
use lope_reactive::machine::{EventOutcome, SpaceInput, SpaceOutput, StreamEvent, Wave};

use crate::fixture::{cell, json, redirect};
use crate::sheet::{Sheet, event, number};

type Reacted = Result<(), Failure>;

/// Appends the payload to `sheet/log`.
#[allow(clippy::unnecessary_wraps, reason = "a reaction may fail")]
fn log(event: &StreamEvent, transaction: &mut Transaction) -> Reacted {
    let entry = std::slice::from_ref(&event.payload);
    transaction.append(&cell("sheet/log"), entry).unwrap();
    Ok(())
}

/// Notes who handled an event.
#[allow(clippy::unnecessary_wraps, reason = "a reaction may fail")]
fn by(transaction: &mut Transaction, name: &str) -> Reacted {
    transaction.set(&cell("sheet/by"), &name.into()).unwrap();
    Ok(())
}

/// Logs, then fails for odd numbers.
fn fails_for_odd(event: &StreamEvent, transaction: &mut Transaction) -> Reacted {
    log(event, transaction)?;
    let odd = event.payload.as_int().unwrap() % 2 == 1;
    (!odd)
        .then_some(())
        .ok_or_else(|| Failure::new("Odd", "no odd numbers"))
}

#[test]
fn events_are_handled_in_order_across_streams() {
    let mut sheet = Sheet::new(json!({}));
    sheet.handler("s", &[], log);
    sheet.handler("t", &[], log);
    let events = (0..20).map(|number| {
        event(
            &format!("e{number}"),
            if number % 3 == 0 { "s" } else { "t" },
            number,
        )
    });
    sheet.turn(events.collect());
    let expected: Vec<i64> = (0..20).collect();
    assert_eq!(sheet.get("log"), Some(json!(expected).into()));
    let ids: Vec<&str> = sheet.receipts().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids[..3], ["e0", "e1", "e2"]);
}

#[test]
fn the_last_registered_handler_has_the_stream_until_it_is_removed() {
    let mut sheet = Sheet::new(json!({}));
    sheet.handler("s", &[], |_, transaction| by(transaction, "first"));
    let second = sheet.handler("s", &[], |_, transaction| by(transaction, "second"));
    sheet.turn(vec![event("1", "s", Json::Null)]);
    assert_eq!(sheet.get("by"), Some("second".into()));
    sheet.machine.nodes().remove(second);
    sheet.turn(vec![event("2", "s", Json::Null)]);
    assert_eq!(sheet.get("by"), Some("first".into()));
}

#[test]
fn an_event_sent_to_a_link_reaches_the_stream_behind_it() {
    let mut sheet = Sheet::new(json!({"alias": redirect("sheet/s"), "s": {"$stream": true}}));
    sheet.handler("s", &[], log);
    sheet.turn(vec![event("1", "alias", 7)]);
    assert_eq!(sheet.get("log"), Some(json!([7]).into()));
}

#[test]
fn stale_inputs_of_a_handler_are_brought_up_to_date_before_it_runs() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    let double = sheet.compute(&["a"], "double", |values| values[0] * 2);
    let more = sheet.compute(&["double"], "more", |values| values[0] + 1);
    let other = sheet.compute(&["a"], "other", |values| values[0]);
    sheet.handler("s", &["more"], |event, transaction| {
        let seen = number(transaction, "sheet/more");
        transaction
            .append(&cell("sheet/log"), &[seen.into()])
            .unwrap();
        transaction.set(&cell("sheet/a"), &event.payload).unwrap();
        Ok(())
    });
    let events = (0..30).map(|number| event(&format!("e{number}"), "s", number));
    sheet.turn(events.collect());
    let expected: Vec<i64> = [3].into_iter().chain((0..29).map(|a| a * 2 + 1)).collect();
    assert_eq!(
        sheet.get("log"),
        Some(json!(expected).into()),
        "each sees what the one before it led to"
    );
    let ran = sheet.ran();
    assert_eq!(ran[..2], [double, more]);
    assert!(
        !ran.contains(&other),
        "what it does not read is not its business"
    );
    assert!(
        !sheet
            .outputs
            .iter()
            .any(|output| matches!(output, SpaceOutput::NonSettling(_)))
    );
}

#[test]
fn a_throwing_handler_leaves_no_writes_and_the_next_event_goes_on() {
    let mut sheet = Sheet::new(json!({}));
    sheet.handler("s", &[], fails_for_odd);
    sheet.turn(
        (0..5)
            .map(|number| event(&format!("e{number}"), "s", number))
            .collect(),
    );
    assert_eq!(sheet.get("log"), Some(json!([0, 2, 4]).into()));
    let failed = EventOutcome::Failed(Failure::new("Odd", "no odd numbers"));
    let handled = EventOutcome::Handled;
    assert_eq!(
        sheet.receipts(),
        [
            ("e0", &handled),
            ("e1", &failed),
            ("e2", &handled),
            ("e3", &failed),
            ("e4", &handled)
        ]
    );
}

#[test]
fn redelivery_takes_effect_once_and_gets_the_same_receipt() {
    let mut sheet = Sheet::new(json!({}));
    sheet.handler("s", &[], fails_for_odd);
    sheet.turn(vec![
        event("a", "s", 2),
        event("a", "s", 2),
        event("b", "s", 1),
    ]);
    sheet.turn(vec![event("a", "s", 2), event("b", "s", 1)]);
    assert_eq!(sheet.get("log"), Some(json!([2]).into()));
    let failed = EventOutcome::Failed(Failure::new("Odd", "no odd numbers"));
    let handled = EventOutcome::Handled;
    assert_eq!(
        sheet.receipts(),
        [
            ("a", &handled),
            ("b", &failed),
            ("a", &handled),
            ("b", &failed)
        ]
    );
}

#[test]
fn an_event_without_handler_waits_then_is_a_dead_letter_and_the_others_pass() {
    let mut sheet = Sheet::new(json!({}));
    sheet.handler("s", &[], log);
    sheet.turn(vec![
        event("lost", "nobody", 1),
        event("late", "soon", 2),
        event("ok", "s", 3),
    ]);
    assert_eq!(sheet.get("log"), Some(json!([3]).into()));
    assert_eq!(
        sheet.machine.next_deadline(sheet.now),
        Some(sheet.now.plus(lope_reactive::limit::HANDLER_WAIT))
    );
    sheet.wait(29_999);
    sheet.handler("soon", &[], log);
    sheet.turn(Vec::new());
    assert_eq!(
        sheet.get("log"),
        Some(json!([3, 2]).into()),
        "a handler came in time"
    );
    assert_eq!(sheet.receipts().len(), 2);
    sheet.wait(1);
    assert_eq!(sheet.receipts()[2], ("lost", &EventOutcome::NoHandler));
    let wave = *sheet.waves().last().unwrap();
    assert_eq!(
        (wave.dead_letters.len(), wave.receipts.len()),
        (1, 1),
        "both are saved together"
    );
    assert_eq!(wave.dead_letters[0].payload, 1.into());
    assert_eq!(sheet.machine.next_deadline(sheet.now), None);
}

#[test]
fn a_backlog_of_256_a_stream_refuses_loudly_and_takes_more_later() {
    let mut sheet = Sheet::new(json!({}));
    let many = (0..300).map(|number| event(&format!("e{number}"), "s", number));
    sheet.turn(many.chain([event("other", "t", 0)]).collect());
    let refused: Vec<&str> = sheet
        .outputs
        .iter()
        .filter_map(|output| match output {
            SpaceOutput::Refused(event) => Some(&*event.id),
            _ => None,
        })
        .collect();
    assert_eq!(
        (refused.len(), refused[0]),
        (44, "e256"),
        "and the other stream has room"
    );
    sheet.handler("s", &[], log);
    sheet.turn(Vec::new());
    sheet.turn(vec![event("e256", "s", 256)]);
    assert_eq!(sheet.get("log").unwrap().as_array().unwrap().len(), 257);
}

#[test]
fn a_wave_with_too_much_for_one_commit_is_saved_in_parts_and_the_next_event_waits_for_the_last() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    for number in 0..10 {
        let name = format!("x{number}");
        sheet.compute(&["a"], &name, |values| values[0] + 1);
        sheet.observe(&name);
    }
    sheet.handler("s", &["x0", "x9"], |_, transaction| {
        let sum = number(transaction, "sheet/x0") + number(transaction, "sheet/x9");
        transaction.set(&cell("sheet/sum"), &sum.into()).unwrap();
        Ok(())
    });
    sheet.turn(Vec::new());
    sheet.ran();
    sheet.machine.bound_waves(4);
    sheet.outputs.clear();
    let edit = sheet.edit("a", 5);
    sheet.turn_unsaved(vec![edit]);
    assert_eq!(sheet.ran().len(), 4);
    let first = sheet.waves()[0].clone();
    assert!(first.is_active, "whoever takes the space up goes on");
    assert_eq!(sheet.machine.next_deadline(sheet.now), Some(sheet.now));
    assert!(!sheet.machine.is_idle(sheet.now));
    sheet.turn_unsaved(vec![event("e", "s", 1)]);
    sheet.turn_unsaved(Vec::new());
    assert_eq!(sheet.ran().len(), 4, "a second part is made meanwhile");
    sheet.turn_unsaved(Vec::new());
    assert!(
        sheet.ran().is_empty(),
        "and no third before the first is on disk"
    );
    assert_eq!((sheet.waves().len(), sheet.int("sum")), (1, None));
    sheet.turn(vec![SpaceInput::Saved { wave: first.number }]);
    let waves = sheet.waves();
    let (last, parts) = waves.split_last().unwrap();
    let of_event = |wave: &&Wave| !wave.receipts.is_empty();
    assert!(parts.len() >= 3 && !parts.iter().any(of_event), "{waves:?}");
    assert_eq!((last.receipts.len(), last.is_active), (1, false));
    assert_eq!((sheet.int("x9"), sheet.int("sum")), (Some(6), Some(12)));
    assert_eq!(sheet.receipts(), [("e", &EventOutcome::Handled)]);
    assert!(sheet.machine.is_idle(sheet.now));
}

#[test]
fn a_wave_is_saved_once_settled_and_nobody_is_told_before() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    sheet.compute(&["a"], "b", |values| values[0] + 1);
    sheet.compute(&["b"], "c", |values| values[0] + 1);
    sheet.observe("c");
    sheet.handler("s", &[], |event, transaction| {
        transaction.set(&cell("sheet/a"), &event.payload).unwrap();
        transaction.after_commit(EffectRequest::new("mail".into(), event.payload.clone()));
        Ok(())
    });
    sheet.turn(Vec::new());
    sheet.outputs.clear();
    let edit = sheet.edit("other", 5);
    sheet.turn_unsaved(vec![edit, event("1", "s", 10), event("2", "s", 20)]);
    let [SpaceOutput::Save(wave)] = &sheet.outputs[..] else {
        panic!("{:?}", sheet.outputs)
    };
    let document = wave.documents[&cell("sheet").id].clone().unwrap();
    assert_eq!(
        document.child("c"),
        Some(&22.into()),
        "everything that followed is in it"
    );
    assert_eq!(
        (wave.receipts.len(), wave.effects.len(), wave.edits.len()),
        (2, 1, 1)
    );
    let saved = wave.number;
    assert!(!sheet.machine.is_idle(sheet.now), "not on disk yet");
    sheet.outputs.clear();
    sheet.turn_unsaved(vec![event("3", "s", 30), event("1", "s", 10)]);
    assert!(
        sheet.outputs.is_empty(),
        "one wave is under way, and a repeated event hears nothing early"
    );
    sheet.turn_unsaved(vec![SpaceInput::Saved { wave: saved + 7 }]);
    assert!(
        sheet.outputs.is_empty(),
        "an answer to another wave is none"
    );
    sheet.turn_unsaved(vec![SpaceInput::Saved { wave: saved }]);
    let told: Vec<String> = sheet
        .outputs
        .iter()
        .map(|output| match output {
            SpaceOutput::Edited {
                ticket,
                outcome: Ok(_),
            } => format!("edit {ticket}"),
            SpaceOutput::Receipt(receipt) => format!("receipt {}", receipt.event),
            SpaceOutput::Effect(effect) => format!("effect {}", effect.request),
            SpaceOutput::Save(wave) => format!("save {}", wave.receipts.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        ["edit 1", "receipt 1", "receipt 2", "effect 20", "save 1"]
    );
}

#[test]
fn an_edit_that_lost_is_told_so_and_leaves_nothing() {
    let mut sheet = Sheet::new(json!({"a": 1}));
    let mut slow = sheet.machine.spaces().begin();
    let seen = slow.get(&cell("sheet/a")).unwrap();
    slow.set(&cell("sheet/copy"), &seen).unwrap();
    sheet.set("a", 2);
    sheet.turn(vec![SpaceInput::Edit {
        ticket: 99,
        transaction: slow,
    }]);
    let lost = |output: &SpaceOutput| matches!(output, SpaceOutput::Edited { ticket: 99, outcome: Err(CommitError::Conflict { at }) } if *at == cell("sheet/a"));
    assert!(sheet.outputs.iter().any(lost));
    assert_eq!(sheet.get("copy"), None);
    let mut other = sheet.machine.spaces().begin();
    other.set(&cell("abroad:doc"), &1.into()).unwrap();
    sheet.turn(vec![SpaceInput::Edit {
        ticket: 100,
        transaction: other,
    }]);
    let refused = |output: &SpaceOutput| {
        matches!(
            output,
            SpaceOutput::Edited {
                ticket: 100,
                outcome: Err(CommitError::Refused(_))
            }
        )
    };
    assert!(
        sheet.outputs.iter().any(refused),
        "a machine writes its own space only"
    );
}
