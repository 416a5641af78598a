//! What a wave changed, and who did it.

use lope_cells::history::ChangedCells;
use lope_cells::scheduler::ChangedBy;
use lope_cells::{CellPath, EntityId};

#[test]
fn a_cell_that_changes_again_keeps_its_place_and_is_of_whoever_changed_it_last() {
    let mut changed = ChangedCells::default();
    let id = EntityId::named("a");
    let path = |key: &str| CellPath::from_iter([key]);
    let event = |id: &str| ChangedBy::Event(id.into());
    for (key, by) in [("z", "1"), ("b", "2"), ("z", "3")] {
        changed.note(&id, &path(key), &event(by));
    }
    assert!(!changed.is_empty());
    let expected = [("z", "3"), ("b", "2")];
    let expected = expected.map(|(key, by)| (id.clone(), path(key), event(by)));
    assert_eq!(changed.take(), expected);
    assert!(changed.is_empty());
    changed.note(&id, &path("b"), &ChangedBy::Edit);
    assert_eq!(changed.take(), [(id, path("b"), ChangedBy::Edit)]);
}
