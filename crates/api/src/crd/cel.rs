//! Validation rules in CEL, as the API server evaluates them.

use serde::Serialize;

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The CEL expression; true means valid.
    pub rule: &'static str,
    /// What the user reads when it is false: what to write instead.
    pub message: &'static str,
    /// The field that the message is about, below the object that carries the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<&'static str>,
}

/// A rule about the value that carries it.
pub const fn rule(rule: &'static str, message: &'static str) -> Rule {
    Rule { rule, message, field_path: None }
}

impl Rule {
    /// The same rule, reported at a field of the object.
    #[must_use]
    pub const fn at(mut self, field_path: &'static str) -> Self {
        self.field_path = Some(field_path);
        self
    }
}

/// What a value may be that names how many pods can be away at once.
pub const COUNT_OR_PERCENT: Rule = rule(
    "type(self) == int ? self >= 0 : self.matches('^[0-9]+%$')",
    "write a number of pods that is not negative, such as 1, or a percentage, such as 20%",
);

/// The name of a set of workers, whose host names are made from it.
pub const SET_NAME: Rule = rule(
    "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 60",
    "metadata.name must be at most 60 characters of a-z, 0-9 and '-' (no dots), because the workers' host names are \
     made from it; choose another name",
);

/// The name of a cluster, whose Services are named after it.
pub const CLUSTER_NAME: Rule = rule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 60",
    "metadata.name must be at most 60 characters of a-z, 0-9 and '-' that start with a letter, because Services are \
     named after it; choose another name",
);

/// Names of Slurm nodes must not change under running jobs. On the spec, so that it cannot be added or removed either.
pub const ORDINAL_PADDING: Rule = rule(
    "self.?ordinalPadding.orValue(0) == oldSelf.?ordinalPadding.orValue(0)",
    "spec.ordinalPadding cannot be changed, because the names of Slurm nodes would; make a new NodeSet",
)
.at(".ordinalPadding");
