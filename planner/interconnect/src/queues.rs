//! Reads the queues in front of the ISP's links: their backlog, and what they dropped.

use std::collections::BTreeMap;
use std::process::Command;

use forebay_plan::topology::LinkId;
use serde_json::Value;

use super::blueprint::Blueprint;
use super::build::Built;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    /// The bytes that wait.
    pub(super) backlog: u64,
    /// The packets sent and dropped so far.
    pub(super) sent: u64,
    pub(super) dropped: u64,
}

/// Reads the queues of all links.
///
/// # Errors
/// If `tc` fails.
pub(super) fn read(
    blueprint: &Blueprint,
    built: &Built,
) -> Result<BTreeMap<LinkId, Queue>, EngineError> {
    let mut all: BTreeMap<&str, BTreeMap<String, Queue>> = BTreeMap::new();
    for (router, _) in blueprint.links.values() {
        if !all.contains_key(router.as_str()) {
            let mut command = Command::new("tc");
            command.args(["-n", &built.name(router), "-s", "-j", "qdisc", "show"]);
            all.insert(router, parse(&exec::output(&mut command, "")?));
        }
    }
    let of = |(link, (router, device)): (&LinkId, &(String, String))| {
        Some((*link, *all.get(router.as_str())?.get(device)?))
    };
    Ok(blueprint.links.iter().filter_map(of).collect())
}

/// Returns the token buckets in the output of `tc -s -j qdisc show`, by interface.
fn parse(text: &str) -> BTreeMap<String, Queue> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let queue = |value: &Value| {
        let number = |key: &str| value[key].as_u64();
        let queue = Queue {
            backlog: number("backlog")?,
            sent: number("packets")?,
            dropped: number("drops")?,
        };
        Some((value["dev"].as_str()?.to_owned(), queue))
    };
    all.iter().filter(|value| value["kind"] == "tbf").filter_map(queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_buckets_are_read() {
        // As iproute2 6.1 prints it.
        let text = r#"[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"bytes":0,"packets":0,
            "drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},
            {"kind":"tbf","handle":"8001:","dev":"fb-core2","root":true,"options":{"rate":6250000},
            "bytes":900,"packets":7,"drops":2,"overlimits":3,"requeues":0,"backlog":3028,"qlen":2}]"#;
        let queue = Queue { backlog: 3028, sent: 7, dropped: 2 };
        assert_eq!(parse(text), [("fb-core2".to_owned(), queue)].into());
        assert!(parse("").is_empty());
    }
}
