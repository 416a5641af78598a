//! Numbers that look random and follow from a seed.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, not including, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self
            .below((to - from).max(0).cast_unsigned() + 1)
            .cast_signed()
    }

    /// In so many of a thousand cases.
    pub fn chance(&mut self, of_a_thousand: u64) -> bool {
        of_a_thousand > 0 && self.below(1_000) < of_a_thousand
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.below(items.len() as u64)).expect("an index of a slice")]
    }

    /// Ten bytes for an id.
    pub fn bytes(&mut self) -> [u8; 10] {
        let (one, two) = (self.roll().to_be_bytes(), self.roll().to_be_bytes());
        [
            one[0], one[1], one[2], one[3], one[4], two[0], two[1], two[2], two[3], two[4],
        ]
    }
}
