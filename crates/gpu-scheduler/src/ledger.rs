//! Who has which device. A device has one owner, or as many as all of them allow.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU16;

use crate::facts::{Name, Uid};
use crate::map::{Claim, Device, Naming};

/// What a pod was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Of which node.
    pub node: Name,
    /// Which devices.
    pub claims: Box<[Claim]>,
}

/// Why a device cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another pod has it.
    Held {
        /// Which device.
        device: Device,
        /// One of those that have it.
        by: Uid,
    },
    /// As many pods share it as may.
    Full {
        /// Which device.
        device: Device,
        /// How many may.
        most: u16,
    },
    /// Devices of the node are named in another way, and both could be the same card.
    Naming {
        /// Which device.
        device: Device,
        /// The other way.
        other: Naming,
    },
}

type Sharers = Option<NonZeroU16>;

/// Who has which device.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: HashMap<Name, BTreeMap<Device, BTreeMap<Uid, Sharers>>>,
    grants: HashMap<Uid, Grant>,
}

impl Ledger {
    /// Whether a pod could be given these devices of a node. What it has itself is not in its way.
    ///
    /// # Errors
    ///
    /// The first device that it cannot have, and why.
    pub fn check(&self, uid: &Uid, node: &Name, claims: &[Claim]) -> Result<(), Conflict> {
        let Some(devices) = self.nodes.get(node) else { return Ok(()) };
        let others = |owners: &BTreeMap<Uid, Sharers>| owners.keys().any(|owner| owner != uid);
        let namings =
            || devices.iter().filter(|(_, owners)| others(owners)).map(|(device, _)| device.naming());
        for claim in claims {
            let device = &claim.device;
            if let Some(other) = namings().find(|naming| *naming != device.naming()) {
                return Err(Conflict::Naming { device: device.clone(), other });
            }
            let Some(owners) = devices.get(device) else { continue };
            let mut most = claim.sharers;
            let mut count: u16 = 0;
            for (owner, sharers) in owners.iter().filter(|(owner, _)| *owner != uid) {
                let (Some(limit), Some(own)) = (most, *sharers) else {
                    return Err(Conflict::Held { device: device.clone(), by: owner.clone() });
                };
                most = Some(limit.min(own));
                count = count.saturating_add(1);
            }
            if let Some(most) = most.filter(|most| count >= most.get()) {
                return Err(Conflict::Full { device: device.clone(), most: most.get() });
            }
        }
        Ok(())
    }

    /// Notes what a pod has, in place of what it had. That is not asked here: what is so, is so. See [`Ledger::check`].
    /// Returns what it had and has no more.
    pub fn record(&mut self, uid: &Uid, grant: Grant) -> Option<Grant> {
        if self.grants.get(uid) == Some(&grant) {
            return None;
        }
        let before = self.release(uid);
        if grant.claims.is_empty() {
            return before;
        }
        let devices = self.nodes.entry(grant.node.clone()).or_default();
        for claim in &grant.claims {
            devices.entry(claim.device.clone()).or_default().insert(uid.clone(), claim.sharers);
        }
        self.grants.insert(uid.clone(), grant);
        before
    }

    /// Takes from a pod whatever it has; returns that.
    pub fn release(&mut self, uid: &Uid) -> Option<Grant> {
        let grant = self.grants.remove(uid)?;
        if let Some(devices) = self.nodes.get_mut(&grant.node) {
            for claim in &grant.claims {
                if let Some(owners) = devices.get_mut(&claim.device) {
                    owners.remove(uid);
                    if owners.is_empty() {
                        devices.remove(&claim.device);
                    }
                }
            }
            if devices.is_empty() {
                self.nodes.remove(&grant.node);
            }
        }
        Some(grant)
    }

    /// What a pod has.
    pub fn grant(&self, uid: &Uid) -> Option<&Grant> {
        self.grants.get(uid)
    }

    /// The devices of a node that somebody has, with their owners; sorted.
    pub fn devices(&self, node: &str) -> impl Iterator<Item = (&Device, impl Iterator<Item = &Uid>)> {
        let devices = self.nodes.get(node).into_iter().flatten();
        devices.map(|(device, owners)| (device, owners.keys()))
    }

    /// How many devices of a node somebody has.
    pub fn count(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, BTreeMap::len)
    }

    /// How many devices somebody has.
    pub fn len(&self) -> usize {
        self.nodes.values().map(BTreeMap::len).sum()
    }

    /// Whether nobody has any.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The devices that have more owners than these allow. Only others than this scheduler can bring that about.
    pub fn overbooked(&self) -> impl Iterator<Item = (&Name, &Device)> {
        let devices = self.nodes.iter().flat_map(|(node, all)| all.iter().map(move |(d, o)| (node, d, o)));
        devices.filter(|(_, _, owners)| is_overbooked(owners)).map(|(node, device, _)| (node, device))
    }
}

fn is_overbooked(owners: &BTreeMap<Uid, Sharers>) -> bool {
    let most = owners.values().map(|sharers| sharers.map_or(1, NonZeroU16::get)).min().unwrap_or(u16::MAX);
    owners.len() > usize::from(most)
}

/// What the annotations of a bound pod say that it has.
pub fn granted(devices: &str, shared: Option<&str>) -> Box<[Claim]> {
    let shares: HashMap<&str, NonZeroU16> = shared
        .unwrap_or_default()
        .split(',')
        .filter_map(|part| part.split_once('='))
        .filter_map(|(device, most)| Some((device.trim(), most.trim().parse().ok()?)))
        .collect();
    let mut claims: Vec<Claim> = Vec::new();
    for token in devices.split(',').map(str::trim).filter(|token| !token.is_empty()) {
        let device = Device::parse(token).unwrap_or_else(|_| Device::Opaque(token.into()));
        if !claims.iter().any(|claim| claim.device == device) {
            let sharers = shares.get(device.to_string().as_str()).copied();
            claims.push(Claim { device, sharers });
        }
    }
    claims.into()
}

/// The annotation that tells which devices are shared; none if none is.
pub fn shared_annotation(claims: &[Claim]) -> Option<String> {
    let shared = claims.iter().filter_map(|claim| Some(format!("{}={}", claim.device, claim.sharers?)));
    let text = shared.collect::<Vec<_>>().join(",");
    if text.is_empty() { None } else { Some(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(name: &str) -> Uid {
        name.into()
    }

    fn claims(text: &str) -> Box<[Claim]> {
        text.split(',').map(|token| Claim::parse(token).unwrap()).collect()
    }

    fn grant(devices: &str) -> Grant {
        Grant { node: "n".into(), claims: claims(devices) }
    }

    #[test]
    fn a_device_has_one_owner_unless_all_say_otherwise() {
        let mut ledger = Ledger::default();
        let node: Name = "n".into();
        ledger.record(&uid("a"), grant("0,1@shared(2)"));
        let check = |ledger: &Ledger, devices: &str| ledger.check(&uid("b"), &node, &claims(devices));
        assert_eq!(check(&ledger, "0"), Err(Conflict::Held { device: Device::Index(0), by: uid("a") }));
        assert!(check(&ledger, "0@shared(5)").is_err(), "the first one did not agree");
        assert!(check(&ledger, "1").is_err(), "the second one does not agree");
        assert_eq!(check(&ledger, "1@shared(5),2"), Ok(()));
        ledger.record(&uid("b"), grant("1@shared(5)"));
        assert_eq!(
            ledger.check(&uid("c"), &node, &claims("1@shared(5)")),
            Err(Conflict::Full { device: Device::Index(1), most: 2 })
        );
        assert_eq!(ledger.check(&uid("c"), &"m".into(), &claims("0")), Ok(()), "another node");
        ledger.release(&uid("a"));
        assert_eq!(ledger.check(&uid("c"), &node, &claims("0,1@shared(2)")), Ok(()));
    }

    #[test]
    fn what_a_pod_has_itself_is_not_in_its_way() {
        let mut ledger = Ledger::default();
        ledger.record(&uid("a"), grant("0"));
        assert_eq!(ledger.check(&uid("a"), &"n".into(), &claims("0,1")), Ok(()));
    }

    #[test]
    fn two_names_that_could_be_one_card_are_not_given_to_two_pods() {
        let mut ledger = Ledger::default();
        let uuid = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
        ledger.record(&uid("a"), grant(uuid));
        let refused = ledger.check(&uid("b"), &"n".into(), &claims("0"));
        assert!(matches!(refused, Err(Conflict::Naming { other: Naming::Gpu, .. })), "{refused:?}");
        assert_eq!(ledger.check(&uid("a"), &"n".into(), &claims("0")), Ok(()));
    }

    #[test]
    fn what_others_brought_about_is_recorded_and_shown() {
        let mut ledger = Ledger::default();
        ledger.record(&uid("a"), grant("0"));
        assert_eq!(ledger.overbooked().count(), 0);
        ledger.record(&uid("b"), grant("0"));
        assert_eq!(ledger.overbooked().map(|(_, device)| device.to_string()).collect::<Vec<_>>(), ["0"]);
        ledger.release(&uid("a"));
        ledger.release(&uid("b"));
        assert!(ledger.is_empty() && ledger.grants.is_empty());
    }

    #[test]
    fn annotations_tell_the_same_as_the_claims_they_were_written_from() {
        let given = claims("0,3@shared(2)");
        let shared = shared_annotation(&given);
        assert_eq!(shared.as_deref(), Some("3=2"));
        assert_eq!(granted("0,3", shared.as_deref()), given);
        assert_eq!(granted("", None).len(), 0);
        assert_eq!(granted("0, 1 ,0", None), claims("0,1"));
        assert_eq!(shared_annotation(&claims("0")), None);
    }
}
