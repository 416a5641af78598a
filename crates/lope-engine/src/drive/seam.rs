//! Where tests make a part of an engine panic, by the engine's name and the part's. Outside this crate's own tests there is
//! nothing here.

#[cfg(not(test))]
pub(crate) const fn pass(_engine: &str, _part: &'static str) {}

#[cfg(test)]
pub(crate) use wanted::{pass, wish};

#[cfg(test)]
mod wanted {
    use std::sync::Mutex;

    static WISHES: Mutex<Vec<(String, &'static str)>> = Mutex::new(Vec::new());

    /// The part panics the next time it comes by; several wishes are several panics.
    pub(crate) fn wish(engine: &str, part: &'static str) {
        WISHES.lock().expect("nobody panics with it").push((engine.to_owned(), part));
    }

    pub(crate) fn pass(engine: &str, part: &'static str) {
        let mut wishes = WISHES.lock().expect("nobody panics with it");
        let found = wishes.iter().position(|(name, wanted)| name == engine && *wanted == part);
        let wanted = found.map(|place| wishes.remove(place));
        drop(wishes);
        assert!(wanted.is_none(), "the {part} was told to panic");
    }
}
