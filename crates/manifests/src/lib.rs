//! Checks manifests of our kinds as the API server would: unknown fields, defaults, schema and CEL rules.
//!
//! Pure: text in, findings with lines out. The definitions are those of [`api::crds`].
//!
//! ```
//! let validator = manifests::Validator::new();
//! let report = validator.check("apiVersion: slinky.slurm.net/v1alpha1\nkind: Cluster\nmetadata: {name: a}\n")?;
//! assert_eq!(report.findings[0].to_string(), "1: spec: required, but missing");
//! # Ok::<(), manifests::SchemaError>(())
//! ```

mod check;
mod defaults;
mod duration;
mod finding;
mod further;
mod kinds;
mod nearest;
mod node;
mod object_meta;
mod parse;
mod rules;
mod scalar;
mod schema;
mod unknown;

pub use finding::Finding;
pub use further::{Further, Remark};
pub use schema::SchemaError;

use finding::Findings;
use kinds::{Definition, Found, Kinds};
use node::{Data, Node, Path};
use rules::Compiler;

/// What came out of a text.
#[derive(Debug, Default)]
pub struct Report {
    /// What is wrong, in the order of the text.
    pub findings: Vec<Finding>,
    /// What a further check warns of, in the order of the text.
    pub warnings: Vec<Finding>,
    /// How many objects of our kinds there were.
    pub checked: usize,
    /// How many objects of other API groups were passed over.
    pub passed_over: usize,
}

/// Knows every kind of both groups.
pub struct Validator {
    kinds: Kinds,
    compiler: Compiler,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Validator {
    /// Knows the kinds; the definition of each is read when its first object comes along.
    #[must_use]
    pub fn new() -> Self {
        Self { kinds: Kinds::new(), compiler: Compiler::new() }
    }

    /// Reads every definition.
    ///
    /// # Errors
    ///
    /// A definition says something that cannot be checked here. A test sees to it that none does.
    pub fn load(&self) -> Result<(), SchemaError> {
        self.kinds.iter().try_for_each(|kind| kind.definition(&self.compiler).map(|_| ()))
    }

    /// Checks every document of a text.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn check(&self, text: &str) -> Result<Report, SchemaError> {
        self.check_further(text, &|_, _, _| Vec::new())
    }

    /// As [`Self::check`], and asks `further` about each object that is otherwise valid, with its defaults filled in.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn check_further(&self, text: &str, further: Further<'_>) -> Result<Report, SchemaError> {
        let mut report = Report::default();
        for document in parse::documents(text) {
            match document {
                Ok(node) => self.document(node, &Path::default(), further, &mut report)?,
                Err(broken) => report.findings.push(Finding {
                    line: broken.mark.line,
                    column: Some(broken.mark.column),
                    path: String::new(),
                    message: broken.message,
                }),
            }
        }
        Ok(report)
    }

    fn document(
        &self,
        mut node: Node,
        path: &Path,
        further: Further<'_>,
        report: &mut Report,
    ) -> Result<(), SchemaError> {
        if node.is_null() {
            return Ok(());
        }
        let mut findings = Findings::new(node.mark);
        match self.kinds.find(&node, path, &mut findings) {
            Found::Ours(kind) => {
                report.checked += 1;
                self.object(kind.definition(&self.compiler)?, &mut node, path, &mut findings);
                if findings.is_empty() {
                    let remarks = further(kind.api_version(), kind.name(), &node.to_json());
                    report.warnings.append(&mut further::take(remarks, &node, path, &mut findings));
                }
            }
            Found::Foreign => report.passed_over += 1,
            Found::List => {
                if let Some(Data::List(items)) = node.get_mut("items").map(|items| &mut items.data) {
                    for (index, item) in std::mem::take(items).into_iter().enumerate() {
                        self.document(item, &path.field("items").index(index), further, report)?;
                    }
                }
            }
            Found::Nothing => report.checked += 1,
        }
        let mut found = findings.into_vec();
        // By line, and in the order of the checks within one.
        found.sort_by_key(|finding| finding.line);
        report.findings.append(&mut found);
        Ok(())
    }

    /// In the order of the API server: unknown fields, defaults, schema, and rules if the schema leaves them their values.
    fn object(&self, kind: &Definition, node: &mut Node, path: &Path, findings: &mut Findings) {
        let start = findings.here();
        unknown::remove(&kind.schema, node, path, findings);
        if kind.drops_status
            && let Data::Map(entries) = &mut node.data
        {
            entries.retain(|entry| entry.key != "status");
        }
        defaults::fill(&kind.schema, node);
        findings.at(start, |findings| {
            object_meta::check(node, path, findings);
            check::check(&kind.schema, node, path, findings);
        });
        if !findings.is_blocking() {
            self.compiler.check(&kind.schema, node, path, findings);
        }
    }
}

impl Default for Validator {
    fn default() -> Self {
        Self::new()
    }
}
