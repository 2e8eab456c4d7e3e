//! The description and what it describes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use http::Method;
use serde_json::Value;
use strata_identity::policy;
use strata_server::faces::rest::document;
use strata_types::Role;

use crate::world::{World, caller};

fn checked_in() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[tokio::test]
async fn the_document_that_is_checked_in_is_the_one_that_is_served() {
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(checked_in(), &text).unwrap();
    }
    let kept = std::fs::read_to_string(checked_in()).unwrap_or_default();
    assert!(
        kept == text,
        "docs/openapi.json is outdated; write it anew with UPDATE_OPENAPI=1"
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
async fn every_route_is_described_and_every_description_is_a_route() {
    let world = World::new().await;
    let described = described();
    for (verb, path) in &described {
        let known = policy::http_routes().any(|(v, p)| (v, p) == (verb, path));
        assert!(known, "{verb} {path} is not in the policy");
    }
    // What the policy knows is described, if it is served here.
    for (verb, path) in policy::http_routes() {
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
async fn every_reference_leads_somewhere() {
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
