//! The word that a misspelt one was probably meant to be.

/// Longest word that is compared; the work grows with its square.
const WORD_MAX: usize = 64;

/// The known word closest to `word`, if it is close at all: a third of its letters may differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(WORD_MAX).collect();
    let allowed = (word.len() / 3).max(1);
    let scored = known
        .into_iter()
        .map(|other| (distance(&word, other), other));
    scored
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Letters to insert, drop, replace or swap with their neighbour; case counts for nothing but
/// breaks ties by order.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().take(WORD_MAX).collect();
    let same = |a: char, b: char| a.eq_ignore_ascii_case(&b);
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in word.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut cost = (row[j] + usize::from(!same(*a, *b)))
                .min(row[j + 1] + 1)
                .min(next[j] + 1);
            if i > 0 && j > 0 && same(*a, other[j - 1]) && same(word[i - 1], *b) {
                cost = cost.min(before[j - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_found_and_far_ones_are_not() {
        let known = ["contains", "startsWith", "size", "split"];
        assert_eq!(nearest("contain", known), Some("contains"));
        assert_eq!(nearest("startswith", known), Some("startsWith"));
        assert_eq!(nearest("szie", known), Some("size"));
        assert_eq!(nearest("frobnicate", known), None);
    }
}
