//! How values stand in columns: ids and times as text, flags and numbers as integers, small
//! documents as JSON.

use std::ops::{Deref, DerefMut};

use lope_model::id::TaskId;
use lope_model::{Moment, RunId, RunnerId, Timestamp};
use lope_store::transfer::TransferValue;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that a column can hold.
pub(super) trait Column: Sized {
    /// Nothing: the column holds something else.
    fn read(cell: &TransferValue) -> Option<Self>;
    fn write(&self) -> TransferValue;
}

/// A small document in a text column.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JsonText<T>(pub T);

impl<T> Deref for JsonText<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for JsonText<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl Column for String {
    fn read(cell: &TransferValue) -> Option<Self> {
        match cell {
            TransferValue::Text(text) => Some(text.clone()),
            TransferValue::Null | TransferValue::Int(_) | TransferValue::Bytes(_) => None,
        }
    }

    fn write(&self) -> TransferValue {
        TransferValue::Text(self.clone())
    }
}

impl Column for i64 {
    fn read(cell: &TransferValue) -> Option<Self> {
        match cell {
            TransferValue::Int(number) => Some(*number),
            TransferValue::Null | TransferValue::Text(_) | TransferValue::Bytes(_) => None,
        }
    }

    fn write(&self) -> TransferValue {
        TransferValue::Int(*self)
    }
}

impl Column for bool {
    fn read(cell: &TransferValue) -> Option<Self> {
        i64::read(cell).map(|number| number != 0)
    }

    fn write(&self) -> TransferValue {
        TransferValue::Int(i64::from(*self))
    }
}

impl Column for Moment {
    fn read(cell: &TransferValue) -> Option<Self> {
        i64::read(cell).map(Self)
    }

    fn write(&self) -> TransferValue {
        TransferValue::Int(self.0)
    }
}

impl<T: Column> Column for Option<T> {
    fn read(cell: &TransferValue) -> Option<Self> {
        match cell {
            TransferValue::Null => Some(None),
            cell => T::read(cell).map(Some),
        }
    }

    fn write(&self) -> TransferValue {
        self.as_ref().map_or(TransferValue::Null, Column::write)
    }
}

impl<T: Serialize + DeserializeOwned> Column for JsonText<T> {
    fn read(cell: &TransferValue) -> Option<Self> {
        serde_json::from_str(&String::read(cell)?).ok().map(Self)
    }

    fn write(&self) -> TransferValue {
        TransferValue::Text(serde_json::to_string(&self.0).expect("such a document is JSON"))
    }
}

macro_rules! as_text {
    ($($kind:ty),*) => { $(
        impl Column for $kind {
            fn read(cell: &TransferValue) -> Option<Self> {
                String::read(cell)?.parse().ok()
            }

            fn write(&self) -> TransferValue {
                TransferValue::Text(self.to_string())
            }
        }
    )* };
}
pub(super) use as_text;

as_text!(Timestamp, TaskId, RunId, RunnerId);
