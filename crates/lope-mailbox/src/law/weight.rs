//! How many messages are read at a time, so that large ones do not fill the memory: a few at first,
//! more while they are small.

/// Most bytes of messages that a worker has in hand.
pub const CLAIMED_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// Messages read at a time before anything is known of their size.
const FIRST: usize = 64;
/// How fast the number grows while messages are small.
const GROWTH: usize = 4;

/// What is known of the size of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    rows: usize,
}

impl Default for Weight {
    fn default() -> Self {
        Self { rows: FIRST }
    }
}

impl Weight {
    /// How many to read next, of those that are wanted.
    pub fn page(self, wanted: usize) -> usize {
        wanted.min(self.rows)
    }

    /// So many messages had so many bytes.
    pub fn saw(&mut self, rows: usize, bytes: usize) {
        if rows == 0 {
            return;
        }
        let fitting = (CLAIMED_BYTES_MAX / (bytes / rows).max(1)).max(1);
        self.rows = fitting.min(self.rows.saturating_mul(GROWTH));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_are_read_in_ever_larger_pages_and_large_ones_in_small() {
        let mut weight = Weight::default();
        assert_eq!((weight.page(10), weight.page(1_024)), (10, 64));
        weight.saw(64, 6_400);
        assert_eq!(weight.page(1_024), 256);
        weight.saw(256, 25_600);
        assert_eq!(weight.page(1_024), 1_024);
        weight.saw(1_024, 1_024 * 1_024 * 1_024);
        assert_eq!(weight.page(1_024), 64);
        weight.saw(1, 10 * CLAIMED_BYTES_MAX);
        assert_eq!(weight.page(1_024), 1);
        weight.saw(0, 0);
        assert_eq!(weight.page(1_024), 1);
    }
}
