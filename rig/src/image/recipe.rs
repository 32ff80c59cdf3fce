//! What each image is made of: `images/<name>/recipe.yaml` and its package lock, both part of this program.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::clean::Pattern;
use super::lock::Packages;
use crate::cache::key_of;

/// Raise it when the builder makes something else of the same recipe, so that cached images are built again.
const FORMAT: &str = "1";

macro_rules! source {
    ($name:literal) => {
        Source {
            name: $name,
            recipe: include_str!(concat!("../../../images/", $name, "/recipe.yaml")),
            lock: include_str!(concat!("../../../images/", $name, "/packages.lock")),
        }
    };
}

/// The name of the image that holds our own program.
const SOPERATOR: &str = "soperator";

const SOURCES: &[Source] = &[
    source!("slurm-24.11"),
    source!("slurm-26.05"),
    source!("jail"),
    source!("jail-26.05"),
    source!("mariadb"),
    source!("pause"),
    source!("soperator"),
];

struct Source {
    name: &'static str,
    recipe: &'static str,
    lock: &'static str,
}

/// How one image is made.
#[derive(Clone, Debug)]
pub struct Recipe {
    name: String,
    reference: String,
    text: String,
    pub(super) locked: Packages,
    pub(super) spec: Spec,
    pub(super) remove: Vec<Pattern>,
}

/// The fields of a recipe file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    reference: String,
    pub(super) suite: String,
    pub(super) variant: Variant,
    pub(super) packages: Vec<String>,
    /// How long the suite's signed index counts as fresh, where the suite itself says less.
    #[serde(default)]
    pub(super) index_valid_days: Option<u32>,
    /// Programs with arguments, run inside the root file system after installation.
    #[serde(default)]
    pub(super) commands: Vec<Vec<String>>,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    pub(super) files: Vec<TextFile>,
    #[serde(default)]
    pub(super) links: Vec<Link>,
    #[serde(default)]
    pub(super) entrypoint: Vec<String>,
    #[serde(default)]
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) user: String,
}

/// How packages get into the root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Variant {
    /// Installed on top of Debian's essential packages.
    Essential,
    /// Only unpacked: no package manager, no scripts, nothing but the packages and what they depend on.
    Extract,
}

/// A file that the recipe itself gives; it replaces one of a package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) content: String,
}

/// A symbolic link that the recipe itself gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) path: String,
    pub(super) target: String,
}

/// All recipes but the one of our own program, which needs that program: see [`super::build_soperator`].
pub fn recipes() -> Result<Vec<Recipe>> {
    SOURCES.iter().filter(|source| source.name != SOPERATOR).map(Source::parse).collect()
}

/// The recipe of the image of our own program.
pub(super) fn soperator() -> Result<Recipe> {
    SOURCES.iter().find(|source| source.name == SOPERATOR).context("the soperator recipe is missing")?.parse()
}

impl Source {
    fn parse(&self) -> Result<Recipe> {
        Recipe::parse(self.name, self.recipe, self.lock)
    }
}

impl Recipe {
    /// Reads a recipe and its lock.
    fn parse(name: &str, text: &str, lock: &str) -> Result<Self> {
        let file = format!("images/{name}/recipe.yaml");
        // The parser's message has the line, the column and the field.
        let spec: Spec = serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
        let reference = spec.reference.replace("{version}", env!("CARGO_PKG_VERSION"));
        spec.check(&reference).with_context(|| file.clone())?;
        let remove = spec.remove.iter().map(|text| Pattern::parse(text)).collect::<Result<_>>();
        Ok(Self {
            name: name.to_owned(),
            reference,
            text: text.to_owned(),
            locked: Packages::from_lock(&format!("images/{name}/packages.lock"), lock)?,
            remove: remove.with_context(|| format!("{file}: field `remove`"))?,
            spec,
        })
    }

    /// The recipe's name, which is its directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The full reference of the image, as pods name it.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// The cache key of what this recipe makes with the packages of `lock`.
    pub(super) fn key(&self, lock: &Packages) -> String {
        key_of([FORMAT, &self.text, &lock.to_lock(), &self.reference, std::env::consts::ARCH])
    }

    /// The lock file in the source tree.
    pub(super) fn lock_path(&self) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../images"))
            .join(&self.name)
            .join("packages.lock")
    }
}

impl Spec {
    fn check(&self, reference: &str) -> Result<()> {
        let simple = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte))
        };
        if !reference.rsplit_once(':').is_some_and(|(name, tag)| name.contains('/') && !tag.is_empty()) {
            bail!("field `reference`: `{reference}` is not registry/name:tag");
        }
        // Both go onto a command line, where other characters have a meaning.
        if !simple(&self.suite) {
            bail!("field `suite`: `{}` is not a suite's name", self.suite);
        }
        if self.packages.is_empty() {
            bail!("field `packages`: name at least one package");
        }
        if let Some(package) = self.packages.iter().find(|package| !simple(package)) {
            bail!("field `packages`: `{package}` is not a package's name");
        }
        if self.commands.iter().any(Vec::is_empty) {
            bail!("field `commands`: a command is empty");
        }
        let paths = self.files.iter().map(|file| ("files", &file.path));
        for (field, path) in paths.chain(self.links.iter().map(|link| ("links", &link.path))) {
            if !path.starts_with('/') || path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
                bail!("field `{field}`: `{path}` is not an absolute path without `.` and `..`");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "reference: soperator.local/x:{version}\nsuite: trixie\nvariant: extract\npackages: [bash]\n";

    fn error_of(text: &str) -> String {
        format!("{:#}", Recipe::parse("x", text, "").unwrap_err())
    }

    #[test]
    fn every_recipe_of_the_program_is_valid() {
        let version = env!("CARGO_PKG_VERSION");
        let references: Vec<_> =
            recipes().unwrap().iter().map(|recipe| recipe.reference().to_owned()).collect();
        let expected = [
            "slurm:V-slurm24.11",
            "slurm:V-slurm26.05",
            "jail:V",
            "jail:V-slurm26.05",
            "mariadb:V",
            "pause:V",
        ];
        assert_eq!(
            references,
            expected.map(|name| format!("soperator.local/{}", name.replace('V', version)))
        );
        assert_eq!(soperator().unwrap().reference(), format!("soperator.local/soperator:{version}"));
    }

    #[test]
    fn every_recipe_has_a_lock_with_the_packages_it_names() {
        for recipe in recipes().unwrap().into_iter().chain([soperator().unwrap()]) {
            let lock = recipe.locked.to_lock();
            for package in &recipe.spec.packages {
                assert!(
                    lock.contains(&format!("\n{package}=")),
                    "{} lacks {package}",
                    recipe.lock_path().display()
                );
            }
        }
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        let cases = [
            (SMALL.replace("variant", "vriant"), "vriant"),
            (SMALL.replace("extract", "other"), "other"),
            (SMALL.replace("[bash]", "[]"), "field `packages`: name at least one package"),
            (SMALL.replace("[bash]", "['a;b']"), "field `packages`: `a;b` is not a package's name"),
            (SMALL.replace("trixie", "'$(x)'"), "field `suite`: `$(x)`"),
            (SMALL.replace(":{version}", ""), "field `reference`: `soperator.local/x`"),
            (format!("{SMALL}commands: [[]]\n"), "field `commands`"),
            (format!("{SMALL}remove: [etc/x]\n"), "field `remove`: `etc/x`"),
            (format!("{SMALL}files: [{{path: /a/../b, content: x}}]\n"), "field `files`: `/a/../b`"),
            (format!("{SMALL}links: [{{path: a, target: x}}]\n"), "field `links`: `a`"),
        ];
        for (text, part) in cases {
            let error = error_of(&text);
            assert!(error.starts_with("images/x/recipe.yaml") && error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn the_key_follows_the_recipe_and_the_lock() {
        let recipe = Recipe::parse("x", SMALL, "bash=1\n").unwrap();
        let other_lock = Packages::from_lock("x", "bash=2\n").unwrap();
        let other_text = Recipe::parse("x", &format!("{SMALL}user: '1'\n"), "bash=1\n").unwrap();
        assert_eq!(
            recipe.key(&recipe.locked),
            Recipe::parse("x", SMALL, "bash=1\n").unwrap().key(&recipe.locked)
        );
        assert_ne!(recipe.key(&recipe.locked), recipe.key(&other_lock));
        assert_ne!(recipe.key(&recipe.locked), other_text.key(&recipe.locked));
    }
}
