//! The need for a browser: Chromium and its driver, which the tests of the dashboard steer.

use anyhow::Result;

use super::packages::Packaged;

const BROWSER: Packaged = Packaged {
    programs: &["chromium", "chromedriver"],
    packages: &["chromium", "chromium-driver"],
    way_out: "install chromium and chromium-driver, or leave their tests out with --no-browser",
};

/// Both programs are there, or an error that says how to go on.
pub(crate) fn provide() -> Result<()> {
    BROWSER.provide()
}
