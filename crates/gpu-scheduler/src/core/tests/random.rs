//! Random stories: pods come, are bound or not, end, vanish; nodes come and go; the scheduler starts anew. Whatever happens,
//! no device has two owners, nothing leaks, and nobody who could be placed is forgotten.

use proptest::prelude::*;

use super::*;

const PODS: usize = 6;
const MAPS: [&str; 6] = [
    "0=n0:0",
    "0=n0:0,1",
    "0=n0:1@shared(2)",
    "0=n1:0",
    "0=n1:0@shared(2)",
    "0=n0:GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
];

#[derive(Clone, Debug)]
enum Step {
    /// The pod of this number comes, if it is not there; with a gate or without.
    Come(usize, bool),
    /// All that is active is decided.
    Decide,
    /// The bind of this pod is done, and the watch shows it.
    Bound(usize),
    /// The bind of this pod fails.
    Fails(usize),
    /// Somebody else binds this pod.
    Stolen(usize),
    /// This pod's deletion begins.
    Terminates(usize),
    /// This pod ends.
    Ends(usize),
    /// This pod is gone.
    Goes(usize),
    /// This node changes: gone, cordoned or fine.
    Node(usize, u8),
    /// Time passes.
    Pass(u64),
    /// The gates of this pod open.
    Open(usize),
    /// The map of this pod becomes another one, if it waits.
    Edit(usize, usize),
    /// The scheduler starts anew; binds under way are done or not.
    Restart(Last),
}

/// What becomes of binds that were under way when the scheduler ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Last {
    Lost,
    /// Done before the new one lists.
    Done,
    /// Done after it has listed, and before it decides: the watch tells.
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..PODS;
    prop_oneof![
        3 => (number.clone(), prop::bool::weighted(0.2)).prop_map(|(number, gated)| Step::Come(number, gated)),
        4 => Just(Step::Decide),
        3 => number.clone().prop_map(Step::Bound),
        1 => number.clone().prop_map(Step::Fails),
        1 => number.clone().prop_map(Step::Stolen),
        1 => number.clone().prop_map(Step::Terminates),
        2 => number.clone().prop_map(Step::Ends),
        2 => number.clone().prop_map(Step::Goes),
        1 => number.clone().prop_map(Step::Open),
        1 => (number, 0..MAPS.len()).prop_map(|(number, map)| Step::Edit(number, map)),
        1 => (0usize..2, 0u8..3).prop_map(|(node, state)| Step::Node(node, state)),
        2 => (1u64..15).prop_map(Step::Pass),
        1 => prop_oneof![Just(Last::Lost), Just(Last::Done), Just(Last::Late)].prop_map(Step::Restart),
    ]
}

/// A mistake that is made on purpose, to see it caught.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    /// What is held for a pod is forgotten when its bind is sent.
    ForgetAssumed,
    /// A bind that failed keeps its device.
    KeepDevice,
    /// Nobody is woken when a pod is gone.
    SilentGoing,
    /// Nobody is woken when a node changes.
    SilentNode,
    /// Nobody looks at a pod again whose map was edited.
    SilentEdit,
    /// Nobody looks at a pod whose gates open.
    SilentOpening,
}

/// The cluster as the API server knows it.
struct World {
    core: Core,
    pods: HashMap<usize, Arc<Pod>>,
    flight: HashMap<usize, Assignment>,
    nodes: [Option<Arc<Node>>; 2],
    /// The uids of all pods that ever were.
    known: BTreeSet<Uid>,
    came: usize,
    now: Time,
    bug: Bug,
}

impl World {
    fn new(bug: Bug) -> Self {
        let nodes = ["n0", "n1"].map(|name| Some(node(name, json!({}))));
        let mut core = core();
        know_claim(&mut core);
        Self {
            core,
            pods: HashMap::new(),
            flight: HashMap::new(),
            nodes,
            known: BTreeSet::new(),
            came: 0,
            now: at(0),
            bug,
        }
    }

    /// Lets something happen; if that is the mistake, everybody sleeps on.
    fn silently(&mut self, bug: Bug, happens: impl FnOnce(&mut Self)) {
        let queue = (self.bug == bug).then(|| self.core.queue.clone());
        happens(self);
        if let Some(queue) = queue {
            self.core.queue = queue;
            let gone: Vec<Uid> = self.known.difference(&self.uids()).cloned().collect();
            gone.iter().for_each(|uid| self.core.queue.remove(uid));
        }
    }

    fn uids(&self) -> BTreeSet<Uid> {
        self.pods.values().map(|pod| pod.uid.clone()).collect()
    }

    fn show(&mut self, number: usize, pod: Arc<Pod>) {
        self.known.insert(pod.uid.clone());
        self.pods.insert(number, Arc::clone(&pod));
        self.core.set_pod(pod, self.now);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Come(number, gated) if !self.pods.contains_key(&number) => {
                self.came += 1;
                let gates = if gated { json!([{ "name": "g" }]) } else { json!([]) };
                // Two of them want a claim that is for one pod.
                let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "data" } });
                let volumes = if number % 3 == 0 { json!([volume]) } else { json!([]) };
                let unique = json!({
                    "metadata": { "uid": format!("{number}-{}", self.came) },
                    "spec": { "priority": number % 3, "schedulingGates": gates, "volumes": volumes },
                });
                self.show(number, pod(&format!("w{number}-0"), MAPS[number], unique));
            }
            Step::Open(number) => self.change(number, Bug::SilentOpening, |ask| ask.gated = false),
            Step::Edit(number, map) => {
                self.change(number, Bug::SilentEdit, |ask| ask.map = Some(MAPS[map].into()));
            }
            Step::Decide => self.decide(),
            Step::Bound(number) => self.bound(number),
            Step::Fails(number) => {
                if let Some(assignment) = self.flight.remove(&number) {
                    let grant = self.core.ledger.grant(&assignment.pod.uid).cloned();
                    self.core.bind_failed(&assignment.pod.uid, &BindError::Again(Duration::ZERO), self.now);
                    if let (Bug::KeepDevice, Some(grant)) = (self.bug, grant) {
                        self.core.ledger.record(&assignment.pod.uid, grant);
                    }
                }
            }
            Step::Stolen(number) => {
                if let Some(pod) = self.pods.get(&number).filter(|pod| pod.ask.is_some()) {
                    let mut stolen = (**pod).clone();
                    stolen.uses = stolen.claims().into();
                    (stolen.node, stolen.ask) = (Some("n1".into()), None);
                    self.show(number, Arc::new(stolen));
                }
            }
            Step::Terminates(number) => {
                if let Some(pod) = self.pods.get(&number) {
                    let mut pod = (**pod).clone();
                    pod.terminating = true;
                    self.show(number, Arc::new(pod));
                }
            }
            Step::Ends(number) => {
                if let Some(pod) = self.pods.get(&number).filter(|pod| pod.node.is_some()) {
                    let pod = ended(pod);
                    self.show(number, pod);
                }
            }
            Step::Goes(number) => {
                if let Some(pod) = self.pods.remove(&number) {
                    self.silently(Bug::SilentGoing, |world| world.core.remove_pod(&pod.uid, world.now));
                }
            }
            Step::Node(number, state) => {
                let name = ["n0", "n1"][number];
                self.nodes[number] = match state {
                    0 => None,
                    1 => Some(node(name, json!({ "spec": { "unschedulable": true } }))),
                    _ => Some(node(name, json!({}))),
                };
                self.silently(Bug::SilentNode, |world| match &world.nodes[number] {
                    Some(node) => world.core.set_node(Arc::clone(node), world.now),
                    None => world.core.remove_node(name, world.now),
                });
            }
            Step::Pass(seconds) => self.now += at(seconds),
            Step::Restart(last) => self.restart(last),
            Step::Come(..) => {}
        }
    }

    /// Changes what a pod asks for that waits.
    fn change(&mut self, number: usize, bug: Bug, change: impl FnOnce(&mut crate::facts::Ask)) {
        let Some(pod) = self.pods.get(&number) else { return };
        let mut pod = (**pod).clone();
        let Some(ask) = &mut pod.ask else { return };
        change(ask);
        self.silently(bug, |world| world.show(number, Arc::new(pod)));
    }

    fn decide(&mut self) {
        let mut out = Vec::new();
        while self.core.decide(self.now, &mut out) {}
        for decision in out {
            if let Decision::Bind(assignment) = decision {
                let number = self
                    .pods
                    .iter()
                    .find(|(_, pod)| pod.uid == assignment.pod.uid)
                    .map(|(number, _)| *number);
                if self.bug == Bug::ForgetAssumed {
                    self.core.ledger.release(&assignment.pod.uid);
                }
                self.flight.insert(number.unwrap(), assignment);
            }
        }
    }

    /// The server takes a bind if the pod of that uid is there, unbound and not being deleted.
    fn bound(&mut self, number: usize) {
        let Some(assignment) = self.flight.remove(&number) else { return };
        let uid = assignment.pod.uid.clone();
        match self.pods.get(&number) {
            Some(pod) if pod.uid == uid && pod.node.is_none() && !pod.terminating && pod.ask.is_some() => {
                self.show(number, bound(&assignment));
            }
            _ => self.core.bind_failed(&uid, &BindError::Gone, self.now),
        }
    }

    fn restart(&mut self, last: Last) {
        let mut late = std::mem::take(&mut self.flight);
        if last == Last::Done {
            self.flight = std::mem::take(&mut late);
            self.all_bound();
        }
        self.core = Core::new(Options::default());
        know_claim(&mut self.core);
        for node in self.nodes.iter().flatten() {
            self.core.set_node(Arc::clone(node), self.now);
        }
        for pod in self.pods.values() {
            self.core.set_pod(Arc::clone(pod), self.now);
        }
        if last == Last::Late {
            self.flight = late;
            self.all_bound();
        }
    }

    fn all_bound(&mut self) {
        for number in 0..PODS {
            self.bound(number);
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some((node, device)) = self.core.ledger.overbooked().next() {
            return Err(format!("device {device} of {node} has too many owners"));
        }
        // What bound pods and pods being bound have, told without the ledger.
        let mut owned: BTreeMap<(String, String), Vec<(String, u16)>> = BTreeMap::new();
        let mut own = |node: &str, devices: &str, shared: Option<&str>, who: &str| {
            for claim in &granted(devices, shared) {
                let most = claim.sharers.map_or(1, std::num::NonZeroU16::get);
                let key = (node.to_string(), claim.device.to_string());
                owned.entry(key).or_default().push((who.to_string(), most));
            }
        };
        for pod in self.pods.values().filter(|pod| pod.holds()) {
            let devices = pod.devices.as_deref().unwrap_or_default();
            own(pod.node.as_deref().unwrap(), devices, pod.shared.as_deref(), &pod.uid);
        }
        for (number, assignment) in &self.flight {
            // One that is gone or bound elsewhere will fail.
            let lives =
                self.pods.get(number).is_some_and(|pod| pod.uid == assignment.pod.uid && pod.node.is_none());
            if lives {
                own(&assignment.node, &assignment.devices, assignment.shared.as_deref(), &assignment.pod.uid);
            }
        }
        for ((node, device), owners) in &owned {
            let most = owners.iter().map(|(_, most)| *most).min().unwrap_or(1);
            if owners.len() > usize::from(most) {
                return Err(format!("device {device} of {node} has owners {owners:?}"));
            }
        }
        let in_ledger = self.core.ledger.len();
        if in_ledger != owned.len() {
            return Err(format!(
                "{in_ledger} devices are in the ledger, {} are owned: {owned:?}",
                owned.len()
            ));
        }
        Ok(())
    }

    /// Lets everything settle, and checks that everybody who could be placed was, and that nothing is left at the end.
    fn settle(mut self) -> Result<(), String> {
        for number in 0..2 {
            self.step(&Step::Node(number, 2));
        }
        for _ in 0..PODS * 2 {
            self.step(&Step::Pass(11));
            self.decide();
            self.all_bound();
            self.check()?;
        }
        let open = |pod: &&Arc<Pod>| pod.ask.as_ref().is_some_and(|ask| !ask.gated) && !pod.terminating;
        for pod in self.pods.values().filter(open) {
            if self.core.place(pod).is_ok() {
                return Err(format!("{} could be placed, and waits", pod.name));
            }
        }
        for number in 0..PODS {
            self.step(&Step::Goes(number));
        }
        let left = (
            self.core.ledger.is_empty(),
            self.core.usage.len(),
            self.core.assumed.len(),
            self.core.said.len(),
        );
        let counts = self.core.counts();
        if left != (true, 0, 0, 0)
            || counts != Counts::default()
            || !self.core.gangs.is_empty()
            || !self.core.volumes.is_unused()
        {
            return Err(format!("something is left: {left:?} {counts:?}"));
        }
        Ok(())
    }
}

fn know_claim(core: &mut Core) {
    let claim = Claim { volume: Some("v".into()), one_pod: true, ..Claim::default() };
    core.set_claim("ns", "data", Some(Arc::new(claim)), at(0));
    core.set_volume("v", Some(Arc::default()), at(0));
}

fn run(steps: &[Step], bug: Bug) -> Result<(), String> {
    let mut world = World::new(bug);
    for step in steps {
        world.step(step);
        world.check().map_err(|error| format!("after {step:?}: {error}"))?;
    }
    world.settle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases(300)))]

    #[test]
    fn no_device_has_two_owners_nothing_leaks_and_nobody_is_forgotten(steps in prop::collection::vec(step(), 0..60)) {
        prop_assert_eq!(run(&steps, Bug::None), Ok(()));
    }
}

fn caught(bug: Bug) -> bool {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 0..60);
    (0..400).any(|_| {
        let tree = proptest::strategy::Strategy::new_tree(&steps, &mut runner).unwrap();
        run(&proptest::strategy::ValueTree::current(&tree), bug).is_err()
    })
}

#[test]
fn the_stories_catch_a_device_that_is_forgotten_while_it_is_bound() {
    assert!(caught(Bug::ForgetAssumed));
}

#[test]
fn the_stories_catch_a_device_that_is_kept_after_a_failed_bind() {
    assert!(caught(Bug::KeepDevice));
}

#[test]
fn the_stories_catch_a_pod_that_goes_and_wakes_nobody() {
    assert!(caught(Bug::SilentGoing));
}

#[test]
fn the_stories_catch_a_node_that_changes_and_wakes_nobody() {
    assert!(caught(Bug::SilentNode));
}

#[test]
fn the_stories_catch_an_edited_map_that_nobody_reads() {
    assert!(caught(Bug::SilentEdit));
}

#[test]
fn the_stories_catch_an_opened_gate_that_nobody_sees() {
    assert!(caught(Bug::SilentOpening));
}
