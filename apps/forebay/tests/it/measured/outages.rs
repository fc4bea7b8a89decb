//! Tests that no fault costs more than a second without packets.

use forebay_test_support::has_root;

use crate::live::faults::interface::{boxes, raise_mtu, remove_interface};
use crate::live::faults::output::{
    Broken, break_logs_in_user_space, break_logs_over_kernel_queues,
};
use crate::live::faults::reload::{RELOADS, reload_in_user_space, reload_over_kernel_queues};
use crate::live::faults::restart::{hang, restart_in_user_space, restart_over_kernel_queues};
use crate::live::faults::upgrade::{upgrade_in_user_space, upgrade_over_kernel_queues};
use crate::live::faults::workers;
use crate::support::span::{BOXES, METHODS, Span, WIRES};

#[test]
fn restarts_cost_at_most_a_second_in_user_space() {
    if !has_root() {
        return;
    }
    for (kind, method) in boxes() {
        restart_in_user_space(&Span::over("fr", method), kind, |probe| {
            probe.end().check(&format!("{kind}, {method}: restarts"));
        });
    }
    restart_in_user_space(&workers::span("f3", 2), "sendbox", |probe| {
        probe.end().check("two threads: restarts");
    });
}

#[test]
fn restarts_cost_at_most_a_second_over_the_kernels_queues() {
    if has_root() {
        restart_over_kernel_queues(|probe| probe.end().check("restarts"));
    }
}

#[test]
fn hangs_cost_at_most_a_second() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        hang(method, |probe| probe.end().check(&format!("{method}: hangs")));
    }
}

#[test]
fn an_interface_that_is_back_is_used_within_a_second() {
    if !has_root() {
        return;
    }
    for (kind, method) in boxes() {
        remove_interface(kind, method, |probe, back| {
            probe.end().check_since(&format!("{kind}, {method}: a new interface"), back);
        });
    }
}

#[test]
fn a_raised_mtu_costs_at_most_a_second() {
    if !has_root() {
        return;
    }
    for (kind, method) in boxes() {
        raise_mtu(kind, method, |probe| {
            probe.end().check(&format!("{kind}, {method}: a raised MTU"));
        });
    }
}

#[test]
fn logs_that_cannot_be_written_cost_at_most_a_second() {
    if !has_root() {
        return;
    }
    for broken in Broken::ALL {
        for (kind, files) in BOXES {
            break_logs_in_user_space(broken, kind, files, |probe| {
                probe.end().check(&format!("{kind}, {broken:?}"));
            });
        }
        break_logs_over_kernel_queues(broken, |probe| {
            probe.end().check(&format!("kernel, {broken:?}"));
        });
    }
}

#[test]
fn reloads_cost_at_most_a_second() {
    if !has_root() {
        return;
    }
    reload_over_kernel_queues(RELOADS, |what, probe| probe.end().check(what));
    for wire in WIRES {
        reload_in_user_space(wire, RELOADS, ["sfq", "fifo"], |what, probe| {
            probe.end().check(what);
        });
    }
}

#[test]
fn upgrades_cost_at_most_a_second() {
    if !has_root() {
        return;
    }
    upgrade_over_kernel_queues(|probe| probe.end().check("kernel: three upgrades"));
    for wire in WIRES {
        upgrade_in_user_space(wire, |probe| probe.end().check(&format!("{wire:?}: two upgrades")));
    }
}
