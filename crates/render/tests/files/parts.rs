//! Parts are valid or not by themselves.

use api::nebius::slurm_cluster::{PartitionConfigType, PartitionConfiguration};
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume};
use render::{Component, Defaults, Severity, render, validate};

use crate::cases::{ALL, CPU, Case, DEFAULT, FULL, case};

const PARTS: [Component; 6] = [
    Component::Common,
    Component::Controller,
    Component::Accounting,
    Component::Rest,
    Component::Worker,
    Component::Login,
];

/// The parts that are broken, and what is told about them.
fn broken(case: &Case) -> Vec<(Component, Vec<String>)> {
    let cluster = case.validated();
    let told = |part: Component| cluster.problems(part).iter().map(ToString::to_string).collect();
    PARTS.into_iter().filter(|part| cluster.is_broken(*part)).map(|part| (part, told(part))).collect()
}

#[test]
fn nothing_is_wrong_with_the_examples() {
    for name in ALL {
        assert_eq!(broken(&case(name)), [], "{name}");
    }
}

#[test]
fn a_wrong_node_filter_stops_only_the_part_that_names_it() {
    let mut case = case(CPU);
    case.cluster.spec.slurm_nodes.login.node.pod.k8s_node_filter_name = "nowhere".into();
    let found = broken(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Component::Login);
    let expected =
        "spec.slurmNodes.login.k8sNodeFilterName: spec.k8sNodeFilters has no entry \"nowhere\"; add it";
    assert!(found[0].1[0].starts_with(expected), "{found:?}");
    let objects = render(&case.validated(), &case.facts);
    let has = |part| objects.iter().any(|rendered| rendered.component == part);
    assert!(!has(Component::Login));
    for part in PARTS.into_iter().filter(|part| *part != Component::Login) {
        assert!(has(part), "{part:?}");
    }
}

#[test]
fn a_line_that_brings_another_stops_the_configuration_and_nothing_else() {
    let mut case = case(CPU);
    case.cluster.spec.partition_configuration = PartitionConfiguration {
        config_type: PartitionConfigType::Custom,
        raw_config: Some(vec![
            "PartitionName=a Nodes=ALL".into(),
            "PartitionName=b Nodes=ALL\nSlurmUser=nobody".into(),
        ]),
        partitions: None,
    };
    let found = broken(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Component::Common);
    assert!(found[0].1[0].starts_with("spec.partitionConfiguration.rawConfig[1]: has several lines"));
    let cluster = case.validated();
    assert_eq!(render::slurm_configs(&cluster, &case.facts), None);
    let objects = render(&cluster, &case.facts);
    assert!(!objects.iter().any(|rendered| rendered.object.name() == "cpu-slurm-configs"));
    assert!(objects.iter().any(|rendered| rendered.object.name() == "cpu-controller"));
}

#[test]
fn a_volume_with_no_source_or_two_stops_who_uses_it() {
    let mut case = case(CPU);
    let volumes = case.cluster.spec.volume_sources.as_mut().unwrap();
    volumes[0].empty_dir = Some(EmptyDirVolumeSource::default());
    volumes.push(Volume { name: "unused".into(), ..Volume::default() });
    let parts: Vec<Component> = broken(&case).into_iter().map(|(part, _)| part).collect();
    assert_eq!(parts, [Component::Controller, Component::Worker, Component::Login]);
    let remarks: Vec<String> = case.validated().remarks.iter().map(ToString::to_string).collect();
    assert_eq!(
        remarks,
        [
            "spec.volumeSources[0]: has several sources (emptyDir, hostPath); write one",
            "spec.volumeSources[1]: has no source; write one, such as persistentVolumeClaim or emptyDir",
        ]
    );
}

#[test]
fn settings_of_accounting_in_slurm_conf_are_not_slurmdbds() {
    let mut case = case(CPU);
    let accounting = &mut case.cluster.spec.slurm_nodes.accounting;
    accounting.slurm_config.priority_weight_tres = Some("CPU=1\nSlurmUser=nobody".into());
    let parts: Vec<Component> = broken(&case).into_iter().map(|(part, _)| part).collect();
    assert_eq!(parts, [Component::Common]);
}

#[test]
fn numbers_that_slurm_cannot_hold_are_told() {
    let mut case = case(DEFAULT);
    case.cluster.spec.slurm_config.message_timeout = 70_000;
    case.cluster.spec.slurm_config.max_job_count = -1;
    let (_, told) = broken(&case).remove(0);
    assert_eq!(
        told,
        [
            "spec.slurmConfig.maxJobCount: -1 is no number for Slurm; write one from 0 to 2147483647",
            "spec.slurmConfig.messageTimeout: 70000 is no number for Slurm; write one from 0 to 65533",
        ]
    );
}

#[test]
fn what_only_may_be_wrong_stops_nothing() {
    let mut case = case(DEFAULT);
    case.cluster.spec.custom_slurm_config = Some("MaxJobCont=5".into());
    assert_eq!(broken(&case), []);
    let remarks = case.validated().remarks;
    assert_eq!(remarks.len(), 1);
    assert_eq!(remarks[0].severity, Severity::Warning);
    assert!(case.files()["custom_slurm.conf"].contains("MaxJobCont=5"));
}

#[test]
fn slurmrestd_for_the_operator_runs_where_slurmctld_does_if_users_have_none() {
    let mut case = case(CPU);
    let rest = &mut case.cluster.spec.slurm_nodes.rest;
    rest.enabled = false;
    rest.node.pod.k8s_node_filter_name = "nowhere".into();
    let cluster = case.validated();
    let (rest, controller) = (cluster.rest.unwrap(), cluster.controller.unwrap());
    assert_eq!(rest.pod.placement, controller.pod.placement);
    assert_eq!(rest.size, 1);
}

#[test]
fn an_object_without_a_namespace_is_nothing_to_render() {
    let mut case = case(FULL);
    case.cluster.metadata.namespace = None;
    assert_eq!(validate(&case.cluster, &Defaults::default()).unwrap_err()[0].path, "metadata");
}
