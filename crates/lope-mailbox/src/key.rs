//! Where things stand in the byte tables: workers, positions, and the keys of inbox, outbox,
//! timers, leases and dead letters.
//!
//! Keys sort as bytes, so numbers in them are big-endian. Worker ids are never negative, and
//! neither are due times.

use std::fmt;
use std::str::FromStr;

use lope_model::Timestamp;
use lope_store::tables::{At, Range, TableId, Write};
use thiserror::Error;

/// A worker: whoever reads one inbox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(u64);

/// A number that no key can hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadKey {
    #[error("'{0}' is not a worker id: a number from 0 to 9223372036854775807 is expected")]
    ConsumerLoop(String),
    #[error("a timer cannot be due at {0}: due times are not negative")]
    Due(i64),
}

/// The key of a timer: due time, then a number that tells timers of one time apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerKey {
    due: Timestamp,
    pub seq: u64,
}

/// Where a message stands that waits for its worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessagePosition {
    /// In the inbox, under this number.
    Inbox(u64),
    Timer(TimerKey),
}

/// The two kinds of position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageSource {
    Inbox,
    Timers,
}

/// What a key of the lease table stands for, behind its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseKey {
    /// The counter of the worker's claims.
    Head,
    /// One message.
    Single(MessagePosition),
    /// All messages from this position on, as far as the lease says.
    Stretch(MessagePosition),
}

/// The last byte of a key that leases a stretch of messages; it tells the key from that of the
/// stretch's first message.
const STRETCH: u8 = b'S';

impl WorkerId {
    pub const fn new(id: i64) -> Option<Self> {
        if id < 0 {
            None
        } else {
            Some(Self(id.cast_unsigned()))
        }
    }

    pub const fn number(self) -> i64 {
        self.0.cast_signed()
    }

    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        Self::new(u64::from_be_bytes(bytes).cast_signed())
    }
}

impl TryFrom<i64> for WorkerId {
    type Error = BadKey;

    fn try_from(id: i64) -> Result<Self, BadKey> {
        Self::new(id).ok_or_else(|| BadKey::ConsumerLoop(id.to_string()))
    }
}

impl FromStr for WorkerId {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        text.parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| BadKey::ConsumerLoop(text.to_owned()))
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TimerKey {
    pub const fn new(due: Timestamp, seq: u64) -> Result<Self, BadKey> {
        if due.millis() < 0 {
            Err(BadKey::Due(due.millis()))
        } else {
            Ok(Self { due, seq })
        }
    }

    pub const fn due(self) -> Timestamp {
        self.due
    }

    /// The key right behind this one, if there is one.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Self::new(Timestamp::from_millis(self.due.millis().checked_add(1)?), 0).ok(),
        }
    }

    pub fn to_bytes(self) -> [u8; 16] {
        pair(self.due.millis().cast_unsigned(), self.seq)
    }

    pub fn from_bytes(key: &[u8]) -> Option<Self> {
        let (due, seq) = numbers(key)?;
        Self::new(Timestamp::from_millis(due.cast_signed()), seq).ok()
    }
}

impl MessageSource {
    pub const fn table(self) -> TableId {
        match self {
            Self::Inbox => TableId::INBOX,
            Self::Timers => TableId::TIMERS,
        }
    }
}

impl MessagePosition {
    pub const fn source(self) -> MessageSource {
        match self {
            Self::Inbox(_) => MessageSource::Inbox,
            Self::Timer(_) => MessageSource::Timers,
        }
    }

    /// The key of the row that holds the message.
    pub fn row(self, worker: WorkerId) -> At {
        match self {
            Self::Inbox(seq) => At::new(TableId::INBOX, inbox(worker, seq)),
            Self::Timer(key) => At::new(TableId::TIMERS, key.to_bytes()),
        }
    }

    /// The position of a row, by its key.
    pub fn of_row(source: MessageSource, key: &[u8]) -> Option<Self> {
        match source {
            MessageSource::Inbox => Some(Self::Inbox(numbers(key)?.1)),
            MessageSource::Timers => TimerKey::from_bytes(key).map(Self::Timer),
        }
    }

    /// The position right behind this one, if there is one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Inbox(seq) => seq.checked_add(1).map(Self::Inbox),
            Self::Timer(key) => key.next().map(Self::Timer),
        }
    }

    /// The position in bytes, behind its worker: eight of an inbox, sixteen of a timer.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Inbox(seq) => seq.to_be_bytes().to_vec(),
            Self::Timer(key) => key.to_bytes().to_vec(),
        }
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            8 => Some(Self::Inbox(u64::from_be_bytes(bytes.try_into().ok()?))),
            16 => TimerKey::from_bytes(bytes).map(Self::Timer),
            _ => None,
        }
    }

    /// A number that differs between positions, for jitter.
    pub fn salt(self) -> u64 {
        match self {
            Self::Inbox(seq) => seq,
            Self::Timer(key) => key.seq ^ key.due.millis().cast_unsigned().rotate_left(32) ^ 1,
        }
    }
}

impl LeaseKey {
    pub fn at(self, worker: WorkerId) -> At {
        let mut key = worker.to_bytes().to_vec();
        match self {
            Self::Head => {}
            Self::Single(position) => key.extend(position.to_bytes()),
            Self::Stretch(position) => {
                key.extend(position.to_bytes());
                key.push(STRETCH);
            }
        }
        At::new(TableId::LEASES, key)
    }

    /// Read a key of the lease table behind its worker.
    pub fn of_row(key: &[u8]) -> Option<Self> {
        let position = key.get(8..)?;
        match position.len() {
            0 => Some(Self::Head),
            8 | 16 => MessagePosition::from_bytes(position).map(Self::Single),
            9 | 17 => position
                .strip_suffix(&[STRETCH])
                .and_then(MessagePosition::from_bytes)
                .map(Self::Stretch),
            _ => None,
        }
    }
}

/// The key of an inbox row, and of the dead letter that it may become.
pub fn inbox(worker: WorkerId, seq: u64) -> [u8; 16] {
    pair(worker.0, seq)
}

/// Worker and number of an inbox or dead letter key.
pub fn read_inbox(key: &[u8]) -> Option<(WorkerId, u64)> {
    let (_, seq) = numbers(key)?;
    Some((WorkerId::from_bytes(key[..8].try_into().ok()?)?, seq))
}

pub fn outbox(seq: u64) -> At {
    At::new(TableId::OUTBOX, seq.to_be_bytes())
}

pub fn read_outbox(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

pub fn dead_letter(worker: WorkerId, seq: u64) -> At {
    At::new(TableId::DEAD_LETTER, inbox(worker, seq))
}

pub fn dedupe(id: &[u8]) -> At {
    At::new(TableId::DEDUPE, id)
}

/// Put a frame at the end of a worker's inbox.
pub fn append_inbox(worker: WorkerId, frame: Vec<u8>) -> Write {
    append_numbered(TableId::INBOX, worker, frame)
}

/// Put a dead letter under a number that no inbox row of the worker has or will have.
pub fn append_dead_letter(worker: WorkerId, record: Vec<u8>) -> Write {
    append_numbered(TableId::DEAD_LETTER, worker, record)
}

pub fn append_outbox(frame: Vec<u8>) -> Write {
    Write::Append {
        table: TableId::OUTBOX,
        prefix: Vec::new(),
        sequence: b"outbox".to_vec(),
        value: frame,
    }
}

pub fn append_timer(due: Timestamp, frame: Vec<u8>) -> Result<Write, BadKey> {
    let prefix = TimerKey::new(due, 0)?.to_bytes()[..8].to_vec();
    Ok(Write::Append {
        table: TableId::TIMERS,
        prefix,
        sequence: b"timers".to_vec(),
        value: frame,
    })
}

/// The rows of `source` from one position up to another (without it; without one, to the end of the
/// worker's rows).
pub fn rows(
    worker: WorkerId,
    from: MessagePosition,
    to: Option<MessagePosition>,
    limit: usize,
) -> Range {
    let to = match (to, from.source()) {
        (Some(to), _) => Some(to.row(worker).key),
        (None, MessageSource::Inbox) => lope_store::tables::after_prefix(&worker.to_bytes()),
        // A due time is not negative, so keys that begin with a set bit are no timers.
        (None, MessageSource::Timers) => Some(vec![0x80]),
    };
    let direction = lope_store::tables::Direction::Forward;
    Range {
        table: from.source().table(),
        from: from.row(worker).key,
        to,
        direction,
        limit,
    }
}

fn append_numbered(table: TableId, worker: WorkerId, value: Vec<u8>) -> Write {
    let prefix = worker.to_bytes();
    Write::Append {
        table,
        prefix: prefix.to_vec(),
        sequence: [b"inbox:".as_slice(), &prefix].concat(),
        value,
    }
}

fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&first.to_be_bytes());
    key[8..].copy_from_slice(&second.to_be_bytes());
    key
}

fn numbers(key: &[u8]) -> Option<(u64, u64)> {
    let key: [u8; 16] = key.try_into().ok()?;
    let (first, second) = key.split_at(8);
    Some((
        u64::from_be_bytes(first.try_into().ok()?),
        u64::from_be_bytes(second.try_into().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
            .collect()
    }

    fn worker(id: i64) -> WorkerId {
        WorkerId::new(id).unwrap()
    }

    /// "inbox(7,99) = `00000000000000070000000000000063`; timer(100,2) =
    /// `00000000000000640000000000000002`."
    #[test]
    fn keys_are_those_of_the_vectors() {
        assert_eq!(
            hex(&inbox(worker(7), 99)),
            "00000000000000070000000000000063"
        );
        let timer = TimerKey::new(Timestamp::from_millis(100), 2).unwrap();
        assert_eq!(hex(&timer.to_bytes()), "00000000000000640000000000000002");
        assert_eq!(hex(&outbox(5).key), "0000000000000005");
    }

    /// "Tables: 0 app_state · 1 inbox `[worker u64be][seq u64be]` → LMSG · 2 outbox `[seq u64be]` →
    /// LMSG · 3 leases (inbox key) · 4 timers `[due_ts i64be][seq u64be]` → LMSG (due < 0 refused)
    /// · 5 dedupe (message id) · 6 dead_letter (inbox key)."
    #[test]
    fn every_table_has_its_number_and_its_keys() {
        let names = [
            "app_state",
            "inbox",
            "outbox",
            "leases",
            "timers",
            "dedupe",
            "dead_letter",
        ];
        let manifest = lope_store::tables::Manifest::standard();
        assert_eq!(
            manifest
                .specs()
                .iter()
                .map(|spec| &*spec.name)
                .collect::<Vec<_>>(),
            names
        );
        let timer = MessagePosition::Timer(TimerKey::new(Timestamp::from_millis(9), 3).unwrap());
        let inbox = inbox(worker(7), 9).to_vec();
        let keys = [
            (MessagePosition::Inbox(9).row(worker(7)), 1, inbox.clone()),
            (outbox(3), 2, 3_u64.to_be_bytes().to_vec()),
            (
                LeaseKey::Single(MessagePosition::Inbox(9)).at(worker(7)),
                3,
                inbox.clone(),
            ),
            (
                timer.row(worker(7)),
                4,
                [9_i64.to_be_bytes(), 3_i64.to_be_bytes()].concat(),
            ),
            (dedupe(b"an id"), 5, b"an id".to_vec()),
            (dead_letter(worker(7), 9), 6, inbox),
        ];
        for (at, table, key) in keys {
            assert_eq!((at.table, at.key), (TableId(table), key));
        }
    }

    /// "Worker ids are ≥ 0 (keys are unsigned); a negative one is refused."
    #[test]
    fn a_negative_worker_is_refused() {
        assert_eq!(
            WorkerId::try_from(-1),
            Err(BadKey::ConsumerLoop("-1".into()))
        );
        assert!("-1".parse::<WorkerId>().is_err() && "x".parse::<WorkerId>().is_err());
        assert_eq!(
            "9223372036854775807"
                .parse::<WorkerId>()
                .map(WorkerId::number),
            Ok(i64::MAX)
        );
        assert!("9223372036854775808".parse::<WorkerId>().is_err());
    }

    /// "4 timers `[due_ts i64be][seq u64be]` → LMSG (due < 0 refused)"
    #[test]
    fn a_negative_due_time_is_refused() {
        assert_eq!(
            TimerKey::new(Timestamp::from_millis(-1), 0),
            Err(BadKey::Due(-1))
        );
        assert!(append_timer(Timestamp::from_millis(-5), vec![]).is_err());
        assert_eq!(TimerKey::from_bytes(&[0xff; 16]), None);
    }

    #[test]
    fn keys_sort_as_their_numbers_and_read_back() {
        let keys = [
            inbox(worker(1), 255),
            inbox(worker(1), 256),
            inbox(worker(2), 0),
            inbox(worker(256), 0),
        ];
        assert!(keys.is_sorted());
        assert_eq!(read_inbox(&keys[1]), Some((worker(1), 256)));
        assert_eq!(read_inbox(&keys[1][..15]), None);
        assert_eq!(read_inbox(&[0xff; 16]), None);
        assert_eq!(read_outbox(&outbox(7).key), Some(7));
    }

    #[test]
    fn lease_keys_of_a_worker_stand_behind_its_id_and_differ() {
        let timer = MessagePosition::Timer(TimerKey::new(Timestamp::from_millis(9), 3).unwrap());
        let kinds = [
            LeaseKey::Head,
            LeaseKey::Single(MessagePosition::Inbox(9)),
            LeaseKey::Stretch(MessagePosition::Inbox(9)),
            LeaseKey::Single(timer),
            LeaseKey::Stretch(timer),
        ];
        for kind in kinds {
            let at = kind.at(worker(7));
            assert!(at.key.starts_with(&worker(7).to_bytes()));
            assert_eq!(LeaseKey::of_row(&at.key), Some(kind));
        }
        assert_eq!(
            LeaseKey::Single(MessagePosition::Inbox(9))
                .at(worker(7))
                .key,
            inbox(worker(7), 9)
        );
        assert_eq!(LeaseKey::of_row(&[0; 11]), None);
    }

    #[test]
    fn the_next_place_is_right_behind() {
        assert_eq!(
            MessagePosition::Inbox(4).next(),
            Some(MessagePosition::Inbox(5))
        );
        assert_eq!(MessagePosition::Inbox(u64::MAX).next(), None);
        let last = TimerKey::new(Timestamp::from_millis(4), u64::MAX).unwrap();
        let first = TimerKey::new(Timestamp::from_millis(5), 0).unwrap();
        assert_eq!(
            MessagePosition::Timer(last).next(),
            Some(MessagePosition::Timer(first))
        );
    }
}
