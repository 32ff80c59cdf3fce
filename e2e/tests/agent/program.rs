//! The program itself: it has to run in images that we know nothing of.

use std::process::Command;

use anyhow::Result;

use crate::lab::agent_program;

const MAX_BYTES: u64 = 4 << 20;

#[test]
fn the_program_is_small_and_runs_where_there_is_nothing_else() -> Result<()> {
    let program = agent_program()?;
    let size = std::fs::metadata(&program)?.len();
    assert!(size <= MAX_BYTES, "{size} bytes");
    // An empty root: no loader, no library, no /proc.
    let root = tempfile::tempdir()?;
    std::fs::copy(&program, root.path().join("slurm-agent"))?;
    let run = |arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let output = Command::new("chroot").arg(root.path()).arg("/slurm-agent").args(arguments).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
    };
    assert_eq!(run(&["--version"])?, (Some(0), format!("slurm-agent {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, said) = run(&["slurmx"])?;
    assert!(code == Some(2) && said.starts_with("usage: slurm-agent install DIR"), "{said}");
    let (code, said) = run(&["probe", "slurmctld"])?;
    assert!(code == Some(1) && said.contains("the image has no program scontrol"), "{said}");
    Ok(())
}
