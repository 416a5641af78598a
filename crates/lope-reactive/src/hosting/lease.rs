//! Who has a space: taken if it is free or its owner's time is over, renewed by its owner, given
//! back. The epoch grows with every taking and never restarts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lope_model::{Moment, Span, Timestamp};
use lope_store::StoreError;
use lope_store::tables::{Batch, Guard, Write};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::codec::{decode, encode};
use super::keys;
use super::sightings::Sightings;
use super::space_store::SpaceStore;

/// A lease on a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceLease {
    pub owner: String,
    pub epoch: u64,
    /// Milliseconds since 1970, by the clock of the owner.
    pub until: i64,
    /// For how many milliseconds it runs when it is taken or renewed.
    #[serde(default = "usual_span")]
    pub span: u64,
}

/// Who asks for a space, when, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest<'a> {
    pub identity: &'a HostIdentity,
    pub now: Timestamp,
    pub span: Span,
}

/// Leases that do not say for how long they run.
const fn usual_span() -> u64 {
    15_000
}

/// A lease on a space as somebody else sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseView {
    /// Nobody has the space, or somebody who is known to be dead.
    Free,
    /// Whoever has it has not renewed its lease for as long as that runs.
    Over { until: Timestamp },
    /// Somebody has it, for so long at least.
    Held { owner: String, left: Span },
}

/// Who hosts spaces: one process, or one part of one.
#[derive(Clone)]
pub struct HostIdentity {
    pub owner: Arc<str>,
    /// Tells of another owner that it is known to be dead, so that nobody waits for its lease.
    is_gone: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether it may take what it already has: it knows by itself what it hosts.
    retakes: bool,
    /// What it has seen of others.
    sightings: Arc<Sightings>,
}

impl HostIdentity {
    pub fn new(
        owner: impl Into<Arc<str>>,
        is_gone: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            owner: owner.into(),
            is_gone: Arc::new(is_gone),
            retakes: false,
            sightings: Arc::default(),
        }
    }

    /// The same process as a host of its own: what it has is not what others of the process have.
    pub(super) fn apart(self) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            owner: format!("{}/{number}", self.owner).into(),
            ..self
        }
    }

    pub(super) fn retaking(self) -> Self {
        Self {
            retakes: true,
            ..self
        }
    }

    /// Whether another owner is known to be dead.
    pub(super) fn knows_gone(&self, owner: &str) -> bool {
        (self.is_gone)(owner)
    }

    fn may_take_from(&self, owner: &str) -> bool {
        (self.retakes && *owner == *self.owner) || (self.is_gone)(owner)
    }
}

impl From<&str> for HostIdentity {
    fn from(owner: &str) -> Self {
        Self::new(owner, |_| false)
    }
}

impl fmt::Debug for HostIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostIdentity").field(&self.owner).finish()
    }
}

impl SpaceStore {
    /// Takes the space for a while.
    pub async fn acquire(&self, asked: LeaseRequest<'_>) -> Result<SpaceLease, HostError> {
        let LeaseRequest {
            identity,
            now,
            span,
        } = asked;
        let rows = [self.keys.lease(), self.keys.epoch()];
        let [lease_row, epoch_row] = &self.tables.get(&rows).await?[..] else {
            return Err(HostError::Damaged("two rows were asked for".to_owned()));
        };
        let known: Option<SpaceLease> = match lease_row {
            Some(row) => Some(decode(row)?),
            None => None,
        };
        let host = self.host_of(known.as_ref()).await?;
        if let Some(held) = known.as_ref() {
            let until = held.until.max(host.until);
            if until > now.millis() && !identity.may_take_from(&held.owner) {
                return Err(HostError::Held {
                    owner: held.owner.clone(),
                    until: Timestamp::from_millis(until),
                });
            }
        }
        let lease = SpaceLease {
            owner: identity.owner.to_string(),
            epoch: known.map_or(0, |known| known.epoch) + 1,
            until: now.plus(span).millis(),
            span: span.millis(),
        };
        let guard = |at: usize, row: &Option<Vec<u8>>| match row {
            Some(value) => Guard::Equals(rows[at].clone(), value.clone()),
            None => Guard::Absent(rows[at].clone()),
        };
        let batch = Batch {
            guards: [guard(0, lease_row), guard(1, epoch_row)]
                .into_iter()
                .chain(host.guard)
                .collect(),
            writes: vec![
                Write::Put(self.keys.entry(), self.space().as_str().as_bytes().to_vec()),
                Write::Put(rows[0].clone(), encode(&lease)?),
                Write::Put(rows[1].clone(), lease.epoch.to_be_bytes().to_vec()),
            ],
        };
        let is_taken = match self.commit(batch).await {
            // Whether it happened is told by the row.
            Err(HostError::Store(StoreError::Unknown { .. })) => {
                let row = self.tables.get(&rows[..1]).await?;
                row.into_iter().next().flatten() == Some(encode(&lease)?)
            }
            other => other?,
        };
        is_taken.then_some(lease).ok_or(HostError::Lost)
    }

    /// Keeps a space for longer.
    pub async fn renew(
        &self,
        lease: &SpaceLease,
        now: Timestamp,
        span: Span,
    ) -> Result<SpaceLease, HostError> {
        let renewed = SpaceLease {
            until: now.plus(span).millis(),
            span: span.millis(),
            ..lease.clone()
        };
        self.put_lease(&renewed).await?;
        Ok(renewed)
    }

    /// Gives a space back.
    pub async fn release(&self, lease: &SpaceLease) -> Result<(), HostError> {
        let ended = SpaceLease {
            until: 0,
            ..lease.clone()
        };
        self.put_lease(&ended).await
    }

    /// Takes the space away from whoever has it; its fence stays as it is.
    pub(super) async fn free(&self) -> Result<(), HostError> {
        let rows = self.tables.get(&[self.keys.lease()]).await?;
        match rows.into_iter().next().flatten() {
            Some(row) => self.release(&decode(&row)?).await,
            None => Ok(()),
        }
    }

    /// Who has the space at this moment, and until when at least.
    pub async fn held(&self, now: Timestamp) -> Result<Option<(String, Timestamp)>, HostError> {
        let rows = self.tables.get(&[self.keys.lease()]).await?;
        let row = rows.into_iter().next().flatten();
        let known: Option<SpaceLease> = row.as_deref().map(decode).transpose()?;
        let host = self.host_of(known.as_ref()).await?;
        let held = known.map(|known| (known.owner, known.until.max(host.until)));
        let held = held.filter(|(_, until)| *until > now.millis());
        Ok(held.map(|(owner, until)| (owner, Timestamp::from_millis(until))))
    }

    /// The lease on the space as `identity` sees it, who has been looking for a while perhaps. No
    /// step of a wall clock, here or elsewhere, changes what is seen.
    pub(super) async fn view_lease(
        &self,
        identity: &HostIdentity,
        now: Moment,
    ) -> Result<LeaseView, HostError> {
        let rows = self.tables.get(&[self.keys.lease()]).await?;
        let row = rows.into_iter().next().flatten();
        let known: Option<SpaceLease> = row.as_deref().map(decode).transpose()?;
        let taken = known.filter(|lease| lease.until > 0 && !identity.may_take_from(&lease.owner));
        let Some((lease, row)) = taken.zip(row) else {
            identity.sightings.forget(self.space());
            return Ok(LeaseView::Free);
        };
        let host = self.host_of(Some(&lease)).await?;
        let rows = [row, host.until.to_be_bytes().to_vec()].concat();
        let unchanged = identity.sightings.unchanged_for(self.space(), rows, now);
        let span = Span::from_millis(lease.span);
        if unchanged >= span {
            let until = Timestamp::from_millis(lease.until.max(host.until));
            return Ok(LeaseView::Over { until });
        }
        let left = Span::from_millis(span.millis() - unchanged.millis());
        let owner = lease.owner;
        Ok(LeaseView::Held { owner, left })
    }

    /// Until when the host of a lease keeps all its spaces. A lease that was given back has none.
    async fn host_of(&self, lease: Option<&SpaceLease>) -> Result<HostMark, HostError> {
        let Some(lease) = lease.filter(|lease| lease.until > 0) else {
            return Ok(HostMark::default());
        };
        let at = keys::host(self.keys.table(), &lease.owner);
        let rows = self.tables.get(std::slice::from_ref(&at)).await?;
        let Some(row) = rows.into_iter().next().flatten() else {
            return Ok(HostMark::default());
        };
        Ok(HostMark {
            until: decode(&row)?,
            guard: Some(Guard::Equals(at, row)),
        })
    }

    async fn put_lease(&self, lease: &SpaceLease) -> Result<(), HostError> {
        let batch = Batch {
            guards: vec![self.fence(lease.epoch)],
            writes: vec![Write::Put(self.keys.lease(), encode(lease)?)],
        };
        let is_kept = self.commit(batch).await?;
        is_kept.then_some(()).ok_or(HostError::Lost)
    }

    /// What holds as long as nobody else has taken the space.
    pub(super) fn fence(&self, epoch: u64) -> Guard {
        Guard::Equals(self.keys.epoch(), epoch.to_be_bytes().to_vec())
    }
}

/// A host's row, and that it is still the same.
#[derive(Default)]
struct HostMark {
    /// Milliseconds since 1970.
    until: i64,
    guard: Option<Guard>,
}
