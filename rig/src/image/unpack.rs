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
pub fn unpack(archive: &Path, target: &Path) -> Result<()> {
    let mut index = Index::of(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    for layer in layers(archive)? {
        index.unpack_layer(&layer, target)?;
    }
    Ok(())
}

/// The layers of the OCI archive at `archive`, as names of files in it, the lowest first.
pub(super) fn layers(archive: &Path) -> Result<Vec<String>> {
    let mut index = Index::of(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let manifest = index.json("index.json")?["manifests"][0]["digest"].clone();
    let manifest = index.json(&blob(&manifest)?)?;
    let layers = manifest["layers"].as_array().context("the image has no layers")?;
    layers.iter().map(|layer| blob(&layer["digest"])).collect()
}

/// Copies a file of an archive to `target`.
pub(super) fn extract(archive: &Path, name: &str, target: &Path) -> Result<()> {
    let mut index = Index::of(archive)?;
    let mut file = File::create(target).with_context(|| format!("cannot write {}", target.display()))?;
    io::copy(&mut index.open(name)?, &mut file)?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::layer::LayerWriter;
    use super::super::oci::{Config, write_archive};
    use super::super::tree::Tree;
    use super::*;

    #[test]
    fn every_layer_of_an_archive_lands_in_the_directory_with_its_modes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut layers = Vec::new();
        for (name, mode) in [("/usr/bin/program", 0o755), ("/etc/secret", 0o600)] {
            fs::write(path("content"), name).unwrap();
            let mut writer = LayerWriter::create(path(&format!("{mode}.tar"))).unwrap();
            Tree::of_one_file(name, mode, &path("content")).unwrap().write(&mut writer).unwrap();
            layers.push(writer.finish().unwrap());
        }
        let config = Config { entrypoint: &[], command: &[], user: "" };
        write_archive(&path("image.tar"), "a.b/c:1", &config, &layers).unwrap();

        fs::create_dir(path("root")).unwrap();
        unpack(&path("image.tar"), &path("root")).unwrap();
        for (name, mode) in [("usr/bin/program", 0o755), ("etc/secret", 0o600)] {
            let file = path("root").join(name);
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("/{name}"));
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, mode);
        }
    }

    #[test]
    fn what_is_no_image_is_told_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("other.tar");
        fs::write(&file, [0; 1024]).unwrap();
        let error = format!("{:#}", unpack(&file, dir.path()).unwrap_err());
        assert!(error.contains("no index.json"), "{error}");
    }
}
