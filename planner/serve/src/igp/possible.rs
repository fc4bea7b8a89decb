//! Whether routers can make changes of metrics.

use forebay_plan::weights::Range;

use super::config::Igp;
use super::run::{Looked, Session};

/// Checks that all changes are possible.
///
/// # Errors
/// In words, if one is not.
pub(super) fn possible(session: &Session<'_>, looked: &Looked) -> Result<(), String> {
    let mut topology = session.topology().clone();
    let mut range: Option<Range> = None;
    for (link, found) in &looked.present {
        let Some((router, interface)) = session.find(*link) else { continue };
        if let (Igp::Isis { .. }, Some(what)) = (router.igp, router.igp.unequal(&found.metrics)) {
            let (from, to) = session.names(*link);
            return Err(format!("{interface} of {from}, to {to}, {what}: write `level`"));
        }
        if let Some(value) = router.igp.metric(&found.metrics) {
            topology.set_metric(*link, value);
        }
        range = Some(range.map_or(found.range, |range| range.and(found.range)));
    }
    for step in &looked.order.steps {
        let (from, to) = session.names(step.link);
        let (Some((_, interface)), Some(found)) =
            (session.find(step.link), looked.present.get(&step.link))
        else {
            return Err(format!("the link from {from} to {to} changes, and has no interface here"));
        };
        if found.neighbours > 1 {
            return Err(format!(
                "{interface} of {from}, to {to}, has {} neighbours: its metric is that of the way \
                 to all of them, and cannot change for one",
                found.neighbours
            ));
        }
        let most = found.range.metric;
        if step.to > most {
            return Err(format!(
                "the metric {} of {interface} of {from}, to {to}, is above {most}, the highest \
                 that the router takes there",
                step.to
            ));
        }
        topology.set_metric(step.link, step.to);
    }
    match range.and_then(|range| Some((range.too_long(&topology)?, range.path))) {
        Some((length, most)) if !looked.order.steps.is_empty() => Err(format!(
            "a shortest path would be {length} long, and these routers use none above {most}: \
             choose lower metrics, or wide ones"
        )),
        _ => Ok(()),
    }
}
