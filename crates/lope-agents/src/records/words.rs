//! The words that stand in columns: statuses, reasons, roles.

use std::fmt;
use std::str::FromStr;

use lope_store::transfer::TransferValue;

use super::column::{Column, as_text};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = Self::ALL.iter().copied().find(|word| word.as_str() == text);
                known.ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    format!("'{text}' is none of {}", known.join(", "))
                })
            }
        }

        as_text!($name);
    };
}

words! {
    /// Where a task stands.
    TaskStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Review = "review",
        Completed = "completed",
        Failed = "failed",
        Skipped = "skipped",
        Blocked = "blocked",
    }
}

words! {
    /// What became of a runner.
    RunnerStatus {
        Idle = "idle",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

words! {
    /// Who reviews a task when its work is done.
    ReviewBy {
        Agent = "agent",
        Person = "person",
        None = "none",
    }
}

words! {
    /// What an agent was started for.
    AttemptRole {
        Work = "work",
        Review = "review",
    }
}

words! {
    /// Who said or decided something.
    Author {
        Person = "person",
        Agent = "agent",
        Runner = "runner",
    }
}

words! {
    /// How a runner is asked to stop, each more urgent than the one before.
    StopLevel {
        /// End what is at work, start nothing more.
        Drain = "drain",
        /// Stop the agent, give the task back.
        Cancel = "cancel",
        /// As if the machine had died.
        Kill = "kill",
    }
}

words! {
    /// Why an agent's process ended, or was ended.
    StopReason {
        /// It ended well, with a result.
        Success = "success",
        /// It ended with another exit code than 0, or said that it failed.
        Exit = "exit",
        /// It ran longer than it may.
        Timeout = "timeout",
        /// No output and no use of a processor for too long.
        Hang = "hang",
        /// It could not be started.
        Startup = "startup",
        /// Its tool's usage limit is reached.
        UsageLimit = "usage_limit",
        /// Its budget of attempts, time or money is used up.
        Budget = "budget_exhausted",
        /// A person cancelled it.
        Cancel = "cancel",
        /// Its runner was asked to stop.
        Drain = "drain",
        /// Somebody else holds its task.
        LostLock = "lost_lock",
        /// Its runner died.
        RunnerDeath = "runner_death",
    }
}

words! {
    /// What happened to a task beside its attempts.
    TaskEventKind {
        Note = "note",
        Question = "question",
        Answer = "answer",
        Approved = "approved",
        Rejected = "rejected",
        Skipped = "skipped",
        Reset = "reset",
        Split = "split",
        Done = "done",
        Failed = "failed",
        Refused = "refused",
        Unstarted = "unstarted",
        Released = "released",
    }
}
