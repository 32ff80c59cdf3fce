//! The kinds that we know, and what else a document may be.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
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
    api_version: String,
    name: String,
    pub(crate) schema: Schema,
    /// Has a status that is written through its own address only, so that the one in a manifest is thrown away.
    pub(crate) drops_status: bool,
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
    pub(crate) fn new(crds: &[CustomResourceDefinition], compiler: &Compiler) -> Result<Self, SchemaError> {
        let mut builder = Builder::new(compiler);
        let mut kinds = Vec::new();
        for crd in crds {
            for version in &crd.spec.versions {
                let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                let mut json = serde_json::to_value(schema).unwrap_or(Value::Null);
                object_meta::complete(&mut json);
                kinds.push(Kind {
                    api_version: format!("{}/{}", crd.spec.group, version.name),
                    name: crd.spec.names.kind.clone(),
                    schema: builder.build(&crd.spec.names.kind, &json)?,
                    drops_status: version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()),
                });
            }
        }
        Ok(Self(kinds))
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
        let found = self.0.iter().find(|kind| kind.api_version == api_version && kind.name == name);
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
        let names: Vec<&str> = self.0.iter().map(|kind| kind.name.as_str()).collect();
        let hint = nearest(name, &names).filter(|meant| *meant != name);
        let hint = hint.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let known: Vec<String> =
            self.0.iter().map(|kind| format!("{} {}", kind.api_version, kind.name)).collect();
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
