//! An API server that is asked together with the validator.

use std::sync::LazyLock;

use ::manifests::{Finding, Validator};
use anyhow::{Result, bail};
use http::Request;
use serde_json::Value;

use crate::api_server;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(Validator::new);

/// Has the functions of its namesake in the tests of `api`.
pub(crate) struct Server(api_server::Server);

impl Server {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        Ok(Self(api_server::Server::new(prefix).await?))
    }

    pub(crate) fn path(&self, manifest: &Value) -> String {
        self.0.path(manifest)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Result<Value, String>> {
        self.0.send(method, path, content, body).await
    }

    pub(crate) async fn patch(
        &self,
        object: &Value,
        below: &str,
        patch: &Value,
    ) -> Result<Result<Value, String>> {
        self.0.patch(object, below, patch).await
    }

    pub(crate) async fn create(&self, manifest: &Value) -> Result<Result<Value, String>> {
        let answer = self.0.create(&sent(manifest.clone())).await?;
        compare(&format!("{manifest:#}"), &answer)?;
        Ok(answer)
    }

    pub(crate) async fn created(&self, manifest: &Value) -> Result<Value> {
        match self.create(manifest).await? {
            Ok(object) => Ok(object),
            Err(message) => bail!("refused: {message}\n{manifest:#}"),
        }
    }

    /// Sends YAML as it is, so that the API server reads it itself. `like` has the same apiVersion and kind.
    pub(crate) async fn create_yaml(&self, like: &Value, text: &str) -> Result<Result<Value, String>> {
        let request = Request::post(format!("{}?fieldValidation=Strict&dryRun=All", self.path(like)))
            .header("Content-Type", "application/yaml")
            .body(text.as_bytes().to_vec())?;
        let answer = match self.0.client().request::<Value>(request).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(other) => return Err(other.into()),
        };
        compare(text, &answer)?;
        Ok(answer)
    }
}

/// A manifest as kubectl sends it: Go writes a float without a fraction as an integer. Sent as it is, `3.0` would be refused
/// by the scale subresource and by rules.
fn sent(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e18 => {
                (float as i64).into()
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(sent).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (key, sent(value))).collect())
        }
        other => other,
    }
}

/// What the validator says about a text.
pub(crate) fn findings(text: &str) -> Result<Vec<Finding>> {
    Ok(VALIDATOR.check(text)?.findings)
}

fn compare(text: &str, answer: &Result<Value, String>) -> Result<()> {
    let findings = findings(text)?;
    match answer {
        Ok(_) if findings.is_empty() => Ok(()),
        Ok(_) => bail!("the API server accepts what the validator refuses with {findings:#?}:\n{text}"),
        Err(message) if findings.is_empty() => {
            bail!("the validator accepts what the API server refuses with {message}:\n{text}")
        }
        Err(message) => {
            // The API server names no single label, and calls metadata by its Go name when it cannot decode it.
            let metadata = message.contains("metadata.") || message.contains("ObjectMeta.");
            let same_field = findings.iter().any(|finding| {
                message.contains(&finding.path) || (metadata && finding.path.starts_with("metadata."))
            });
            if same_field { Ok(()) } else { bail!("{message}\nis about none of the fields of {findings:#?}") }
        }
    }
}
