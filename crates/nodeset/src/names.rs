//! Names of pods, nodes and claims, and the ordinals in them.

use crate::facts::Set;

impl Set<'_> {
    /// The pod with this ordinal.
    pub fn pod_name(&self, ordinal: u32) -> String {
        format!("{}-{ordinal:0width$}", self.name, width = self.padding)
    }

    /// The Slurm node that the pod with this ordinal is.
    pub fn node_name(&self, ordinal: u32) -> String {
        match self.host_prefix {
            Some(prefix) => format!("{prefix}{ordinal:0width$}", width = self.padding),
            None => self.pod_name(ordinal),
        }
    }

    /// The claim of the pod with this ordinal.
    pub fn claim_name(&self, template: &str, ordinal: u32) -> String {
        format!("{template}-{}", self.pod_name(ordinal))
    }

    /// The ordinal in the name of a pod. None if no pod of this set has the name: `gpu-0-1` is none of `gpu`, but of `gpu-0`.
    pub fn ordinal_of(&self, pod: &str) -> Option<u32> {
        let digits = pod.strip_prefix(self.name)?.strip_prefix('-')?;
        ordinal(digits, self.padding)
    }

    /// The ordinal in the name of a Slurm node. None if no pod of this set would be that node.
    pub fn ordinal_of_node(&self, node: &str) -> Option<u32> {
        match self.host_prefix {
            Some(prefix) => ordinal(node.strip_prefix(prefix)?, self.padding),
            None => self.ordinal_of(node),
        }
    }

    /// `namespace/pod`, as reasons write it.
    pub(crate) fn full_name(&self, pod: &str) -> String {
        format!("{}/{pod}", self.namespace)
    }
}

/// Reads digits as they are written for an ordinal: with the padding, and no further zeros in front.
fn ordinal(digits: &str, padding: usize) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u32 = digits.parse().ok()?;
    let length = number.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits.len() == length.max(padding)).then_some(number)
}
