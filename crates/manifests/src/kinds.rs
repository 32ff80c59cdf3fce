//! The kinds that we know, and what else a document may be.

use std::sync::OnceLock;

use serde_json::Value;

use crate::finding::Findings;
use crate::nearest::nearest;
use crate::node::{Data, Node, Path};
use crate::object_meta;
use crate::parse::line_of;
use crate::rules::Compiler;
use crate::schema::{Builder, Schema, SchemaError};

/// A kind in one version.
#[derive(Debug)]
pub(crate) struct Kind {
    kind: api::Kind,
    /// Made when the first object of the kind comes along: making all of them takes longer than most checks.
    definition: OnceLock<Result<Definition, SchemaError>>,
}

/// What the API server knows about a kind.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) schema: Schema,
    /// Has a status that is written through its own address only, so that the one in a manifest is thrown away.
    pub(crate) drops_status: bool,
}

impl Kind {
    pub(crate) fn api_version(&self) -> &str {
        &self.kind.api_version
    }

    pub(crate) fn name(&self) -> &str {
        &self.kind.name
    }

    pub(crate) fn definition(&self, compiler: &Compiler) -> Result<&Definition, SchemaError> {
        self.definition
            .get_or_init(|| Definition::new(&self.kind, compiler))
            .as_ref()
            .map_err(SchemaError::clone)
    }
}

impl Definition {
    fn new(kind: &api::Kind, compiler: &Compiler) -> Result<Self, SchemaError> {
        let crd = (kind.crd)();
        let version = crd
            .spec
            .versions
            .iter()
            .find(|version| kind.api_version == format!("{}/{}", crd.spec.group, version.name));
        let schema = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        let mut json = serde_json::to_value(schema).unwrap_or(Value::Null);
        object_meta::complete(&mut json);
        let subresources = version.and_then(|version| version.subresources.as_ref());
        Ok(Self {
            schema: Builder::new(compiler).build(&kind.name, &json)?,
            drops_status: subresources.is_some_and(|subresources| subresources.status.is_some()),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Kinds(Vec<Kind>);

/// What a document is.
pub(crate) enum Found<'a> {
    Ours(&'a Kind),
    /// An object of another API group.
    Foreign,
    /// A list of objects, as `kubectl get -o yaml` writes it.
    List,
    /// Nothing that can be checked; the reason is among the findings.
    Nothing,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let kind = |kind| Kind { kind, definition: OnceLock::new() };
        Self(api::kinds().into_iter().map(kind).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }

    /// Tells what a document is, by its `apiVersion` and `kind`.
    pub(crate) fn find(&self, node: &Node, path: &Path, findings: &mut Findings) -> Found<'_> {
        let Data::Map(_) = &node.data else {
            let message =
                format!("must be an object with apiVersion and kind, and is of type {}", node.type_name());
            findings.add_here(path, message);
            return Found::Nothing;
        };
        let (Some(api_version), Some(name)) =
            (text(node, "apiVersion", path, findings), text(node, "kind", path, findings))
        else {
            return Found::Nothing;
        };
        if api_version == "v1" && name == "List" {
            return Found::List;
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if !api::group_names().contains(&group) {
            return Found::Foreign;
        }
        let is_it = |kind: &&Kind| kind.kind.api_version == api_version && kind.kind.name == name;
        let found = self.0.iter().find(is_it);
        found.map_or_else(
            || {
                let mark = node.entry("kind").map(line_of).unwrap_or(node.mark);
                findings.add(mark, &path.field("kind"), self.unknown(api_version, name));
                Found::Nothing
            },
            Found::Ours,
        )
    }

    fn unknown(&self, api_version: &str, name: &str) -> String {
        let names: Vec<&str> = self.0.iter().map(|kind| kind.kind.name.as_str()).collect();
        let hint = nearest(name, &names).filter(|meant| *meant != name);
        let hint = hint.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let known: Vec<String> =
            self.0.iter().map(|Kind { kind, .. }| format!("{} {}", kind.api_version, kind.name)).collect();
        format!("unknown kind {api_version} {name}{hint}; known are {}", known.join(", "))
    }
}

fn text<'a>(node: &'a Node, key: &str, path: &Path, findings: &mut Findings) -> Option<&'a str> {
    let text = node.get(key).and_then(Node::text).filter(|text| !text.is_empty());
    if text.is_none() {
        let mark = node.entry(key).map(line_of).unwrap_or(node.mark);
        findings.add(mark, &path.field(key), "required, and must be text".into());
    }
    text
}
