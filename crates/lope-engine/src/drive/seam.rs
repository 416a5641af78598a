//! Where tests make a part of an engine panic, by the engine's name and the part's; those that run
//! the binary name the part in `LOPE_TEST_FALL`, and then it panics every time. In a program that
//! is built for use there is nothing here.

#[cfg(all(not(test), not(debug_assertions)))]
pub(crate) const fn pass(_engine: &str, _part: &'static str) {}

#[cfg(all(not(test), debug_assertions))]
pub(crate) fn pass(_engine: &str, part: &'static str) {
    static FALLS: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let falls = FALLS.get_or_init(|| std::env::var("LOPE_TEST_FALL").ok());
    assert!(
        falls.as_deref() != Some(part),
        "the {part} was told to panic"
    );
}

#[cfg(test)]
pub(crate) use wanted::{pass, wish};

#[cfg(test)]
mod wanted {
    use std::sync::Mutex;

    static WISHES: Mutex<Vec<(String, &'static str)>> = Mutex::new(Vec::new());

    /// The part panics the next time it comes by; several wishes are several panics.
    pub(crate) fn wish(engine: &str, part: &'static str) {
        WISHES
            .lock()
            .expect("nobody panics with it")
            .push((engine.to_owned(), part));
    }

    pub(crate) fn pass(engine: &str, part: &'static str) {
        let mut wishes = WISHES.lock().expect("nobody panics with it");
        let found = wishes
            .iter()
            .position(|(name, wanted)| name == engine && *wanted == part);
        let wanted = found.map(|index| wishes.remove(index));
        drop(wishes);
        assert!(wanted.is_none(), "the {part} was told to panic");
    }
}
