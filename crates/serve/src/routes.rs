//! What is served, and to whom. `openapi.json` says the same for those outside; a test holds one against the other.

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Anyone,
    /// A neighbour, about itself.
    Neighbour,
    /// The operator.
    Operator,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Whether the service is there.
    Health,
    /// The description of the interface.
    OpenApi,
    /// The neighbour's view of the vSwitch.
    VSwitch,
    /// Its program.
    Program,
    /// A new one.
    PutProgram,
    /// None any more.
    DeleteProgram,
    /// Its hints.
    Hints,
    /// What changes of it.
    Events,
    /// Its hints as an ALTO network map.
    NetworkMap,
    /// And the cost map.
    CostMap,
    /// The operator's page.
    Page,
    /// The same as JSON.
    State,
    /// New demands.
    PutDemands,
    /// A round, now.
    Round,
    /// For Prometheus.
    Metrics,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: &'static str,
    /// Who may.
    pub access: Access,
    /// What it is.
    pub op: Op,
    /// The most bytes of its request's body.
    pub largest: usize,
}

/// The most that a program takes: ten thousand wishes and as much that is avoided, with long names.
const PROGRAM: usize = 2_000_000;
/// The most that demands take, over this interface.
const DEMANDS: usize = 16_000_000;

const fn route(
    method: &'static str,
    path: &'static str,
    access: Access,
    op: Op,
    largest: usize,
) -> Route {
    Route { method, path, access, op, largest }
}

/// All of them.
pub const ROUTES: [Route; 15] = [
    route("GET", "/healthz", Access::Anyone, Op::Health, 0),
    route("GET", "/openapi.json", Access::Anyone, Op::OpenApi, 0),
    route("GET", "/v1/vswitch", Access::Neighbour, Op::VSwitch, 0),
    route("GET", "/v1/program", Access::Neighbour, Op::Program, 0),
    route("PUT", "/v1/program", Access::Neighbour, Op::PutProgram, PROGRAM),
    route("DELETE", "/v1/program", Access::Neighbour, Op::DeleteProgram, 0),
    route("GET", "/v1/hints", Access::Neighbour, Op::Hints, 0),
    route("GET", "/v1/events", Access::Neighbour, Op::Events, 0),
    route("GET", "/v1/alto/networkmap", Access::Neighbour, Op::NetworkMap, 0),
    route("GET", "/v1/alto/costmap", Access::Neighbour, Op::CostMap, 0),
    route("GET", "/operator", Access::Operator, Op::Page, 0),
    route("GET", "/operator/state", Access::Operator, Op::State, 0),
    route("PUT", "/operator/demands", Access::Operator, Op::PutDemands, DEMANDS),
    route("POST", "/operator/round", Access::Operator, Op::Round, 0),
    route("GET", "/metrics", Access::Operator, Op::Metrics, 0),
];

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// There is nothing there.
    Path,
    /// There is, by these methods.
    Method(Vec<&'static str>),
}

/// The route of a request.
///
/// # Errors
/// If there is none.
pub fn find(method: &str, path: &str) -> Result<&'static Route, Miss> {
    let there: Vec<&Route> = ROUTES.iter().filter(|r| r.path == path).collect();
    match there.iter().find(|r| r.method == method) {
        Some(route) => Ok(*route),
        None if there.is_empty() => Err(Miss::Path),
        None => Err(Miss::Method(there.iter().map(|r| r.method).collect())),
    }
}

/// What answers, where one does, come with for who asks `GET /openapi.json`.
pub const OPENAPI: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn routes_are_found() {
        assert_eq!(find("GET", "/v1/hints").unwrap().op, Op::Hints);
        assert_eq!(find("GET", "/v1/hints/"), Err(Miss::Path));
        assert_eq!(find("POST", "/v1/program"), Err(Miss::Method(vec!["GET", "PUT", "DELETE"])));
    }

    #[test]
    fn the_document_has_these_routes_and_no_other() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let mut written = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let access = match operation["security"][0].as_object() {
                    None => Access::Anyone,
                    Some(o) if o.contains_key("operator") => Access::Operator,
                    Some(_) => Access::Neighbour,
                };
                let body = operation["requestBody"].is_object();
                written.insert((method.to_uppercase(), path.clone(), format!("{access:?}"), body));
                assert!(
                    operation["responses"].as_object().is_some_and(|r| !r.is_empty()),
                    "{path}"
                );
                assert!(operation["summary"].is_string() && operation["operationId"].is_string());
            }
        }
        let there = ROUTES.iter().map(|r| {
            (r.method.to_owned(), r.path.to_owned(), format!("{:?}", r.access), r.largest > 0)
        });
        assert_eq!(written, there.collect());
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        fn walk(value: &Value, document: &Value) {
            if let Some(Value::String(to)) = value.get("$ref") {
                assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}");
            }
            match value {
                Value::Object(inside) => inside.values().for_each(|v| walk(v, document)),
                Value::Array(inside) => inside.iter().for_each(|v| walk(v, document)),
                _ => {}
            }
        }
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        walk(&document, &document);
    }
}
