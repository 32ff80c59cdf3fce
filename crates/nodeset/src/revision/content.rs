//! What a revision holds, in a form that can be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The images that differ: container and new image.
pub type ImageChanges = BTreeMap<String, String>;

/// What a revision holds: `{"spec": {"template": ..., ...}}`. Besides the template it holds whatever else makes a new
/// revision of the workers, such as what slurm.conf says of them.
///
/// Two contents are equal when they mean the same: the order of keys, nulls, empty lists and empty objects do not count. So
/// revisions that another program wrote are recognised, and taking over a set rolls nothing.
///
/// It is made once per revision and kept: plans only compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    canonical: Box<str>,
    without_images: Box<str>,
    images: ImageChanges,
}

/// What becomes the key that Kubernetes' strategic merge patch needs; it says nothing of the pods.
const PATCH_KEY: &str = "$patch";

impl Content {
    /// Reads the data of a revision.
    pub fn new(data: &Value) -> Self {
        let mut canonical = String::new();
        write_value(data, &mut canonical);
        let mut images = ImageChanges::new();
        let mut blank = data.clone();
        let containers = blank.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(Value::String(image)) = container.get_mut("image").map(Value::take) {
                images.insert(name, image);
            }
        }
        let mut without_images = String::new();
        write_value(&blank, &mut without_images);
        Self { canonical: canonical.into(), without_images: without_images.into(), images }
    }

    /// The images of the new content that differ, if images of containers are all that differs.
    pub fn image_changes(&self, new: &Self) -> Option<ImageChanges> {
        let same_containers = self.images.keys().eq(new.images.keys());
        if self.without_images != new.without_images || !same_containers || self.images == new.images {
            return None;
        }
        let changed = new.images.iter().filter(|(name, image)| self.images.get(*name) != Some(image));
        Some(changed.map(|(name, image)| (name.clone(), image.clone())).collect())
    }

    /// The hash that names a revision, made as other controllers do: FNV-1 over the text and the number of collisions, in
    /// letters that spell nothing.
    pub fn hash(&self, collisions: u32) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let sum = fnv1(self.canonical.bytes().chain(collisions.to_string().bytes()));
        sum.to_string().bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
    }
}

/// FNV-1 with 32 bits.
fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |sum: u32, byte| sum.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

/// Writes a value with sorted keys and without what means nothing. Returns whether anything was left to write.
fn write_value(value: &Value, out: &mut String) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().filter(|key| *key != PATCH_KEY).collect();
            keys.sort_unstable();
            let begin = out.len();
            out.push('{');
            let mut any = false;
            for key in keys {
                let before = out.len();
                let _ = write!(out, "{}:", Value::String(key.clone()));
                if fields.get(key).is_some_and(|value| write_value(value, out)) {
                    any = true;
                    out.push(',');
                } else {
                    out.truncate(before);
                }
            }
            out.push('}');
            if !any {
                out.truncate(begin);
            }
            any
        }
        // Places in a list have a meaning, so nothing is left out between them.
        Value::Array(items) => {
            if items.is_empty() {
                return false;
            }
            out.push('[');
            for item in items {
                write_value(item, out);
                out.push(',');
            }
            out.push(']');
            true
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(image: &str, replicas: Value) -> Content {
        Content::new(&json!({"spec": {"template": {
            "metadata": {"creationTimestamp": null, "labels": {"b": "1", "a": "2"}},
            "spec": {
                "containers": [{"name": "slurmd", "image": image, "resources": replicas}],
                "initContainers": [{"name": "agent", "image": "agent:1"}],
            },
        }}}))
    }

    #[test]
    fn what_means_nothing_does_not_make_another_content() {
        let go = json!({"spec": {"template": {"$patch": "replace",
            "metadata": {"labels": {"a": "2", "b": "1"}},
            "spec": {"initContainers": [{"image": "agent:1", "name": "agent"}],
                     "containers": [{"image": "slurmd:1", "name": "slurmd", "env": []}]}}}});
        assert_eq!(Content::new(&go), content("slurmd:1", json!({})));
        assert_eq!(Content::new(&go).hash(0), content("slurmd:1", json!({})).hash(0));
    }

    #[test]
    fn what_means_something_does() {
        assert_ne!(content("slurmd:1", json!({})), content("slurmd:2", json!({})));
        assert_ne!(content("slurmd:1", json!({"cpu": 1})), content("slurmd:1", json!({"cpu": 2})));
        let places = |list: Value| Content::new(&json!({ "spec": list }));
        assert_ne!(places(json!([1, {}])), places(json!([{}, 1])));
        assert_ne!(places(json!(["1"])), places(json!([1])));
        assert_ne!(places(json!(false)), places(json!(null)), "false is no absence");
    }

    #[test]
    fn only_a_change_of_images_alone_is_one_of_images() {
        let old = content("slurmd:1", json!({}));
        let changes = old.image_changes(&content("slurmd:2", json!({}))).unwrap();
        assert_eq!(changes, BTreeMap::from([("slurmd".to_owned(), "slurmd:2".to_owned())]));
        assert_eq!(old.image_changes(&content("slurmd:2", json!({"cpu": 1}))), None);
        assert_eq!(old.image_changes(&old), None);
        let other_init = Content::new(&json!({"spec": {"template": {
            "metadata": {"labels": {"b": "1", "a": "2"}},
            "spec": {"containers": [{"name": "slurmd", "image": "slurmd:2"}],
                     "initContainers": [{"name": "agent", "image": "agent:2"}]},
        }}}));
        assert_eq!(old.image_changes(&other_init), None, "an init container does not run again");
    }

    #[test]
    fn the_hash_is_the_one_that_other_controllers_would_give() {
        // Test vectors of FNV-1.
        for (text, sum) in [("", 0x811c_9dc5), ("a", 0x050c_5d7e), ("foobar", 0x31f0_b262)] {
            assert_eq!(fnv1(text.bytes()), sum, "{text}");
        }
        let content = content("slurmd:1", json!({}));
        assert_ne!(content.hash(0), content.hash(1));
        let letters = "bcdfghjklmnpqrstvwxz2456789";
        assert!(content.hash(0).len() <= 10 && content.hash(0).chars().all(|c| letters.contains(c)));
    }
}
