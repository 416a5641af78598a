//! The need for Postgres: a throwaway server on a Unix socket. Finds the programs, or installs the
//! distribution's package, chooses whom to run as, starts the cluster, and says in variables how to
//! reach it. The variables are a contract with the tests and are described in CONTRIBUTING.md.

mod cluster;
mod owner;
mod pgbouncer;
mod programs;

use anyhow::Result;

use crate::sweeper::Sweeper;
pub(super) use cluster::Cluster;

pub(super) fn provide(sweeper: &Sweeper) -> Result<Cluster> {
    let am_root = owner::am_root()?;
    let programs = match programs::find() {
        Some(programs) => programs,
        None => programs::install(am_root)?,
    };
    // Only now: the package brings the user that its server runs as.
    let owner = if am_root {
        Some(owner::unprivileged()?)
    } else {
        None
    };
    let mut cluster = Cluster::start(programs, owner, sweeper)?;
    println!("{cluster}");
    cluster.pooler = Some(pgbouncer::variable(am_root));
    Ok(cluster)
}
