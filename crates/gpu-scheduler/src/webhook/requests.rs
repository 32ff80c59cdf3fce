//! Pods that also ask a device plugin for GPUs. The plugin chooses cards by itself and numbers them anew in the container, so
//! a map's numbers can mean other cards there, or none.

use serde_json::Value;

use super::Config;
use super::env::DeviceMode;
use super::problem::Problems;
use super::shape::Shape;
use crate::map::{Device, Map, Mode};
use crate::names::GPU_RESOURCE;

/// Checks the requests of all containers against all that the map may give them.
pub(super) fn check(config: &Config, shape: &Shape<'_>, map: &Map, problems: &mut Problems) {
    let claims = || map.entries().flat_map(|(_, entry)| &entry.claims);
    let highest = claims().filter_map(|claim| match claim.device {
        Device::Index(index) => Some(u64::from(index)),
        _ => None,
    });
    let highest = highest.max();
    let named_otherwise = claims().any(|claim| !matches!(claim.device, Device::Index(_)));
    for (list, place, container) in shape.containers() {
        let Some((kind, count)) = asks_for(container) else { continue };
        let covers = kind == GPU_RESOURCE
            && !named_otherwise
            && highest.is_none_or(|highest| highest < count)
            && config.devices == DeviceMode::Env;
        if !covers {
            problems.invalid_unless(
                config.mode == Mode::Compat,
                shape.spec_path(&format!("{list}[{place}].resources")),
                format!(
                    "asks for {kind}: the device plugin would choose other cards than the map, and number them from 0; remove \
                     the request, the map alone gives the devices"
                ),
            );
        }
    }
}

/// The first resource of NVIDIA's device plugin that a container asks for, and how many of it.
fn asks_for(container: &Value) -> Option<(&str, u64)> {
    ["limits", "requests"].into_iter().find_map(|list| {
        container["resources"][list].as_object()?.iter().find_map(|(name, value)| {
            let of_plugin = name.starts_with(GPU_RESOURCE) || name.starts_with("nvidia.com/mig-");
            let count = match value {
                Value::String(text) => text.parse().unwrap_or(1),
                value => value.as_u64().unwrap_or(1),
            };
            (of_plugin && count > 0).then_some((name.as_str(), count))
        })
    })
}
