//! Ids as types of their own: runs and runners are UUIDv7, versions are digests, and what is
//! derived from a run (a child run, an execution) is derived from its id by content, so that it is
//! the same after a replay.
//!
//! Fresh ids need a time and random bytes; both are passed in by the caller (`RunId::from_parts`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::digest::Digest;
use crate::time::Timestamp;

/// A text that is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not a {kind} id: a UUID is expected")]
pub struct BadId {
    kind: &'static str,
    text: String,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A UUIDv7 from a time and ten random bytes.
            pub fn from_parts(at: Timestamp, random: [u8; 10]) -> Self {
                let millis = at.millis().max(0).cast_unsigned();
                Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }

            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Uuid::from_str(text).map(Self).map_err(|_| BadId { kind: $kind, text: text.to_owned() })
            }
        }
    };
}

uuid_id!(
    /// One instance of a workflow version.
    RunId,
    "run"
);
uuid_id!(
    /// A `lope` process that works; a new start is a new runner.
    RunnerId,
    "runner"
);
uuid_id!(
    /// A piece of work for an agent.
    TaskId,
    "task"
);
uuid_id!(
    /// An execution's id as people see it: derived from run and step path, the same after a replay.
    ExecutionId,
    "execution"
);
uuid_id!(
    /// One writing of a schedule: every change has another, so that whoever writes over what was
    /// read can be sure of it.
    Revision,
    "revision"
);

impl RunId {
    /// The child run that this run's execution `path` starts. It keeps the parent's time, so that
    /// parent and child sort (and are partitioned) together.
    pub fn child(self, path: &str) -> RunId {
        RunId(self.derived(b"child", path))
    }

    /// The id under which an execution of this run is shown.
    pub fn execution(self, path: &str) -> ExecutionId {
        ExecutionId(self.derived(b"execution", path))
    }

    fn derived(self, purpose: &[u8], path: &str) -> Uuid {
        let digest = Digest::of_parts(&[purpose, self.as_bytes(), path.as_bytes()]);
        let mut bytes = *self.as_bytes();
        bytes[6..].copy_from_slice(&digest.as_bytes()[..10]);
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid::from_bytes(bytes)
    }
}

/// A workflow version: the digest of a definition's canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VersionId(pub Digest);

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_stable_distinct_and_keep_the_time() {
        let run = RunId::from_parts(Timestamp::from_millis(1_700_000_000_000), [7; 10]);
        let child = run.child("mail/3/send");
        assert_eq!(child, run.child("mail/3/send"));
        assert_ne!(child, run.child("mail/4/send"));
        assert_ne!(child.uuid(), run.execution("mail/3/send").uuid());
        assert_eq!(child.as_bytes()[..6], run.as_bytes()[..6]);
        assert_eq!(run.uuid().get_version_num(), 7);
        assert_eq!(child.uuid().get_version_num(), 8);
    }

    #[test]
    fn a_bad_id_is_named() {
        let error = "zebra".parse::<RunId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'zebra' is not a run id: a UUID is expected"
        );
    }
}
