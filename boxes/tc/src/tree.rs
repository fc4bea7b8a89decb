//! Installing a plan on a device, and keeping it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::PathBuf;

use forebay_units::Rate;

use crate::bpf::{Leaves, Programs};
use crate::encode::{self, CHANGE, CREATE};
use crate::found::has_filters;
use crate::lock::Lock;
use crate::netlink::{Batch, Failure, Netlink, Tc};
use crate::plan::{later_programs, weighted_classes};
use crate::record::Record;
use crate::{
    Class, Device, Error, Filter, Found, Handle, Object, Plan, Program, Qdisc, QueueCounts, Root,
    Statistics, Step, steps,
};

/// The largest number of classes whose counters are asked for one by one. The answers to all
/// requests of a system call must fit into the socket's receive buffer, 208 kB by default.
const FEW: usize = 32;

/// What to do with queues of another owner on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Leave them and fail.
    Refuse,
    /// Replace them, and restore them at the end.
    Replace,
}

/// The tree of a device. While this value lives, no other process of Forebay changes the tree.
///
/// Dropping it leaves the tree and its limits in place, for the next daemon. [`Tree::remove`]
/// removes the tree.
#[derive(Debug)]
pub struct Tree {
    device: Device,
    plan: Plan,
    socket: Netlink,
    /// The buffer for changes of rates, which is filled a hundred times a second.
    batch: Batch,
    /// The class of each bundle with its rate, by number; `None` for numbers without a bundle.
    rates: Vec<Option<(Class, Option<Rate>)>>,
    /// The bundles whose new rate the kernel does not know yet.
    changed: Vec<usize>,
    record: PathBuf,
    leaves: Leaves,
    _lock: Lock,
}

impl Tree {
    /// Installs `plan` on `device`. A tree of an earlier sendbox is adopted: only what differs
    /// changes, and waiting packets stay.
    ///
    /// # Errors
    /// If the device is in use, has queues of another owner that may not be replaced, or the kernel
    /// refuses something. Then the previous queues are restored, unless they were a sendbox's tree.
    pub fn install(
        device: Device,
        plan: Plan,
        programs: &Programs<'_>,
        foreign: Foreign,
    ) -> Result<(Self, Vec<Step>), Error> {
        let lock = Lock::hold(&device)?;
        let record = Record::path(&device)?;
        let mut socket = Netlink::open(0)?;
        let found = Found::ask(&mut socket, &device)?;
        match found.root() {
            Root::Ours => {}
            // The record is out of date: another program removed the sendbox's tree.
            Root::Default => Record::remove(&record)?,
            Root::Foreign { kind, handle } if foreign == Foreign::Refuse => {
                return Err(Error::Foreign { device: device.name, kind, handle });
            }
            Root::Foreign { kind, handle } => {
                for qdisc in found.qdiscs.values() {
                    if has_filters(&mut socket, &device, qdisc.handle)? {
                        return Err(Error::ForeignFilters { device: device.name, kind, handle });
                    }
                }
                Record::new(&found).save(&record)?;
            }
        }
        let batch = Batch::default();
        let (rates, changed) = (rates(&plan, &found), plan.shares.keys().copied().collect());
        let leaves = Leaves::new(plan.room);
        let mut tree =
            Self { device, plan, socket, batch, rates, changed, record, leaves, _lock: lock };
        let steps = steps(&found, &tree.plan);
        match tree.load(programs).and_then(|()| tree.apply(&steps, programs)) {
            Ok(()) => {
                tree.leaves.complete();
                Ok((tree, steps))
            }
            Err(e) => {
                if found.root() != Root::Ours {
                    // The first error says more than one that follows from it.
                    let _ = tree.remove();
                }
                Err(e)
            }
        }
    }

    /// Repairs the tree after a [`Watch`](crate::Watch) has reported a change. Classes that had to
    /// be created again have no limit, so the caller sets all rates again.
    ///
    /// # Errors
    /// As [`Self::install`]; queues of another owner are never replaced here.
    pub fn rebuild(&mut self, programs: &Programs<'_>) -> Result<Vec<Step>, Error> {
        let found = self.found()?;
        self.rates = rates(&self.plan, &found);
        self.changed = self.plan.shares.keys().copied().collect();
        let steps = steps(&found, &self.plan);
        self.apply(&steps, programs)?;
        Ok(steps)
    }

    /// Changes the tree to `plan`, which follows the present one ([`Plan::next`]). Parts that are
    /// in both stay, with the packets that wait in them.
    ///
    /// # Errors
    /// As [`Self::rebuild`], or if the tree lacks a program that the plan needs. Then the present
    /// plan stays in force.
    pub fn change(&mut self, plan: Plan, programs: &Programs<'_>) -> Result<Vec<Step>, Error> {
        for program in filters(&plan) {
            self.leaves.get(program, programs)?;
        }
        let found = self.found()?;
        let steps = changes(&found, &self.plan, &plan);
        let before = (self.plan.clone(), self.rates.clone());
        self.rates = rates(&plan, &found);
        // Shares of classes may be others.
        self.changed = plan.shares.keys().copied().collect();
        self.plan = plan;
        if let Err(e) = self.apply(&steps, programs) {
            (self.plan, self.rates) = before;
            // The first error says more than one that follows from it.
            let _ = self.rebuild(programs);
            return Err(e);
        }
        Ok(steps)
    }

    /// Returns the queues that the device has, which must be a sendbox's or the kernel's own.
    fn found(&mut self) -> Result<Found, Error> {
        let found = Found::ask(&mut self.socket, &self.device)?;
        match found.root() {
            Root::Foreign { kind, handle } => {
                Err(Error::Foreign { device: self.device.name.clone(), kind, handle })
            }
            Root::Ours | Root::Default => Ok(found),
        }
    }

    /// Loads all programs of the plan and of those that may follow it, also those that an adopted
    /// tree has already. A repair must not load any, since the process may have given up that
    /// right.
    fn load(&mut self, programs: &Programs<'_>) -> Result<(), Error> {
        for program in filters(&self.plan).chain(later_programs(&self.plan)) {
            self.leaves.get(program, programs)?;
        }
        Ok(())
    }

    /// Takes `steps` in order.
    fn apply(&mut self, steps: &[Step], programs: &Programs<'_>) -> Result<(), Error> {
        let mut batch = Batch::default();
        for step in steps {
            match step {
                Step::DeleteQdisc { handle, parent } => {
                    encode::delete_qdisc(&mut batch, &self.device, *handle, *parent);
                }
                Step::DeleteClass(id) => encode::delete_class(&mut batch, &self.device, *id),
                Step::Make(Object::Filter(filter)) => {
                    let fd = self.leaves.get(filter.program, programs)?;
                    let name = filter.program.name();
                    encode::filter(&mut batch, &self.device, filter.parent, fd, name);
                }
                Step::Make(object) => self.encode(&mut batch, object, CREATE),
                Step::Change(object) => self.encode(&mut batch, object, CHANGE),
            }
        }
        // The kernel continues after a failure; the first failure is the cause of the others.
        let failures = self.socket.transact(&mut batch)?;
        match failures.into_iter().next() {
            None => Ok(()),
            Some(failure) => {
                let step = steps.get(failure.index);
                let what = step.map(ToString::to_string).unwrap_or_default();
                let is_filter = matches!(step, Some(Step::Make(Object::Filter(_))));
                if is_filter && failure.errno == libc::ENOENT {
                    return Err(Error::NoClassifier);
                }
                Err(refused(&self.device, what, failure))
            }
        }
    }

    fn encode(&self, batch: &mut Batch, object: &Object, flags: i32) {
        match object {
            Object::Qdisc(Qdisc { handle, parent, kind }) => {
                let handle = handle.unwrap_or(Handle(0));
                encode::new_qdisc(batch, &self.device, handle, *parent, flags, kind.name());
                kind.encode(batch);
            }
            Object::Class(class) => {
                let bundle = class.id.bundle().and_then(|i| self.rates.get(i)?.as_ref());
                let rate = bundle.and_then(|(_, rate)| *rate);
                encode::class(batch, &self.device, class, rate, flags);
            }
            Object::Filter(_) => {}
        }
    }

    /// Sets the rate of bundle number `bundle`, `None` being no limit. It takes effect at the next
    /// [`Self::flush`].
    pub fn set_rate(&mut self, bundle: usize, rate: Option<Rate>) {
        let Some(Some((_, there))) = self.rates.get_mut(bundle) else { return };
        if *there != rate {
            *there = rate;
            self.changed.push(bundle);
        }
    }

    /// Passes all changed rates to the kernel in one system call, and returns their number. Tokens
    /// and waiting packets stay as they are.
    ///
    /// # Errors
    /// If the kernel refuses one, for example because the class was deleted by hand. Then
    /// [`Self::rebuild`] repairs the tree.
    pub fn flush(&mut self) -> Result<usize, Error> {
        self.batch.clear();
        self.changed.sort_unstable();
        self.changed.dedup();
        let Self { changed, batch, device, .. } = self;
        let (rates, plan) = (&self.rates, &self.plan);
        // The class of each changed bundle with its rate, and those that have parts of it.
        let classes = || {
            changed.iter().flat_map(|&bundle| {
                let own = rates.get(bundle).copied().flatten();
                own.into_iter().flat_map(move |(class, rate)| {
                    let shares = plan.shares.get(&bundle).map_or(&[][..], Vec::as_slice);
                    let parts = weighted_classes(bundle, shares, rate);
                    iter::once((class, rate)).chain(parts.map(|class| (class, None)))
                })
            })
        };
        for (class, rate) in classes() {
            encode::class(batch, device, &class, rate, libc::NLM_F_REPLACE);
        }
        if self.batch.is_empty() {
            return Ok(0);
        }
        let failures = self.socket.transact(&mut self.batch)?;
        if let Some(failure) = failures.into_iter().next() {
            let id = classes().nth(failure.index).map_or(Handle::TREE, |(class, _)| class.id);
            let object = format!("rate of class {id}");
            return Err(refused(&self.device, object, failure));
        }
        let count = self.changed.len();
        self.changed.clear();
        Ok(count)
    }

    /// Reads the counters of each bundle's class, by number, with one request.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn statistics(&mut self, into: &mut Vec<Statistics>) -> Result<(), Error> {
        into.clear();
        into.resize(self.rates.len(), Statistics::default());
        let mut batch = Batch::default();
        let tc = Tc::of(self.device.index, Handle(0), Handle::TREE);
        batch.about(libc::RTM_GETTCLASS, libc::NLM_F_DUMP, tc);
        self.ask_statistics(batch, into)
    }

    /// Reads the counters of the classes of `bundles`, by number; those of others stay as they are.
    /// Many bundles cost as much as all.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn statistics_of(
        &mut self,
        bundles: &[usize],
        into: &mut Vec<Statistics>,
    ) -> Result<(), Error> {
        if bundles.len() > FEW || into.len() != self.rates.len() {
            return self.statistics(into);
        }
        let mut batch = Batch::default();
        for (class, _) in bundles.iter().filter_map(|&bundle| self.rates.get(bundle)?.as_ref()) {
            let tc = Tc::of(self.device.index, class.id, Handle(0));
            // Without the flag the kernel answers only to listeners of notifications.
            batch.about(libc::RTM_GETTCLASS, libc::NLM_F_ECHO, tc);
        }
        self.ask_statistics(batch, into)
    }

    /// Sends requests for counters of classes.
    fn ask_statistics(&mut self, mut batch: Batch, into: &mut [Statistics]) -> Result<(), Error> {
        let failure = self.socket.ask(&mut batch, |message| {
            if let Some((id, counts)) = Statistics::of(message)
                && let Some(slot) = id.bundle().and_then(|i| into.get_mut(i))
            {
                *slot = counts;
            }
        })?;
        let asking = "asking for the counts of classes".to_owned();
        failure.map_or(Ok(()), |f| Err(refused(&self.device, asking, f)))
    }

    /// Reads the drops and marks of each bundle's own qdisc, by number.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn queue_counts(&mut self) -> Result<Vec<QueueCounts>, Error> {
        let mut all = vec![QueueCounts::default(); self.rates.len()];
        let index = self.device.index;
        let mut batch = Batch::default();
        batch.about(libc::RTM_GETQDISC, libc::NLM_F_DUMP, Tc { index, ..Tc::default() });
        let failure = self.socket.ask(&mut batch, |message| {
            // The kernel answers with the qdiscs of all devices.
            let ours = message.object().is_some_and(|(tc, _)| tc.index == index);
            if let Some((handle, counts)) = QueueCounts::of(message).filter(|_| ours)
                && let Some(slot) = handle.queue().and_then(|i| all.get_mut(i))
            {
                *slot = counts;
            }
        })?;
        let asking = "asking for the counts of queues".to_owned();
        failure.map_or(Ok(all), |f| Err(refused(&self.device, asking, f)))
    }

    /// Removes the tree, and restores the queues that it replaced or else the kernel's own. A tree
    /// that is already gone is no error.
    ///
    /// # Errors
    /// If the kernel refuses; the record of the replaced queues is kept then.
    pub fn remove(mut self) -> Result<(), Error> {
        let found = Found::ask(&mut self.socket, &self.device)?;
        if found.root() == Root::Ours {
            self.batch.clear();
            encode::delete_qdisc(&mut self.batch, &self.device, Handle::TREE, Handle::ROOT);
            let failures = self.socket.transact(&mut self.batch)?;
            if let Some(failure) = failures.into_iter().next() {
                let object = "removing the tree".to_owned();
                return Err(refused(&self.device, object, failure));
            }
        }
        if matches!(found.root(), Root::Foreign { .. }) {
            return Record::remove(&self.record);
        }
        if let Some(record) = Record::load(&self.record)? {
            let failures = self.socket.transact(&mut record.encode(&self.device))?;
            if let Some(failure) = failures.into_iter().next() {
                let object = record.describe(failure.index);
                return Err(refused(&self.device, object, failure));
            }
        }
        Record::remove(&self.record)
    }

    /// Returns the device of the tree.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the plan of the tree.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the number by which the kernel's notifications identify the changes of this tree.
    ///
    /// # Errors
    /// If the system call fails.
    pub(crate) fn port(&self) -> Result<u32, Error> {
        self.socket.port()
    }
}

impl Program {
    /// Returns the name that `tc filter show` prints.
    const fn name(self) -> &'static str {
        match self {
            Self::Bundles => "forebay-bundles",
            Self::Leaves { .. } => "forebay-leaves",
        }
    }
}

/// Returns the class of each bundle of `plan`, with its rate in `found`.
fn rates(plan: &Plan, found: &Found) -> Vec<Option<(Class, Option<Rate>)>> {
    let ours = found.root() == Root::Ours;
    let rate = |id| found.htb_class(id).filter(|_| ours).and_then(|c| c.rate);
    let mut rates = vec![None; plan.bundles.keys().max().map_or(0, |last| last + 1)];
    for object in &plan.objects {
        if let Object::Class(class) = object
            && let Some(slot) = class.id.bundle().and_then(|number| rates.get_mut(number))
        {
            *slot = Some((*class, rate(class.id)));
        }
    }
    rates
}

/// Returns the programs of the filters of `plan`.
fn filters(plan: &Plan) -> impl Iterator<Item = Program> {
    plan.objects.iter().filter_map(|object| match object {
        Object::Filter(filter) => Some(filter.program),
        _ => None,
    })
}

/// Computes the steps from `found`, which is as in `before`, to `plan`: filters that are in both
/// stay too.
fn changes(found: &Found, before: &Plan, plan: &Plan) -> Vec<Step> {
    let mut steps = steps(found, plan);
    let made: BTreeSet<Handle> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Make(Object::Qdisc(qdisc)) => qdisc.handle,
            _ => None,
        })
        .collect();
    let filter = |object: &Object| match object {
        Object::Filter(filter) => Some((filter.parent, filter.program)),
        _ => None,
    };
    let old: BTreeMap<Handle, Program> = before.objects.iter().filter_map(filter).collect();
    steps.retain(|step| match step {
        Step::Make(Object::Filter(Filter { parent, program })) => {
            made.contains(parent) || old.get(parent) != Some(program)
        }
        _ => true,
    });
    steps
}

/// Converts a failure into an error.
pub(crate) fn refused(device: &Device, object: String, failure: Failure) -> Error {
    let Failure { errno, message, .. } = failure;
    match errno {
        libc::EPERM => Error::Permission(format!("{object} on {}", device.name)),
        libc::ENODEV => Error::NoDevice(device.name.clone()),
        _ => Error::Refused { device: device.name.clone(), object, message, errno },
    }
}
