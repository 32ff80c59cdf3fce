//! Everything Slurm, pure: names, states, configuration text, keys and tokens, REST wire and domain types.
//!
//! No I/O, no clock, no randomness: time and entropy are passed in. Nothing here knows Kubernetes.

mod accounting;
pub mod agent;
mod api_version;
mod busy;
pub mod conf;
pub mod config_set;
mod diag;
mod hostlist;
mod intern;
mod job;
mod job_state;
mod key;
mod license;
mod memory;
mod node;
mod node_name;
mod node_state;
mod number;
mod partition;
mod ping;
mod reservation;
mod secret;
mod state;
mod submission;
mod time_limit;
mod token;
mod tres;
pub mod wire;

pub use accounting::{Account, AccountedCluster, AccountedJob, Association, Qos, User};
pub use api_version::{ApiVersion, ApiVersionError, Offer};
pub use busy::{Evidence, Holders, Moment, NodeView, Occupancy, Reading, Reason, occupancy};
pub use diag::{Diag, RpcCount};
pub use hostlist::{HostList, HostListError};
pub use intern::Interner;
pub use job::{Job, JobId, JobOrigin};
pub use job_state::{Hold, JobBase, JobFlag, JobState};
pub use key::{Key, KeyError, KeyKind};
pub use license::License;
pub use memory::{Memory, MemoryError};
pub use node::{Node, NodeLoad, NodeTarget, NodeUpdate};
pub use node_name::{NodeName, NodeNameError};
pub use node_state::{NodeBase, NodeFlag, NodeState};
pub use number::Number;
pub use partition::Partition;
pub use ping::ControllerPing;
pub use reservation::{Reservation, ReservationRequest};
pub use secret::Secret;
pub use state::{State, StateWord};
pub use submission::{Submission, Submitted};
pub use time_limit::{TimeLimit, TimeLimitError};
pub use token::{Claims, TokenError, claims_of, sign_token, verify_token};
pub use tres::{Tres, TresError};
