//! What is known of a reason without its words: its kind, and of what it speaks.

use std::sync::Arc;

use lope_model::Timestamp;

use super::{NamedHolder, Why};

impl Why {
    /// The word for it, for programs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ended { .. } => "ended",
            Self::Paused { .. } => "paused",
            Self::SetAside { .. } => "set_aside",
            Self::NobodyWrites { .. } => "nobody_writes",
            Self::NotDue { .. } => "not_due",
            Self::NoRunner { .. } => "no_runner",
            Self::NotTaken { .. } => "not_taken",
            Self::OwnerGone { .. } => "owner_gone",
            Self::Owned { .. } => "owned",
            Self::Mail { .. } => "mail",
            Self::Cancelling => "cancelling",
            Self::Idle => "idle",
            Self::Working { .. } => "working",
            Self::Interrupted { .. } => "interrupted",
            Self::NoSlot { .. } => "no_slot",
            Self::BackingOff { .. } => "backing_off",
            Self::NoWorker { .. } => "no_worker",
            Self::Limited { .. } => "limited",
            Self::Held { .. } => "held",
            Self::Sleeping { .. } => "sleeping",
            Self::Signal { .. } => "signal",
            Self::Child { .. } => "child",
            Self::ChildGone { .. } => "child_gone",
            Self::Turn { .. } => "turn",
        }
    }

    /// The execution it speaks of.
    pub fn execution(&self) -> Option<&Arc<str>> {
        match self {
            Self::Working { execution, .. }
            | Self::Interrupted { execution, .. }
            | Self::NoSlot { execution, .. }
            | Self::BackingOff { execution, .. }
            | Self::NoWorker { execution, .. }
            | Self::Limited { execution, .. }
            | Self::Held { execution, .. }
            | Self::Sleeping { execution, .. }
            | Self::Signal { execution, .. }
            | Self::Child { execution, .. }
            | Self::ChildGone { execution, .. }
            | Self::Turn { execution } => Some(execution),
            Self::Ended { .. }
            | Self::Paused { .. }
            | Self::SetAside { .. }
            | Self::NobodyWrites { .. }
            | Self::NotDue { .. } => None,
            Self::NoRunner { .. }
            | Self::NotTaken { .. }
            | Self::OwnerGone { .. }
            | Self::Owned { .. } => None,
            Self::Mail { .. } | Self::Cancelling | Self::Idle => None,
        }
    }

    /// When it will change by itself, if it will.
    pub const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::NotDue { until }
            | Self::BackingOff { until, .. }
            | Self::Limited { until, .. }
            | Self::Sleeping { until, .. } => Some(*until),
            Self::Signal { until, .. } | Self::NoWorker { until, .. } => *until,
            Self::Ended { .. }
            | Self::Paused { .. }
            | Self::SetAside { .. }
            | Self::NobodyWrites { .. }
            | Self::NoRunner { .. } => None,
            Self::NotTaken { .. }
            | Self::OwnerGone { .. }
            | Self::Owned { .. }
            | Self::Mail { .. } => None,
            Self::Cancelling | Self::Idle | Self::Working { .. } | Self::Interrupted { .. } => None,
            Self::NoSlot { .. }
            | Self::Held { .. }
            | Self::Child { .. }
            | Self::ChildGone { .. }
            | Self::Turn { .. } => None,
        }
    }

    /// Who holds what it waits for.
    pub fn holders(&self) -> &[NamedHolder] {
        match self {
            Self::Held { holders, .. } | Self::Limited { holders, .. } => holders,
            Self::Ended { .. }
            | Self::Paused { .. }
            | Self::SetAside { .. }
            | Self::NobodyWrites { .. }
            | Self::NotDue { .. }
            | Self::NoRunner { .. }
            | Self::NotTaken { .. }
            | Self::OwnerGone { .. }
            | Self::Owned { .. }
            | Self::Mail { .. } => &[],
            Self::Cancelling | Self::Idle | Self::Working { .. } | Self::Interrupted { .. } => &[],
            Self::NoSlot { .. }
            | Self::BackingOff { .. }
            | Self::NoWorker { .. }
            | Self::Sleeping { .. }
            | Self::Signal { .. }
            | Self::Child { .. }
            | Self::ChildGone { .. }
            | Self::Turn { .. } => &[],
        }
    }
}
