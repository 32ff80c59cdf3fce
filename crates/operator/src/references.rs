//! What pods need that others bring: ConfigMaps, Secrets and claims.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};
use render::Object;

/// Names of objects that pods cannot do without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Secrets. Those with credentials for images are not among them: a kubelet goes on without.
    pub secrets: BTreeSet<String>,
    /// Claims that must exist beforehand.
    pub claims: BTreeSet<String>,
    /// Claims that a StatefulSet makes.
    pub own_claims: BTreeSet<String>,
}

impl References {
    /// What the pods of an object need.
    pub fn of(object: &Object) -> Self {
        let mut references = Self::default();
        match object {
            Object::StatefulSet(set) => references.add_set(set),
            Object::Deployment(deployment) => {
                let template = deployment.spec.as_ref().map(|spec| &spec.template);
                if let Some(spec) = template.and_then(|template| template.spec.as_ref()) {
                    references.add_pod(spec);
                }
            }
            Object::Job(job) => {
                let template = job.spec.as_ref().map(|spec| &spec.template);
                if let Some(spec) = template.and_then(|template| template.spec.as_ref()) {
                    references.add_pod(spec);
                }
            }
            _ => {}
        }
        references
    }

    /// Adds others.
    pub fn extend(&mut self, other: Self) {
        self.config_maps.extend(other.config_maps);
        self.secrets.extend(other.secrets);
        self.claims.extend(other.claims);
        self.own_claims.extend(other.own_claims);
    }

    fn add_set(&mut self, set: &StatefulSet) {
        let Some(spec) = &set.spec else { return };
        if let Some(pod) = &spec.template.spec {
            self.add_pod(pod);
        }
        let name = set.metadata.name.as_deref().unwrap_or_default();
        for claim in spec.volume_claim_templates.iter().flatten() {
            let claim = claim.metadata.name.as_deref().unwrap_or_default();
            self.own_claims
                .extend((0..spec.replicas.unwrap_or(1)).map(|number| format!("{claim}-{name}-{number}")));
        }
    }

    /// Adds what a pod needs.
    pub fn add_pod(&mut self, pod: &PodSpec) {
        for volume in pod.volumes.iter().flatten() {
            self.add_volume(volume);
        }
        for container in pod.init_containers.iter().flatten().chain(&pod.containers) {
            self.add_container(container);
        }
    }

    fn add_volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_map(&source.name, source.optional);
        }
        if let Some(source) = &volume.secret {
            self.secret(source.secret_name.as_deref().unwrap_or_default(), source.optional);
        }
        if let Some(source) = &volume.persistent_volume_claim {
            self.claims.insert(source.claim_name.clone());
        }
        let parts = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
        for part in parts.into_iter().flatten() {
            if let Some(source) = &part.config_map {
                self.config_map(&source.name, source.optional);
            }
            if let Some(source) = &part.secret {
                self.secret(&source.name, source.optional);
            }
        }
    }

    fn add_container(&mut self, container: &Container) {
        for variable in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(source) = &variable.config_map_key_ref {
                self.config_map(&source.name, source.optional);
            }
            if let Some(source) = &variable.secret_key_ref {
                self.secret(&source.name, source.optional);
            }
        }
        for source in container.env_from.iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.config_map(&source.name, source.optional);
            }
            if let Some(source) = &source.secret_ref {
                self.secret(&source.name, source.optional);
            }
        }
    }

    fn config_map(&mut self, name: &str, optional: Option<bool>) {
        if optional != Some(true) {
            self.config_maps.insert(name.into());
        }
    }

    fn secret(&mut self, name: &str, optional: Option<bool>) {
        if optional != Some(true) {
            self.secrets.insert(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_a_pod_cannot_do_without_is_found() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": { "name": "c-controller" },
            "spec": {
                "replicas": 2,
                "serviceName": "s",
                "selector": {},
                "template": { "spec": {
                    "volumes": [
                        { "name": "a", "configMap": { "name": "maps" } },
                        { "name": "b", "secret": { "secretName": "keys" } },
                        { "name": "c", "persistentVolumeClaim": { "claimName": "jail-pvc" } },
                        { "name": "d", "projected": { "sources": [
                            { "configMap": { "name": "part" } },
                            { "secret": { "name": "unsure", "optional": true } },
                        ] } },
                    ],
                    "containers": [{
                        "name": "main",
                        "env": [{ "name": "X", "valueFrom": { "secretKeyRef": { "name": "env", "key": "k" } } }],
                        "envFrom": [{ "configMapRef": { "name": "all" } }],
                    }],
                } },
                "volumeClaimTemplates": [{ "metadata": { "name": "spool" }, "spec": {} }],
            },
        }))
        .unwrap();
        let found = References::of(&Object::StatefulSet(set));
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&found.config_maps), "all maps part");
        assert_eq!(names(&found.secrets), "env keys", "an optional one is not needed");
        assert_eq!(names(&found.claims), "jail-pvc");
        assert_eq!(names(&found.own_claims), "spool-c-controller-0 spool-c-controller-1");
    }
}
