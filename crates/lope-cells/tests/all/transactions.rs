//! Transactions: what they see, when they conflict, what survives concurrency.

use lope_cells::edit::{ConcurrentSpaces, EDIT_ATTEMPTS_MAX, EditError};
use lope_cells::error::{CommitError, CommitRefusal, WriteError};
use lope_cells::json::Number;
use lope_cells::transaction::operation::{Change, Operation};
use lope_cells::transaction::{EffectRequest, Post};
use lope_cells::{Json, Projected, Schema, Spaces, Transaction};
use proptest::prelude::*;

use crate::fixture::{cell, get, json, link, redirect, set, space};

fn filled() -> Spaces {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"a": 1, "b": 2, "o": {"x": 1}, "list": [1]}),
    );
    set(&mut spaces, "other:far", json!({"n": 5}));
    spaces
}

/// Commits `first` and `second`, which begin together, in that order.
fn race(
    spaces: &mut Spaces,
    first: impl FnOnce(&mut Transaction),
    second: impl FnOnce(&mut Transaction),
) -> Result<(), CommitError> {
    let (mut one, mut two) = (spaces.begin(), spaces.begin());
    first(&mut one);
    second(&mut two);
    spaces.commit(one).unwrap();
    spaces.commit(two).map(|_| ())
}

fn put(at: &'static str, value: i64) -> impl Fn(&mut Transaction) {
    move |transaction| transaction.set(&cell(at), &value.into()).unwrap()
}

#[test]
fn many_spaces_are_read_and_one_is_written() {
    let mut spaces = filled();
    let mut transaction = spaces.begin();
    let far = transaction.get(&cell("other:far/n")).unwrap();
    transaction.set(&cell("doc/a"), &far).unwrap();
    let refused = transaction
        .set(&cell("other:far/n"), &Json::Null)
        .unwrap_err();
    assert!(matches!(refused, WriteError::OtherSpace { .. }));
    spaces.commit(transaction).unwrap();
    assert_eq!(get(&spaces, "doc/a"), Some(5.into()));
    assert_eq!(get(&spaces, "other:far/n"), Some(5.into()));
}

/// Whoever has a home writes there; what it writes elsewhere is handed over, whole.
#[test]
fn what_is_written_outside_of_the_home_is_asked_of_its_space() {
    let mut spaces = filled();
    set(&mut spaces, "doc/out", redirect("other:far"));
    let mut transaction = spaces.begin_in(&space("home"));
    transaction
        .set(
            &cell("doc/out"),
            &json!({"n": 5, "me": {"/": {"link@1": {"path": ["a"]}}}}).into(),
        )
        .unwrap();
    transaction
        .increment(&cell("other:far/n"), 2.into())
        .unwrap();
    transaction
        .append(&cell("other:list"), &[json!({"id": "a"}).into()])
        .unwrap();
    transaction
        .add_unique(&cell("other:list"), &1.into())
        .unwrap();
    transaction
        .remove_value(&cell("other:list"), &2.into())
        .unwrap();
    transaction.remove(&cell("doc/out/n")).unwrap();
    transaction.send(&cell("other:s"), 6.into()).unwrap();
    transaction.send(&cell("doc/a"), 7.into()).unwrap();
    transaction.set(&cell("doc/a"), &1.into()).unwrap();
    assert!(
        transaction
            .reads()
            .keys()
            .all(|at| at.space == space("home"))
    );
    let committed = spaces.commit(transaction).unwrap();
    let change = |at: &str, change: Change| {
        Post::Change(Operation {
            at: cell(at),
            change,
        })
    };
    let event = |at: &str, payload: i64| Post::Event {
        stream: cell(at),
        payload: payload.into(),
    };
    let whole = json!({"n": 5, "me": link("doc/a")});
    let expected = [
        change("other:far", Change::Put(Some(whole.into()))),
        change("other:far/n", Change::Increment(2.into())),
        change(
            "other:list",
            Change::Append(vec![json!({"id": "a"}).into()]),
        ),
        change("other:list", Change::AddUnique(vec![1.into()])),
        change("other:list", Change::RemoveValue(2.into())),
        change("other:far/n", Change::Put(None)),
        event("other:s", 6),
        event("doc/a", 7),
    ];
    assert_eq!(committed.posts, expected);
    assert_eq!(get(&spaces, "doc/a"), Some(1.into()));
    assert_eq!(get(&spaces, "other:far/n"), Some(5.into()), "not done here");
    // Whether it is a stream there is not known here.
    let stream = Schema::new(json!({"asStream": true}).into());
    let mut transaction = spaces.begin_in(&space("home"));
    let far = transaction.project(&cell("other:s"), &stream);
    assert!(matches!(far, Some(Projected::Stream(_))), "{far:?}");
    assert_eq!(transaction.project(&cell("doc/a"), &stream), None);
    assert_eq!(transaction.project(&cell("other:far/n"), &stream), None);
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does() {
    let mut spaces = filled();
    let mut transaction = spaces.begin();
    transaction
        .set(&cell("doc/o"), &json!({"x": 9, "y": link("doc/a")}).into())
        .unwrap();
    transaction.append(&cell("doc/list"), &[2.into()]).unwrap();
    transaction
        .increment(&cell("doc/a"), Number::from(10))
        .unwrap();
    assert_eq!(transaction.get(&cell("doc/o/x")), Some(9.into()));
    assert_eq!(transaction.get(&cell("doc/o/y")), Some(11.into()));
    assert_eq!(
        transaction.get(&cell("doc/list")),
        Some(json!([1, 2]).into())
    );
    assert_eq!(get(&spaces, "doc/o"), Some(json!({"x": 1}).into()));
    spaces.commit(transaction).unwrap();
    assert_eq!(get(&spaces, "doc/o/y"), Some(11.into()));
}

#[test]
fn abort_leaves_nothing() {
    let spaces = filled();
    let mut transaction = spaces.begin();
    transaction.set(&cell("doc/a"), &7.into()).unwrap();
    transaction.after_commit(EffectRequest::new("k".into(), Json::Null));
    transaction.abort();
    assert_eq!(get(&spaces, "doc/a"), Some(1.into()));
}

#[test]
fn a_read_conflicts_with_a_later_write_that_overlaps_it_and_with_no_other() {
    let read = |at: &'static str| {
        move |transaction: &mut Transaction| {
            transaction.get(&cell(at));
            transaction.set(&cell("mine"), &1.into()).unwrap();
        }
    };
    for (written, looked_at, conflicts) in [
        ("doc/a", "doc/a", true),
        ("doc/o/x", "doc/o", true),
        ("doc/o", "doc/o/x", true),
        ("doc", "doc/a", true),
        ("doc/b", "doc/a", false),
        ("doc/o/y", "doc/o/x", false),
        ("doc/new", "doc/a", false),
        ("else", "doc", false),
        ("doc/missing", "doc/missing", true),
        // Nothing was below it, and nothing is below a number.
        ("doc/missing", "doc/missing/below", false),
    ] {
        let write = |transaction: &mut Transaction| match written {
            "doc" => transaction
                .set(&cell("doc"), &Json::object([("a", 5.into())]))
                .unwrap(),
            "doc/o" => transaction
                .set(&cell("doc/o"), &json!({"x": 5}).into())
                .unwrap(),
            other => transaction.set(&cell(other), &5.into()).unwrap(),
        };
        let outcome = race(&mut filled(), write, read(looked_at));
        assert_eq!(
            matches!(outcome, Err(CommitError::Conflict { .. })),
            conflicts,
            "{written} {looked_at}"
        );
    }
}

#[test]
fn a_link_that_appears_on_the_way_conflicts_with_whoever_found_nothing() {
    let mut spaces = filled();
    let outcome = race(
        &mut spaces,
        |transaction| {
            transaction
                .set(&cell("doc/new"), &link("other:far"))
                .unwrap();
        },
        |transaction| {
            assert_eq!(transaction.get(&cell("doc/new/n")), None);
            transaction.set(&cell("mine"), &1.into()).unwrap();
        },
    );
    assert!(matches!(outcome, Err(CommitError::Conflict { at }) if at == cell("doc/new")));
}

#[test]
fn disjoint_keys_of_one_document_do_not_conflict_and_both_stay() {
    let mut spaces = filled();
    race(&mut spaces, put("doc/a", 10), put("doc/b", 20)).unwrap();
    race(&mut spaces, put("doc/o/p", 1), put("doc/o/q", 2)).unwrap();
    assert_eq!(
        get(&spaces, "doc"),
        Some(json!({"a": 10, "b": 20, "o": {"x": 1, "p": 1, "q": 2}, "list": [1]}).into())
    );
}

#[test]
fn two_writers_of_one_object_never_end_with_a_mixture() {
    let object = |p: i64, q: i64| {
        move |transaction: &mut Transaction| {
            transaction
                .set(&cell("doc/o"), &json!({"p": p, "q": q}).into())
                .unwrap();
        }
    };
    let mut spaces = filled();
    object(1, 1)(&mut spaces.begin());
    set(&mut spaces, "doc/o", json!({"p": 1, "q": 1}));
    assert!(matches!(
        race(&mut spaces, object(2, 1), object(1, 2)),
        Err(CommitError::Conflict { .. })
    ));
    assert_eq!(get(&spaces, "doc/o"), Some(json!({"p": 2, "q": 1}).into()));
}

#[test]
fn a_schema_read_conflicts_only_with_what_it_named() {
    let read_o = |transaction: &mut Transaction| {
        let schema = Schema::new(json!({"properties": {"o": {"properties": {"x": true}}}}).into());
        transaction.project(&cell("doc"), &schema);
        transaction.set(&cell("mine"), &1.into()).unwrap();
    };
    race(&mut filled(), put("doc/a", 5), read_o).unwrap();
    race(&mut filled(), put("doc/o/more", 5), read_o).unwrap();
    assert!(race(&mut filled(), put("doc/o/x", 5), read_o).is_err());
}

#[test]
fn intents_survive_concurrency() {
    type Intent = fn(&mut Transaction) -> Result<(), CommitRefusal>;
    let cases: [(Intent, Intent, &str, serde_json::Value); 5] = [
        (
            |one| one.append(&cell("doc/list"), &[2.into()]),
            |two| two.append(&cell("doc/list"), &[3.into()]),
            "doc/list",
            json!([1, 2, 3]),
        ),
        (
            |one| one.add_unique(&cell("doc/list"), &2.into()),
            |two| two.add_unique(&cell("doc/list"), &2.into()),
            "doc/list",
            json!([1, 2]),
        ),
        (
            |one| one.increment(&cell("doc/a"), 5.into()),
            |two| two.increment(&cell("doc/a"), (-2).into()),
            "doc/a",
            json!(4),
        ),
        (
            |one| one.append(&cell("doc/list"), &[2.into()]),
            |two| two.remove_value(&cell("doc/list"), &1.into()),
            "doc/list",
            json!([2]),
        ),
        (
            |one| one.increment(&cell("doc/made"), 1.into()),
            |two| two.append(&cell("doc/also"), &[1.into()]),
            "doc/made",
            json!(1),
        ),
    ];
    for (one, two, at, expected) in cases {
        let mut spaces = filled();
        let run =
            |intent: Intent| move |transaction: &mut Transaction| intent(transaction).unwrap();
        race(&mut spaces, run(one), run(two)).unwrap();
        assert_eq!(get(&spaces, at), Some(expected.into()));
    }
}

#[test]
fn intents_know_elements_by_their_id() {
    let mut spaces = filled();
    let item = |id: i64, text: &str| Json::from(json!({"id": id, "text": text}));
    race(
        &mut spaces,
        |one| one.append(&cell("doc/list"), &[item(7, "seven")]).unwrap(),
        |two| two.append(&cell("doc/list"), &[item(8, "eight")]).unwrap(),
    )
    .unwrap();
    let mut transaction = spaces.begin();
    transaction
        .add_unique(&cell("doc/list"), &item(7, "seven again"))
        .unwrap();
    transaction
        .remove_value(&cell("doc/list"), &item(8, "whatever"))
        .unwrap();
    spaces.commit(transaction).unwrap();
    assert_eq!(
        get(&spaces, "doc/list").unwrap().as_array().unwrap().len(),
        2
    );
    assert_eq!(get(&spaces, "doc/list/1/text"), Some("seven again".into()));
}

#[test]
fn what_cannot_be_done_is_refused_and_not_tried_again() {
    let spaces = ConcurrentSpaces::new(filled());
    let mut runs = 0;
    let refused = spaces.edit(|transaction| {
        runs += 1;
        transaction.set(&cell("doc/b"), &9.into())?;
        transaction.append(&cell("doc/a"), &[1.into()])
    });
    assert_eq!(
        refused.unwrap_err(),
        CommitRefusal::NotAList {
            at: cell("doc/a"),
            kind: "number"
        }
        .into()
    );
    let refused = spaces.edit(|transaction| {
        runs += 1;
        transaction.require(&cell("doc/a"), Some(2.into()));
        Ok(transaction.set(&cell("doc/b"), &9.into())?)
    });
    assert!(
        matches!(refused, Err(EditError::Refused(CommitRefusal::Precondition { found: Some(found), .. })) if found == 1.into())
    );
    assert_eq!(runs, 2);
    assert_eq!(
        spaces.begin().get(&cell("doc/b")),
        Some(2.into()),
        "nothing was left"
    );
    let mut transaction = spaces.begin();
    let not_a_number = CommitRefusal::NotANumber {
        at: cell("doc/o"),
        kind: "object",
    };
    assert_eq!(
        transaction.increment(&cell("doc/o"), 1.into()),
        Err(not_a_number)
    );
    transaction.set(&cell("doc/big"), &1e308.into()).unwrap();
    let big = Number::from_f64(1e308).unwrap();
    assert!(matches!(
        transaction.increment(&cell("doc/big"), big),
        Err(CommitRefusal::Overflow { .. })
    ));
}

#[test]
fn an_intent_is_refused_when_somebody_changed_the_kind_of_its_value() {
    let mut spaces = filled();
    let outcome = race(
        &mut spaces,
        |one| one.set(&cell("doc/list"), &"text".into()).unwrap(),
        |two| two.append(&cell("doc/list"), &[2.into()]).unwrap(),
    );
    assert!(matches!(
        outcome,
        Err(CommitError::Refused(CommitRefusal::NotAList { .. }))
    ));
}

#[test]
fn preconditions_that_hold_let_a_commit_through() {
    let mut spaces = filled();
    let mut transaction = spaces.begin();
    transaction.require(&cell("doc/a"), Some(1.into()));
    transaction.require(&cell("doc/none"), None);
    transaction.set(&cell("doc/none"), &1.into()).unwrap();
    spaces.commit(transaction).unwrap();
    assert_eq!(get(&spaces, "doc/none"), Some(1.into()));
}

#[test]
fn effects_come_with_the_commit_once_per_key() {
    let mut spaces = filled();
    let effect = |key: &str, request: i64| EffectRequest::new(key.into(), request.into());
    let mut transaction = spaces.begin();
    transaction.after_commit(effect("a", 1));
    transaction.after_commit(effect("b", 2));
    transaction.after_commit(effect("a", 3));
    let committed = spaces.commit(transaction).unwrap();
    assert_eq!(committed.effects, [effect("b", 2), effect("a", 3)]);
    let mut loser = spaces.begin();
    loser.get(&cell("doc/a"));
    loser.after_commit(effect("a", 4));
    set(&mut spaces, "doc/a", Json::from(100));
    assert!(spaces.commit(loser).is_err(), "and no effect with it");
}

#[test]
fn a_hundred_writers_lose_nothing() {
    let spaces = ConcurrentSpaces::new(filled());
    std::thread::scope(|scope| {
        for writer in 0..100_i64 {
            let spaces = &spaces;
            scope.spawn(move || {
                spaces.edit(|transaction| {
                    transaction.increment(&cell("doc/count"), 1.into())?;
                    transaction.append(&cell("doc/log"), &[writer.into()])?;
                    let read = transaction
                        .get(&cell("doc/a"))
                        .and_then(|a| a.as_int())
                        .unwrap();
                    Ok(transaction.set(&cell("doc/a"), &(read + 1).into())?)
                })
            });
        }
    });
    let mut transaction = spaces.begin();
    assert_eq!(transaction.get(&cell("doc/count")), Some(100.into()));
    assert_eq!(transaction.get(&cell("doc/a")), Some(101.into()));
    assert_eq!(
        transaction
            .get(&cell("doc/log"))
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        100
    );
}

#[test]
fn an_edit_that_always_loses_is_given_up_and_names_the_cell() {
    let spaces = ConcurrentSpaces::new(filled());
    let outcome = spaces.edit(|transaction| {
        let seen = transaction
            .get(&cell("doc/a"))
            .and_then(|a| a.as_int())
            .unwrap();
        spaces
            .edit(|other| Ok(other.set(&cell("doc/a"), &(seen + 1).into())?))
            .unwrap();
        Ok(transaction.set(&cell("doc/a"), &0.into())?)
    });
    let contended = EditError::Contended {
        at: cell("doc/a"),
        attempts: EDIT_ATTEMPTS_MAX,
    };
    assert_eq!(outcome.unwrap_err(), contended);
}

proptest! {
    /// Transactions that begin together and read some cells, then write sums into others: those
    /// that commit are as if they had run one after the other.
    #[test]
    fn committed_transactions_are_serialisable(
        plans in prop::collection::vec((prop::collection::vec(0..5_usize, 0..3), 0..5_usize), 2..6)
    ) {
        let key = |number: usize| format!("doc/k{number}");
        let mut spaces = Spaces::default();
        set(&mut spaces, "doc", json!({"k0": 0, "k1": 1, "k2": 2, "k3": 3, "k4": 4}));
        let mut model: Vec<i64> = (0..5).collect();
        let open: Vec<Transaction> = plans.iter().map(|_| spaces.begin()).collect();
        for (mut transaction, (reads, target)) in open.into_iter().zip(&plans) {
            let read = |number: &usize| transaction.get(&cell(&key(*number))).and_then(|value| value.as_int()).unwrap();
            let sum: i64 = reads.iter().map(read).sum::<i64>() + 100;
            transaction.set(&cell(&key(*target)), &sum.into()).unwrap();
            let serial = reads.iter().map(|number| model[*number]).sum::<i64>() + 100;
            if spaces.commit(transaction).is_ok() {
                prop_assert_eq!(sum, serial);
                model[*target] = serial;
            }
        }
        for (number, value) in model.into_iter().enumerate() {
            prop_assert_eq!(get(&spaces, &key(number)), Some(value.into()));
        }
    }
}
