//! What the API server asks, and what we answer.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, SerializePatchError};
use kube::core::response::StatusSummary;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What is to be decided: who wants to do what with which object.
pub type Request = AdmissionRequest<DynamicObject>;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    verdict: Verdict,
    warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Allow,
    Deny { code: u16, message: String },
    Patch(json_patch::Patch),
}

impl Decision {
    /// Lets the object pass as it is.
    pub fn allow() -> Self {
        Self { verdict: Verdict::Allow, warnings: Vec::new() }
    }

    /// Refuses; the user reads `message`. The code is 403, unless [`Decision::with_code`] says otherwise.
    pub fn deny(message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny { code: 403, message: message.into() }, warnings: Vec::new() }
    }

    /// Lets the object pass with these changes. Only for mutating webhooks.
    pub fn patch(patch: json_patch::Patch) -> Self {
        let verdict = if patch.0.is_empty() { Verdict::Allow } else { Verdict::Patch(patch) };
        Self { verdict, warnings: Vec::new() }
    }

    /// Lets the object pass with the changes that lead from `before` to `after`. Only for mutating webhooks.
    pub fn change(before: &Value, after: &Value) -> Self {
        Self::patch(json_patch::diff(before, after))
    }

    /// The HTTP status of a denial, for example 422 for an object that is not valid.
    pub fn with_code(mut self, with: u16) -> Self {
        if let Verdict::Deny { code, .. } = &mut self.verdict {
            *code = with;
        }
        self
    }

    /// Tells the user something without standing in the way. The API server cuts texts of more than 256 characters.
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// The code and the message of a denial.
    pub fn denial(&self) -> Option<(u16, &str)> {
        match &self.verdict {
            Verdict::Deny { code, message } => Some((*code, message)),
            _ => None,
        }
    }

    /// What the user is told beside.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The changes with which the object passes.
    pub fn into_patch(self) -> Option<json_patch::Patch> {
        match self.verdict {
            Verdict::Patch(patch) => Some(patch),
            _ => None,
        }
    }

    /// The word for metrics.
    pub(super) fn result(&self) -> &'static str {
        match self.verdict {
            Verdict::Allow => "allowed",
            Verdict::Deny { .. } => "denied",
            Verdict::Patch(_) => "patched",
        }
    }

    /// The answer in the words of the API server.
    pub(super) fn into_response(self, request: &Request) -> Result<AdmissionResponse, SerializePatchError> {
        let mut response = AdmissionResponse::from(request);
        if !self.warnings.is_empty() {
            response.warnings = Some(self.warnings);
        }
        match self.verdict {
            Verdict::Allow => Ok(response),
            Verdict::Patch(patch) => response.with_patch(patch),
            Verdict::Deny { code, message } => {
                let mut response = response.deny(message);
                response.result.status = Some(StatusSummary::Failure);
                response.result.code = code;
                response.result.reason = reason(code).into();
                Ok(response)
            }
        }
    }
}

/// The word that goes with a code, as `kubectl` shows it.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        409 => "Conflict",
        422 => "Invalid",
        500.. => "InternalError",
        _ => "Forbidden",
    }
}

/// The new object of a request as its own type; a denial with the reason if it does not fit, or if there is none.
pub fn object<K: DeserializeOwned>(request: &Request) -> Result<K, Decision> {
    typed(request.object.as_ref(), "object")
}

/// The same for the object as it was, which updates and deletes have.
pub fn old_object<K: DeserializeOwned>(request: &Request) -> Result<K, Decision> {
    typed(request.old_object.as_ref(), "oldObject")
}

fn typed<K: DeserializeOwned>(object: Option<&DynamicObject>, field: &str) -> Result<K, Decision> {
    let Some(object) = object else {
        return Err(Decision::deny(format!("the request has no {field}")).with_code(400));
    };
    let typed = serde_json::to_value(object).and_then(serde_json::from_value);
    typed.map_err(|error| Decision::deny(format!("the {field} cannot be read: {error}")).with_code(422))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A request about a ConfigMap.
    pub(in crate::admission) fn request() -> Request {
        serde_json::from_value(json!({
            "uid": "u-1",
            "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "operation": "CREATE",
            "userInfo": {},
            "object": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "a": "1" } },
        }))
        .unwrap()
    }

    #[test]
    fn a_denial_carries_message_code_and_reason() {
        let decision = Decision::deny("too big").with_code(422).warn("careful");
        let response = serde_json::to_value(decision.into_response(&request()).unwrap()).unwrap();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["message"], "too big");
        assert_eq!(response["status"]["code"], 422);
        assert_eq!(response["status"]["reason"], "Invalid");
        assert_eq!(response["warnings"], json!(["careful"]));
    }

    #[test]
    fn a_change_becomes_a_patch_and_no_change_none() {
        let before = json!({ "a": 1 });
        let changed =
            Decision::change(&before, &json!({ "a": 1, "b": 2 })).into_response(&request()).unwrap();
        let patch: Value = serde_json::from_slice(&changed.patch.unwrap()).unwrap();
        assert_eq!(patch, json!([{ "op": "add", "path": "/b", "value": 2 }]));
        assert_eq!(Decision::change(&before, &before), Decision::allow());
    }

    #[test]
    fn an_object_of_another_shape_is_denied_with_the_reason() {
        #[derive(Debug, serde::Deserialize)]
        struct Odd {
            #[allow(dead_code)]
            data: u8,
        }
        let denied = object::<Odd>(&request()).unwrap_err().into_response(&request()).unwrap();
        assert!(denied.result.message.contains("invalid type"), "{}", denied.result.message);
        assert_eq!(old_object::<Value>(&request()).unwrap_err().result(), "denied");
    }
}
