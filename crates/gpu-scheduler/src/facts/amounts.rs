//! Amounts of resources: what pods ask for, and what nodes have.

use std::collections::BTreeMap;

use crate::names::GPU_RESOURCE;
use crate::quantity;

/// Amounts of resources. Those that few pods ask for cost memory only where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral: i64,
    #[expect(
        clippy::box_collection,
        reason = "a word instead of three in every pod that asks for nothing else"
    )]
    others: Option<Box<BTreeMap<Box<str>, i64>>>,
}

impl Amounts {
    /// Reads amounts by the names of resources. `pods` is left out: it is counted, not asked for.
    pub fn read<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut amounts = Self::default();
        for (name, text) in all {
            if name != "pods" {
                let scale = if name == "cpu" { 3 } else { 0 };
                amounts.set(name, quantity::parse(text, scale).unwrap_or(0));
            }
        }
        amounts
    }

    /// One amount.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral,
            _ => self.others.as_ref().and_then(|others| others.get(name)).copied().unwrap_or(0),
        }
    }

    /// Sets one amount.
    pub fn set(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.cpu = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.ephemeral = amount,
            _ if amount == 0 => {
                if let Some(others) = &mut self.others {
                    others.remove(name);
                }
                self.others.take_if(|others| others.is_empty());
            }
            _ => {
                self.others.get_or_insert_default().insert(name.into(), amount);
            }
        }
    }

    /// Every resource of which there is something, with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        [("cpu", self.cpu), ("memory", self.memory), ("ephemeral-storage", self.ephemeral)]
            .into_iter()
            .filter(|(_, amount)| *amount != 0)
            .chain(
                self.others.iter().flat_map(|others| others.iter().map(|(name, amount)| (&**name, *amount))),
            )
    }

    /// GPUs, and parts and shares of them, that device plugins give out.
    pub fn plugin_gpus(&self) -> i64 {
        self.of_plugins().map(|(_, amount)| amount).sum()
    }

    /// The resources by which device plugins give out GPUs, and parts and shares of them: `nvidia.com/gpu`,
    /// `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.5gb`...
    pub fn of_plugins(&self) -> impl Iterator<Item = (&str, i64)> {
        let of_plugin = |name: &str| name.starts_with(GPU_RESOURCE) || name.starts_with("nvidia.com/mig-");
        self.iter().filter(move |(name, _)| of_plugin(name))
    }

    /// Adds what another has.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Takes away what another has.
    pub fn subtract(&mut self, other: &Self) {
        self.merge(other, i64::saturating_sub);
    }

    /// Of each resource the larger amount.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    fn merge(&mut self, other: &Self, merge: fn(i64, i64) -> i64) {
        self.cpu = merge(self.cpu, other.cpu);
        self.memory = merge(self.memory, other.memory);
        self.ephemeral = merge(self.ephemeral, other.ephemeral);
        for (name, amount) in other.others.iter().flat_map(|others| others.iter()) {
            self.set(name, merge(self.get(name), *amount));
        }
    }
}
