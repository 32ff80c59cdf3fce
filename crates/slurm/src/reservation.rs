//! Reservations: nodes kept for somebody or for maintenance.

use crate::Number;

/// A reservation. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its nodes, as a host list.
    pub nodes: String,
    /// How many nodes it has.
    pub node_count: u32,
    /// When it begins.
    pub start_time: u64,
    /// When it ends.
    pub end_time: u64,
    /// Its flags, as Slurm writes them.
    pub flags: Vec<String>,
    /// Who may use it, with commas between them.
    pub users: String,
    /// Which accounts may use it, with commas.
    pub accounts: String,
    /// The partition that its nodes come from.
    pub partition: String,
}

/// A reservation to be made, or what to change of one. Nothing is sent where there is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationRequest {
    /// Its name. One that exists is changed.
    pub name: String,
    /// Its nodes, as a host list.
    pub nodes: Option<String>,
    /// When it begins.
    pub start_time: Option<u64>,
    /// How many minutes it lasts.
    pub duration: Option<Number>,
    /// Its flags.
    pub flags: Vec<String>,
    /// Who may use it.
    pub users: Vec<String>,
    /// Which accounts may use it.
    pub accounts: Vec<String>,
    /// The partition that its nodes come from.
    pub partition: Option<String>,
    /// Free text.
    pub comment: Option<String>,
}

impl ReservationRequest {
    /// An endless maintenance reservation from `now` on, which leaves running jobs alone.
    pub fn maintenance(name: &str, nodes: &str, users: &[&str], now: u64) -> Self {
        Self {
            name: name.into(),
            nodes: Some(nodes.into()),
            start_time: Some(now),
            duration: Some(Number::Infinite),
            flags: vec!["MAINT".into(), "IGNORE_JOBS".into()],
            users: users.iter().map(|user| (*user).into()).collect(),
            ..Self::default()
        }
    }
}
