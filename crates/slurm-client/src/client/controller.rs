//! What slurmctld does.

use slurm::wire::{self, Record};
use slurm::{
    ApiVersion, ControllerPing, Diag, Interner, Job, JobId, License, Node, NodeUpdate, Partition,
    Reservation, ReservationRequest, Submission, Submitted,
};

use super::answer::{Answer, Lookup, says_absent, says_no_such_node};
use super::{Call, Client, Repeat, segment};
use crate::error::Error;

impl Client {
    /// Whether the controllers answer. A controller with `responding: false` is not up, whatever the status of the answer.
    pub async fn ping(&self) -> Result<Vec<ControllerPing>, Error> {
        self.complete("a ping", "ping/").await
    }

    /// How the controller is doing.
    pub async fn diag(&self) -> Result<Diag, Error> {
        let call = Call::get("the counters of slurmctld", "diag/");
        let body = self.content(&call).await?;
        match wire::decode_diag(&body) {
            Ok(Some(diag)) => Ok(diag),
            Ok(None) => Err(Error::bad_answer(200, "it has no counters", &body)),
            Err(error) => Err(Error::bad_answer(200, error, &body)),
        }
    }

    /// One node.
    pub async fn node(&self, name: &str) -> Result<Lookup<Node>, Error> {
        let call = Call::get("a node", format!("node/{}", segment(name)));
        match self.look_up(&call, |node: &Node| *node.name == *name).await {
            Err(error) if says_no_such_node(&error) => Ok(Lookup::Absent),
            other => other,
        }
    }

    /// Changes a node. It is sent again only if it never arrived.
    pub async fn update_node(&self, name: &str, update: &NodeUpdate) -> Result<Lookup<()>, Error> {
        let body = wire::encode_node_update(update);
        let call = Call::post("the change of a node", format!("node/{}", segment(name)), &body);
        self.act(&call).await
    }

    /// Changes all these nodes alike, by one call. Where it is refused, some of them may have been changed all the same.
    pub async fn update_nodes(&self, names: &[&str], update: &NodeUpdate) -> Result<(), Error> {
        const NAME: &str = "the change of many nodes";
        self.needs(NAME, ApiVersion::MANY_NODES).await?;
        let call = Call::post(NAME, "nodes/", &wire::encode_nodes_update(names, update));
        self.repeat(call.repeat, || self.read_object(&call)).await.map(drop)
    }

    /// Removes a node that is not in the configuration file.
    pub async fn delete_node(&self, name: &str) -> Result<Lookup<()>, Error> {
        self.act(&Call::delete("the removal of a node", format!("node/{}", segment(name)))).await
    }

    /// One job. Of an array, this is the record with exactly this number.
    pub async fn job(&self, id: JobId) -> Result<Lookup<Job>, Error> {
        self.look_up(&Call::get("a job", format!("job/{id}")), |job: &Job| job.id == id).await
    }

    /// Submits a job. It is sent once, whatever happens: nobody wants a job twice.
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted, Error> {
        let body = wire::encode_submission(submission);
        let call = Call { repeat: Repeat::Never, ..Call::post("the job", "job/submit", &body) };
        let body = self.content(&call).await?;
        match wire::decode_submitted(&body) {
            Ok(Some(submitted)) => Ok(submitted),
            Ok(None) => Err(Error::bad_answer(200, "it names no job", &body)),
            Err(error) => Err(Error::bad_answer(200, error, &body)),
        }
    }

    /// Cancels a job. One that is over counts as done.
    ///
    /// Before v0.0.42 Slurm does not tell that there is no such job.
    pub async fn cancel(&self, id: JobId) -> Result<Lookup<()>, Error> {
        let call = Call::delete("the end of a job", format!("job/{id}"));
        match self.repeat(call.repeat, || self.read_object(&call)).await {
            Ok(Answer::Content(body)) if wire::says_no_such_job(&body) => Ok(Lookup::Absent),
            Ok(_) => Ok(Lookup::Found(())),
            Err(error) if says_absent(&error) => Ok(Lookup::Absent),
            Err(error) => Err(error),
        }
    }

    /// Every partition.
    pub async fn partitions(&self) -> Result<Vec<Partition>, Error> {
        self.complete("the list of partitions", "partitions/").await
    }

    /// Every reservation.
    pub async fn reservations(&self) -> Result<Vec<Reservation>, Error> {
        self.complete("the list of reservations", "reservations/").await
    }

    /// One reservation.
    pub async fn reservation(&self, name: &str) -> Result<Lookup<Reservation>, Error> {
        // The answer to a single lookup is an unspecific error in some versions, so the list decides.
        let all = self.reservations().await?;
        // Slurm does not mind the case of a reservation's name.
        let found = all.into_iter().find(|reservation| reservation.name.eq_ignore_ascii_case(name));
        Ok(found.map_or(Lookup::Absent, Lookup::Found))
    }

    /// Makes a reservation, or changes the one with this name.
    pub async fn put_reservation(&self, request: &ReservationRequest) -> Result<(), Error> {
        const NAME: &str = "a reservation";
        self.needs(NAME, ApiVersion::RESERVATIONS).await?;
        let call = Call::post(NAME, "reservation", &wire::encode_reservation(request));
        self.repeat(call.repeat, || self.read_object(&call)).await.map(drop)
    }

    /// Deletes a reservation.
    pub async fn delete_reservation(&self, name: &str) -> Result<Lookup<()>, Error> {
        const NAME: &str = "the end of a reservation";
        self.needs(NAME, ApiVersion::RESERVATIONS).await?;
        self.act(&Call::delete(NAME, format!("reservation/{}", segment(name)))).await
    }

    /// Makes slurmctld and all daemons read their configuration again.
    pub async fn reconfigure(&self) -> Result<(), Error> {
        // A GET that does something.
        let call = Call { repeat: Repeat::NeverSent, ..Call::get("the new configuration", "reconfigure/") };
        self.repeat(call.repeat, || self.read_object(&call)).await.map(drop)
    }

    /// Every license.
    pub async fn licenses(&self) -> Result<Vec<License>, Error> {
        self.complete("the list of licenses", "licenses/").await
    }

    /// The body of an answer that must have one.
    async fn content(&self, call: &Call) -> Result<Vec<u8>, Error> {
        match self.repeat(call.repeat, || self.read_object(call)).await? {
            Answer::Content(body) => Ok(body),
            Answer::Empty | Answer::Unchanged => Err(Error::bad_answer(200, "it is empty", b"")),
        }
    }

    /// Does something to a thing that may not be there.
    async fn act(&self, call: &Call) -> Result<Lookup<()>, Error> {
        match self.repeat(call.repeat, || self.read_object(call)).await {
            Ok(_) => Ok(Lookup::Found(())),
            Err(error) if says_absent(&error) => Ok(Lookup::Absent),
            Err(error) => Err(error),
        }
    }

    /// Looks a single thing up. Only Slurm's own word makes it absent.
    async fn look_up<R: Record + Send>(
        &self,
        call: &Call,
        is_it: impl Fn(&R) -> bool + Send + Sync,
    ) -> Result<Lookup<R>, Error> {
        let answer = self
            .repeat(call.repeat, || async {
                let mut found = None;
                let mut look = |record: R| {
                    if is_it(&record) {
                        found = Some(record);
                    }
                };
                self.read_list(call, &mut Interner::default(), &mut look).await?;
                Ok(found)
            })
            .await;
        match answer {
            Ok(Some(record)) => Ok(Lookup::Found(record)),
            Ok(None) => Err(Error::bad_answer(200, format!("{} is missing in it", call.name), b"")),
            Err(error) if says_absent(&error) => Ok(Lookup::Absent),
            Err(error) => Err(error),
        }
    }
}
