//! The routes of the service, and who may use them. `openapi.json` documents them for clients, and
//! a test compares the two.

use crate::ingress::answer::{PATHS, VERSION};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone, without a token.
    Anyone,
    /// A neighbour, for its own data.
    Neighbour,
    /// The ISP's routers, and the operator.
    Router,
    /// The operator of the service.
    Operator,
}

/// The operation of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Check whether the service is running.
    Health,
    /// Get the description of the interface.
    OpenApi,
    /// Get the neighbour's view of the vSwitch.
    VSwitch,
    /// Get the neighbour's program.
    Program,
    /// Put the neighbour's program.
    PutProgram,
    /// Delete the neighbour's program.
    DeleteProgram,
    /// Get the neighbour's hints.
    Hints,
    /// Listen for changes.
    Events,
    /// Get the hints as an ALTO network map.
    NetworkMap,
    /// Get the ALTO cost map of the hints.
    CostMap,
    /// Get the paths inside the network.
    Paths,
    /// Get the version of the paths.
    PathsVersion,
    /// Get the operator's page.
    Page,
    /// Get the operator's state as JSON.
    State,
    /// Put new demands.
    PutDemands,
    /// Run a round now.
    Round,
    /// Get metrics for Prometheus.
    Metrics,
}

/// A route of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The HTTP method.
    pub method: &'static str,
    /// The path of the URL.
    pub path: &'static str,
    /// Who may use the route.
    pub access: Access,
    /// The operation of the route.
    pub op: Op,
    /// The largest body of a request, in bytes.
    pub largest: usize,
}

/// The largest program in bytes: ten thousand wishes and as many avoided inputs, with long names.
const PROGRAM: usize = 2_000_000;
/// The largest text of demands over this interface, in bytes.
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

/// All routes of the service.
pub const ROUTES: [Route; 17] = [
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
    route("GET", PATHS, Access::Router, Op::Paths, 0),
    route("GET", VERSION, Access::Router, Op::PathsVersion, 0),
    route("GET", "/operator", Access::Operator, Op::Page, 0),
    route("GET", "/operator/state", Access::Operator, Op::State, 0),
    route("PUT", "/operator/demands", Access::Operator, Op::PutDemands, DEMANDS),
    route("POST", "/operator/round", Access::Operator, Op::Round, 0),
    route("GET", "/metrics", Access::Operator, Op::Metrics, 0),
];

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The path is unknown.
    Path,
    /// The path has other methods than this one; these are they.
    Method(Vec<&'static str>),
}

/// Returns the route of a request.
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

/// The description of the interface in OpenAPI, as `GET /openapi.json` returns it.
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
    fn the_document_has_exactly_these_routes() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let mut written = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let access = match operation["security"][0].as_object() {
                    None => Access::Anyone,
                    Some(o) if o.contains_key("router") => Access::Router,
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
    fn every_reference_of_the_document_exists() {
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
