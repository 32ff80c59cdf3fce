//! The REST APIs of the clusters: a client for each, with tokens made from the cluster's own key.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use engine::Key;
use parking_lot::Mutex;
use render::Names;
use slurm::{KeyKind, Secret};
use slurm_client::{Client, KeySource, MintedToken, Server, Timeouts};

/// slurmrestd serves whoever the token names; only root may drain nodes.
const USER: &str = "root";
const ISSUER: &str = "soperator";
const TOKEN_LIFETIME: Duration = Duration::from_secs(600);

/// Why a cluster's REST API cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoApi {
    /// The key is unfit.
    #[error("the key for tokens cannot be used: {0}")]
    Key(#[from] slurm::KeyError),
    /// The address is none.
    #[error(transparent)]
    Address(#[from] slurm_client::ServerError),
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] slurm_client::TlsError),
}

/// Where a cluster's slurmrestd listens, as `http://HOST:PORT`.
pub type Address = Box<dyn Fn(&Names, u16) -> String + Send + Sync>;

/// The clients, one per cluster.
pub struct SlurmApis {
    address: Address,
    clients: Mutex<HashMap<Key, (Secret, Client)>>,
}

impl fmt::Debug for SlurmApis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SlurmApis").finish_non_exhaustive()
    }
}

impl Default for SlurmApis {
    /// By the Service that the operator makes for itself.
    fn default() -> Self {
        Self::at(Box::new(|names, port| {
            format!("http://{}:{port}", names.dns(&names.rest_internal_service()))
        }))
    }
}

impl SlurmApis {
    /// At other addresses.
    pub fn at(address: Address) -> Self {
        Self { address, clients: Mutex::default() }
    }

    /// The client of a cluster whose tokens are signed with `key`. Nothing is sent.
    pub fn client(&self, cluster: &Key, names: &Names, port: u16, key: &Secret) -> Result<Client, NoApi> {
        let mut clients = self.clients.lock();
        if let Some((known, client)) = clients.get(cluster)
            && known == key
        {
            return Ok(client.clone());
        }
        let server: Server = (self.address)(names, port).parse()?;
        let source = KeySource::Key(slurm::Key::from_bytes(KeyKind::Jwt, key.expose().to_vec())?);
        let tokens = MintedToken::new(source, USER, ISSUER, TOKEN_LIFETIME);
        let client = Client::builder(server, tokens).timeouts(Timeouts::default()).retries(0).build()?;
        clients.insert(cluster.clone(), (key.clone(), client.clone()));
        Ok(client)
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, cluster: &Key) {
        self.clients.lock().remove(cluster);
    }
}
