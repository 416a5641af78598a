//! Workflow definitions: a workflow as data, what makes one valid, its policies, and the front end
//! that reads workflow files.
//!
//! Text flows in through [`yaml::read`], definitions made by other front ends are plain values;
//! problems with a place and a hint flow out of [`Definition::validate`]. [`policy`] holds the
//! decisions about retries and limits, [`json_schema`] says whether an input is one that a
//! workflow takes. Pure: no clock, no I/O, no randomness. Nothing here knows how a run proceeds.
//!
//! ```
//! let text = "name: hello\nsteps:\n  greet:\n    return: '${ \"Hello, \" + input }'\n";
//! let hello = lope_definition::yaml::read(text, "hello.yaml").unwrap();
//! assert!(hello.validate().is_empty());
//! ```

mod definition;
pub mod json_schema;
pub mod policy;
pub mod yaml;

pub use definition::{
    BadDefinition, Block, BlockId, Branch, Case, Checkpoint, Definition, DispatchSpec,
    FailureHandler, Field, Glob, Matcher, NAME_MAX, NESTING_MAX, OnError, Parallel, Problem,
    Recipient, RedactedOf, RedactedPath, Role, Rule, STEPS_MAX, Site, Step, StepFacts, StepKind,
    StepPolicy, Touch, WRITTEN_FOR, executor, nearest, scope, structure,
};
