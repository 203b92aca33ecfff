//! How soon the host answers, and what it costs to keep it.

use anyhow::{Result, bail};

use super::{Release, Table};

pub(super) fn measure(_release: &Release) -> Result<Table> {
    bail!("this benchmark has no body yet")
}
