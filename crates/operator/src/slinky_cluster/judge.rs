//! What is wrong with a Cluster, in words that say what to do. Pure.

use jiff::Timestamp;
use nodeset::Identity;
use slurm::{Claims, Secret, claims_of};
use slurm_client::{Error, Health};

use super::{SLURM_NAME, TOKEN_KEY};
use crate::slurm_links::Pulse;

/// The condition that is True while Slurm answers.
pub const READY: &str = "Ready";

/// How to get a token.
const MAKE_A_TOKEN: &str =
    "write a new one into it, as `scontrol token username=slurm lifespan=SECONDS` of that cluster prints it";

/// What is wrong with a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody can be asked at this address.
    BadAddress(String),
    /// The Secret is not there.
    NoSecret(String),
    /// It has no token.
    NoToken(String),
    /// What it has is no token.
    BadToken {
        /// The Secret.
        secret: String,
        /// Why it is none.
        why: &'static str,
    },
    /// The first answer is still to come.
    Connecting,
    /// Nobody listens at the address.
    Unreachable(String),
    /// Somebody listens and does not answer.
    NoAnswer(String),
    /// The token is not accepted.
    TokenRefused {
        /// The Secret.
        secret: String,
        /// What Slurm says.
        why: String,
    },
    /// The token is over.
    TokenExpired {
        /// The Secret.
        secret: String,
        /// When it ended.
        at: String,
    },
    /// slurmrestd answers, but slurmctld does not; where it should run.
    ControllerDown(String),
    /// Slurm says no.
    Refused(String),
    /// The answer makes no sense.
    BadAnswer(String),
    /// Another cluster answers.
    OtherCluster {
        /// Its name.
        told: String,
        /// The name that was expected.
        expected: String,
    },
}

impl Trouble {
    /// A word for it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::BadAddress(_) => "BadAddress",
            Self::NoSecret(_) => "SecretMissing",
            Self::NoToken(_) => "TokenMissing",
            Self::BadToken { .. } => "TokenUnfit",
            Self::Connecting => "Connecting",
            Self::Unreachable(_) => "Unreachable",
            Self::NoAnswer(_) => "NoAnswer",
            Self::TokenRefused { .. } => "TokenRefused",
            Self::TokenExpired { .. } => "TokenExpired",
            Self::ControllerDown(_) => "ControllerDown",
            Self::Refused(_) => "Refused",
            Self::BadAnswer(_) => "BadAnswer",
            Self::OtherCluster { .. } => "OtherCluster",
        }
    }

    /// What is wrong, and what to do.
    pub fn message(&self) -> String {
        match self {
            Self::BadAddress(why) => format!("spec.server: {why}"),
            Self::NoSecret(secret) => format!(
                "Secret {secret} (spec.token.secretRef) is not there; make it, with a token of the cluster under the key \
                 {TOKEN_KEY}"
            ),
            Self::NoToken(secret) => format!(
                "Secret {secret} has no key {TOKEN_KEY}; add it, with a token as `scontrol token` of the cluster prints it"
            ),
            Self::BadToken { secret, why } => {
                format!("{TOKEN_KEY} in Secret {secret} is no token: {why}; {MAKE_A_TOKEN}")
            }
            Self::Connecting => "slurmrestd is asked for the first time".into(),
            Self::Unreachable(why) | Self::NoAnswer(why) | Self::Refused(why) | Self::BadAnswer(why) => {
                why.clone()
            }
            Self::TokenRefused { secret, why } => {
                format!("slurmrestd does not accept the token in Secret {secret}: {why}; {MAKE_A_TOKEN}")
            }
            Self::TokenExpired { secret, at } => {
                format!("the token in Secret {secret} ended at {at}; {MAKE_A_TOKEN}")
            }
            Self::ControllerDown(on) => {
                format!("slurmrestd answers, but slurmctld{on} does not; check that it runs")
            }
            Self::OtherCluster { told, expected } => format!(
                "slurmrestd at spec.server belongs to the cluster `{told}`, not to `{expected}`, so nothing that it says is \
                 believed; correct spec.server, or, if the move is meant, write `{told}` into the annotation {SLURM_NAME}"
            ),
        }
    }
}

/// What is known of a link.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) health: &'a Health,
    pub(super) pulse: Option<Pulse>,
    pub(super) identity: Identity,
    /// How Slurm calls the cluster.
    pub(super) told: &'a str,
    /// How it should.
    pub(super) expected: Option<&'a str>,
    /// The Secret with the token.
    pub(super) secret: &'a str,
    pub(super) token: &'a Secret,
    pub(super) now: Timestamp,
}

/// Whether Slurm answers, and answers as it should.
pub(super) fn judge(seen: &Seen<'_>) -> Result<(), Trouble> {
    if seen.health.looks == 0 {
        return Err(Trouble::Connecting);
    }
    if let Some(error) = &seen.health.error {
        return Err(failure(seen, error));
    }
    if seen.identity == Identity::Foreign {
        let expected = seen.expected.unwrap_or_default().to_string();
        return Err(Trouble::OtherCluster { told: seen.told.to_string(), expected });
    }
    match &seen.pulse {
        Some(Pulse::Down(hosts)) => Err(Trouble::ControllerDown(on(hosts))),
        Some(Pulse::Up) | None => Ok(()),
    }
}

fn failure(seen: &Seen<'_>, error: &Error) -> Trouble {
    let secret = || seen.secret.to_string();
    match error {
        Error::Unreachable { .. } => Trouble::Unreachable(error.to_string()),
        Error::Timeout { server, .. } => Trouble::NoAnswer(format!(
            "{error}; check that slurmrestd at {server} runs, and that slurmctld answers it"
        )),
        Error::Interrupted { .. } => Trouble::NoAnswer(error.to_string()),
        Error::Unauthorised { reason } => match end_of(seen.token).filter(|end| *end <= seen.now) {
            Some(end) => Trouble::TokenExpired { secret: secret(), at: end.to_string() },
            None => Trouble::TokenRefused { secret: secret(), why: reason.clone() },
        },
        Error::Token(problem) => Trouble::TokenRefused { secret: secret(), why: problem.to_string() },
        Error::Refused { .. } => match &seen.pulse {
            Some(Pulse::Down(hosts)) => Trouble::ControllerDown(on(hosts)),
            Some(Pulse::Up) | None => Trouble::Refused(error.to_string()),
        },
        // The beginning of the answer is in the log: it may differ each time, and a status must not.
        Error::BadAnswer { status, reason, .. } => Trouble::BadAnswer(format!(
            "what answers at spec.server (status {status}) is not slurmrestd: {reason}; check the address"
        )),
        Error::NoSuchPath { .. }
        | Error::UnsupportedVersion { .. }
        | Error::NotOffered { .. }
        | Error::TooLong { .. } => Trouble::BadAnswer(error.to_string()),
    }
}

fn on(hosts: &[String]) -> String {
    if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) }
}

/// When a token ends, as it says itself.
fn end_of(token: &Secret) -> Option<Timestamp> {
    let Claims { expires_at, .. } = claims_of(token).ok()?;
    Timestamp::from_second(i64::try_from(expires_at).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use slurm::{Key, KeyKind, sign_token};
    use slurm_client::Stage;

    use super::*;

    fn token(ends: u64) -> Secret {
        let key = Key::generate(KeyKind::Jwt, |bytes| bytes[0] = 1).unwrap();
        let claims = Claims::new("slurm", "test", ends - 100, Duration::from_secs(100), [7; 16]);
        sign_token(&claims, &key).unwrap()
    }

    fn judged(error: Option<Error>, change: impl FnOnce(&mut Seen<'_>)) -> Result<(), Trouble> {
        let health = Health { failures: 1, error: error.map(Arc::new), looks: 1 };
        let token = token(2000);
        let mut seen = Seen {
            health: &health,
            pulse: None,
            identity: Identity::Proven,
            told: "a",
            expected: Some("a"),
            secret: "s",
            token: &token,
            now: Timestamp::from_second(1000).unwrap(),
        };
        change(&mut seen);
        judge(&seen)
    }

    fn reason(error: Error) -> &'static str {
        judged(Some(error), |_| {}).unwrap_err().reason()
    }

    #[test]
    fn a_cluster_is_ready_when_lists_came_and_a_controller_answers() {
        assert_eq!(judged(None, |_| {}), Ok(()));
        assert_eq!(judged(None, |seen| seen.pulse = Some(Pulse::Up)), Ok(()));
        assert_eq!(judged(None, |seen| seen.identity = Identity::Unproven), Ok(()));
        let down = judged(None, |seen| seen.pulse = Some(Pulse::Down(vec!["ctl".into()]))).unwrap_err();
        assert!(down.message().contains("slurmctld on ctl does not"), "{}", down.message());
    }

    #[test]
    fn each_kind_of_failure_has_its_own_reason() {
        let (server, why) = (|| "http://x:6820".to_string(), || "no".to_string());
        assert_eq!(reason(Error::Unreachable { server: server(), reason: why() }), "Unreachable");
        let late = Error::Timeout { server: server(), stage: Stage::Answer, limit: Duration::from_secs(1) };
        assert_eq!(reason(late), "NoAnswer");
        assert_eq!(reason(Error::Interrupted { server: server(), reason: why() }), "NoAnswer");
        assert_eq!(reason(Error::Unauthorised { reason: why() }), "TokenRefused");
        assert_eq!(reason(Error::Refused { call: "x", status: 500, errors: Vec::new() }), "Refused");
        let garbage = Error::BadAnswer { status: 200, reason: why(), body: "14:03:07 <html>".into() };
        let trouble = judged(Some(garbage), |_| {}).unwrap_err();
        assert_eq!(trouble.reason(), "BadAnswer");
        assert!(!trouble.message().contains("14:03"), "it would be written with every look");
        assert_eq!(reason(Error::NoSuchPath { path: "nodes/".into() }), "BadAnswer");
    }

    #[test]
    fn a_token_that_is_over_is_not_just_refused() {
        let refused = || Some(Error::Unauthorised { reason: "Protocol authentication error".into() });
        let late = |seen: &mut Seen<'_>| seen.now = Timestamp::from_second(2000).unwrap();
        let trouble = judged(refused(), late).unwrap_err();
        assert_eq!(trouble.reason(), "TokenExpired");
        assert!(
            trouble.message().contains("Secret s ended at 1970-01-01T00:33:20Z"),
            "{}",
            trouble.message()
        );
        assert_eq!(judged(refused(), |_| {}).unwrap_err().reason(), "TokenRefused");
        assert_eq!(judged(None, late), Ok(()), "what slurmrestd accepts is good");
    }

    #[test]
    fn the_answer_of_another_cluster_is_not_believed() {
        let trouble = judged(None, |seen| {
            (seen.identity, seen.told, seen.expected) = (Identity::Foreign, "b", Some("a"));
        })
        .unwrap_err();
        assert_eq!(trouble.reason(), "OtherCluster");
        assert!(trouble.message().contains("write `b` into the annotation"), "{}", trouble.message());
    }
}
