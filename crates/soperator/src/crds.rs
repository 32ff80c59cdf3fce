//! `soperator crds`: the custom resource definitions as YAML.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::cli::Error;

/// What is printed, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one file per definition into this folder instead of printing all of them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only the definitions of this API group
    #[arg(long, value_name = "GROUP", value_parser = api::group_names())]
    group: Option<String>,
}

/// Prints the definitions, or writes them to files.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder).map_err(|error| Error::File(folder.clone(), error))?;
    }
    for crd in api::crds() {
        if args.group.as_ref().is_some_and(|group| *group != crd.spec.group) {
            continue;
        }
        let text = serde_saphyr::to_string(&crd).map_err(|error| Error::Yaml(error.to_string()))?;
        let document = format!("---\n{}\n", text.trim_end());
        match &args.out {
            None => out.write_all(document.as_bytes())?,
            Some(folder) => {
                let path = folder.join(api::file_name(&crd));
                fs::write(&path, document).map_err(|error| Error::File(path, error))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(group: Option<&str>) -> String {
        let args = Args { out: None, group: group.map(Into::into) };
        let mut out = Vec::new();
        run(&args, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_definition_is_a_document() {
        assert_eq!(printed(None).lines().filter(|line| *line == "---").count(), 8);
    }

    #[test]
    fn a_group_has_its_own_definitions_only() {
        let text = printed(Some(api::slinky::GROUP));
        assert_eq!(text.lines().filter(|line| *line == "---").count(), 2);
        assert!(!text.contains(api::nebius::GROUP));
    }

    #[test]
    fn files_are_named_by_group_and_plural() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        let args = Args { out: Some(out.clone()), group: None };
        run(&args, &mut Vec::new()).unwrap();
        let text = fs::read_to_string(out.join("slurm.nebius.ai_slurmclusters.yaml")).unwrap();
        assert!(text.contains("name: slurmclusters.slurm.nebius.ai"), "{text:.300}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 8);
    }
}
