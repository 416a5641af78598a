//! May a schedule be written?

use lope_model::Revision;

use crate::runs::{ScheduleWrite, Scheduled};

/// A schedule is written over the revision that was read, which is `found` if nobody wrote
/// meanwhile. One that is there already was written by an earlier try.
pub fn schedule(write: &ScheduleWrite, found: Option<Revision>) -> Result<(), Scheduled> {
    if found == Some(write.schedule.revision) {
        return Err(Scheduled::Done);
    }
    if found != write.over {
        return Err(Scheduled::Changed { found });
    }
    Ok(())
}
