//! The cost of the host between an agent and a client.

use anyhow::{Result, bail};

use super::{Release, Table};

pub(super) fn measure(_release: &Release) -> Result<Table> {
    bail!("this benchmark has no body yet")
}
