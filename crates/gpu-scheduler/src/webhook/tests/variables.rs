//! What the containers of a pod get.

use super::*;

fn with_env(env: Value) -> Value {
    with(pod(), "/spec/containers/0/env", env)
}

#[test]
fn a_literal_of_the_user_is_no_literal_of_ours() {
    let order = |value: &str| json!({ "name": "CUDA_DEVICE_ORDER", "value": value });
    let after = mutated(&config(), &with_env(json!([order("FASTEST_FIRST")])));
    assert_eq!(env(&after, "containers", 0, "CUDA_DEVICE_ORDER"), [&order("PCI_BUS_ID")]);
    let compat = Config { mode: Mode::Compat, ..config() };
    let after = mutated(&compat, &with_env(json!([{ "name": "CUDA_VISIBLE_DEVICES", "value": "7" }])));
    assert_eq!(
        env(&after, "containers", 0, "CUDA_VISIBLE_DEVICES"),
        [&json!({ "name": "CUDA_VISIBLE_DEVICES", "value": "2" })]
    );
}

#[test]
fn an_empty_literal_of_ours_is_known_again_when_the_api_server_left_it_out() {
    let compat = Config { mode: Mode::Compat, existing: Existing::Deny, ..config() };
    let nothing = annotated(pod(), "gpu-scheduling-map", "1=node2:none");
    let mut after = mutated(&compat, &nothing);
    assert_eq!(
        env(&after, "containers", 0, "CUDA_VISIBLE_DEVICES"),
        [&json!({ "name": "CUDA_VISIBLE_DEVICES", "value": "" })]
    );
    after["spec"]["containers"][0]["env"][1] = json!({ "name": "CUDA_VISIBLE_DEVICES" });
    assert_eq!(patch(&compat, &after), None);
    assert!(allowed(&compat, &after, None).is_empty());
}

#[test]
fn of_several_entries_of_several_variables_one_of_each_is_left() {
    let own = [("CUDA_VISIBLE_DEVICES", "7"), ("CUDA_DEVICE_ORDER", "X"), ("A", "1")];
    let twice = own.iter().chain(&own).map(|(name, value)| json!({ "name": name, "value": value }));
    let after = mutated(&config(), &with_env(twice.collect()));
    assert_eq!(
        after["spec"]["containers"][0]["env"],
        json!([
            late_bound("CUDA_VISIBLE_DEVICES"),
            { "name": "CUDA_DEVICE_ORDER", "value": "PCI_BUS_ID" },
            { "name": "A", "value": "1" },
            { "name": "A", "value": "1" },
        ])
    );
}

#[test]
fn warnings_about_the_pod_come_with_its_variables() {
    let wish = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{}] } });
    let decision = mutate(&config(), &request(&with(pod(), "/spec/affinity", wish), None));
    assert!(decision.warnings().iter().any(|warning| warning.contains("has no effect")), "{decision:?}");
    assert!(decision.into_patch().is_some());
}

#[test]
fn a_variable_of_ours_is_not_told_as_one_that_is_kept() {
    let keep = Config { existing: Existing::Keep, ..config() };
    let again = mutate(&keep, &request(&mutated(&keep, &pod()), None));
    assert_eq!(again, Decision::allow());
}

#[test]
fn a_pod_that_became_ours_too_late_is_refused() {
    let late = |config: &Config, pod: &Value| validate(config, &request(pod, None));
    let refused = late(&config(), &pod());
    let (code, message) = refused.denial().unwrap();
    assert_eq!(code, 422);
    assert!(message.starts_with("spec.containers[0].env: lacks the variables"), "{message}");
    for after in [Mode::Strict, Mode::Compat] {
        let config = Config { mode: after, ..config() };
        assert!(late(&config, &pod()).denial().is_some());
        assert_eq!(late(&config, &mutated(&config, &pod())), Decision::allow());
    }
    // A container that another webhook added.
    let more = json!([{ "name": "proxy", "restartPolicy": "Always" }]);
    let message = late(&config(), &with(mutated(&config(), &pod()), "/spec/initContainers", more));
    assert!(message.denial().is_some_and(|(_, text)| text.starts_with("spec.initContainers[0].env: ")));
    // What may stay as the user has it.
    let own = with_env(json!([{ "name": "CUDA_VISIBLE_DEVICES", "value": "7" }]));
    let keep = Config { existing: Existing::Keep, ..config() };
    assert!(late(&keep, &own).denial().is_some(), "its order is missing");
    assert_eq!(late(&keep, &mutated(&keep, &own)).denial(), None);
    // By number the runtime's variable is all there is.
    let runtime = Config { devices: DeviceMode::Runtime, ..config() };
    assert_eq!(late(&runtime, &mutated(&runtime, &pod())), Decision::allow());
    assert!(late(&runtime, &mutated(&config(), &pod())).denial().is_some());
    let other = with(pod(), "/spec/schedulerName", json!("default-scheduler"));
    assert_eq!(late(&config(), &other), Decision::allow());
    assert_eq!(verdict(&config(), &pod(), Some(&pod())).0, None, "pods that are there cannot change");
}
