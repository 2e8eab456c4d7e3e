//! Manifests: parsed, with the path of each error.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strata_api::rest::Quota;
use strata_types::Label;
use strata_types::instance::InstanceSpec;

use crate::commands::scope::DEFAULT_PROJECT;
use crate::failure::{Exit, Failure, Result};
use crate::values::plain_documents;

/// Desired state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DesiredResource {
    Project(Quota),
    Workload(Box<InstanceSpec>),
    Instance(Box<InstanceSpec>),
}

/// A desired resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) project: String,
    pub(super) wanted: DesiredResource,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Project,
    Workload,
    Instance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    kind: Kind,
    name: Label,
    #[serde(default)]
    project: Option<Label>,
    #[serde(default)]
    spec: Value,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProjectSpec {
    quota: Quota,
}

impl Document {
    /// Its kind.
    pub(super) fn kind(&self) -> &'static str {
        match self.wanted {
            DesiredResource::Project(_) => "project",
            DesiredResource::Workload(_) => "workload",
            DesiredResource::Instance(_) => "instance",
        }
    }

    /// Order of creation: projects first.
    pub(super) fn rank(&self) -> u8 {
        match self.wanted {
            DesiredResource::Project(_) => 0,
            DesiredResource::Workload(_) => 1,
            DesiredResource::Instance(_) => 2,
        }
    }

    /// The project that it is in, where it is in one.
    pub(super) fn scope(&self) -> Option<&str> {
        match self.wanted {
            DesiredResource::Project(_) => None,
            _ => Some(&self.project),
        }
    }

    /// `instance/shop/web`.
    pub(super) fn reference(&self) -> String {
        match self.scope() {
            Some(project) if project != DEFAULT_PROJECT => {
                format!("{}/{project}/{}", self.kind(), self.name)
            }
            _ => format!("{}/{}", self.kind(), self.name),
        }
    }
}

/// The documents of a file.
pub(super) fn read(file: &Path, input: &mut dyn Read) -> Result<Vec<Document>> {
    let values: Vec<Value> = plain_documents(file, input)?;
    let values = values.into_iter().filter(|value| !value.is_null());
    let several = values.enumerate().map(|(i, value)| {
        document(value).map_err(|why| {
            let what = match file == Path::new("-") {
                true => "cannot apply stdin".to_owned(),
                false => format!("{} cannot be applied", file.display()),
            };
            Failure::new(Exit::Usage, what).because(format!("document {}: {why}", i + 1))
        })
    });
    several.collect()
}

fn document(value: Value) -> std::result::Result<Document, String> {
    let header: Header = parse("", value)?;
    let spec = header.spec;
    let wanted = match header.kind {
        Kind::Project => {
            let spec = if spec.is_null() {
                ProjectSpec::default()
            } else {
                parse("spec", spec)?
            };
            DesiredResource::Project(spec.quota)
        }
        Kind::Workload => DesiredResource::Workload(Box::new(checked(spec)?)),
        Kind::Instance => DesiredResource::Instance(Box::new(checked(spec)?)),
    };
    if let (DesiredResource::Project(_), Some(_)) = (&wanted, &header.project) {
        return Err("project: a project cannot be in a project".to_owned());
    }
    let project = header.project.map(String::from);
    Ok(Document {
        name: header.name.into(),
        project: project.unwrap_or_else(|| DEFAULT_PROJECT.to_owned()),
        wanted,
    })
}

fn checked(spec: Value) -> std::result::Result<InstanceSpec, String> {
    let spec: InstanceSpec = parse("spec", spec)?;
    spec.check().map_err(|why| match why.field() {
        Some(field) => format!("spec.{field}: {}", why.message()),
        None => why.to_string(),
    })?;
    Ok(spec)
}

/// Parses a value; errors name the path.
fn parse<T: DeserializeOwned>(under: &str, value: Value) -> std::result::Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|why| {
        let inner = why.path().to_string();
        let path = match (under, inner.as_str()) {
            ("", ".") => String::new(),
            (under, ".") => format!("{under}: "),
            ("", inner) => format!("{inner}: "),
            (under, inner) => format!("{under}.{inner}: "),
        };
        format!("{path}{}", why.inner())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why(value: Value) -> String {
        document(value).unwrap_err()
    }

    #[test]
    fn unknown_fields_are_reported_with_their_path() {
        let spec = |spec: Value| json!({"kind": "instance", "name": "web", "spec": spec});
        insta::assert_snapshot!(why(spec(json!({"uri": "x", "resources": {"cpus": 1}}))), @r#"spec.resources.cpus: unknown field `cpus`, expected one of `cpu`, `memory`, `disk`"#);
        insta::assert_snapshot!(why(spec(json!({"uri": "x", "ports": ["80"]}))), @r#"spec.ports[0]: "80" is not a port: expected one such as 8080:80, 53:53/udp or 127.0.0.1:8080:80"#);
        insta::assert_snapshot!(why(spec(json!({"uri": "x", "resources": {"cpu": "much"}}))), @r#"spec.resources.cpu: invalid type: string "much", expected i32"#);
        insta::assert_snapshot!(why(spec(
            json!({"uri": "x", "placement": {"spread": [{"over": "node"}, {"under": 1}]}})
        )), @r#"spec.placement.spread[1].under: unknown field `under`, expected one of `over`, `of`, `weight`, `maxSkew`"#);
        insta::assert_snapshot!(why(json!({"kind": "pod", "name": "web"})), @r#"kind: unknown variant `pod`, expected one of `project`, `workload`, `instance`"#);
        insta::assert_snapshot!(why(
            json!({"kind": "instance", "name": "Web_1", "spec": {"uri": "x"}})
        ), @r#"name: has 'W' in it; only a-z, 0-9 and - are allowed"#);
        insta::assert_snapshot!(why(json!({"kind": "project", "name": "a", "project": "b"})), @r#"project: a project cannot be in a project"#);
        insta::assert_snapshot!(why(json!({"kind": "instance", "name": "web", "spce": {}})), @r#"spce: unknown field `spce`, expected one of `kind`, `name`, `project`, `spec`"#);
    }

    #[test]
    fn redundant_flags_are_optional() {
        let project = document(json!({"kind": "project", "name": "shop"})).unwrap();
        assert_eq!(project.wanted, DesiredResource::Project(Quota::default()));
        assert_eq!(project.reference(), "project/shop");
        let web = json!({"kind": "instance", "name": "web", "spec": {"uri": "nginx"}});
        assert_eq!(document(web).unwrap().reference(), "instance/web");
    }
}
