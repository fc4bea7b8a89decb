//! Checks of interfaces and of their offloads for each dataplane.

use forebay_dataplane::{Feature, Framing, Method, Pool};

use crate::doctor::facts::{Facts, Interface, Plan};
use crate::doctor::report::{Check, Role};

/// The first kernel that reports what drivers support of XDP.
const TELLS_XDP: (u32, u32) = (6, 3);

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let told = facts.kernel.version.is_some_and(|v| v >= TELLS_XDP);
    let plan = facts.plan.as_ref();
    facts.interfaces.iter().flat_map(|i| of(i, told, plan)).collect()
}

const AREA: &str = "interfaces";

fn of(interface: &Interface, told: bool, plan: Option<&Plan>) -> [Check; 3] {
    [link(interface, plan), xdp(interface, told, plan), offloads(interface, plan)]
}

/// Returns the roles that a check of an interface may rule out: the role of a configuration that
/// names the interface.
fn stopped(plan: Option<&Plan>, roles: &[Role]) -> Vec<Role> {
    plan.map(|p| p.role).into_iter().filter(|role| roles.contains(role)).collect()
}

fn flag(check: Check, plan: Option<&Plan>, roles: &[Role], advice: impl Into<String>) -> Check {
    match stopped(plan, roles) {
        roles if roles.is_empty() => check.note(advice),
        roles => check.stops(&roles, advice),
    }
}

fn link(interface: &Interface, plan: Option<&Plan>) -> Check {
    let Interface { name, up, framing, mtu, queues, .. } = interface;
    let state = if *up { "up" } else { "down" };
    let many = if *queues == 1 { "queue" } else { "queues" };
    let found = format!("{state}, MTU {mtu}, {queues} receive {many}");
    let check = Check::new(AREA, name, found);
    if !up {
        return flag(check, plan, &Role::ALL, format!("ip link set {name} up"));
    }
    match framing {
        Ok(Framing::Ethernet) => {}
        Ok(Framing::BareIp) => {
            let advice = "no Ethernet header, as in a tunnel: for the kernel's queues and a receivebox, and not for dataplane = \"user\"";
            return flag(check, plan, &[Role::SendboxUser], advice);
        }
        Err(why) => return flag(check, plan, &Role::ALL, why),
    }
    if *mtu > Pool::MAX_MTU {
        let advice = format!(
            "frames above {} bytes fit into no buffer of dataplane = \"user\": lower it, or use \
             dataplane = \"kernel\"",
            Pool::MAX_MTU
        );
        return flag(check, plan, &[Role::SendboxUser], advice);
    }
    check
}

fn xdp(interface: &Interface, told: bool, plan: Option<&Plan>) -> Check {
    let what = format!("{} XDP", interface.name);
    if matches!(interface.framing, Ok(Framing::BareIp)) {
        return Check::new(AREA, what, "not used: a receivebox counts at tc's ingress here");
    }
    let support = match &interface.xdp {
        Ok(support) => support,
        Err(why) => {
            return Check::new(AREA, what, why).note("it is tried when a box starts");
        }
    };
    let driver = support.driver;
    let found = match (driver.native, driver.redirect, driver.zero_copy) {
        (true, _, true) => "in the driver, without copies",
        (true, true, false) => "in the driver, with copies",
        (true, false, _) => "in the driver, without redirection",
        _ if told => "not in the driver",
        _ => "not told by this kernel",
    };
    if let Some(program) = &support.attached {
        let ours = program.starts_with("fb_");
        let whose = if ours { "ours" } else { "somebody else's" };
        let check = Check::new(AREA, what, format!("{found}; {program} is attached, {whose}"));
        if ours {
            return check
                .note("a box runs on it, or a sendbox has died and its program passes frames on");
        }
        let advice = format!("see whose it is; ip link set {} xdp off", interface.name);
        return flag(check, plan, &[Role::SendboxUser, Role::Receivebox], advice);
    }
    let check = Check::new(AREA, what, found);
    if driver.native || !told {
        return check;
    }
    check.note(
        "generic XDP for a sendbox of its own queues, slower; a receivebox counts at tc's ingress",
    )
}

fn offloads(interface: &Interface, plan: Option<&Plan>) -> Check {
    let Interface { name, features, xdp, .. } = interface;
    let names: Vec<String> = features.iter().map(ToString::to_string).collect();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let check = Check::new(AREA, format!("{name} offloads"), found);
    if features.contains(&Feature::MangledIds) {
        return check.note(format!(
            "a NIC that writes IDs of its own loses boundary packets between the boxes (ethtool -K {name} \
             tx-tcp-mangleid-segmentation off); virtual devices have it on and write none"
        ));
    }
    if features.contains(&Feature::Lro) {
        let advice = format!(
            "LRO merges packets for good: neither a router nor a box must see that (ethtool -K {name} lro off)"
        );
        return flag(check, plan, &Role::ALL, advice);
    }
    let native = xdp.as_ref().is_ok_and(|x| x.driver.native);
    let packet = plan.is_some_and(|p| p.method == Method::Packet);
    let is_port = plan.is_none_or(|p| p.role == Role::SendboxUser);
    if is_port && features.contains(&Feature::Gro) && (packet || !native) {
        return check.note(format!(
            "for dataplane = \"user\" without XDP in the driver: merged frames do not fit into its \
             buffers (ethtool -K {name} gro off)"
        ));
    }
    check
}
