//! Checks of the kernel and its queues.

use crate::doctor::facts::{Facts, Plan, Root};
use crate::doctor::report::{Check, Role};

const AREA: &str = "kernel";

/// The oldest kernel for each role, and the reason.
const NEEDED: [(Role, (u32, u32), &str); 3] = [
    (Role::SendboxUser, (5, 4), "AF_XDP that says when it needs a wake-up"),
    (Role::SendboxKernel, (5, 12), "BPF additions that return the sum"),
    (Role::Receivebox, (5, 12), "BPF additions that return the sum"),
];

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![release(facts), qdiscs(facts)];
    if let Some(plan) = &facts.plan {
        checks.extend(tree(plan));
        if plan.role == Role::SendboxKernel {
            let outer = plan.interfaces.first();
            let outer = facts.interfaces.iter().find(|i| Some(&i.name) == outer);
            checks.extend(outer.map(|i| root(&i.name, &i.root, plan.take_over)));
        }
    }
    checks
}

fn release(facts: &Facts) -> Check {
    let kernel = &facts.kernel;
    let check = Check::new(AREA, "release", &kernel.release);
    let Some(version) = kernel.version else {
        return check.note("its version cannot be told; Linux 5.12 or later is needed");
    };
    let old: Vec<_> = NEEDED.iter().filter(|(_, needed, _)| version < *needed).collect();
    let Some((_, _, _)) = old.first() else { return check };
    let roles: Vec<Role> = old.iter().map(|(role, ..)| *role).collect();
    let needs = old.iter().map(|(role, (a, b), what)| format!("{role} needs {a}.{b} ({what})"));
    check.stops(&roles, needs.collect::<Vec<_>>().join("; "))
}

fn qdiscs(facts: &Facts) -> Check {
    let there = match &facts.qdiscs {
        Ok(there) => there,
        Err(why) => {
            return Check::new(AREA, "queues", format!("could not be tried: {why}")).stops(
                &[Role::SendboxKernel],
                "run this as root, as the sendbox: they are tried in a namespace of their own",
            );
        }
    };
    let check = Check::new(AREA, "queues", list(there.iter()));
    if !there.contains("htb") {
        let advice = "dataplane = \"kernel\" needs htb (CONFIG_NET_SCH_HTB, module sch_htb)";
        return check.stops(&[Role::SendboxKernel], advice);
    }
    let wanted = forebay_tc::Features::KINDS;
    let missing: Vec<&str> = wanted.into_iter().filter(|k| !there.contains(k)).collect();
    if missing.is_empty() {
        return check;
    }
    let sfq =
        if missing.contains(&"sfq") { "; for sfq, hashed classes of htb stand in" } else { "" };
    check.note(format!(
        "not there, for dataplane = \"kernel\": {} (modules sch_NAME){sfq}",
        list(missing.iter())
    ))
}

fn tree(plan: &Plan) -> Option<Check> {
    Some(match plan.tree.as_ref()? {
        Ok(objects) => {
            Check::new(AREA, "tree of queues", format!("can be made: {objects} objects"))
        }
        Err(why) => {
            Check::new(AREA, "tree of queues", "cannot be made").stops(&[Role::SendboxKernel], why)
        }
    })
}

fn root(interface: &str, root: &Result<Root, String>, take_over: bool) -> Check {
    let what = format!("queues of {interface}");
    match root {
        Ok(Root::Default) => Check::new(AREA, what, "the kernel's own"),
        Ok(Root::Ours) => Check::new(AREA, what, "a sendbox's")
            .note("one runs, or has died: what it left is adopted with what waits in it"),
        Ok(Root::Foreign(whose)) if take_over => {
            Check::new(AREA, what, format!("somebody else's ({whose})"))
                .note("they are replaced, and put back at the end (take_over = true)")
        }
        Ok(Root::Foreign(whose)) => Check::new(AREA, what, format!("somebody else's ({whose})"))
            .stops(
                &[Role::SendboxKernel],
                format!(
                    "take them away (tc qdisc del dev {interface} root), or set take_over = true"
                ),
            ),
        Err(why) => Check::new(AREA, what, format!("could not be asked for: {why}"))
            .note("whose they are is seen when the sendbox starts"),
    }
}

fn list(names: impl Iterator<Item = impl AsRef<str>>) -> String {
    names.map(|n| n.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}
