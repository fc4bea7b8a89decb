//! The checks: pure functions from facts to findings, one for each area.

mod bpf;
mod clocks;
mod interfaces;
mod kernel;
mod path;
mod privileges;
#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::report::Check;

/// Runs all checks, in the order of the report.
pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(plan) = &facts.plan {
        checks.push(match &plan.trouble {
            None => Check::new("configuration", &plan.file, "can be run"),
            Some(why) => Check::new("configuration", &plan.file, why)
                .stops(&[plan.role], "mend this first: the rest may be incomplete"),
        });
    }
    checks.extend(kernel::checks(facts));
    checks.extend(bpf::checks(facts));
    checks.extend(privileges::checks(facts));
    checks.extend(clocks::checks(&facts.clock));
    checks.extend(interfaces::checks(facts));
    if let Some(plan) = &facts.plan {
        checks.extend(path::checks(plan, &facts.interfaces));
    }
    checks
}
