//! Schedules as plain data: when a workflow is started again, and what becomes of each tick.

pub use lope_schedule::store::{DamagedSchedule, ScheduleList, ScheduleRecord};
pub use lope_schedule::timing::{BadTiming, Timing};
pub use lope_schedule::{
    CatchUp, Overlap, Schedule, ScheduleEntry, ScheduleState, TAG, TickCounts, Trouble,
};

pub use crate::client::FireError;
