//! A PersistentVolumeClaim.

/// A claim that has a name which the set may want.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Its owner references.
    pub owners: Vec<ClaimRef<'a>>,
}

/// An owner reference of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRef<'a> {
    /// What it points to.
    pub target: RefTarget<'a>,
    /// Whether it says `controller: true`.
    pub controller: bool,
}

/// What an owner reference points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefTarget<'a> {
    /// A set of our kind with our name.
    Set {
        /// Its uid, which may be another one's than ours.
        uid: &'a str,
    },
    /// A pod.
    Pod {
        /// Its name.
        name: &'a str,
        /// Its uid.
        uid: &'a str,
    },
    /// Something else.
    Other,
}
