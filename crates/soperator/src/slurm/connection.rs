//! Which server, and with which token.

use std::path::PathBuf;
use std::time::Duration;

use slurm_client::{Client, FileToken, KeySource, MintedToken, Server, StaticToken, Timeouts};

use super::failed;
use crate::cli::Error;

/// Long enough for one run of the program.
const LIFETIME: Duration = Duration::from_secs(900);

#[derive(Debug, clap::Args)]
pub(super) struct Connection {
    /// Where slurmrestd listens: http://HOST:6820, https://HOST:6820 or unix:/PATH
    #[arg(long, value_name = "URL")]
    server: Server,
    /// A file with a token, as `scontrol token` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    token_file: Option<PathBuf>,
    /// The cluster's JWT key, to make a token from
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The Slurm user that a token made from the key speaks for
    #[arg(long, value_name = "USER", default_value = "root")]
    user: String,
    /// A CA certificate (PEM) to trust beside those of this machine, for https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How many seconds slurmrestd may take for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// A token, if neither file is given
    #[arg(long, env = "SLURM_JWT", hide_env_values = true, hide = true)]
    jwt: Option<String>,
}

impl Connection {
    pub(super) fn client(&self) -> Result<Client, Error> {
        let builder = if let Some(path) = &self.token_file {
            Client::builder(self.server.clone(), FileToken::new(path))
        } else if let Some(path) = &self.key_file {
            let key = KeySource::File(path.clone());
            Client::builder(self.server.clone(), MintedToken::new(key, &self.user, "soperator", LIFETIME))
        } else if let Some(token) = self.jwt.as_deref().filter(|token| !token.trim().is_empty()) {
            Client::builder(self.server.clone(), StaticToken::new(token))
        } else {
            return Err(failed("no token: give --token-file or --key-file, or set SLURM_JWT"));
        };
        let limit = Duration::from_secs(self.timeout);
        let usual = Timeouts::default();
        let builder = builder.timeouts(Timeouts {
            connect: usual.connect.min(limit),
            answer: limit,
            idle: usual.idle.min(limit),
            call: limit,
            list: usual.list.max(limit),
        });
        let builder = match &self.ca_file {
            None => builder,
            Some(path) => {
                let pem = std::fs::read(path).map_err(|error| Error::Unreadable(path.clone(), error))?;
                builder.extra_ca(pem)
            }
        };
        builder.build().map_err(failed)
    }
}
