//! Reading a space from outside: only the documents that are asked for are read, all from one
//! moment, links into other spaces included.

use std::collections::BTreeSet;

use lope_cells::address::CellAddress;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_cells::labels::CellLabels;
use lope_cells::project::is_stream;
use lope_cells::read::{Extent, Reads};
use lope_cells::resolve::{Follow, resolve};
use lope_cells::schema::Schema;
use lope_cells::space::Spaces;
use lope_cells::transaction::Transaction;
use lope_store::tables::At;

use super::HostError;
use super::space_store::SpaceStore;
use crate::limit;
use crate::runner::{add_names, names_of};

impl SpaceStore {
    /// Does `work` on the documents that it reads, as they stood together at one moment. It may be
    /// done several times, each time with more of what it asks for. What needs too many documents, or
    /// too much of them, is refused.
    pub async fn query<T>(
        &self,
        work: impl Fn(&Spaces, &mut Transaction) -> T,
    ) -> Result<T, HostError> {
        let mut known: BTreeSet<(SpaceName, EntityId)> = BTreeSet::new();
        loop {
            let spaces = self.gather(&known).await?;
            let mut transaction = spaces.begin();
            let done = work(&spaces, &mut transaction);
            let read = transaction.reads().keys();
            let read = read.filter(|at| !at.id.is_inline());
            let before = known.len();
            known.extend(read.map(|at| (at.space.clone(), at.id.clone())));
            if known.len() == before {
                let beyond = transaction.beyond().cloned();
                return beyond.map_or(Ok(done), |beyond| Err(HostError::Beyond(beyond)));
            }
            if known.len() > limit::DOCUMENTS_MAX {
                return Err(HostError::TooManyDocuments);
            }
        }
    }

    /// What a cell stands for, every link in it followed. Links that lead in a circle are refused.
    pub async fn read(&self, at: &CellAddress) -> Result<Option<Json>, HostError> {
        let read = self.query(|_, transaction| {
            resolve(transaction, at, Follow::Every)?;
            let value = transaction.project(at, &Schema::any());
            Ok(value.map(|value| value.to_json(at)))
        });
        read.await?.map_err(HostError::Circle)
    }

    /// Where a cell's links lead.
    pub async fn leads_to(&self, at: &CellAddress) -> Result<CellAddress, HostError> {
        let found = self.query(|_, transaction| resolve(transaction, at, Follow::Every));
        let found = found.await?.map_err(HostError::Circle)?;
        Ok(found.address)
    }

    /// Where a write to a cell goes: through redirects, into another space perhaps. Redirects that
    /// lead in a circle lead nowhere.
    pub async fn written_at(&self, at: &CellAddress) -> Result<CellAddress, HostError> {
        let found = self.query(|_, transaction| resolve(transaction, at, Follow::Redirects));
        Ok(found
            .await?
            .map_or_else(|_| at.clone(), |found| found.address))
    }

    /// What is stored in a cell, no link followed.
    pub async fn stored(&self, at: &CellAddress) -> Result<Option<Json>, HostError> {
        let documents = self.beside(at.space.clone());
        let found = documents.documents(std::slice::from_ref(&at.id)).await?;
        let found = found.into_iter().next().flatten();
        Ok(found.and_then(|root| root.at(at.path.keys()).cloned()))
    }

    /// Whether events can be sent to what a cell stands for.
    pub async fn is_stream(&self, at: &CellAddress) -> Result<bool, HostError> {
        self.query(|_, transaction| {
            let found = resolve(transaction, at, Follow::Every);
            found.is_ok_and(|found| found.value.as_ref().is_some_and(is_stream))
        })
        .await
    }

    /// What people call the documents of some spaces.
    pub async fn labels(&self, spaces: &BTreeSet<SpaceName>) -> Result<CellLabels, HostError> {
        self.query(|_, transaction| {
            let mut labels = CellLabels::default();
            for space in spaces {
                transaction.record(&names_of(space), Extent::Whole);
                add_names(&mut labels, space, transaction);
            }
            labels
        })
        .await
    }

    async fn gather(&self, known: &BTreeSet<(SpaceName, EntityId)>) -> Result<Spaces, HostError> {
        let mut spaces = Spaces::default();
        if known.is_empty() {
            return Ok(spaces);
        }
        let places = known.iter();
        let places = places.map(|(space, id)| self.beside(space.clone()).keys.document(id));
        let places: Vec<At> = places.collect();
        let documents = self.documents_at(&places).await?;
        for ((space, id), document) in known.iter().zip(documents) {
            if let Some(document) = document {
                spaces.load(space, id.clone(), document);
            }
        }
        Ok(spaces)
    }
}
