//! The only crate that talks to slurmrestd: a REST client, and a poller that feeds every consumer in a process.
