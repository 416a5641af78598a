//! What one evaluation has learnt about large dicts and sets: the lists that were asked about, and
//! the places of their keys. How keys are found is in `py`.

use std::collections::HashMap;
use std::sync::Arc;

use lope_model::Value;

use crate::key::HashKey;

/// The lists asked about, and the places of their keys from the second time on.
#[derive(Debug, Clone, Default)]
pub(crate) struct LookupCache(pub(crate) Vec<IndexedList>);

#[derive(Debug, Clone)]
pub(crate) struct IndexedList {
    pub(crate) items: Arc<Vec<Value>>,
    pub(crate) indexes: Option<HashMap<HashKey, usize>>,
}
