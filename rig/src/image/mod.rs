//! Container images from Debian packages, without a container engine: mmdebstrap installs, we make the result
//! reproducible and write it as an OCI archive.
//!
//! Recipes and package locks lie in `images/`; `docs/images.md` tells what each image holds.

mod clean;
mod layer;
mod lock;
mod oci;
mod recipe;
mod rootfs;
mod spank;
mod tree;
mod unpack;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::layer::{Layer, LayerWriter};
use self::lock::Packages;
use self::oci::{Config, write_archive};
pub use self::recipe::{Recipe, recipes};
use self::tree::Tree;
pub use self::unpack::unpack;
use crate::cache::{Cache, key_of, sha256_of_file};

const ARCHIVE: &str = "image.tar";
const DIGEST: &str = "digest";
/// What was installed, beside the archive.
const INSTALLED: &str = "packages.lock";
const BASE_LAYER: &str = "layer.tar";
/// Where our programs lie in our own image.
const PROGRAMS: [&str; 2] = ["/usr/bin/soperator", "/usr/bin/slurm-agent"];

/// How to build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Hash cached images and build damaged ones again.
    pub verify: bool,
    /// Install anew and write the package locks of the source tree.
    pub update_locks: bool,
}

/// A finished image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The OCI archive, for `ctr images import`.
    pub archive: PathBuf,
    /// The name that the import gives it.
    pub reference: String,
    /// The digest of its manifest.
    pub digest: String,
}

/// The image of `recipe`, if it is in the cache.
pub fn find(cache: &Cache, recipe: &Recipe) -> Option<Built> {
    let dir = cache.find(&part(recipe), &recipe.key(&recipe.locked))?;
    let installed = Built::in_dir(&dir, recipe).ok()?;
    if recipe.locked.version(spank::PACKAGE).is_none() {
        return Some(installed);
    }
    let dir = cache.find(&spank_part(recipe), &spank::key(&installed))?;
    Built::in_dir(&dir, recipe).ok()
}

/// Builds the image of `recipe`, or takes it from the cache. One with Slurm gets our plugins for it.
pub fn build(cache: &Cache, recipe: &Recipe, options: Options, say: &dyn Fn(&str)) -> Result<Built> {
    let dir = install(cache, recipe, &part(recipe), options, say, |dir| {
        let (packages, layer) = base_layer(recipe, dir, say)?;
        write_image(dir, recipe, std::slice::from_ref(&layer))?;
        fs::remove_file(&layer.path)?;
        Ok(packages)
    })?;
    let installed = Built::in_dir(&dir, recipe)?;
    let packages = Packages::from_lock(INSTALLED, &fs::read_to_string(dir.join(INSTALLED))?)?;
    let Some(version) = packages.version(spank::PACKAGE) else { return Ok(installed) };
    // 24.11.5-4+deb13u1 is Slurm 24.11.5.
    let version = version.split(['-', '+']).next().unwrap_or_default();
    let dir =
        cache.find_or_build(&spank_part(recipe), &spank::key(&installed), options.verify, say, |dir| {
            say("compiling and packing the plugins");
            spank::write(dir, recipe, &installed, version)
        })?;
    Built::in_dir(&dir, recipe)
}

/// Builds the image of our own programs, `soperator` and `slurm-agent`, from the compiled files, or takes it from the cache.
///
/// What lies below the programs is cached by itself, so that another file costs no installation.
pub fn build_soperator(
    cache: &Cache,
    binaries: &[PathBuf; PROGRAMS.len()],
    options: Options,
    say: &dyn Fn(&str),
) -> Result<Built> {
    let recipe = recipe::soperator()?;
    let mut hashes = Vec::new();
    for binary in binaries {
        hashes.push(sha256_of_file(binary).with_context(|| format!("cannot read {}", binary.display()))?);
    }
    let base = install(cache, &recipe, &base_part(&recipe), options, say, |dir| {
        Ok(base_layer(&recipe, dir, say)?.0)
    })?;
    let base = Layer::of(base.join(BASE_LAYER))?;
    let key = key_of([recipe.key(&recipe.locked), base.sha256.clone()].iter().chain(&hashes));
    let dir = cache.find_or_build(&part(&recipe), &key, options.verify, say, |dir| {
        say("packing the image");
        let mut layers = vec![base];
        for (number, (path, binary)) in PROGRAMS.iter().zip(binaries).enumerate() {
            let mut writer = LayerWriter::create(dir.join(format!("program-{number}.tar")))?;
            Tree::of_one_file(path, 0o755, binary)?.write(&mut writer)?;
            layers.push(writer.finish()?);
        }
        write_image(dir, &recipe, &layers)?;
        Ok(layers.iter().skip(1).try_for_each(|layer| fs::remove_file(&layer.path))?)
    })?;
    Built::in_dir(&dir, &recipe)
}

/// Whether what lies below our own programs is in the cache, so that their image costs no installation.
pub fn soperator_base_is_there(cache: &Cache) -> Result<bool> {
    let recipe = recipe::soperator()?;
    Ok(cache.find(&base_part(&recipe), &recipe.key(&recipe.locked)).is_some())
}

impl Built {
    fn in_dir(dir: &Path, recipe: &Recipe) -> Result<Self> {
        let digest =
            fs::read_to_string(dir.join(DIGEST)).with_context(|| format!("cannot read {}", dir.display()))?;
        Ok(Self { archive: dir.join(ARCHIVE), reference: recipe.reference().to_owned(), digest })
    }
}

fn part(recipe: &Recipe) -> String {
    format!("image-{}", recipe.name())
}

fn spank_part(recipe: &Recipe) -> String {
    format!("{}-spank", part(recipe))
}

fn base_part(recipe: &Recipe) -> String {
    format!("{}-base", part(recipe))
}

/// The cache entry for what `make` installs, and the difference to the lock told or written down.
fn install(
    cache: &Cache,
    recipe: &Recipe,
    part: &str,
    options: Options,
    say: &dyn Fn(&str),
    make: impl Fn(&Path) -> Result<Packages>,
) -> Result<PathBuf> {
    let make_and_tell = |dir: &Path| -> Result<Packages> {
        let packages = make(dir)?;
        fs::write(dir.join(INSTALLED), packages.to_lock())?;
        tell_changes(recipe, &packages, options.update_locks, say);
        Ok(packages)
    };
    if !options.update_locks {
        let key = recipe.key(&recipe.locked);
        return cache.find_or_build(part, &key, options.verify, say, |dir| make_and_tell(dir).map(drop));
    }
    // The key follows from what gets installed, so the installation comes first, beside the cache's entries.
    let fresh = tempfile::Builder::new().prefix(".update-locks-").tempdir_in(cache.root())?;
    let packages = make_and_tell(fresh.path())?;
    let lock_path = recipe.lock_path();
    fs::write(&lock_path, packages.to_lock()).with_context(|| {
        format!("cannot write {}: locks are updated in a source checkout", lock_path.display())
    })?;
    cache.find_or_build(part, &recipe.key(&packages), options.verify, say, |dir| {
        for item in fs::read_dir(fresh.path())? {
            let item = item?;
            fs::rename(item.path(), dir.join(item.file_name()))?;
        }
        Ok(())
    })
}

fn tell_changes(recipe: &Recipe, installed: &Packages, updating: bool, say: &dyn Fn(&str)) {
    let changes = recipe.locked.changes_to(installed);
    if changes.is_empty() {
        return;
    }
    let next = if updating { "the lock is updated" } else { "`rig build --update-locks` accepts it" };
    // One text of several lines: single ones tell what happens now, and the next replaces them.
    let mut text =
        format!("image {}: {} packages differ from the lock; {next}", recipe.name(), changes.len());
    for change in changes {
        text.push_str(&format!("\n  {change}"));
    }
    say(&text);
}

/// Installs the packages of `recipe` and leaves them as a layer in `dir`.
fn base_layer(recipe: &Recipe, dir: &Path, say: &dyn Fn(&str)) -> Result<(Packages, Layer)> {
    let mut writer = LayerWriter::create(dir.join(BASE_LAYER))?;
    let packages = rootfs::make(recipe, dir, &mut writer, say)?;
    Ok((packages, writer.finish()?))
}

fn write_image(dir: &Path, recipe: &Recipe, layers: &[Layer]) -> Result<()> {
    let spec = &recipe.spec;
    let config = Config { entrypoint: &spec.entrypoint, command: &spec.command, user: &spec.user };
    let digest = write_archive(&dir.join(ARCHIVE), recipe.reference(), &config, layers)?;
    Ok(fs::write(dir.join(DIGEST), digest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_to_the_lock_is_one_text_that_stays() {
        let recipe = recipe::soperator().unwrap();
        let installed = Packages::from_lock("", "nano=8.4\n").unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        tell_changes(&recipe, &installed, false, &|text| said.borrow_mut().push(text.to_owned()));
        let said = said.into_inner();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("`rig build --update-locks` accepts it\n"), "{said:?}");
        assert!(said[0].contains("\n  + nano 8.4") && said[0].contains("\n  - libc6 "), "{said:?}");
    }
}
