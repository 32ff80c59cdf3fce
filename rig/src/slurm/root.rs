//! The root file systems of Slurm machines: images unpacked into the cache, once.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::options::Version;
use crate::build;
use crate::cache::{Cache, key_of};
use crate::image;

const DATABASE_IMAGE: &str = "mariadb";
/// Raise it when the same image is unpacked in another way.
const FORMAT: &str = "1";

/// The tree of Slurm's image.
pub(super) fn slurm(cache: &Cache, version: Version) -> Result<PathBuf> {
    unpacked(cache, version.image())
}

/// The tree of MariaDB's image.
pub(super) fn mariadb(cache: &Cache) -> Result<PathBuf> {
    unpacked(cache, DATABASE_IMAGE)
}

fn unpacked(cache: &Cache, name: &str) -> Result<PathBuf> {
    let recipe = image::recipes()?
        .into_iter()
        .find(|recipe| recipe.name() == name)
        .with_context(|| format!("no image is called {name}"))?;
    if image::find(cache, &recipe).is_none() {
        let part = build::Part::Image(Box::new(recipe.clone()));
        build::build(cache, vec![part], build::Options::default())?;
    }
    let built =
        image::find(cache, &recipe).with_context(|| format!("the image {name} vanished from the cache"))?;
    let key = key_of([FORMAT, &built.digest]);
    let dir = cache.find_or_build(&format!("root-{name}"), &key, false, &|_| (), |dir| {
        let root = dir.join("root");
        fs::create_dir(&root)?;
        image::unpack(&built.archive, &root)
    })?;
    Ok(dir.join("root"))
}
