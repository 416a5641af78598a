//! May a run be removed, whatever it holds?

use lope_model::{RunId, RunnerId};

use crate::error::{StoreError, StoreResult};

/// What a store knows of the owner of a run that is to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoveFacts {
    /// Who owns it; nobody: it waits, is parked, has ended, or was never there.
    pub owner: Option<RunnerId>,
    /// Does the owner's session live?
    pub owner_lives: bool,
}

/// Only an owner that lives keeps its run. One that does not live works on nothing: what it still
/// might write meets no run.
pub fn remove(run: RunId, facts: &RemoveFacts) -> StoreResult<()> {
    if facts.owner.is_some() && facts.owner_lives {
        return Err(StoreError::refused(format!(
            "a runner works on run {run}: cancel it, or stop the runner"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_owner_that_lives_keeps_its_run() {
        let run = RunId::from_bytes([9; 16]);
        let owner = Some(RunnerId::from_bytes([1; 16]));
        for (owner, owner_lives, goes) in [
            (None, false, true),
            (None, true, true),
            (owner, false, true),
            (owner, true, false),
        ] {
            let facts = RemoveFacts { owner, owner_lives };
            assert_eq!(remove(run, &facts).is_ok(), goes, "{facts:?}");
        }
    }
}
