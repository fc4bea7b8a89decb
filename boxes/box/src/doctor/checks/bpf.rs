//! Checks of BPF, which the programs of boxes need.

use forebay_dataplane::{Framing, Method};

use crate::doctor::facts::Facts;
use crate::doctor::report::{Check, Role};

const AREA: &str = "BPF";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let bpf = &facts.bpf;
    let missing: Vec<&str> =
        bpf.parts.iter().filter(|(_, there)| !there).map(|(n, _)| *n).collect();
    let parts = if missing.is_empty() {
        let all: Vec<&str> = bpf.parts.iter().map(|(name, _)| *name).collect();
        Check::new(AREA, "parts", all.join(", "))
    } else {
        // The checks of the programs below name the roles that this rules out.
        Check::new(AREA, "parts", format!("not there: {}", missing.join(", ")))
            .note("the kernel lacks them, or this process lacks the privileges to try them")
    };
    let types = if bpf.types {
        Check::new(AREA, "types of the kernel", "described")
    } else {
        Check::new(AREA, "types of the kernel", "not described").stops(
            &[Role::SendboxKernel],
            "a kernel with CONFIG_DEBUG_INFO_BTF is needed (no /sys/kernel/btf/vmlinux); or \
             dataplane = \"user\"",
        )
    };
    let jit = match bpf.jit {
        Some(false) => Check::new(AREA, "compiler", "off").note(
            "programs are interpreted, at several times the cost: sysctl net.core.bpf_jit_enable=1",
        ),
        Some(true) => Check::new(AREA, "compiler", "on"),
        None => Check::new(AREA, "compiler", "always on, or not told"),
    };
    vec![
        parts,
        types,
        jit,
        tried("egress observer", &bpf.observer, "attached", &[Role::SendboxKernel]),
        tried("tc's ingress", &bpf.ingress, "attached", &[]),
        tunnel(facts, "observer in tunnels", &bpf.tunnel_observer, Role::SendboxKernel),
        tunnel(facts, "ingress of tunnels", &bpf.tunnel_ingress, Role::Receivebox),
        af_xdp(facts),
        af_packet(facts),
    ]
}

fn tried(what: &str, trial: &Result<(), String>, good: &str, stops: &[Role]) -> Check {
    match trial {
        Ok(()) => Check::new(AREA, what, good),
        Err(why) if stops.is_empty() => Check::new(AREA, what, why)
            .note("a receivebox then needs an interface whose driver has XDP"),
        Err(why) => {
            Check::new(AREA, what, why).stops(stops, "see the line above; or dataplane = \"user\"")
        }
    }
}

/// Judges the programs for devices without an Ethernet header. Only a configuration that names such
/// a device needs them.
fn tunnel(facts: &Facts, what: &str, trial: &Result<(), String>, needs: Role) -> Check {
    let Err(why) = trial else { return Check::new(AREA, what, "loaded") };
    let check = Check::new(AREA, what, why);
    let has_tunnel = facts.interfaces.iter().any(|i| i.framing == Ok(Framing::BareIp));
    if has_tunnel && facts.plan.as_ref().is_some_and(|plan| plan.role == needs) {
        return check
            .stops(&[needs], "this kernel has no box on a device without Ethernet headers");
    }
    check.note("this kernel has no box on WireGuard, TUN, GRE or another device without Ethernet")
}

fn af_xdp(facts: &Facts) -> Check {
    let method = facts.plan.as_ref().map_or(Method::Auto, |p| p.method);
    match &facts.bpf.af_xdp {
        Ok(how) => Check::new(AREA, "AF_XDP", format!("works on loopback: {how}")),
        Err(why) if method == Method::Xdp => Check::new(AREA, "AF_XDP", why)
            .stops(&[Role::SendboxUser], "leave method = \"xdp\" out"),
        Err(why) => Check::new(AREA, "AF_XDP", why)
            .note("AF_PACKET stands in, at a higher cost for each packet: see the next line"),
    }
}

/// Says what happens to frames when a box over AF_PACKET dies.
fn af_packet(facts: &Facts) -> Check {
    let what = "AF_PACKET";
    match &facts.bpf.bypass {
        Ok(()) => Check::new(
            AREA,
            what,
            "works; if the box dies, filters at tc's ingress pass frames from port to port",
        ),
        Err(why) => Check::new(AREA, what, why).note(
            "frames stop if a box over AF_PACKET dies: use AF_XDP, or a kernel with \
             CONFIG_NET_CLS_ACT, CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
        ),
    }
}
