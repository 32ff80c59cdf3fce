//! The nodes, by name and by the label that maps may call them by.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::facts::{Name, Node};

/// What a map's name for a node leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// One node.
    One(&'a Arc<Node>),
    /// None.
    None,
    /// Several have that label.
    Several(Vec<&'a str>),
}

/// All nodes.
#[derive(Debug)]
pub struct Nodes {
    label: Box<str>,
    by_name: HashMap<Name, Arc<Node>>,
    by_label: HashMap<Box<str>, BTreeSet<Name>>,
}

impl Nodes {
    /// No nodes yet; `label` is the one that maps may call them by.
    pub fn new(label: &str) -> Self {
        Self { label: label.into(), by_name: HashMap::new(), by_label: HashMap::new() }
    }

    /// The label that maps may call nodes by.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Finds a node as a map calls it: by its name, else by its label.
    pub fn find(&self, called: &str) -> Found<'_> {
        if let Some(node) = self.by_name.get(called) {
            return Found::One(node);
        }
        let labelled: Vec<&Arc<Node>> = self
            .by_label
            .get(called)
            .into_iter()
            .flatten()
            .filter_map(|name| self.by_name.get(name))
            .collect();
        match labelled.as_slice() {
            [] => Found::None,
            [node] => Found::One(node),
            several => Found::Several(several.iter().map(|node| &*node.name).collect()),
        }
    }

    /// The node of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Node>> {
        self.by_name.get(name)
    }

    /// Takes in a node as it is now; returns all that maps could have called it or can call it, or none if nothing changed
    /// for anybody.
    pub fn set(&mut self, node: Arc<Node>) -> Vec<Name> {
        if self.by_name.get(&node.name).is_some_and(|known| **known == *node) {
            return Vec::new();
        }
        let mut calls = self.remove(&node.name.clone());
        if let Some(label) = node.labels.get(&*self.label) {
            self.by_label.entry(label.clone()).or_default().insert(node.name.clone());
            calls.push(Name::from(&**label));
        }
        calls.push(node.name.clone());
        self.by_name.insert(node.name.clone(), node);
        calls
    }

    /// Forgets a node; returns all that maps could have called it.
    pub fn remove(&mut self, name: &str) -> Vec<Name> {
        let Some(node) = self.by_name.remove(name) else { return Vec::new() };
        let mut calls = vec![node.name.clone()];
        if let Some(label) = node.labels.get(&*self.label) {
            if let Some(names) = self.by_label.get_mut(label) {
                names.remove(name);
                if names.is_empty() {
                    self.by_label.remove(label);
                }
            }
            calls.push(Name::from(&**label));
        }
        calls
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
