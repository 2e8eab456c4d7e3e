//! Whose an object is that a request names by its id, for the audit log, and
//! whether a project is the one that a token was limited to.

use jiff::Timestamp;
use strata_transport::ProjectLookup;
use strata_types::Label;

use super::{Core, Principal};

impl ProjectLookup for Core {
    fn succeeds_at(&self, project: &Label) -> Option<Timestamp> {
        let tables = self.tables();
        let found = tables.projects.get(project)?;
        match found.succeeds_at_ms {
            0 => None,
            at => Timestamp::from_millisecond(at).ok(),
        }
    }

    fn project_of(&self, kind: &str, name: &str, project: Option<&str>) -> Option<String> {
        let asked: Option<Label> = project.and_then(|project| project.parse().ok());
        let (principal, asked) = (Principal::server("audit"), asked.as_ref());
        let found = match kind {
            "instance" => self.instance(&principal, asked, name).ok()?.project.clone(),
            "workload" => self
                .workloads()
                .find(&principal, asked, name)
                .ok()?
                .project
                .clone(),
            "secret" => self
                .secrets()
                .find(&principal, asked, name)
                .ok()?
                .project
                .clone(),
            _ => return None,
        };
        Some(found.to_string())
    }
}
