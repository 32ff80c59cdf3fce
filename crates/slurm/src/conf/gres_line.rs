//! gres.conf: which devices nodes have.

use super::node_line::some_list;
use super::text::Pairs;
use super::value::{Name, Value};
use crate::hostlist::HostList;
use crate::{key, value};

/// A line of gres.conf. What is `None` is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GresLine {
    /// The nodes that it is about; all of them if it does not say.
    pub nodes: Option<HostList>,
    /// What the devices are: `gpu`.
    pub name: Name,
    /// Which of them: `h100`.
    pub kind: Option<Name>,
    /// How many, where there are no files to count.
    pub count: Option<u64>,
    /// Device files; one text may stand for several: `/dev/nvidia[0-3]`.
    pub files: Vec<Value>,
    /// The cores near the devices: `0-15`.
    pub cores: Option<Value>,
}

impl GresLine {
    /// Devices of a kind on all nodes.
    #[must_use]
    pub fn new(name: Name) -> Self {
        Self { nodes: None, name, kind: None, count: None, files: Vec::new(), cores: None }
    }
}

impl From<GresLine> for Pairs {
    fn from(line: GresLine) -> Self {
        let pairs = match line.nodes {
            Some(nodes) => Pairs::new(key!("NodeName"), nodes).with(key!("Name"), line.name),
            None => Pairs::new(key!("Name"), line.name),
        };
        pairs
            .with_some(key!("Type"), line.kind)
            .with_some(key!("Count"), line.count)
            .with_some(key!("File"), some_list(line.files))
            .with_some(key!("Cores"), line.cores)
    }
}

/// How slurmd finds devices by itself, for `AutoDetect=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoDetect {
    /// NVIDIA's library.
    Nvml,
    /// What the NVIDIA driver shows in the file system.
    Nvidia,
    /// AMD's library.
    Rsmi,
    /// Intel's library.
    OneApi,
    /// AWS Trainium and Inferentia.
    Nrt,
    /// Not at all.
    Off,
}

impl From<AutoDetect> for Value {
    fn from(how: AutoDetect) -> Self {
        match how {
            AutoDetect::Nvml => value!("nvml"),
            AutoDetect::Nvidia => value!("nvidia"),
            AutoDetect::Rsmi => value!("rsmi"),
            AutoDetect::OneApi => value!("oneapi"),
            AutoDetect::Nrt => value!("nrt"),
            AutoDetect::Off => value!("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::{Comment, ConfFile};

    #[test]
    fn gres_conf_prints_its_lines() {
        let name = |text| Name::new("f", text).unwrap();
        let mut conf = ConfFile::new();
        conf.comment(Comment::new("Gres config")).set(key!("AutoDetect"), AutoDetect::Nvml);
        conf.push(GresLine {
            nodes: Some(HostList::parse("gpu-[0-3]").unwrap()),
            kind: Some(name("h100")),
            files: vec![value!("/dev/nvidia[0-3]"), value!("/dev/nvidia7")],
            cores: Some(value!("0-15")),
            ..GresLine::new(name("gpu"))
        });
        conf.push(GresLine { count: Some(100), ..GresLine::new(name("mps")) });
        assert_eq!(
            conf.to_string(),
            "# Gres config\n\
             AutoDetect=nvml\n\
             NodeName=gpu-[0-3] Name=gpu Type=h100 File=/dev/nvidia[0-3],/dev/nvidia7 Cores=0-15\n\
             Name=mps Count=100\n"
        );
    }
}
