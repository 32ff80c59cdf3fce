//! Licenses that jobs can ask for.

/// A license and how many of it there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub total: u64,
    /// How many jobs have.
    pub used: u64,
    /// How many jobs can have.
    pub free: u64,
    /// How many reservations keep.
    pub reserved: u64,
    /// Whether the database serves it.
    pub remote: bool,
}
