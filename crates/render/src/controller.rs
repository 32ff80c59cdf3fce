//! slurmctld.

use crate::{Facts, Rendered, ValidatedCluster};

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let _ = (cluster, facts);
    Vec::new()
}
