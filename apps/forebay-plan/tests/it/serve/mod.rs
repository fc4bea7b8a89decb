//! Tests `forebay plan serve` with the real command: neighbours, crashes, floods and announcements.

mod announce;
mod bmp;
pub(crate) mod client;
mod crash;
mod flows;
mod strangers;

use client::{Server, ask, files};
use forebay_test_support::Dir;
use serde_json::{Value, json};

#[test]
fn two_neighbours_put_programs_and_get_hints() {
    let dir = Dir::new("serve-two");
    files(&dir, "");
    let server = Server::start(&dir);
    let round = server.round();
    assert!(round["hints"].as_u64().unwrap() > 0, "{round}");
    let view = server.get("video", "/v1/vswitch");
    assert_eq!(view["inputs"], json!(["in1", "in2"]));
    assert_eq!(view["outputs"][0]["prefixes"], json!(["10.0.0.0/16", "2001:db8::/32"]));
    let hints = server.get("video", "/v1/hints");
    assert!(hints["hints"].as_array().unwrap().iter().all(|h| h["entry"] == "in2"), "{hints}");
    // From the next round on, programs replace the measured demands.
    let wish =
        json!({"view": view["view"], "wishes": [{"output": 0, "input": "in1", "demand": 0}]});
    let reply = server.ask("games", "PUT", "/v1/program", &wish.to_string());
    assert_eq!(reply.status, 409, "the view is another's");
    let wish = json!({"wishes": [{"output": 0, "input": "in1", "demand": 0}]});
    let reply = server.ask("games", "PUT", "/v1/program", &wish.to_string());
    assert_eq!((reply.status, &reply.json()["state"]), (200, &json!("waiting")), "{}", reply.body);
    let round = server.round();
    assert_eq!(server.get("games", "/v1/program")["state"], "taken");
    let state = server.get("operator", "/operator/state");
    assert!((state["report"]["demand"].as_f64().unwrap() - 100e6).abs() < 1.0, "{round}");
    // IPv6 works like IPv4.
    let reply = ask(server.at[1], Some(server.token("video")), "GET", "/v1/hints", "").unwrap();
    assert_eq!((reply.status, &reply.json()["neighbour"]), (200, &json!("video")));
    // A browser fetches the page with the token as the password ("x:TOKEN" in Base64).
    let page = server.ask("operator", "GET", "/operator", "");
    assert!(page.status == 200 && page.body.contains("<svg") && page.body.contains("video"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(server.stop());
}

/// Checks `value` against `schema`, with those parts of JSON Schema that the document uses. An
/// error says where they differ.
fn conforms(value: &Value, schema: &Value, document: &Value, at: &str) -> Result<(), String> {
    if let Some(to) = schema["$ref"].as_str() {
        return conforms(value, document.pointer(&to[1..]).unwrap(), document, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let mut tries = any.iter().map(|s| conforms(value, s, document, at));
        return if tries.any(|t| t.is_ok()) { Ok(()) } else { Err(format!("{at}: {value}")) };
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => return Err(format!("{at}: the document has the type {other:?}")),
    };
    let least = schema["minimum"].as_f64().is_none_or(|least| value.as_f64().unwrap() >= least);
    let named = schema["enum"].as_array().is_none_or(|all| all.contains(value));
    if !(fits && least && named) {
        return Err(format!("{at}: {value} is not {schema}"));
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        conforms(item, &schema["items"], document, &at.to_string())?;
    }
    let Some(object) = value.as_object().filter(|_| schema["properties"].is_object()) else {
        return Ok(());
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            return Err(format!("{at}: lacks {name}"));
        }
    }
    for (name, inside) in object {
        match schema["properties"].get(name) {
            Some(schema) => conforms(inside, schema, document, &format!("{at}.{name}"))?,
            None if schema["additionalProperties"] == false => {
                return Err(format!("{at}: has {name}"));
            }
            None => {}
        }
    }
    Ok(())
}

#[test]
fn the_service_keeps_to_its_api_document() {
    let dir = Dir::new("serve-openapi");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    let document = ask(server.at[0], None, "GET", "/openapi.json", "").unwrap().json();
    let mut checked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "patch"] {
            let name = method.to_uppercase();
            let operation = &methods[method];
            let stranger = ask(server.at[0], None, &name, path, "").unwrap();
            let Some(security) = operation["security"].as_array() else {
                assert_eq!(stranger.status, 405, "{name} {path} is not in the document");
                continue;
            };
            assert_eq!(
                stranger.status,
                if security.is_empty() { 200 } else { 401 },
                "{name} {path}"
            );
            let operator = security.iter().any(|s| s.get("operator").is_some());
            let who = if operator { "operator" } else { "video" };
            if path == "/v1/events" {
                continue;
            }
            let wrong = server.ask(if operator { "video" } else { "operator" }, &name, path, "");
            assert_eq!(wrong.status, if security.is_empty() { 200 } else { 403 }, "{name} {path}");
            let body = if path == "/v1/program" && method == "put" { "{}" } else { "" };
            let reply = server.ask(who, &name, path, body);
            let responses = &operation["responses"];
            let mut response = &responses[reply.status.to_string()];
            assert!(!response.is_null(), "{name} {path}: {} is not in the document", reply.status);
            if let Some(to) = response["$ref"].as_str() {
                response = document.pointer(&to[1..]).unwrap();
            }
            let kind = reply.header("content-type").unwrap().split(';').next().unwrap();
            let schema = &response["content"][kind]["schema"];
            assert!(!schema.is_null(), "{name} {path}: {kind} is not in the document");
            if kind.ends_with("json") {
                conforms(&reply.json(), schema, &document, path).unwrap();
                checked += 1;
            }
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn the_command_of_a_provider_follows_hints() {
    let dir = Dir::new("serve-neighbour");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    let given = server.get("video", "/v1/hints")["hints"].clone();
    dir.file("video.token", server.token("video"), 0o600);
    let config = format!(
        "url = \"http://{}\"\ntoken = \"video.token\"\nout = \"hints.json\"\n",
        server.at[1]
    );
    dir.file("isp.toml", &config, 0o644);
    let neighbour = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        command.args(["neighbour", "--config"]).arg(dir.0.join("isp.toml")).args(more);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text + &String::from_utf8(output.stderr).unwrap())
    };
    let all = given.as_array().unwrap().len();
    let (status, said) = neighbour(&[]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("would send ").count(), all, "{said}");
    assert!(said.ends_with("Nothing was changed; run again with `--apply`.\n"), "{said}");
    assert!(!dir.0.join("hints.json").exists());
    let (status, said) = neighbour(&["--apply"]);
    assert_eq!((status, said.matches("send ").count()), (Some(0), all), "{said}");
    let kept = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(dir.0.join("hints.json")).unwrap()).unwrap()
    };
    assert_eq!(kept()["hints"], given);
    let (_, said) = neighbour(&[]);
    assert!(said.starts_with("0 changes; "), "{said}");
    assert!(server.stop());
    let (status, said) = neighbour(&[]);
    assert!(status == Some(1) && said.contains("cannot reach "), "{said}");
    assert_eq!(neighbour(&["--withdraw"]).0, Some(0));
    assert_eq!(kept()["hints"], json!([]));
    dir.file("isp.toml", "url = \"http://192.0.2.1\"\nout = \"x\"\n", 0o644);
    let (status, said) = neighbour(&[]);
    assert!(status == Some(2) && said.contains("isp.toml:1: url: "), "{said}");
}
