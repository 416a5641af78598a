//! The door *Board* on the memory: take the lock, do the verb, notify watchers where something was
//! written.

use super::handle::Handle;
use crate::board::{
    BoardChange, BoardClock, BoardConflict, BoardRead, BoardReply, BoardSelect, BoardVerbs,
    validate,
};
use crate::error::StoreResult;
use crate::watch::Watch;

impl BoardVerbs for Handle {
    async fn read(&self, selects: Vec<BoardSelect>) -> StoreResult<BoardRead> {
        validate::selects(&selects)?;
        let board = self.board()?;
        let moment = self.inner.clock.moment();
        let clock = BoardClock {
            now: self.inner.clock.now(),
            moment,
            lease_moment: moment,
            boot_id: String::new(),
        };
        let rows = selects.iter().map(|select| board.select(select)).collect();
        Ok(BoardRead { clock, rows })
    }

    async fn commit(&self, changes: Vec<BoardChange>) -> StoreResult<BoardReply> {
        validate::changes(&changes)?;
        let mut board = self.board()?;
        let mut next = board.clone();
        for (index, change) in changes.iter().enumerate() {
            if !next.apply(change) {
                return Ok(Err(BoardConflict { change: index }));
            }
        }
        *board = next;
        drop(board);
        if changes.iter().any(BoardChange::wakes) {
            self.inner.runs_notifier.notify();
        }
        Ok(Ok(()))
    }

    fn watch(&self) -> Watch {
        self.inner.runs_notifier.watch()
    }
}
