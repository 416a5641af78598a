//! Reactive spaces: recipes over cells, links and streams.
//!
//! Everything of `lope-reactive` and `lope-cells`, and what those cannot have by themselves: recipe
//! files with places for their problems, effects that are durable runs, and the spaces of a
//! [`Client`](crate::Client).

mod effects;
mod file;
mod host;
mod single_step;

pub use lope_cells::address::BadAddress;
pub use lope_cells::project::is_stream;
pub use lope_cells::{
    Cell, CellAddress, CellPath, EntityId, Extent, Json, Link, Projected, Reads, Schema, SpaceName,
    Spaces, Transaction,
};
pub use lope_cells::{
    address, edit, element, error, id, json, labels, limit, link, path, project, read, resolve,
    schema, snapshot, space, transaction, value_graph, wording, write,
};
pub use lope_reactive::hosting::{
    Directory, EffectPerformer, HistoryEntry, HostError, HostIdentity, LeaseRequest, NoEffects,
    PoolOptions, RequestedEffect, SpaceClient, SpaceEntry, SpaceFinding, SpaceHost, SpacePool,
    SpaceStore, StoredReceipt, WaveNumber, worker_of,
};
pub use lope_reactive::machine::{
    Arrival, SpaceAction, SpaceCommand, SpaceInput, SpaceMachine, SpaceOutput, StreamEvent,
};
pub use lope_reactive::module::Modules;
pub use lope_reactive::process;
pub use lope_reactive::runner::{
    FailingNode, NOTHING_RUNS, NodeLine, ProcessReport, RecipeError, RecipeOptions, RecipeRun,
    RecipeRunner, name_of, names_of, run_request,
};
pub use lope_reactive::{Recipe, RecipeBuilder, javascript, limit as runner_limit, scheduler};

pub use crate::space_upkeep::process_identity;
pub use effects::WorkflowEffects;
pub use file::{RecipeFile, read_recipe, read_recipe_script, unreadable};
