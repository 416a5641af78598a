//! The need for valgrind, which counts instructions.

use anyhow::Result;

use super::packages::Packaged;

const VALGRIND: Packaged = Packaged {
    programs: &["valgrind"],
    packages: &["valgrind"],
    way_out: "install valgrind",
};

pub(crate) fn provide() -> Result<()> {
    VALGRIND.provide()
}
