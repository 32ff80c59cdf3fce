//! What pods are made from: its revisions, how they are compared, named, chosen and thrown away.

mod choose;
mod content;

pub(crate) use choose::{Chosen, choose};
pub use content::{Content, ImageChanges};

use crate::facts::Owner;
use crate::time::UnixTime;

/// A ControllerRevision.
#[derive(Clone, Debug)]
pub struct Revision<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its number; the newest has the highest.
    pub number: i64,
    /// When it was made.
    pub created: UnixTime,
    /// The label with its hash, which its pods have too.
    pub hash: Option<&'a str>,
    /// Who its controller is.
    pub owner: Owner,
    /// What it holds.
    pub content: &'a Content,
}

impl<'a> Revision<'a> {
    /// What its pods have as a label.
    pub fn label(&self) -> &'a str {
        self.hash.unwrap_or(self.name)
    }

    fn age_key(&self) -> (i64, UnixTime, &'a str) {
        (self.number, self.created, self.name)
    }
}
