//! What real slurmrestds answered (`golden/`, recorded by `hack/record-slurm`), read by our decoders: the same facts come out of
//! every version of the API.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this file is a test")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use slurm::wire::{
    Envelope, ListDecoder, ListEnd, OfferScanner, Record, decode_diag, decode_submitted, says_no_such_job,
};
use slurm::{
    Account, AccountedCluster, AccountedJob, ApiVersion, Association, ControllerPing, Evidence, Holders,
    Interner, Job, License, Moment, Node, NodeLoad, NodeView, Number, Occupancy, Partition, Qos, Reading,
    Reason, Reservation, User, occupancy,
};

/// One recording: a server's version and a version of the API.
#[derive(Clone, Debug)]
struct Recording {
    server: &'static str,
    version: ApiVersion,
    folder: PathBuf,
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn recordings() -> Vec<Recording> {
    let mut found = Vec::new();
    for server in ["24.11", "26.05"] {
        for entry in fs::read_dir(golden().join(format!("slurm-{server}"))).unwrap() {
            let folder = entry.unwrap().path();
            if folder.is_dir() {
                let version = folder.file_name().unwrap().to_str().unwrap().parse().unwrap();
                found.push(Recording { server, version, folder });
            }
        }
    }
    found.sort_by_key(|recording| (recording.server, recording.version));
    assert_eq!(found.len(), 7, "{found:?}");
    found
}

impl Recording {
    fn body(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(format!("{name}.json"));
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn list<R: Record>(&self, name: &str) -> (Vec<R>, ListEnd) {
        let body = self.body(name);
        let mut whole = None;
        // In one piece, and in pieces of an odd size.
        for size in [body.len(), 977] {
            let (mut records, mut interner) = (Vec::new(), Interner::default());
            let mut decoder = ListDecoder::<R>::new();
            for piece in body.chunks(size) {
                decoder.feed(piece, &mut interner, &mut |record| records.push(record)).unwrap();
            }
            let end = decoder.finish().unwrap();
            if let Some((count, _)) = whole.replace((records.len(), (records, end))) {
                assert_eq!(count, whole.as_ref().unwrap().0, "{self:?} {name}");
            }
        }
        whole.unwrap().1
    }

    fn records<R: Record>(&self, name: &str) -> Vec<R> {
        let (records, end) = self.list(name);
        assert!(end.has_list && end.envelope.errors.is_empty(), "{self:?} {name}: {:?}", end.envelope);
        assert_eq!(end.envelope.release.split('.').take(2).collect::<Vec<_>>().join("."), self.server);
        records
    }

    fn only<R: Record>(&self, name: &str) -> R {
        let mut records = self.records(name);
        assert_eq!(records.len(), 1, "{self:?} {name}");
        records.remove(0)
    }
}

/// The same in every version of the API that one server offers.
fn assert_equal_within_each_server<T: PartialEq + Debug>(what: &str, read: impl Fn(&Recording) -> T) {
    let mut first: BTreeMap<&str, T> = BTreeMap::new();
    for recording in recordings() {
        let found = read(&recording);
        match first.get(recording.server) {
            None => {
                first.insert(recording.server, found);
            }
            Some(first) => {
                assert_eq!(*first, found, "{what} in {} of {}", recording.version, recording.server)
            }
        }
    }
}

/// The same everywhere.
fn assert_equal_everywhere<T: PartialEq + Debug>(what: &str, read: impl Fn(&Recording) -> T) {
    let mut first = None;
    for recording in recordings() {
        let found = read(&recording);
        match &first {
            None => first = Some(found),
            Some(first) => {
                assert_eq!(*first, found, "{what} in {} of {}", recording.version, recording.server)
            }
        }
    }
}

/// A node without what changes by itself between two recordings, and what only newer versions write.
fn node_facts(node: Node) -> Node {
    Node { load: NodeLoad::default(), topology: "".into(), ..node }
}

#[test]
fn nodes_are_the_same_in_every_version() {
    assert_equal_within_each_server("nodes", |recording| {
        recording.records::<Node>("nodes").into_iter().map(node_facts).collect::<Vec<_>>()
    });
    assert_equal_everywhere("states of nodes", |recording| {
        let facts = |node: Node| (node.name, node.state, node.cpus, node.real_memory, node.partitions);
        recording.records::<Node>("nodes").into_iter().map(facts).collect::<Vec<_>>()
    });
}

#[test]
fn every_answer_names_the_cluster_in_every_version() {
    for recording in recordings() {
        for name in ["nodes", "jobs", "ping", "nodes-expired-token"] {
            let envelope = Envelope::decode(&recording.body(name)).unwrap();
            assert_eq!(envelope.cluster, "test", "{recording:?} {name}");
        }
    }
}

#[test]
fn jobs_are_the_same_in_every_version() {
    assert_equal_within_each_server("jobs", |recording| recording.records::<Job>("jobs"));
    assert_equal_everywhere("jobs", |recording| {
        let facts = |job: Job| {
            let origin = job.origin;
            (
                (job.id, job.state, job.name, job.nodes),
                (job.array_job_id, job.array_task_id, job.het_job_id, job.time_limit),
                (origin.user.clone(), origin.partition.clone(), job.node_count),
            )
        };
        recording.records::<Job>("jobs").into_iter().map(facts).collect::<Vec<_>>()
    });
}

#[test]
fn every_word_of_every_state_is_known() {
    for recording in recordings() {
        for node in recording.records::<Node>("nodes") {
            assert!(node.state.is_understood(), "{recording:?}: {} {}", node.name, node.state);
        }
        for job in recording.records::<Job>("jobs") {
            assert!(job.state.is_understood(), "{recording:?}: {} {}", job.id, job.state);
        }
    }
}

#[test]
fn the_scene_is_read_as_it_was_set() {
    for recording in recordings() {
        let state = |name| recording.only::<Node>(name).state;
        assert!(state("node-draining").is_draining(), "{recording:?}");
        assert!(state("node-drained").is_drained(), "{recording:?}");
        assert_eq!(state("node-suspended").to_string(), "IDLE", "a node with a suspended job reads so");
        let job = |name| recording.only::<Job>(name).state.to_string();
        assert_eq!(job("job-suspended"), "SUSPENDED");
        assert_eq!(job("job-running"), "RUNNING");
        assert_eq!(job("job-completing"), "COMPLETED+COMPLETING");
        assert_eq!(job("job-completed"), "COMPLETED");
        assert_eq!(job("job-failed"), "FAILED");
        assert_eq!(job("job-pending"), "PENDING");
        let parts = recording.records::<Job>("job-heterogeneous");
        assert!(
            parts.len() >= 2 && parts.iter().all(|part| part.het_job_id == Some(parts[0].id)),
            "{parts:?}"
        );
        let tasks = recording.records::<Job>("job-array");
        assert!(tasks.iter().any(|task| task.array_task_id.is_some()), "{tasks:?}");
        assert!(tasks.iter().any(|task| task.array_task_id.is_none()), "those that wait are one record");
    }
}

#[test]
fn the_law_holds_on_recorded_answers() {
    let moment = Moment::default();
    let read = Reading { asked: moment, answered: moment };
    for recording in recordings() {
        let nodes = recording.records::<Node>("nodes");
        let holders = Holders::new(&recording.records::<Job>("jobs"));
        let judged = |name: &str| {
            let node = nodes.iter().find(|node| *node.name == *name).unwrap();
            let evidence = Evidence {
                node: NodeView::Seen(node, read),
                jobs: Some((&holders, read)),
                not_before: moment,
            };
            occupancy(name, &evidence)
        };
        assert!(matches!(judged("node-1"), Occupancy::Busy(Reason::Job(_))), "suspended: {recording:?}");
        assert!(matches!(judged("node-2"), Occupancy::Busy(Reason::Job(_))), "draining: {recording:?}");
        assert_eq!(judged("node-3"), Occupancy::Free, "drained: {recording:?}");
        assert_eq!(judged("node-4"), Occupancy::Idle, "down: {recording:?}");
        assert!(judged("node-5").is_busy(), "completing: {recording:?}");
        assert_eq!(judged("dynamic-1"), Occupancy::Idle, "{recording:?}");
    }
}

#[test]
fn no_change_is_told_from_no_jobs() {
    for recording in recordings() {
        let (jobs, end) = recording.list::<Job>("jobs-no-change");
        assert!(jobs.is_empty() && end.has_list, "that is what makes it dangerous");
        assert!(end.envelope.says_no_change(), "{recording:?}: {:?}", end.envelope);
        let (_, end) = recording.list::<Job>("jobs");
        assert!(!end.envelope.says_no_change(), "{recording:?}");
        assert!(end.envelope.last_update.value().is_some_and(|time| time > 0), "{recording:?}");
    }
}

#[test]
fn what_is_not_there_is_an_error_and_not_an_empty_list() {
    for recording in recordings() {
        let (nodes, end) = recording.list::<Node>("node-unknown");
        assert!(nodes.is_empty() && !end.has_list);
        assert_eq!(end.envelope.errors[0].number, 0, "{recording:?}");
        let (_, end) = recording.list::<Job>("job-unknown");
        assert_eq!(end.envelope.errors[0].number, 2017, "{recording:?}");
        let silent = recording.version < ApiVersion::new(42);
        assert_eq!(says_no_such_job(&recording.body("job-cancel-unknown")), !silent, "{recording:?}");
        assert!(!says_no_such_job(&recording.body("job-cancel")), "{recording:?}");
    }
}

#[test]
fn a_bad_token_has_its_number_and_a_controller_that_does_not_answer_is_not_up() {
    for recording in recordings() {
        for name in ["nodes-expired-token", "nodes-forged-token"] {
            let envelope = Envelope::decode(&recording.body(name)).unwrap();
            assert_eq!(envelope.errors[0].number, 1007, "{recording:?} {name}");
        }
        assert!(recording.only::<ControllerPing>("ping").responding, "{recording:?}");
        assert!(!recording.only::<ControllerPing>("ping-forged-token").responding, "{recording:?}");
        assert!(!recording.only::<ControllerPing>("ping-expired-token").responding, "{recording:?}");
    }
}

#[test]
fn partitions_reservations_and_licenses_are_the_same_in_every_version() {
    assert_equal_within_each_server("partitions", |recording| recording.records::<Partition>("partitions"));
    assert_equal_within_each_server("reservations", |recording| {
        recording.records::<Reservation>("reservations")
    });
    assert_equal_everywhere("licenses", |recording| {
        let mut licenses = recording.records::<License>("licenses");
        licenses.sort_by(|one, two| one.name.cmp(&two.name));
        licenses
    });
    for recording in recordings() {
        let partition = recording.only::<Partition>("partition");
        assert_eq!((partition.name.as_str(), partition.state.as_str()), ("main", "UP"), "{recording:?}");
        assert_ne!(partition.total_cpus, 0);
        let reservation = recording.only::<Reservation>("reservation");
        assert_eq!(reservation.name, "maintenance", "{recording:?}");
        assert!(reservation.flags.contains(&"MAINT".into()), "{recording:?}: {reservation:?}");
        assert_eq!(reservation.nodes, "node-6", "{recording:?}");
        assert!(reservation.end_time > reservation.start_time && reservation.start_time > 0);
    }
}

#[test]
fn the_accounting_is_the_same_in_every_version() {
    assert_equal_within_each_server("users", |recording| recording.records::<User>("slurmdb-users"));
    assert_equal_within_each_server("accounts", |recording| recording.records::<Account>("slurmdb-accounts"));
    assert_equal_within_each_server("associations", |recording| {
        recording.records::<Association>("slurmdb-associations")
    });
    assert_equal_within_each_server("qos", |recording| recording.records::<Qos>("slurmdb-qos"));
    assert_equal_within_each_server("clusters", |recording| {
        recording.records::<AccountedCluster>("slurmdb-clusters")
    });
    assert_equal_within_each_server("jobs", |recording| {
        // Slurm writes the time of the answer for the end of a job that goes on.
        let facts = |job: AccountedJob| match job.state.is_finished() {
            true => job,
            false => AccountedJob { end_time: 0, ..job },
        };
        recording.records::<AccountedJob>("slurmdb-jobs").into_iter().map(facts).collect::<Vec<_>>()
    });
    for recording in recordings() {
        let clusters = recording.records::<AccountedCluster>("slurmdb-clusters");
        assert!(clusters.iter().any(|cluster| cluster.name == "test"), "{recording:?}: {clusters:?}");
        assert!(recording.records::<User>("slurmdb-users").iter().any(|user| user.name == "root"));
        assert!(recording.records::<Qos>("slurmdb-qos").iter().any(|qos| qos.name == "normal"));
        let jobs = recording.records::<AccountedJob>("slurmdb-jobs");
        let failed = jobs.iter().find(|job| job.state.to_string() == "FAILED").unwrap();
        assert!(failed.exit_status.or_zero() > 0 && failed.end_time >= failed.start_time, "{failed:?}");
    }
}

#[test]
fn counters_and_submissions_are_read_in_every_version() {
    for recording in recordings() {
        let diag = decode_diag(&recording.body("diag")).unwrap().unwrap();
        assert!(diag.server_threads > 0 && !diag.rpcs_by_type.is_empty(), "{recording:?}: {diag:?}");
        assert!(diag.rpcs_by_user.iter().any(|rpc| rpc.name == "root"), "{recording:?}: {diag:?}");
        let submitted = decode_submitted(&recording.body("job-submit")).unwrap().unwrap();
        assert_ne!(submitted.id.0, 0);
        assert_eq!(decode_submitted(&recording.body("job-submit-refused")).unwrap(), None, "{recording:?}");
    }
}

#[test]
fn the_newest_version_of_each_server_is_chosen() {
    for (server, newest) in [("24.11", 42), ("26.05", 45)] {
        let mut scanner = OfferScanner::default();
        scanner.feed(&fs::read(golden().join(format!("slurm-{server}/openapi-paths.json"))).unwrap());
        let offer = scanner.finish();
        assert_eq!(offer.best(), Some(ApiVersion::new(newest)), "{offer:?}");
        assert!(!offer.slurmdb.is_empty());
    }
}

#[test]
fn numbers_that_are_unset_stay_unset() {
    for recording in recordings() {
        let job = recording.only::<Job>("job-running");
        assert_eq!(job.het_job_id, None, "{recording:?}");
        assert_ne!(job.time_limit, Number::Unset, "{recording:?}");
    }
}
