//! The OpenAPI document: up to date, complete, valid.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use http::Method;
use serde_json::Value;
use strata_server::api::policy;
use strata_server::api::rest::document;
use strata_types::Role;

use crate::world::{World, caller};

fn checked_in() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[tokio::test]
async fn checked_in_openapi_document_is_served() {
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(checked_in(), &text).unwrap();
    }
    let stored = std::fs::read_to_string(checked_in()).unwrap_or_default();
    assert!(
        stored == text,
        "docs/openapi.json is outdated; regenerate it with UPDATE_OPENAPI=1"
    );
    let world = World::new().await;
    let served = world
        .ask(caller(Role::Viewer), "GET", "/openapi.json", &[], "")
        .await;
    assert_eq!(served.json(), document());
}

fn described() -> BTreeSet<(String, String)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let mut all = BTreeSet::new();
    for (path, item) in paths {
        for verb in item.as_object().unwrap().keys() {
            let path = path.strip_suffix('/').unwrap_or(path);
            all.insert((verb.to_uppercase(), path.to_owned()));
        }
    }
    all
}

#[tokio::test]
async fn openapi_document_covers_every_route() {
    let world = World::new().await;
    let described = described();
    for (verb, path) in &described {
        let rules = policy().http_routes();
        let known = rules
            .iter()
            .any(|rule| (rule.method, rule.path) == (verb, path));
        assert!(known, "{verb} {path} is not in the policy");
    }
    // A route of the policy is documented if it is served here.
    for rule in policy().http_routes() {
        let (verb, path) = (rule.method, rule.path);
        let described = described.contains(&(verb.to_owned(), path.to_owned()));
        let real = path
            .replace("{id}", "nothing")
            .replace("{snapshot}", "nothing")
            .replace("{pool}", "nothing");
        for real in [real.clone(), format!("{real}/")] {
            let verb: Method = verb.parse().unwrap();
            let answer = world
                .ask(caller(Role::Admin), verb.as_str(), &real, &[], "")
                .await;
            let nowhere = answer.status == 405 || (answer.status == 404 && answer.text.is_empty());
            // The gateway has a published document of its own.
            let ours = path != "/openapi.json" && !path.starts_with("/api/v1/");
            let served = !nowhere && ours;
            assert_eq!(described, served, "{verb} {real}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn references_of_the_openapi_document_resolve() {
    fn look(value: &Value, whole: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(to)) = object.get("$ref") {
                    let place = to.strip_prefix('#').unwrap();
                    assert!(whole.pointer(place).is_some(), "{to}");
                }
                object.values().for_each(|value| look(value, whole));
            }
            Value::Array(list) => list.iter().for_each(|value| look(value, whole)),
            _ => {}
        }
    }
    let document = document();
    look(&document, &document);
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn every_operation_has_a_summary_and_a_description() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            for field in ["summary", "description"] {
                let text = operation[field].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{method} {path} has no {field}");
            }
        }
    }
}

#[test]
fn openapi_document_passes_the_validator() {
    let venv = match strata_testkit::python::venv("openapi") {
        Ok(venv) => venv,
        Err(reason) => return strata_testkit::skip(reason),
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("openapi.json");
    std::fs::write(&file, document().to_string()).unwrap();
    let validator = Command::new(venv.join("bin/openapi-spec-validator"))
        .arg(&file)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&validator.stdout);
    let errors = String::from_utf8_lossy(&validator.stderr);
    assert!(validator.status.success(), "{output}\n{errors}");
}
