//! What a request to the API server is about, read from its method, path and headers.

use std::fmt;

use http::{Method, Request, header};
use kube::client::Body;

/// What a request does, in the words of RBAC; apply and plain patch are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object, or a document that is no object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object by a merge or JSON patch.
    Patch,
    /// Server-side apply.
    Apply,
    /// Deletes one object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// Opens a stream into a pod: exec, attach, port-forward, proxy, or a log that is followed.
    Connect,
}

impl Verb {
    /// The verb as metrics and messages spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Connect => "connect",
        }
    }

    /// Whether the call can change the cluster.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Apply | Self::Delete | Self::DeleteCollection
        )
    }
}

/// A request, classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub verb: Verb,
    /// The API group; empty for the core group and for documents that are no objects.
    pub group: String,
    /// The plural of the kind; for a document that is no object, its path.
    pub resource: String,
    /// For example `status` or `scale`.
    pub subresource: Option<String>,
    /// The namespace, if the call is within one.
    pub namespace: Option<String>,
    /// The object's name, if the path tells it.
    pub name: Option<String>,
}

const POD_STREAMS: &[&str] = &["exec", "attach", "portforward", "proxy"];

impl Call {
    /// Classifies a request.
    pub fn of(request: &Request<Body>) -> Self {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let mut call = Self::from_path(path);
        let flag = |name: &str| query.split('&').any(|pair| pair == name || pair == format!("{name}=true"));
        let pod_stream = match call.subresource.as_deref() {
            Some("log") => flag("follow"),
            Some(other) => POD_STREAMS.contains(&other),
            None => false,
        };
        let applies = request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch"));
        call.verb = match (request.method(), call.name.is_some()) {
            _ if pod_stream => Verb::Connect,
            _ if flag("watch") => Verb::Watch,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) if applies => Verb::Apply,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, true) => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            (_, false) if !call.resource.starts_with('/') => Verb::List,
            _ => Verb::Get,
        };
        call
    }

    /// Whether only a leader may send it. Leases are how one becomes leader, and reviews ask and change nothing.
    pub fn needs_leadership(&self) -> bool {
        self.verb.writes() && self.resource != "leases" && !self.resource.ends_with("reviews")
    }

    fn from_path(path: &str) -> Self {
        let mut call = Self {
            verb: Verb::Get,
            group: String::new(),
            resource: path.to_string(),
            subresource: None,
            namespace: None,
            name: None,
        };
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.first() {
            Some(&"api") if parts.len() > 2 => {
                parts.drain(..2);
            }
            Some(&"apis") if parts.len() > 3 => {
                call.group = parts[1].to_string();
                parts.drain(..3);
            }
            _ => return call,
        }
        // `namespaces/NAME/status` is about the Namespace itself, `namespaces/NAME/pods` about what is in it.
        if parts[0] == "namespaces" && parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            call.namespace = Some(parts[1].to_string());
            parts.drain(..2);
        }
        call.resource = parts[0].to_string();
        call.name = parts.get(1).map(ToString::to_string);
        call.subresource = parts.get(2).map(ToString::to_string);
        call
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb.as_str(), self.resource)?;
        if !self.group.is_empty() {
            write!(out, ".{}", self.group)?;
        }
        if let Some(subresource) = &self.subresource {
            write!(out, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(out, " {namespace}/{name}"),
            (None, Some(name)) => write!(out, " {name}"),
            (Some(namespace), None) => write!(out, " in {namespace}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str, content_type: Option<&str>) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        Call::of(&request.body(Body::empty()).unwrap()).to_string()
    }

    #[test]
    fn every_kind_of_request_is_told_apart() {
        let table = [
            ("GET", "/api/v1/namespaces/a/pods/p", None, "get pods a/p"),
            ("GET", "/api/v1/namespaces/a/pods?limit=5", None, "list pods in a"),
            ("GET", "/api/v1/pods?watch=true&x=y", None, "watch pods"),
            ("GET", "/api/v1/nodes/n", None, "get nodes n"),
            ("GET", "/api/v1/namespaces/a", None, "get namespaces a"),
            ("PUT", "/api/v1/namespaces/a/finalize", None, "update namespaces/finalize a"),
            ("POST", "/apis/apps/v1/namespaces/a/statefulsets", None, "create statefulsets.apps in a"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/statefulsets/s",
                Some("application/apply-patch+yaml"),
                "apply statefulsets.apps a/s",
            ),
            (
                "PATCH",
                "/apis/slurm.nebius.ai/v1/namespaces/a/slurmclusters/c/status",
                Some("application/merge-patch+json"),
                "patch slurmclusters.slurm.nebius.ai/status a/c",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods/p", None, "delete pods a/p"),
            ("DELETE", "/api/v1/namespaces/a/pods", None, "deletecollection pods in a"),
            ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", None, "connect pods/log a/p"),
            ("GET", "/api/v1/namespaces/a/pods/p/log", None, "get pods/log a/p"),
            ("POST", "/api/v1/namespaces/a/pods/p/exec?command=x", None, "connect pods/exec a/p"),
            ("GET", "/apis", None, "get /apis"),
            ("GET", "/version", None, "get /version"),
        ];
        for (method, uri, content_type, expected) in table {
            assert_eq!(call(method, uri, content_type), expected, "{method} {uri}");
        }
    }
}
