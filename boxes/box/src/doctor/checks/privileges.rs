//! Checks of the rights of this process.

use forebay_dataplane::Method;

use crate::doctor::facts::Facts;
use crate::doctor::report::{Check, Role};

const AREA: &str = "privileges";

/// A capability that boxes need: its bit and its name (`capabilities(7)`), the roles and the
/// reason.
struct Needed {
    bit: u32,
    name: &'static str,
    roles: &'static [Role],
    why: &'static str,
}

const NEEDED: [Needed; 5] = [
    Needed {
        bit: 12,
        name: "CAP_NET_ADMIN",
        roles: &Role::ALL,
        why: "to attach programs and set up queues",
    },
    Needed { bit: 39, name: "CAP_BPF", roles: &Role::ALL, why: "to load programs" },
    Needed {
        bit: 13,
        name: "CAP_NET_RAW",
        roles: &[Role::SendboxUser],
        why: "to take in and send frames",
    },
    Needed {
        bit: 38,
        name: "CAP_PERFMON",
        roles: &[Role::SendboxKernel],
        why: "to see packets leave at a tracepoint",
    },
    Needed {
        bit: 21,
        name: "CAP_SYS_ADMIN",
        roles: &[Role::SendboxKernel],
        why: "to try which queues the kernel has, in a namespace of its own",
    },
];

/// The bit of CAP_SYS_ADMIN.
const SYS_ADMIN: u32 = 21;
/// The bits that CAP_SYS_ADMIN implies. Before Linux 5.8 there were neither CAP_BPF nor
/// CAP_PERFMON.
const IMPLIED: [u32; 2] = [38, 39];
/// The bit of CAP_IPC_LOCK.
const IPC_LOCK: u32 = 14;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let bits = facts.capabilities;
    let has =
        |bit: u32| bits >> bit & 1 == 1 || IMPLIED.contains(&bit) && bits >> SYS_ADMIN & 1 == 1;
    let mut checks: Vec<Check> = NEEDED
        .iter()
        .map(|needed| match has(needed.bit) {
            true => Check::new(AREA, needed.name, "held"),
            false => Check::new(AREA, needed.name, "missing").stops(
                needed.roles,
                format!("needed {}: run it as root, or with this capability", needed.why),
            ),
        })
        .collect();
    checks.push(memlock(facts, has(IPC_LOCK)));
    checks
}

/// Checks the limit of locked memory, which frames of AF_XDP count towards, and before Linux 5.11
/// also BPF maps.
fn memlock(facts: &Facts, ipc_lock: bool) -> Check {
    let what = "locked memory";
    let Some(limit) = facts.memlock else { return Check::new(AREA, what, "without limit") };
    let found = format!("at most {} KiB", limit / 1_024);
    if ipc_lock {
        return Check::new(AREA, what, format!("{found}, which CAP_IPC_LOCK lifts for frames"));
    }
    let plan = facts.plan.as_ref().filter(|p| p.role == Role::SendboxUser);
    let pool = plan.filter(|p| p.method != Method::Packet).map_or(0, |p| p.pool);
    let advice = "raise it (LimitMEMLOCK=infinity in a systemd unit, or ulimit -l)";
    let check = Check::new(AREA, what, found);
    if pool > limit {
        let needed = format!("the frames' pool has {} KiB: {advice}", pool / 1_024);
        return check.stops(&[Role::SendboxUser], needed);
    }
    check.note(format!("frames of AF_XDP, and before Linux 5.11 maps of BPF, count: {advice}"))
}
