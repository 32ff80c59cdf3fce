//! The definitions in the charts.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::check;

/// What a chart's folder should hold, by file name.
fn files(
    group: &str,
    change: impl Fn(CustomResourceDefinition) -> CustomResourceDefinition,
) -> BTreeMap<String, String> {
    api::crds()
        .into_iter()
        .filter(|crd| crd.spec.group == group)
        .map(|crd| {
            let name = api::file_name(&crd);
            let text = serde_saphyr::to_string(&change(crd)).expect("YAML");
            (name, format!("# Made by `make generate`.\n{}\n", text.trim_end()))
        })
        .collect()
}

#[test]
fn the_chart_soperator_crds_has_the_definitions_of_its_group_and_keeps_them() {
    let keep = |mut crd: CustomResourceDefinition| {
        let annotation = ("helm.sh/resource-policy".to_owned(), "keep".to_owned());
        crd.metadata.annotations.get_or_insert_default().extend([annotation]);
        crd
    };
    let expected = files(api::nebius::GROUP, keep);
    assert_eq!(expected.len(), 6);
    for (name, text) in &expected {
        assert!(!text.contains("{{"), "{name}: Helm would take it for a template");
    }
    check("helm/soperator-crds/templates", "yaml", &expected);
}

#[test]
fn the_chart_slurm_operator_has_the_definitions_of_its_group() {
    let expected = files(api::slinky::GROUP, |crd| crd);
    assert_eq!(expected.len(), 2);
    check("helm/slurm-operator/crds", "yaml", &expected);
}
