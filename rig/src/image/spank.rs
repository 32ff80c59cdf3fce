//! Our SPANK plugins, a layer of every image that holds Slurm's commands: `srun` and slurmstepd both load them.
//!
//! They are compiled for the Slurm that is in the image, and lie where Debian's Slurm looks for plugins. Below them is the image that
//! was installed, as the cache has it, so that another plugin costs no installation.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::layer::{Layer, LayerWriter};
use super::recipe::Recipe;
use super::tree::Tree;
use super::{BASE_LAYER, Built, unpack, write_image};
use crate::build::spank_plugins;
use crate::cache::key_of;

/// The package that brings Slurm's commands; its version is Slurm's.
pub(super) const PACKAGE: &str = "slurm-client";

macro_rules! sources {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../crates/spank/", $file)))),*]
    };
}

/// What the plugins are made of. An image with others is another image.
const SOURCES: &[(&str, &str)] = sources!(
    "Cargo.toml",
    "plugins/chroot.rs",
    "plugins/nccl_debug.rs",
    "src/abi.rs",
    "src/handle.rs",
    "src/hook.rs",
    "src/jail.rs",
    "src/lib.rs",
    "src/nccl/mod.rs",
    "src/nccl/output.rs",
    "src/nccl/settings.rs",
    "src/version.rs",
);

/// The key of an image with plugins on top of another one.
pub(super) fn key(base: &Built) -> String {
    let sources = SOURCES.iter().flat_map(|(file, text)| [*file, *text]);
    key_of([base.digest.as_str(), std::env::consts::ARCH].into_iter().chain(sources))
}

/// Writes the image with plugins for this Slurm, such as `24.11.5`, into `dir`.
pub(super) fn write(dir: &Path, recipe: &Recipe, base: &Built, slurm_version: &str) -> Result<()> {
    let mut layers = Vec::new();
    for (number, layer) in unpack::layers(&base.archive)?.into_iter().enumerate() {
        let path = dir.join(format!("{number}-{BASE_LAYER}"));
        unpack::extract(&base.archive, &layer, &path)
            .with_context(|| format!("cannot read {}", base.archive.display()))?;
        layers.push(Layer::of(path)?);
    }
    let directory = format!("/usr/lib/{}-linux-gnu/slurm-wlm", std::env::consts::ARCH);
    for (name, plugin) in spank_plugins(slurm_version)? {
        let mut writer = LayerWriter::create(dir.join(format!("{name}.tar")))?;
        Tree::of_one_file(&format!("{directory}/{name}.so"), 0o644, &plugin)?.write(&mut writer)?;
        layers.push(writer.finish()?);
    }
    write_image(dir, recipe, &layers)?;
    Ok(layers.iter().try_for_each(|layer| fs::remove_file(&layer.path))?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files_below(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_source_of_the_plugins_counts() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/spank"));
        let mut found = Vec::new();
        files_below(root, &mut found);
        let mut found: Vec<String> =
            found.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect();
        found.sort();
        assert_eq!(found, SOURCES.iter().map(|(file, _)| file.to_string()).collect::<Vec<_>>());
    }
}
