//! Changes of a running sendbox over the kernel's queues.

use std::os::fd::AsFd;

use forebay_dataplane::kernel::MAX_PREFIXES;
use forebay_tc::{Features, Programs};
use forebay_units::{Nanos, Rate};
use ipnet::IpNet;

use super::missed::Missed;
use super::{Sendbox, rules};
use crate::Error;
use crate::config::BundleConfig;
use crate::reload::{Contents, Difference, Refused, Step, Words};
use crate::sendbox::tree;

impl Sendbox {
    /// Applies a file. Everything that may refuse it is asked before anything changes.
    pub(super) fn reload(&mut self, now: Nanos, contents: Contents) -> Result<Words, Refused> {
        if self.damage.is_some() {
            return Err(Refused::later("the queues are being repaired"));
        }
        let Contents { bundles, peers, limit } = contents;
        check_lists(&bundles)?;
        let sent = bundles.iter().map(|bundle| bundle.name.clone()).collect();
        let received = peers.iter().map(|peer| peer.name.clone()).collect();
        let before = self.tree.plan().limit();
        if limit.is_some() != before.is_some() {
            let what = "a common max_rate cannot come or go while packets wait in the queues";
            return Err(Refused::restart(what));
        }
        let receives = match &self.receivebox {
            Some(receivebox) => receivebox.difference(peers)?,
            None if peers.is_empty() => Difference::default(),
            None => return Err(Refused::restart("a site that only sends cannot begin to receive")),
        };
        let is_free = |number| !self.leaving.iter().any(|queues| queues.number == number);
        let sends = self.bundles.difference(bundles, self.tree.plan().room(), is_free)?;
        let leaving = self.leaving.len();
        if let Err(e) = self.change_tree(&sends.steps, limit) {
            self.leaving.truncate(leaving);
            return Err(e.into());
        }
        self.change_programs(&sends.steps).map_err(Refused::partly)?;
        let rekeyed: Vec<usize> = sends.steps.iter().filter_map(Step::with_another_key).collect();
        self.bundles.apply(now, sends.steps).map_err(Refused::partly)?;
        self.set_prefixes().map_err(Refused::partly)?;
        if let Some(receivebox) = &mut self.receivebox {
            receivebox.apply(now, receives.steps).map_err(Refused::partly)?;
            for bundle in rekeyed.into_iter().filter_map(|number| self.bundles.get(number)) {
                receivebox.refuse(bundle.name(), bundle.sessions());
            }
        }
        let words = Words::of_site(sends.words, receives.words, [&sent, &received]);
        Ok(words.with_limit(before, limit))
    }

    /// Changes the queues. Those of removed bundles stay until they are empty.
    fn change_tree(
        &mut self,
        steps: &[Step<BundleConfig>],
        limit: Option<Rate>,
    ) -> Result<(), Error> {
        let mut all: Vec<_> = self
            .bundles
            .all()
            .iter()
            .map(|(number, bundle)| tree::queues(number, bundle.config()))
            .collect();
        let mut differs = limit != self.tree.plan().limit();
        for step in steps {
            match step {
                Step::Add { number, config } => all.push(tree::queues(*number, config)),
                Step::Change { number, config, parts }
                    if parts.policy || parts.classes || parts.share =>
                {
                    all.retain(|queues| queues.number != *number);
                    all.push(tree::queues(*number, config));
                }
                Step::Change { .. } => continue,
                Step::Remove { number } => {
                    let gone = all.iter().position(|queues| queues.number == *number);
                    self.leaving.extend(gone.map(|at| all.swap_remove(at)));
                    continue;
                }
            }
            differs = true;
        }
        if !differs {
            return Ok(());
        }
        all.extend(self.leaving.iter().cloned());
        all.sort_unstable_by_key(|queues| queues.number);
        let plan = self.tree.plan().next_limited(&all, limit, &Features::probe()?)?;
        let programs = Programs { bundles: self.classifier.as_fd() };
        for step in self.tree.change(plan, &programs)? {
            tracing::debug!("{step}");
        }
        Ok(())
    }

    /// Sets what the programs know of new and changed bundles, beside their prefixes.
    fn change_programs(&mut self, steps: &[Step<BundleConfig>]) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Add { number, config } => {
                    self.observer.begin(*number, config.key.fingerprint_key())?;
                    self.observer.set_classes(*number, &rules(&config.policy))?;
                    self.sampled.remove(number);
                    // Another bundle may have had the number.
                    if let Some(missed) = self.missed.get_mut(*number) {
                        *missed = Missed::default();
                    }
                }
                Step::Change { number, config, parts } if parts.policy => {
                    self.observer.set_classes(*number, &rules(&config.policy))?;
                }
                Step::Change { .. } | Step::Remove { .. } => {}
            }
        }
        Ok(())
    }

    /// Sets the prefixes of all bundles.
    fn set_prefixes(&mut self) -> Result<(), Error> {
        let all = self.bundles.all();
        let of = |number| all.get(number).map(|bundle| bundle.config().prefixes.clone());
        let prefixes: Vec<Vec<IpNet>> =
            (0..all.end()).map(|number| of(number).unwrap_or_default()).collect();
        Ok(self.observer.set_bundles(&prefixes)?)
    }

    /// Deletes the queues of removed bundles that are empty.
    pub(super) fn let_go(&mut self, now: Nanos) {
        let waits = |number: usize| self.counts.get(number).is_some_and(|c| c.queued > 0);
        if self.damage.is_some() || self.leaving.iter().all(|queues| waits(queues.number)) {
            return;
        }
        let queues = self.tree.queue_counts().unwrap_or_default();
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.leaving).into_iter().partition(|q| waits(q.number));
        self.leaving = kept;
        for number in gone.iter().map(|queues| queues.number) {
            self.departed.sent += self.counts.get(number).map_or(0, |counts| counts.packets);
            self.departed.policy_drops += queues.get(number).map_or(0, |counts| counts.drops);
        }
        let bundles = self.bundles.all().iter();
        let bundles = bundles.map(|(number, bundle)| tree::queues(number, bundle.config()));
        let mut all: Vec<_> = bundles.chain(self.leaving.iter().cloned()).collect();
        all.sort_unstable_by_key(|queues| queues.number);
        let mut change = || -> Result<(), Error> {
            let plan = self.tree.plan().next(&all, &Features::probe()?)?;
            self.tree.change(plan, &Programs { bundles: self.classifier.as_fd() })?;
            Ok(())
        };
        if let Err(e) = change() {
            self.damaged(now, &e.to_string());
        }
    }
}

/// Checks that the lists of all bundles fit into the programs' maps, which an entry for all of IPv4
/// may need too.
fn check_lists(bundles: &[BundleConfig]) -> Result<(), Refused> {
    let classes = || bundles.iter().flat_map(|bundle| bundle.policy.matches());
    let prefixes = bundles.iter().map(|bundle| bundle.prefixes.len()).sum::<usize>() + 1;
    let of_classes = classes().map(|class| class.prefixes.len() + 1).sum::<usize>();
    let ports = classes().map(|class| class.ports.len()).sum::<usize>();
    match [prefixes, of_classes, ports].into_iter().max() {
        Some(most) if most > MAX_PREFIXES => {
            Err(Refused::new(format!("{most} prefixes or ports: at most {MAX_PREFIXES} fit")))
        }
        _ => Ok(()),
    }
}
