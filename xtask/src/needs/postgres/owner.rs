//! Whom the server runs as. Postgres refuses to run as root, so root lends it to an unprivileged
//! user; anybody else runs it as themselves. In: the users of the machine; out: one of them. Starts
//! nothing.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// In this order; the first that exists is taken.
const CANDIDATES: &[&str] = &["postgres", "nobody"];

#[derive(Debug, Clone)]
pub(super) struct ServerOwner {
    pub(super) name: String,
    pub(super) user: u32,
    pub(super) group: u32,
}

pub(super) fn am_root() -> Result<bool> {
    Ok(id(&["-u"]).context("cannot tell who we are")? == 0)
}

/// The user to lend the server to.
pub(super) fn unprivileged() -> Result<ServerOwner> {
    for name in CANDIDATES {
        if let (Some(user), Some(group)) = (id(&["-u", name]), id(&["-g", name])) {
            return Ok(ServerOwner {
                name: (*name).to_owned(),
                user,
                group,
            });
        }
    }
    bail!(
        "we are root and Postgres will not run as root; make a user `postgres`, or leave it out with --no-postgres"
    )
}

impl ServerOwner {
    /// Makes a command run as this user; supplementary groups fall away with it.
    pub(super) fn lend(&self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }

    pub(super) fn give(&self, path: &Path) -> Result<()> {
        let given = chown(path, Some(self.user), Some(self.group));
        given.with_context(|| format!("cannot give {} to {}", path.display(), self.name))
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_do_not_exist_have_no_number() {
        assert_eq!(id(&["-u", "root"]), Some(0));
        assert_eq!(id(&["-u", "no-such-user-here"]), None);
    }

    #[test]
    fn the_server_is_never_lent_to_root() {
        assert_ne!(unprivileged().expect("there is a user to lend to").user, 0);
    }
}
