//! Lists that are imported: again, in part, by two at once. Nothing is added twice, and nothing is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lope_agents::board::{AgentBoard, BoardError, TaskDraft, TaskFilter};
use lope_agents::law::TaskRules;
use lope_agents::records::ReviewBy;
use lope_agents::task_list::{ListedTask, import, missing, read_markdown};
use lope_model::id::TaskId;
use lope_model::limit;
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::{MemoryStore, Store, StoreError};

use crate::fixture::{Facts, PROJECT};

fn board_on(store: Store) -> AgentBoard {
    AgentBoard::new(store.board, Arc::<Facts>::default(), TaskRules::default())
}

/// A list of so many tasks; each whose number ends on 8, as that of the last in a commit does, has the title of the
/// one after it.
fn list(count: usize) -> Vec<ListedTask> {
    let title = |place: usize| place + usize::from(place % 10 == 8);
    let lines = (0..count).map(|place| format!("- [ ] task {}\n", title(place)));
    read_markdown(&lines.collect::<String>()).unwrap()
}

async fn titles(board: &AgentBoard) -> Vec<String> {
    let tasks = board.tasks(&TaskFilter::default()).await.unwrap();
    let mut titles: Vec<String> = tasks.iter().map(|task| task.title.clone()).collect();
    titles.sort();
    titles
}

fn titles_of(listed: &[ListedTask]) -> Vec<String> {
    let mut titles: Vec<String> = listed.iter().map(|task| task.title.clone()).collect();
    titles.sort();
    titles
}

/// An import that comes to no end says how far it came, and the next one goes on: also where the
/// same title stands twice, on both sides of the break.
#[tokio::test]
async fn an_import_that_was_broken_off_is_gone_on_with() {
    let listed = list(2 * limit::BOARD_CHANGES_MAX + 7);
    for broken in 1..=3 {
        let store = MemoryStore::open();
        let board = board_on(store.clone());
        board.add_project(PROJECT, None).await.unwrap();
        let commits = AtomicUsize::new(0);
        let dying = board_on(with_faults(
            store,
            Arc::new(move |call: StoreCall| {
                let is_commit = call.verb == "commit";
                let number = commits.fetch_add(usize::from(is_commit), Ordering::SeqCst) + 1;
                if is_commit && number == broken {
                    return InjectedFault::Fail(StoreError::unavailable("the disk is full"));
                }
                InjectedFault::None
            }),
        ));
        let error = import(&dying, PROJECT, &listed, ReviewBy::None).await;
        let error = error.unwrap_err();
        let added = (broken - 1) * (limit::BOARD_CHANGES_MAX - 1);
        assert_eq!(titles(&board).await.len(), added, "{broken}");
        match (added, &error) {
            (0, BoardError::Store(_)) => {}
            (
                _,
                BoardError::Partly {
                    added: told, of, ..
                },
            ) => {
                assert_eq!((*told, *of), (added, listed.len()), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let rest = import(&board, PROJECT, &listed, ReviewBy::None).await;
        let rest = rest.unwrap();
        let left = listed.len() - added;
        assert_eq!((rest.added.len(), rest.skipped), (left, added));
        assert_eq!(titles(&board).await, titles_of(&listed), "{broken}");
        let again = import(&board, PROJECT, &listed, ReviewBy::None).await;
        let again = again.unwrap();
        assert_eq!((again.added.len(), again.skipped), (0, listed.len()));
    }
}

/// Two that import the same list at once add it once, whoever writes between the other's look and its
/// commits, and also when one is in the middle.
#[tokio::test]
async fn two_imports_at_once_add_a_list_once() {
    for (count, beside) in [(20, 1), (2_500, 1), (2_500, 2)] {
        let listed = list(count);
        let store = MemoryStore::open();
        let board = board_on(store.clone());
        board.add_project(PROJECT, None).await.unwrap();
        let other = Mutex::new(Some((board.clone(), listed.clone())));
        let commits = AtomicUsize::new(0);
        let slow = board_on(with_faults(
            store,
            Arc::new(move |call: StoreCall| {
                if call.verb == "commit" && commits.fetch_add(1, Ordering::SeqCst) + 1 == beside {
                    let (board, listed) = other.lock().unwrap().take().unwrap();
                    import_beside(board, listed);
                }
                InjectedFault::None
            }),
        ));
        let imported = import(&slow, PROJECT, &listed, ReviewBy::None).await;
        let imported = imported.unwrap();
        let own = (beside - 1) * (limit::BOARD_CHANGES_MAX - 1);
        assert_eq!((imported.added.len(), imported.skipped), (own, count - own));
        assert_eq!(titles(&board).await, titles_of(&listed), "{count} {beside}");
    }
}

/// Import a list beside the call that is about to be made.
fn import_beside(board: AgentBoard, listed: Vec<ListedTask>) {
    let imported = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let imported = import(&board, PROJECT, &listed, ReviewBy::None);
        runtime.unwrap().block_on(imported).unwrap();
    });
    imported.join().unwrap();
}

/// A list that names a task by its id and has another of the same title without one.
#[tokio::test]
async fn a_title_that_is_named_by_id_is_no_other_of_the_same_title() {
    let board = board_on(MemoryStore::open());
    board.add_project(PROJECT, None).await.unwrap();
    let id = "a1b2c3d4-e5f6-7890-abcd-ef1234567890";
    let text = format!("- [ ] a <!-- {{\"id\":\"{id}\"}} -->\n- [ ] a\n");
    let listed = read_markdown(&text).unwrap();
    let first = import(&board, PROJECT, &listed[..1], ReviewBy::None).await;
    assert_eq!(first.unwrap().added.len(), 1);
    for (added, skipped) in [(1, 1), (0, 2)] {
        let imported = import(&board, PROJECT, &listed, ReviewBy::None).await;
        let imported = imported.unwrap();
        assert_eq!((imported.added.len(), imported.skipped), (added, skipped));
    }
}

/// What a task of a list waits for is there, or the list is refused with the line of the task; whether it is
/// added or only asked for.
#[tokio::test]
async fn a_task_that_waits_for_one_that_is_nowhere_is_told_with_its_line() {
    let board = board_on(MemoryStore::open());
    board.add_project(PROJECT, None).await.unwrap();
    board.add_project("/projects/other", None).await.unwrap();
    let there = vec![TaskDraft::new("/projects/other", "there")];
    let there = board.add_tasks(there).await.unwrap().remove(0).id;
    let list = |needed: TaskId| {
        let waits = format!(r#"<!-- {{"dependencies":["{there}","{needed}"]}} -->"#);
        read_markdown(&format!("# List\n- [ ] first\n- [ ] second {waits}\n")).unwrap()
    };
    let nowhere = TaskId::from_uuid(uuid::Uuid::from_u128(15));
    let listed = list(nowhere);
    let message = format!("there is no task '{nowhere}', for which this one waits");
    let wrong = BoardError::BadList { line: 3, message };
    let asked = missing(&board, PROJECT, &listed, ReviewBy::None).await;
    assert_eq!(asked.unwrap_err(), wrong);
    let added = import(&board, PROJECT, &listed, ReviewBy::None).await;
    assert_eq!(added.unwrap_err(), wrong);
    assert_eq!(titles(&board).await, ["there"], "nothing of it is added");
    let added = import(&board, PROJECT, &list(there), ReviewBy::None).await;
    assert_eq!(added.unwrap().added.len(), 2);
}
