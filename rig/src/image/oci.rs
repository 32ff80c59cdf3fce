//! OCI archives: a tar with an image layout, as `ctr images import` reads it.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::layer::Layer;
use super::tree::SOURCE_DATE_EPOCH;
use crate::cache::hex;

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What an image says about how it runs.
pub(super) struct Config<'a> {
    pub(super) entrypoint: &'a [String],
    pub(super) command: &'a [String],
    pub(super) user: &'a str,
}

/// Writes the archive of an image to `path` and returns its digest: that of its manifest, as containerd shows it.
pub(super) fn write_archive(
    path: &Path,
    reference: &str,
    config: &Config<'_>,
    layers: &[Layer],
) -> Result<String> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let config = Blob::of(config_json(config, layers))?;
    let manifest = Blob::of(json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config.descriptor(CONFIG_TYPE),
        "layers": layers.iter().map(|layer| descriptor(LAYER_TYPE, &layer.sha256, layer.size)).collect::<Vec<_>>(),
    }))?;
    let mut entry = manifest.descriptor(MANIFEST_TYPE);
    // containerd takes the image's full name from the first; the second is the standard's.
    entry["annotations"] = json!({
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference,
    });
    entry["platform"] = json!({ "architecture": architecture(), "os": "linux" });
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry] });

    let mut tar = Builder::new(BufWriter::with_capacity(1 << 20, file));
    let layout = to_bytes(json!({ "imageLayoutVersion": "1.0.0" }))?;
    append(&mut tar, "oci-layout", layout.len() as u64, layout.as_slice())?;
    let index = to_bytes(index)?;
    append(&mut tar, "index.json", index.len() as u64, index.as_slice())?;
    for blob in [&manifest, &config] {
        append(&mut tar, &blob_path(&blob.sha256), blob.bytes.len() as u64, blob.bytes.as_slice())?;
    }
    for (at, layer) in layers.iter().enumerate() {
        // Two equal layers are one blob.
        if layers[..at].iter().all(|earlier| earlier.sha256 != layer.sha256) {
            let content =
                File::open(&layer.path).with_context(|| format!("cannot read {}", layer.path.display()))?;
            append(&mut tar, &blob_path(&layer.sha256), layer.size, content.take(layer.size))?;
        }
    }
    tar.into_inner()?.flush().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("sha256:{}", manifest.sha256))
}

struct Blob {
    bytes: Vec<u8>,
    sha256: String,
}

impl Blob {
    fn of(value: Value) -> Result<Self> {
        let bytes = to_bytes(value)?;
        let sha256 = hex(&Sha256::digest(&bytes));
        Ok(Self { bytes, sha256 })
    }

    fn descriptor(&self, media_type: &str) -> Value {
        descriptor(media_type, &self.sha256, self.bytes.len() as u64)
    }
}

/// JSON with sorted keys, whatever features of serde_json the rest of the program turns on: digests depend on it.
fn to_bytes(mut value: Value) -> Result<Vec<u8>> {
    value.sort_all_objects();
    Ok(serde_json::to_vec(&value)?)
}

fn descriptor(media_type: &str, sha256: &str, size: u64) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{sha256}"), "size": size })
}

fn blob_path(sha256: &str) -> String {
    format!("blobs/sha256/{sha256}")
}

fn config_json(config: &Config<'_>, layers: &[Layer]) -> Value {
    let mut run = json!({ "Env": [PATH], "WorkingDir": "/" });
    if !config.entrypoint.is_empty() {
        run["Entrypoint"] = json!(config.entrypoint);
    }
    if !config.command.is_empty() {
        run["Cmd"] = json!(config.command);
    }
    if !config.user.is_empty() {
        run["User"] = json!(config.user);
    }
    json!({
        "created": "2026-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": run,
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| format!("sha256:{}", layer.sha256)).collect::<Vec<_>>(),
        },
    })
}

/// The machine's architecture as image platforms name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn append(tar: &mut Builder<impl Write>, path: &str, size: u64, content: impl Read) -> Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(path)?;
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(SOURCE_DATE_EPOCH);
    header.set_size(size);
    header.set_cksum();
    tar.append(&header, content).with_context(|| format!("cannot write {path} into the archive"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::layer::LayerWriter;
    use super::*;

    const REFERENCE: &str = "soperator.local/x:1.0-a";

    fn layer(dir: &Path, name: &str, content: &[u8]) -> Layer {
        let mut writer = LayerWriter::create(dir.join(name)).unwrap();
        writer.write_all(content).unwrap();
        writer.finish().unwrap()
    }

    fn archive(dir: &Path, name: &str, layers: &[Layer]) -> (String, Vec<u8>) {
        let entrypoint = ["/bin/x".to_owned()];
        let config = Config { entrypoint: &entrypoint, command: &[], user: "65532" };
        let digest = write_archive(&dir.join(name), REFERENCE, &config, layers).unwrap();
        (digest, std::fs::read(dir.join(name)).unwrap())
    }

    fn contents(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!(entry.header().mtime().unwrap(), SOURCE_DATE_EPOCH);
            (entry.path().unwrap().to_string_lossy().into_owned(), content)
        });
        entries.collect()
    }

    #[test]
    fn the_same_layers_give_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let layers = [layer(dir.path(), "one", b"first"), layer(dir.path(), "two", b"second")];
        let one = archive(dir.path(), "a.tar", &layers);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert_eq!(one, archive(dir.path(), "b.tar", &layers));
        assert_ne!(one.0, archive(dir.path(), "c.tar", &layers[..1]).0);
    }

    #[test]
    fn every_digest_is_that_of_its_blob() {
        let dir = tempfile::tempdir().unwrap();
        let one = layer(dir.path(), "one", b"first");
        let (digest, bytes) = archive(dir.path(), "a.tar", &[one.clone(), one]);
        let files = contents(&bytes);
        let blobs: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("blobs/")).collect();
        assert_eq!(blobs.len(), 3, "manifest, config, and the one layer once");
        for (path, content) in blobs {
            assert_eq!(*path, blob_path(&hex(&Sha256::digest(content))));
        }
        let blob = |descriptor: &Value| -> Value {
            let sha256 = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let content = &files[&blob_path(sha256)];
            assert_eq!(descriptor["size"], content.len());
            serde_json::from_slice(content).unwrap()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        assert_eq!(index["manifests"][0]["digest"], digest);
        let manifest = blob(&index["manifests"][0]);
        let config = blob(&manifest["config"]);
        assert_eq!(manifest["layers"][0]["digest"], config["rootfs"]["diff_ids"][0]);
        assert_eq!(config["config"]["User"], "65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/x"]));
        assert!(config["config"].get("Cmd").is_none());
    }

    #[test]
    fn the_index_names_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let (_, bytes) = archive(dir.path(), "a.tar", &[layer(dir.path(), "one", b"first")]);
        let files = contents(&bytes);
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let annotations = &index["manifests"][0]["annotations"];
        assert_eq!(annotations["io.containerd.image.name"], REFERENCE);
        assert_eq!(annotations["org.opencontainers.image.ref.name"], REFERENCE);
        assert_eq!(files["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
    }
}
