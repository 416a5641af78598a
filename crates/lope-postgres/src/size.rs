//! How large commands are, so that groups and calls stay within bounds. Pure.

use lope_store::runs::{Admit, Deliver, RunCommit};
use lope_store::tables::{Batch, Guard, Write};
use lope_store::{StoreError, StoreResult};

/// Most bytes of one transaction's commands: a message to the server holds less than a gigabyte.
const PART_BYTES_MAX: usize = 256 * 1024 * 1024;
const MESSAGE_BYTES_MAX: usize = 900 * 1024 * 1024;

/// Rows and bytes.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// A command with a size.
pub(crate) trait Weighed {
    fn size(&self) -> Size;
}

impl Size {
    pub(crate) fn add(&mut self, other: Size) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }

    /// So many things of so many bytes each.
    fn of(lengths: impl Iterator<Item = usize>) -> Self {
        lengths.fold(Self::default(), |size, bytes| Self {
            rows: size.rows + 1,
            bytes: size.bytes + bytes,
        })
    }

    fn sum(sizes: impl IntoIterator<Item = Size>) -> Self {
        let mut sum = Self::default();
        sizes.into_iter().for_each(|size| sum.add(size));
        sum
    }
}

impl Weighed for Admit {
    fn size(&self) -> Size {
        Size::sum([
            Size {
                rows: 1,
                bytes: self
                    .snapshot
                    .as_ref()
                    .map_or(0, |snapshot| snapshot.body.len()),
            },
            Size::of(self.rows.iter().map(|row| row.body.len())),
            Size::of(self.blobs.iter().map(|blob| blob.bytes.len())),
        ])
    }
}

impl Weighed for Deliver {
    fn size(&self) -> Size {
        Size {
            rows: 1,
            bytes: self.body.len(),
        }
    }
}

impl Weighed for RunCommit {
    fn size(&self) -> Size {
        let parts = [
            Size {
                rows: 1,
                bytes: self
                    .snapshot
                    .as_ref()
                    .map_or(0, |snapshot| snapshot.body.len()),
            },
            Size::of(self.rows.iter().map(|row| row.body.len())),
            Size::of(self.blobs.iter().map(|blob| blob.bytes.len())),
        ];
        let mut size = Size::sum(parts);
        size.add(Size::sum(self.deliveries.iter().map(Weighed::size)));
        size.add(Size::sum(self.children.iter().map(Weighed::size)));
        size.add(Size::of(
            self.mailbox_sends.iter().map(|send| send.value.len()),
        ));
        size
    }
}

impl Weighed for Batch {
    fn size(&self) -> Size {
        let guards = self.guards.iter().map(|guard| match guard {
            Guard::Equals(_, value) => value.len(),
            Guard::Absent(_) | Guard::Unchanged(..) | Guard::ScopeUnchanged(..) => 0,
        });
        let writes = self.writes.iter().map(|write| match write {
            Write::Put(_, value) | Write::Create(_, value) | Write::Append { value, .. } => {
                value.len()
            }
            Write::Delete(_) => 0,
        });
        Size::of(guards.chain(writes))
    }
}

/// Split a call into parts that fit into one message each. Each command is all or nothing by
/// itself, so a call may be several transactions; a command that fits into no message is refused
/// before anything is written.
pub(crate) fn parts<T: Weighed>(commands: Vec<T>) -> StoreResult<Vec<Vec<T>>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut filled = usize::MAX;
    if commands
        .iter()
        .any(|command| command.size().bytes > MESSAGE_BYTES_MAX)
    {
        return Err(StoreError::refused(format!(
            "a command is larger than {MESSAGE_BYTES_MAX} bytes"
        )));
    }
    for command in commands {
        let bytes = command.size().bytes;
        if filled.saturating_add(bytes) > PART_BYTES_MAX {
            parts.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(part) = parts.last_mut() {
            part.push(command);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(usize);

    impl Weighed for Bytes {
        fn size(&self) -> Size {
            Size {
                rows: 1,
                bytes: self.0,
            }
        }
    }

    #[test]
    fn a_call_is_split_where_a_message_would_be_too_large() {
        let sizes = |commands: Vec<usize>| {
            let parts = parts(commands.into_iter().map(Bytes).collect()).unwrap();
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(vec![]), [0; 0]);
        assert_eq!(sizes(vec![1, 2, 3]), [3]);
        assert_eq!(
            sizes(vec![PART_BYTES_MAX, 1, PART_BYTES_MAX - 1, 1]),
            [1, 2, 1]
        );
        assert_eq!(sizes(vec![MESSAGE_BYTES_MAX, 0]), [1, 1]);
        assert!(parts(vec![Bytes(1), Bytes(MESSAGE_BYTES_MAX + 1)]).is_err());
    }
}
