//! The lists of nodes and jobs, for the poller and for everyone else.

use slurm::wire::{ListEnd, Record};
use slurm::{ApiVersion, Interner, Job, Node};

use super::answer::{Answer, says_unchanged};
use super::{Call, Client};
use crate::error::Error;

/// What reading the jobs gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobsRead {
    /// All jobs.
    All {
        /// The controller's time by which to ask for changes.
        since: Option<u64>,
        /// The cluster that answered; empty where it does not tell.
        cluster: String,
    },
    /// As before. Never "no jobs".
    AsBefore,
}

impl JobsRead {
    fn all(end: ListEnd) -> Self {
        Self::All { since: end.envelope.last_update.value(), cluster: end.envelope.cluster }
    }
}

impl Client {
    /// Every node that slurmctld knows.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.complete("the list of nodes", "nodes/").await
    }

    /// Every job that slurmctld knows.
    pub async fn jobs(&self) -> Result<Vec<Job>, Error> {
        self.complete("the list of jobs", "jobs/").await
    }

    /// Every node, handed out one by one. They count only if this ends well. Returns the name of the cluster that answered.
    pub(crate) async fn read_nodes(
        &self,
        interner: &mut Interner,
        on_node: &mut (dyn FnMut(Node) + Send),
    ) -> Result<String, Error> {
        let call = Call::list("the list of nodes", "nodes/");
        let answer = self.read_list(&call, interner, on_node).await?;
        complete(&call, answer).map(|end| end.envelope.cluster)
    }

    /// Every job, handed out one by one, or the word that none has changed since the controller's time `since`.
    ///
    /// Rule 3 of the law: a request with `update_time` answers with an empty list and a warning when nothing has changed.
    /// An empty list is believed only without `update_time`: the answer is ambiguous otherwise, and the question is asked anew.
    pub(crate) async fn read_jobs(
        &self,
        since: Option<u64>,
        interner: &mut Interner,
        on_job: &mut (dyn FnMut(Job) + Send),
    ) -> Result<JobsRead, Error> {
        if let Some(since) = since {
            // The oldest versions want the word for Unix time before the number, newer ones only the number.
            let uts = if self.version().await? < ApiVersion::new(42) { "uts" } else { "" };
            let call = Call::list("the changes of jobs", format!("jobs/?update_time={uts}{since}"));
            let mut count = 0;
            let mut counting = |job| {
                count += 1;
                on_job(job);
            };
            match self.read_list::<Job>(&call, interner, &mut counting).await {
                Ok(Answer::Unchanged) => return Ok(JobsRead::AsBefore),
                Ok(Answer::Content(end)) if count > 0 => {
                    return Ok(JobsRead::all(end));
                }
                Ok(Answer::Content(end)) if end.envelope.says_no_change() => return Ok(JobsRead::AsBefore),
                Ok(Answer::Content(_) | Answer::Empty) => {}
                Err(error) if says_unchanged(&error) => return Ok(JobsRead::AsBefore),
                Err(error) => return Err(error),
            }
        }
        let call = Call::list("the list of jobs", "jobs/");
        let answer = self.read_list(&call, interner, on_job).await?;
        complete(&call, answer).map(JobsRead::all)
    }

    /// A complete list, tried again after transient failures.
    pub(super) async fn complete<R: Record + Send>(
        &self,
        name: &'static str,
        path: &str,
    ) -> Result<Vec<R>, Error> {
        self.complete_list(&Call::list(name, path)).await
    }

    pub(super) async fn complete_list<R: Record + Send>(&self, call: &Call) -> Result<Vec<R>, Error> {
        self.repeat(call.repeat, || async {
            let mut records = Vec::new();
            let answer =
                self.read_list(call, &mut Interner::default(), &mut |record| records.push(record)).await?;
            complete(call, answer)?;
            Ok(records)
        })
        .await
    }
}

/// A list that is not there is not an empty list.
fn complete(call: &Call, answer: Answer<ListEnd>) -> Result<ListEnd, Error> {
    let missing = |status| Error::bad_answer(status, format!("{} is missing in it", call.name), b"");
    match answer {
        Answer::Content(end) if end.has_list => Ok(end),
        Answer::Content(_) | Answer::Empty => Err(missing(200)),
        // Nobody asked for changes.
        Answer::Unchanged => Err(missing(304)),
    }
}
