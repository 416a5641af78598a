//! The bounds of values, links and documents, by name. What is beyond one is refused or given up
//! with an error that says so.

/// Links followed from one address before it counts as leading nowhere.
pub const HOPS_MAX: usize = 100;

/// Longest entity id that may be stored, in bytes: with the name of its space it is a key of a
/// table, which has at most 1,024. An inline (`data:`) id is never a key.
pub const ENTITY_ID_MAX: usize = 640;

/// Longest name of a space, in bytes.
pub const SPACE_NAME_MAX: usize = 256;

/// Deepest value that may be written.
pub const DEPTH_MAX: usize = 128;

/// Most parts that one projected read may have, all links followed.
pub const PROJECTED_MAX: usize = 250_000;
