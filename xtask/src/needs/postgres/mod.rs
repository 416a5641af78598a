//! The need for Postgres: a throwaway server on a Unix socket. Finds the programs, or installs the distribution's
//! package, chooses whom to run as, starts the cluster, and says in variables how to reach it. The variables are a
//! contract with the tests and are described in CONTRIBUTING.md.

mod cluster;
mod owner;
mod programs;

use anyhow::Result;

use crate::sweeper::Sweeper;
pub(super) use cluster::Cluster;

pub(super) fn provide(sweeper: &Sweeper) -> Result<Cluster> {
    let owner = owner::owner()?;
    let programs = match programs::find() {
        Some(programs) => programs,
        None => programs::install(owner.is_some())?,
    };
    let cluster = Cluster::start(programs, owner, sweeper)?;
    println!("{cluster}");
    Ok(cluster)
}
