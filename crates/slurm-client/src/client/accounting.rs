//! What slurmdbd does.

use slurm::{Account, AccountedCluster, AccountedJob, Association, Qos, User};

use super::{Call, Client};
use crate::error::Error;

impl Client {
    /// The jobs in the accounting that started in a period (seconds since 1970).
    pub async fn accounted_jobs(&self, from: u64, to: u64) -> Result<Vec<AccountedJob>, Error> {
        let path = format!("jobs/?start_time={from}&end_time={to}");
        self.complete_list(&Call::list("the accounting of jobs", path).slurmdb()).await
    }

    /// Every user in the accounting.
    pub async fn users(&self) -> Result<Vec<User>, Error> {
        self.complete_list(&Call::list("the list of users", "users/").slurmdb()).await
    }

    /// Every account.
    pub async fn accounts(&self) -> Result<Vec<Account>, Error> {
        self.complete_list(&Call::list("the list of accounts", "accounts/").slurmdb()).await
    }

    /// Every association.
    pub async fn associations(&self) -> Result<Vec<Association>, Error> {
        self.complete_list(&Call::list("the list of associations", "associations/").slurmdb()).await
    }

    /// Every quality of service.
    pub async fn qos(&self) -> Result<Vec<Qos>, Error> {
        self.complete_list(&Call::list("the list of qualities of service", "qos/").slurmdb()).await
    }

    /// Every cluster in the accounting.
    pub async fn clusters(&self) -> Result<Vec<AccountedCluster>, Error> {
        self.complete_list(&Call::list("the list of clusters", "clusters/").slurmdb()).await
    }
}
