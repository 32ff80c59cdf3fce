//! Programs that are built from Go modules: Kubernetes itself, CoreDNS, Helm, helm-unittest, kwok and cert-manager.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::cache::{Cache, key_of};
use crate::processes::bound;

/// A Go program: the module around it is part of this program, so that it builds wherever the rig runs.
pub struct GoProgram {
    /// Name of the part and of the program file.
    pub name: &'static str,
    /// What to build, in the module.
    package: &'static str,
    /// Module whose version is the program's, and the variables that hold it.
    version_of: &'static str,
    version_variables: &'static [&'static str],
    /// Whether the variables want the version without its `v`.
    bare_version: bool,
    sources: &'static [(&'static str, &'static str)],
    /// Other names of the program, by which it knows what to be.
    names: &'static [&'static str],
    /// Files beside the program.
    extra: &'static [(&'static str, &'static str)],
    /// Folders of the module `version_of` whose files are put beside the program, in folders of the same last name.
    folders: &'static [&'static str],
    /// Whether it is built with the versions of [`WORKSPACE`].
    in_workspace: bool,
}

/// Programs that are built with one set of versions, so that Go compiles what they have in common (most of CoreDNS and Helm
/// is Kubernetes' client) only once.
const WORKSPACE: [&GoProgram; 4] = [&COREDNS, &HELM, &HELM_UNITTEST, &KUBE];

/// What makes a workspace of them.
const WORKSPACE_FILES: [(&str, &str); 2] =
    [("go.work", include_str!("../../go.work")), ("go.work.sum", include_str!("../../go.work.sum"))];

/// etcd, all Kubernetes servers and kubectl in one program.
pub static KUBE: GoProgram = GoProgram {
    name: "kube",
    package: ".",
    version_of: "k8s.io/kubernetes",
    version_variables: &[
        "k8s.io/component-base/version.gitVersion",
        "k8s.io/client-go/pkg/version.gitVersion",
    ],
    bare_version: false,
    sources: &[
        ("go.mod", include_str!("../../kube/go.mod")),
        ("go.sum", include_str!("../../kube/go.sum")),
        ("main.go", include_str!("../../kube/main.go")),
    ],
    names: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ],
    extra: &[],
    folders: &[],
    in_workspace: true,
};

/// The cluster's DNS server.
pub static COREDNS: GoProgram = GoProgram {
    name: "coredns",
    package: ".",
    version_of: "github.com/coredns/coredns",
    version_variables: &[],
    bare_version: true,
    sources: &[
        ("go.mod", include_str!("../../coredns/go.mod")),
        ("go.sum", include_str!("../../coredns/go.sum")),
        ("main.go", include_str!("../../coredns/main.go")),
    ],
    names: &[],
    extra: &[],
    folders: &[],
    in_workspace: true,
};

/// Helm 3.
pub static HELM: GoProgram = GoProgram {
    name: "helm",
    package: "helm.sh/helm/v3/cmd/helm",
    version_of: "helm.sh/helm/v3",
    version_variables: &["helm.sh/helm/v3/internal/version.version"],
    bare_version: false,
    sources: &[("go.mod", include_str!("../../helm/go.mod")), ("go.sum", include_str!("../../helm/go.sum"))],
    names: &[],
    extra: &[],
    folders: &[],
    in_workspace: true,
};

/// Helm's plugin for unit tests of charts; its entry is a directory for `HELM_PLUGINS`.
pub static HELM_UNITTEST: GoProgram = GoProgram {
    name: "helm-unittest",
    package: "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    version_of: "github.com/helm-unittest/helm-unittest",
    version_variables: &[],
    bare_version: true,
    sources: &[
        ("go.mod", include_str!("../../helm-unittest/go.mod")),
        ("go.sum", include_str!("../../helm-unittest/go.sum")),
    ],
    names: &[],
    extra: &[("unittest/plugin.yaml", include_str!("../../helm-unittest/plugin.yaml"))],
    folders: &[],
    in_workspace: true,
};

/// Fake nodes for scale tests.
pub static KWOK: GoProgram = GoProgram {
    name: "kwok",
    package: "sigs.k8s.io/kwok/cmd/kwok",
    version_of: "sigs.k8s.io/kwok",
    version_variables: &["sigs.k8s.io/kwok/pkg/consts.Version"],
    bare_version: true,
    sources: &[("go.mod", include_str!("../../kwok/go.mod")), ("go.sum", include_str!("../../kwok/go.sum"))],
    names: &[],
    extra: &[],
    folders: &[],
    in_workspace: false,
};

/// cert-manager's controllers for Certificates of self-signed Issuers, and its definitions in the folder `crds`.
pub static CERT_MANAGER: GoProgram = GoProgram {
    name: "cert-manager",
    package: ".",
    version_of: "github.com/cert-manager/cert-manager",
    version_variables: &["github.com/cert-manager/cert-manager/pkg/util.AppVersion"],
    bare_version: false,
    sources: &[
        ("go.mod", include_str!("../../cert-manager/go.mod")),
        ("go.sum", include_str!("../../cert-manager/go.sum")),
        ("main.go", include_str!("../../cert-manager/main.go")),
    ],
    names: &[],
    extra: &[],
    folders: &["deploy/crds"],
    in_workspace: false,
};

impl GoProgram {
    /// The version that the module pins.
    pub fn version(&self) -> Result<&'static str> {
        let (_, go_mod) =
            self.sources.iter().find(|(name, _)| *name == "go.mod").context("a module without go.mod")?;
        required_version(go_mod, self.version_of)
            .with_context(|| format!("rig/{}/go.mod does not require {}", self.name, self.version_of))
    }

    /// Directory of the program if it has been built.
    pub fn find(&self, cache: &Cache) -> Option<PathBuf> {
        cache.find(self.name, &self.key())
    }

    /// Directory of the program, which is built if need be, and only until `stop` is set.
    pub fn find_or_build(
        &self,
        cache: &Cache,
        verify: bool,
        say: &dyn Fn(&str),
        stop: &AtomicBool,
    ) -> Result<PathBuf> {
        cache.find_or_build(self.name, &self.key(), verify, say, |dir| self.build(dir, say, stop))
    }

    fn key(&self) -> String {
        let texts = self.sources.iter().chain(self.extra).flat_map(|(name, text)| [*name, *text]);
        let names = self.names.iter().chain(self.folders).copied();
        let shared: Vec<&str> = if self.in_workspace {
            // Any of these decides which versions are taken.
            let versions = WORKSPACE.iter().flat_map(|program| program.sources);
            let versions = versions.filter(|(name, _)| *name == "go.mod").chain(&WORKSPACE_FILES);
            versions.map(|(_, text)| *text).collect()
        } else {
            Vec::new()
        };
        key_of(texts.chain(names).chain([self.package, self.version_of]).chain(shared))
    }

    /// Writes the module, and its workspace, into `folder`; returns the module's own folder.
    fn write_sources(&self, folder: &Path) -> Result<PathBuf> {
        let programs = if self.in_workspace { &WORKSPACE[..] } else { &[self][..] };
        for program in programs {
            let module = folder.join(program.name);
            fs::create_dir_all(&module)?;
            for (name, text) in program.sources {
                fs::write(module.join(name), text)?;
            }
        }
        if self.in_workspace {
            for (name, text) in WORKSPACE_FILES {
                fs::write(folder.join(name), text)?;
            }
        }
        Ok(folder.join(self.name))
    }

    fn build(&self, dir: &Path, say: &dyn Fn(&str), stop: &AtomicBool) -> Result<()> {
        let sources = dir.join("module");
        let module = self.write_sources(&sources)?;
        let version = self.version()?;
        let version = if self.bare_version { version.trim_start_matches('v') } else { version };
        let mut linker_flags = String::from("-s -w");
        for variable in self.version_variables {
            linker_flags.push_str(&format!(" -X {variable}={version}"));
        }

        say("fetching modules");
        let mut go = go()?
            .current_dir(&module)
            .args([
                "build",
                "-v",
                "-trimpath",
                "-buildvcs=false",
                "-mod=readonly",
                "-ldflags",
                &linker_flags,
                "-o",
            ])
            .arg(dir.join(self.name))
            .arg(self.package)
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run `go`")?;
        let mut last_lines: Vec<String> = Vec::new();
        let mut packages = 0;
        if let Some(stderr) = go.stderr.take() {
            for line in BufReader::new(stderr).lines() {
                let line = line?;
                if stop.load(Ordering::SeqCst) {
                    go.kill()?;
                    go.wait()?;
                    bail!("stopped, because another part failed; what was compiled is kept");
                }
                if line.starts_with("go: downloading ") {
                    say(line.trim_start_matches("go: "));
                } else if is_package_path(&line) {
                    packages += 1;
                    say(&format!("compiling, {packages} packages so far: {line}"));
                    continue;
                }
                last_lines.push(line);
                if last_lines.len() > 12 {
                    last_lines.remove(0);
                }
            }
        }
        if !go.wait()?.success() {
            bail!(
                "`go build` of {} failed. If it could not download, check that the Go module proxy is reachable \
                 (`go env GOPROXY`) and run the same command again; what was downloaded is kept.\n{}",
                self.name,
                last_lines.join("\n")
            );
        }
        for folder in self.folders {
            self.copy_folder(&module, folder, dir)?;
        }
        fs::remove_dir_all(&sources)?;
        for name in self.names {
            symlink(self.name, dir.join(name))?;
        }
        for (name, text) in self.extra {
            let file = dir.join(name);
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(file, text)?;
        }
        Ok(())
    }

    /// Copies the files of a folder of the program's module, which `go build` has downloaded, into `dir`.
    fn copy_folder(&self, module: &Path, folder: &str, dir: &Path) -> Result<()> {
        let output = go()?
            .current_dir(module)
            .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", self.version_of])
            .stdin(Stdio::null())
            .output()
            .context("cannot run `go`")?;
        if !output.status.success() {
            bail!("`go list` of {} failed:\n{}", self.version_of, String::from_utf8_lossy(&output.stderr));
        }
        let source = Path::new(String::from_utf8(output.stdout)?.trim_end()).join(folder);
        let target = dir.join(source.file_name().context("a folder without a name")?);
        fs::create_dir(&target)?;
        let items = fs::read_dir(&source).with_context(|| format!("cannot read {}", source.display()))?;
        for item in items {
            let item = item?;
            if item.file_type()?.is_file() {
                // By content: files of the module cache may not be written, and copies would be the same.
                fs::write(target.join(item.file_name()), fs::read(item.path())?)?;
            }
        }
        Ok(())
    }
}

/// Go, which ends with this program; an error says how to get it.
fn go() -> Result<Command> {
    // Asked first: what binds it to us would not say that it is missing.
    Command::new("go")
        .arg("version")
        .output()
        .context("cannot run `go`: install Go 1.26 or newer and put it on the PATH")?;
    let mut command = bound();
    command.arg("go");
    Ok(command)
}

/// `go build -v` prints the path of each package as it compiles it.
fn is_package_path(line: &str) -> bool {
    !line.is_empty() && !line.contains(' ') && !line.starts_with('#') && !line.contains(':')
}

fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next()? == module).then(|| words.next())?.filter(|version| version.starts_with('v'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_pins_its_version() {
        for program in [&KUBE, &COREDNS, &HELM, &HELM_UNITTEST, &KWOK, &CERT_MANAGER] {
            assert!(program.version().unwrap().starts_with('v'), "{}", program.name);
        }
        assert!(KUBE.version().unwrap().starts_with("v1.36."));
        assert!(HELM.version().unwrap().starts_with("v3."));
    }

    #[test]
    fn the_workspace_holds_the_programs_that_say_so() {
        let (_, work) = WORKSPACE_FILES[0];
        for program in [&KUBE, &COREDNS, &HELM, &HELM_UNITTEST, &KWOK, &CERT_MANAGER] {
            let name = program.name;
            assert_eq!(work.contains(&format!("\t./{name}\n")), program.in_workspace, "{name}");
            assert_eq!(WORKSPACE.iter().any(|it| it.name == name), program.in_workspace, "{name}");
        }
    }

    #[test]
    fn no_compiler_is_left_when_the_builder_is_killed() {
        let (_dir, path, beat) = crate::processes::tests::beating_program("go");
        crate::processes::tests::assert_ends_with_its_parent(go().unwrap().env("PATH", path), &beat, || ());
    }

    #[test]
    fn a_replaced_module_is_not_taken_for_a_required_one() {
        let go_mod = "replace (\n\tk8s.io/api => k8s.io/api v0.36.3\n)\nrequire k8s.io/api v0.36.2\n";
        assert_eq!(required_version(go_mod, "k8s.io/api"), Some("v0.36.2"));
    }

    #[test]
    fn package_paths_are_told_from_messages() {
        assert!(is_package_path("k8s.io/kubernetes/pkg/kubelet"));
        assert!(is_package_path("internal/goarch"));
        for message in
            ["# soperator/rig/kube", "go: downloading k8s.io/api v0.36.3", "./main.go:3:1: syntax error", ""]
        {
            assert!(!is_package_path(message), "{message}");
        }
    }
}
