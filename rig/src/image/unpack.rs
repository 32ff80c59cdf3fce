//! Images as plain directories, for programs that run without a container engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Where the files of an archive lie in it: name to offset and size.
struct Index {
    archive: File,
    places: BTreeMap<String, (u64, u64)>,
}

/// Unpacks all layers of the OCI archive at `archive` into the directory `target`, with owners, as only root can.
pub(crate) fn unpack(archive: &Path, target: &Path) -> Result<()> {
    let mut index = Index::of(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let manifest = index.json("index.json")?["manifests"][0]["digest"].clone();
    let manifest = index.json(&blob(&manifest)?)?;
    for layer in manifest["layers"].as_array().context("the image has no layers")? {
        index.unpack_layer(&blob(&layer["digest"])?, target)?;
    }
    Ok(())
}

impl Index {
    fn of(archive: &Path) -> Result<Self> {
        let mut places = BTreeMap::new();
        for entry in tar::Archive::new(File::open(archive)?).entries_with_seek()? {
            let entry = entry?;
            let name = entry.path()?.display().to_string();
            places.insert(name, (entry.raw_file_position(), entry.size()));
        }
        Ok(Self { archive: File::open(archive)?, places })
    }

    fn open(&mut self, name: &str) -> Result<io::Take<&File>> {
        let (offset, size) =
            *self.places.get(name).with_context(|| format!("the image archive has no {name}"))?;
        self.archive.seek(SeekFrom::Start(offset))?;
        Ok((&self.archive).take(size))
    }

    fn json(&mut self, name: &str) -> Result<Value> {
        Ok(serde_json::from_reader(self.open(name)?)?)
    }

    fn unpack_layer(&mut self, name: &str, target: &Path) -> Result<()> {
        let mut tar = Command::new("tar")
            .args(["--extract", "--file", "-", "--numeric-owner", "--same-permissions"])
            .args(["--xattrs", "--xattrs-include=*", "--directory"])
            .arg(target)
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot run tar")?;
        let mut pipe = tar.stdin.take().context("tar has no input")?;
        let copied = io::copy(&mut self.open(name)?, &mut pipe);
        drop(pipe);
        let status = tar.wait()?;
        if !status.success() {
            bail!("tar cannot unpack a layer into {} ({status})", target.display());
        }
        copied.context("cannot read a layer")?;
        Ok(())
    }
}

/// The path of a blob by its digest, `sha256:...`.
fn blob(digest: &Value) -> Result<String> {
    let digest = digest.as_str().context("the image's manifest lacks a digest")?;
    Ok(format!("blobs/{}", digest.replace(':', "/")))
}
