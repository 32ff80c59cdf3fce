//! What stands around the content of every answer: errors, warnings, and who answers.

use std::fmt;

use serde::Deserialize;

use super::Text;
use crate::Number;

/// An error that Slurm reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmError {
    /// Its number, as in `slurm_errno.h`; 0 when Slurm gives none.
    pub number: u64,
    /// Slurm's text for the number.
    pub error: String,
    /// What went wrong.
    pub description: String,
    /// The function that failed.
    pub source: String,
}

impl fmt::Display for SlurmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.description.as_str(), self.error.as_str()) {
            ("", "") => "an error without a text",
            ("", text) | (text, "") => text,
            (description, error) if description.contains(error) => description,
            (description, error) => return write!(f, "{error}: {description} (error {})", self.number),
        };
        write!(f, "{text} (error {})", self.number)
    }
}

/// A warning that Slurm reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmWarning {
    /// What to note.
    pub description: String,
    /// The function that warns.
    pub source: String,
}

/// What stands around the content of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// What went wrong.
    pub errors: Vec<SlurmError>,
    /// What to note.
    pub warnings: Vec<SlurmWarning>,
    /// The version of Slurm that answers, as `24.11.5`.
    pub release: String,
    /// The cluster that answers, where Slurm tells.
    pub cluster: String,
    /// The controller's time when it wrote the list, in seconds since 1970. A later request may name it as `update_time`.
    pub last_update: Number,
}

impl Envelope {
    /// Reads the envelope of an answer; its content may be there or not.
    pub fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let meta = wire.meta.unwrap_or_default();
        Ok(Self {
            errors: wire.errors.unwrap_or_default().into_iter().map(Into::into).collect(),
            warnings: wire
                .warnings
                .unwrap_or_default()
                .into_iter()
                .map(|warning| SlurmWarning {
                    description: warning.description.into(),
                    source: warning.source.into(),
                })
                .collect(),
            release: meta.slurm.release.into(),
            cluster: meta.slurm.cluster.into(),
            last_update: wire.last_update,
        })
    }

    /// Whether Slurm says that nothing has changed since `update_time`, and so left the list empty.
    pub fn says_no_change(&self) -> bool {
        self.warnings.iter().any(|warning| {
            let text = warning.description.to_ascii_lowercase();
            text.contains("no job changes") || text.contains("no change")
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow)]
    errors: Option<Vec<WireError<'a>>>,
    #[serde(borrow)]
    warnings: Option<Vec<WireWarning<'a>>>,
    #[serde(borrow)]
    meta: Option<WireMeta<'a>>,
    last_update: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireError<'a> {
    error_number: Number,
    #[serde(borrow)]
    error: Text<'a>,
    #[serde(borrow)]
    description: Text<'a>,
    #[serde(borrow)]
    source: Text<'a>,
}

impl From<WireError<'_>> for SlurmError {
    fn from(wire: WireError<'_>) -> Self {
        Self {
            number: wire.error_number.or_zero(),
            error: wire.error.into(),
            description: wire.description.into(),
            source: wire.source.into(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireWarning<'a> {
    #[serde(borrow)]
    description: Text<'a>,
    #[serde(borrow)]
    source: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireMeta<'a> {
    // v0.0.40 still writes it with a capital letter in some answers.
    #[serde(borrow, alias = "Slurm")]
    slurm: WireSlurm<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSlurm<'a> {
    #[serde(borrow)]
    release: Text<'a>,
    #[serde(borrow)]
    cluster: Text<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_warnings_and_the_version_are_read() {
        let envelope = Envelope::decode(
            br#"{"meta": {"slurm": {"release": "24.11.5", "cluster": "c", "version": {"major": "24"}}, "command": []},
                "errors": [{"description": "Failure to query node x", "error_number": 2018,
                            "error": "Invalid node name specified", "source": "_dump_nodes"}],
                "warnings": [{"description": "No job changes since update_time=5", "source": "s"}],
                "last_update": {"set": true, "infinite": false, "number": 7}, "nodes": [{}]}"#,
        )
        .unwrap();
        assert_eq!(envelope.release, "24.11.5");
        assert_eq!(envelope.last_update, Number::Value(7));
        assert_eq!(envelope.errors[0].number, 2018);
        assert_eq!(
            envelope.errors[0].to_string(),
            "Invalid node name specified: Failure to query node x (error 2018)"
        );
        assert!(envelope.says_no_change());
    }

    #[test]
    fn nothing_at_all_is_an_empty_envelope() {
        assert_eq!(Envelope::decode(b"{}").unwrap(), Envelope::default());
        assert_eq!(
            Envelope::decode(br#"{"meta": null, "errors": null, "warnings": null}"#).unwrap(),
            Envelope::default()
        );
    }

    #[test]
    fn an_error_prints_whatever_parts_it_has() {
        let error = |error: &str, description: &str| SlurmError {
            number: 5,
            error: error.into(),
            description: description.into(),
            source: String::new(),
        };
        assert_eq!(error("", "").to_string(), "an error without a text (error 5)");
        assert_eq!(error("a", "").to_string(), "a (error 5)");
        assert_eq!(error("", "b").to_string(), "b (error 5)");
        assert_eq!(error("a", "b").to_string(), "a: b (error 5)");
        assert_eq!(error("a", "why a").to_string(), "why a (error 5)");
    }
}
