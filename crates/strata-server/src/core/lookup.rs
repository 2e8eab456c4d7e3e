//! Whose an object is that a request names by its id, for the audit log.

use strata_transport::ProjectLookup;
use strata_types::Label;

use super::{Core, Who};

impl ProjectLookup for Core {
    fn project_of(&self, kind: &str, name: &str, project: Option<&str>) -> Option<String> {
        let asked: Option<Label> = project.and_then(|project| project.parse().ok());
        let (who, asked) = (Who::server("audit"), asked.as_ref());
        let found = match kind {
            "instance" => self.instance(&who, asked, name).ok()?.project.clone(),
            "workload" => self.workload(&who, asked, name).ok()?.project.clone(),
            "secret" => self.secret(&who, asked, name).ok()?.project.clone(),
            _ => return None,
        };
        Some(found.to_string())
    }
}
