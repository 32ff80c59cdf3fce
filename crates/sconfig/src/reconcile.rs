//! One look at a JailedConfig, or at a group of them: what is wanted, how the jail is, write, tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::nebius::jailed_config_condition::{FILES_WRITTEN, INIT, NOT_WRITTEN};
use api::nebius::{JAILED_FILES_FINALIZER, JailedConfig, JailedConfigStatus};
use engine::apply::Kind;
use engine::controller::Wake;
use engine::events::EventType;
use engine::view::Guarded;
use engine::{Key, finalizer, malformed, status};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};

use crate::context::{Context, Whose};
use crate::error::Error;
use crate::jail::{Found, Jail, JailError, JailPath, Seen, Wanted};
use crate::member::{
    self, Step, asks_to_reconfigure, fingerprint, not_written, obsolete, on_the_way, paths, refused, written,
};
use crate::memory::Settled;
use crate::plan::{self, Owners, Problem};
use crate::status::{Told, files_of, fold, is_done, is_unsure};
use crate::verdict::{Verdict, verdict};

/// Brings a JailedConfig, or a group of them, one step nearer to what it says.
pub async fn reconcile(context: Arc<Context>, unit: Key) -> Result<Wake, Error> {
    let members = context.members(&unit);
    if members.is_empty() {
        let left = context.memory.forget(&unit);
        if !left.is_empty() {
            in_jail(&context, move |jail| left.iter().for_each(|leftover| jail.clear(leftover))).await?.ok();
        }
        return Ok(Wake::OnChange);
    }
    let is_old = |config: &Guarded<JailedConfig>| {
        let uid = config.meta().uid.as_deref().unwrap_or_default();
        context.caches.configs.awaits(uid) || !context.caches.configs.is_latest(&Key::of(config), config)
    };
    if members.iter().any(|config| is_old(config)) {
        tracing::debug!("waiting for our own writes to come back");
        return Ok(Wake::OnChange);
    }
    let mut look = Look { context, unit, owners: Owners::default(), again: None };
    look.run(&members).await?;
    Ok(look.again.map_or(Wake::OnChange, Wake::After))
}

/// Does something in the jail, where it may wait for a disk or a network.
async fn in_jail<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(&Jail) -> T + Send + 'static,
) -> Result<Result<T, JailError>, Error> {
    let path = context.jail.clone();
    Ok(tokio::task::spawn_blocking(move || Jail::open(&path).map(|jail| work(&jail))).await?)
}

/// One look.
struct Look {
    context: Arc<Context>,
    unit: Key,
    owners: Owners,
    again: Option<Duration>,
}

/// A JailedConfig whose files can be written.
struct Member<'a> {
    config: &'a JailedConfig,
    files: Vec<Wanted>,
    verdict: Verdict,
    step: Step,
}

impl Look {
    fn again_after(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |known| known.min(wait)));
    }

    async fn run(&mut self, members: &[Arc<Guarded<JailedConfig>>]) -> Result<(), Error> {
        self.owners = self.context.owners();
        let mut live = Vec::new();
        for config in members {
            if config.meta().deletion_timestamp.is_some() {
                self.end(config).await?;
            } else if let Some(config) = self.readable(config).await? {
                live.push(config);
            }
        }
        if live.is_empty() || self.hold(&live).await? {
            // What was written comes back and wakes us.
            return Ok(());
        }
        self.clear_leftovers().await?;
        let made_of = self.made_of(&live);
        if self.is_settled(&made_of).await? {
            self.again_after(self.context.times.look);
            return Ok(());
        }
        self.context.memory.set_settled(&self.unit, None);
        match in_jail(&self.context, Jail::is_complete).await? {
            Ok(true) => {}
            Ok(false) => {
                let told = Told::no(
                    INIT,
                    "waits for the jail to be filled; see the Job populate-jail of the cluster",
                );
                self.again_after(self.context.times.soon);
                return self.tell_all(&live, &(told.clone(), told)).await;
            }
            Err(error) => {
                self.again_after(self.context.times.look);
                let problem = Problem::new(NOT_WRITTEN, error.to_string());
                return self.tell_all(&live, &not_written(&problem)).await;
            }
        }
        self.bring_about(&live, made_of).await
    }

    /// A JailedConfig that can be read, and is ours; else the user is told.
    async fn readable<'a>(
        &self,
        config: &'a Guarded<JailedConfig>,
    ) -> Result<Option<&'a JailedConfig>, Error> {
        let config = match config.get() {
            Ok(config) => config,
            Err(invalid) => {
                let kind = Kind::erase::<JailedConfig>(&());
                let (client, events) = (&self.context.client, &self.context.events);
                malformed::report(client, events, crate::MANAGER, &kind, &invalid.metadata, &invalid.error)
                    .await
                    .map_err(|error| Error::call("the status could not be written", error))?;
                return Err(Error::Malformed(invalid.error.clone()));
            }
        };
        if self.context.whose(config) == Whose::Unclear {
            let message = "this namespace has several SlurmClusters; name the one whose jail is meant by the annotation \
                           slurm.nebius.ai/parental-cluster-ref";
            let told = not_written(&Problem::new(NOT_WRITTEN, message));
            self.tell(config, config.status.as_ref(), &told, &files_of(config)).await?;
            return Ok(None);
        }
        Ok(Some(config))
    }

    /// Puts the finalizer on all that lack it. Returns whether something was written.
    async fn hold(&self, live: &[&JailedConfig]) -> Result<bool, Error> {
        let mut held = false;
        for config in live {
            held |= finalizer::add(&self.context.client, *config, JAILED_FILES_FINALIZER)
                .await
                .map_err(|error| Error::call("the finalizer could not be put on a JailedConfig", error))?;
        }
        Ok(held)
    }

    /// Takes the files of one that is being deleted out of the jail, and lets it go.
    async fn end(&mut self, config: &Guarded<JailedConfig>) -> Result<(), Error> {
        if !finalizer::has(config.meta(), JAILED_FILES_FINALIZER) {
            return Ok(());
        }
        // One that cannot be read names no files.
        if let Some(config) = config.ok() {
            let gone = if self.stays(config) { Vec::new() } else { obsolete(config, &self.owners) };
            let removed =
                in_jail(&self.context, move |jail| gone.iter().try_for_each(|path| jail.remove_all(path)));
            if let Err(error) = removed.await?.and_then(|removed| removed) {
                self.again_after(self.context.times.look);
                let problem =
                    Problem::new(NOT_WRITTEN, format!("it goes when its files are out of the jail: {error}"));
                let files = files_of(config);
                return self.tell(config, config.status.as_ref(), &not_written(&problem), &files).await;
            }
            self.context.memory.forget_config(config.uid().as_deref().unwrap_or_default());
            tracing::info!(config = config.name_any(), "the files of a JailedConfig are out of the jail");
        }
        finalizer::remove(&self.context.client, config, JAILED_FILES_FINALIZER)
            .await
            .map_err(|error| Error::call("the finalizer could not be taken from a JailedConfig", error))?;
        Ok(())
    }

    /// Whether the files of one that is being deleted stay. What a cluster writes itself comes back, or the cluster goes: its jobs, which
    /// may run for long, need the files until their end.
    fn stays(&self, config: &JailedConfig) -> bool {
        let cluster = self.context.caches.clusters.get(&self.context.cluster);
        let is_going = cluster.is_some_and(|cluster| cluster.meta().deletion_timestamp.is_some());
        config.owning_cluster().is_some() || is_going
    }

    /// Removes old files whose time has come.
    async fn clear_leftovers(&mut self) -> Result<(), Error> {
        let (due, next) = self.context.memory.due_leftovers(&self.unit, Instant::now());
        if let Some(next) = next {
            self.again_after(next);
        }
        if !due.is_empty() {
            in_jail(&self.context, move |jail| due.iter().for_each(|leftover| jail.clear(leftover)))
                .await?
                .ok();
        }
        Ok(())
    }

    /// All that the outcome depends on, but for the jail and slurmctld.
    fn made_of(&self, live: &[&JailedConfig]) -> Vec<String> {
        let of = |config: &&JailedConfig| {
            let map = Key::new(&self.unit.namespace, &config.spec.config_map.name);
            let version = self.context.caches.version_of(&map);
            let lost = self.owners.lost(config);
            format!("{:?} {:?} {version:?} {lost:?}", config.uid(), config.meta().generation)
        };
        live.iter().map(of).collect()
    }

    /// Whether nothing was left to be done for just this, and the files are as they then were.
    async fn is_settled(&self, made_of: &[String]) -> Result<bool, Error> {
        let Some(settled) = self.context.memory.settled(&self.unit).filter(|known| known.made_of == made_of)
        else {
            return Ok(false);
        };
        let is_same = in_jail(&self.context, move |jail| {
            settled.files.iter().all(|(path, seen)| jail.is_still(path, *seen))
        });
        Ok(is_same.await?.unwrap_or(false))
    }

    async fn bring_about(&mut self, live: &[&JailedConfig], made_of: Vec<String>) -> Result<(), Error> {
        let reconfigures = live.iter().any(|config| asks_to_reconfigure(config));
        let mut is_settled = true;
        let mut seen: Vec<(JailPath, Seen)> = Vec::new();
        let mut waits = false;
        for config in live {
            let member = match self.plan(config).await? {
                Ok(member) => member,
                Err(problem) => {
                    // Others may put it right in the jail, which nobody tells us.
                    if problem.reason == NOT_WRITTEN {
                        is_settled = false;
                        self.again_after(self.context.times.look);
                    }
                    self.tell(config, config.status.as_ref(), &not_written(&problem), &files_of(config))
                        .await?;
                    continue;
                }
            };
            match self.execute(&member, reconfigures).await? {
                Some(mut now) => seen.append(&mut now),
                None => is_settled = false,
            }
            waits |= matches!(member.verdict, Verdict::Awaited(_) | Verdict::Refused(_)) && !is_done(config);
        }
        self.context.memory.set_waiting(&self.unit, waits);
        if self.context.memory.waiting().is_empty() {
            self.context.memory.keep_set(None);
        }
        if is_settled && !waits {
            let maps: BTreeMap<String, Key> = live
                .iter()
                .map(|config| &config.spec.config_map.name)
                .map(|name| (name.clone(), Key::new(&self.unit.namespace, name)))
                .collect();
            self.context.memory.drop_contents(&maps);
            self.context.memory.set_settled(&self.unit, Some(Settled { made_of, files: seen }));
            self.again_after(self.context.times.look);
        }
        Ok(())
    }

    /// What is to be done for one of them.
    async fn plan<'a>(&mut self, config: &'a JailedConfig) -> Result<Result<Member<'a>, Problem>, Error> {
        let map = Key::new(&self.unit.namespace, &config.spec.config_map.name);
        let content = self.context.content(&map).await?;
        let files = match plan::files(config, content.as_deref(), &self.owners) {
            Ok(files) => files,
            Err(problem) => return Ok(Err(problem)),
        };
        self.find_leftovers(config, &files).await?;
        let compared = {
            let files = files.clone();
            in_jail(&self.context, move |jail| {
                files.into_iter().try_fold(Vec::new(), |mut differing, file| {
                    if jail.compare(&file)? == Found::Other {
                        differing.push(file);
                    }
                    Ok::<_, JailError>(differing)
                })
            })
            .await?
            .and_then(|compared| compared)
        };
        let differing = match compared {
            Ok(differing) => differing,
            Err(error) => return Ok(Err(Problem::new(NOT_WRITTEN, error.to_string()))),
        };
        let obsolete = obsolete(config, &self.owners);
        let of_slurm = plan::of_slurm(&files);
        let verdict = if of_slurm.is_empty() {
            Verdict::NotConcerned
        } else if is_done(config) && differing.is_empty() {
            // That slurmctld runs with these files was seen before; the set has changed since for other reasons.
            Verdict::InUse
        } else {
            let set = self.context.effective_set().await?;
            let cluster = self.context.caches.clusters.get(&self.context.cluster);
            let known = cluster.as_ref().and_then(|cluster| cluster.configuration());
            verdict(&of_slurm, set.as_deref(), known)
        };
        let (uid, patience) = (config.uid().unwrap_or_default(), self.context.times.patience);
        let is_patient = if matches!(verdict, Verdict::Awaited(_)) {
            let waited = self.context.memory.waited(&uid, &fingerprint(&files), Instant::now());
            let left = patience.saturating_sub(waited);
            if !left.is_zero() {
                self.again_after(left);
            }
            !left.is_zero()
        } else {
            self.context.memory.stop_waiting(&uid);
            false
        };
        let step = member::step(differing, obsolete, &verdict, is_patient);
        Ok(Ok(Member { config, files, verdict, step }))
    }

    /// Finds old files that a process before us has left.
    async fn find_leftovers(&mut self, config: &JailedConfig, files: &[Wanted]) -> Result<(), Error> {
        if !self.context.memory.first_search(config.uid().as_deref().unwrap_or_default()) {
            return Ok(());
        }
        let before = files_of(config).into_iter().filter_map(|path| JailPath::parse(&path).ok());
        let paths: BTreeSet<JailPath> = files.iter().map(|file| file.path.clone()).chain(before).collect();
        let found = in_jail(&self.context, move |jail| {
            paths.iter().flat_map(|path| jail.leftovers(path)).collect::<Vec<_>>()
        });
        self.leave(found.await?.unwrap_or_default());
        Ok(())
    }

    fn leave(&mut self, leftovers: Vec<crate::jail::Leftover>) {
        if !leftovers.is_empty() {
            let time = self.context.times.leftovers;
            self.context.memory.leave(&self.unit, leftovers, Instant::now() + time);
            self.again_after(time);
        }
    }

    /// Does it, and tells. Returns how the files are now; none if they are not as they should be.
    async fn execute(
        &mut self,
        member: &Member<'_>,
        reconfigures: bool,
    ) -> Result<Option<Vec<(JailPath, Seen)>>, Error> {
        let (config, wanted) = (member.config, paths(&member.files));
        let before = config.status.clone();
        match &member.step {
            Step::Keep => {
                self.tell(config, before.as_ref(), &written(reconfigures, &member.verdict), &wanted).await?;
            }
            Step::Wait(what) => {
                let told = on_the_way(&format!("waits for {what}"));
                self.tell(config, before.as_ref(), &told, &files_of(config)).await?;
                return Ok(None);
            }
            Step::Refuse(words) => {
                self.tell(config, before.as_ref(), &refused(words), &files_of(config)).await?;
                return Ok(None);
            }
            Step::Write(files, obsolete) => {
                // First told, then done: whoever comes after a crash knows that the files are not sure, and which there may be.
                let all: BTreeSet<String> = files_of(config).union(&wanted).cloned().collect();
                let told = on_the_way("the files are being written");
                let between = match before {
                    Some(before) if is_unsure(config) && files_of(config) == all => before,
                    before => self.write_status(config, before.as_ref(), &told, &all).await?,
                };
                let (files, obsolete, count) = (files.clone(), obsolete.clone(), files.len());
                let done = in_jail(&self.context, move |jail| match jail.write(&files) {
                    Ok(left) => (left, obsolete.iter().try_for_each(|path| jail.remove_all(path))),
                    Err(error) => (Vec::new(), Err(error)),
                });
                let (left, done) = done.await?.unwrap_or_else(|error| (Vec::new(), Err(error)));
                self.leave(left);
                if let Err(error) = done {
                    self.again_after(self.context.times.look);
                    let problem = Problem::new(NOT_WRITTEN, error.to_string());
                    self.tell(config, Some(&between), &not_written(&problem), &all).await?;
                    return Ok(None);
                }
                tracing::info!(config = config.name_any(), files = count, "files in the jail are written");
                let told = written(reconfigures, &member.verdict);
                self.tell(config, Some(&between), &told, &wanted).await?;
            }
        }
        let files = member.files.clone();
        let seen = in_jail(&self.context, move |jail| {
            let seen = |file: &Wanted| match jail.compare(file) {
                Ok(Found::Same(seen)) => Some((file.path.clone(), seen)),
                Ok(Found::Other) | Err(_) => None,
            };
            files.iter().map(seen).collect::<Option<Vec<_>>>()
        });
        let seen = seen.await?.unwrap_or(None);
        if seen.is_none() {
            // Somebody is at work there.
            self.again_after(self.context.times.soon);
        }
        Ok(seen)
    }

    async fn tell_all(&self, live: &[&JailedConfig], told: &(Told, Told)) -> Result<(), Error> {
        for config in live {
            self.tell(config, config.status.as_ref(), told, &files_of(config)).await?;
        }
        Ok(())
    }

    async fn tell(
        &self,
        config: &JailedConfig,
        before: Option<&JailedConfigStatus>,
        told: &(Told, Told),
        files: &BTreeSet<String>,
    ) -> Result<(), Error> {
        self.write_status(config, before, told, files).await.map(drop)
    }

    /// Writes a status if it differs from the one before, and tells users of what went wrong.
    async fn write_status(
        &self,
        config: &JailedConfig,
        before: Option<&JailedConfigStatus>,
        told: &(Told, Told),
        files: &BTreeSet<String>,
    ) -> Result<JailedConfigStatus, Error> {
        let next = fold(config, before, (&told.0, &told.1), files, Timestamp::now());
        let written = status::write(&self.context.client, crate::MANAGER, config, before, &next)
            .await
            .map_err(|error| Error::call("the status could not be written", error))?;
        if let Some(version) = written {
            let uid = config.uid().unwrap_or_default();
            self.context.caches.configs.wrote(Key::of(config), &version, &uid);
            self.tell_news(config, before, told);
        }
        Ok(next)
    }

    fn tell_news(&self, config: &JailedConfig, before: Option<&JailedConfigStatus>, told: &(Told, Told)) {
        let known = before.and_then(|status| status.conditions.as_ref());
        let said = |message: &str| known.into_iter().flatten().any(|known| known.message == message);
        let is_bad = |told: &Told| !told.status && !["Refresh", "Init"].contains(&told.reason);
        if is_bad(&told.1) && !said(&told.1.message) {
            self.context.tell(config, EventType::Warning, told.1.reason, &told.1.message);
        } else if told.0.status
            && !known
                .into_iter()
                .flatten()
                .any(|known| known.type_ == FILES_WRITTEN && known.status == "True")
        {
            self.context.tell(config, EventType::Normal, FILES_WRITTEN, "the files are in the jail");
        }
    }
}
