//! How a node deals with images.

use std::collections::HashMap;
use std::path::PathBuf;

use strata_image::{DiskReserve, Reference, RegistryOptions, StoreOptions};

/// What instances belong to that name no other project.
const DEFAULT_PROJECT: &str = "default";
const ANY_PROJECT: &str = "*";

/// How a node deals with images.
#[derive(Clone, Debug)]
pub struct ImagesConfig {
    /// How registries are reached.
    pub registries: RegistryOptions,
    /// Projects, beside the default one, whose pods are pulled with the node's
    /// credentials, by registry (`host` or `host:port`); `*` is every project.
    pub credential_projects: HashMap<String, Vec<String>>,
    /// Directories below which operators may pull `oci:` and `docker-archive:`
    /// files of this machine. Admins may everywhere.
    pub local_dirs: Vec<PathBuf>,
    /// When the file system of the images is fuller than this, in percent,
    /// unused images go, the least recently used first.
    pub high_water: u8,
    /// Until it is no fuller than this.
    pub low_water: u8,
    /// How many pulls run at once, half of them for one project; more wait.
    pub parallel_pulls: usize,
    /// Bytes that all layers of one image may unpack to.
    pub image_bytes: u64,
    /// What pulls leave free of the file system of the images.
    pub reserve: DiskReserve,
    /// What the images of one project may take, in percent of what they hold
    /// and what is free together; 100 for no bound beside the reserve.
    pub project_percent: u8,
}

impl Default for ImagesConfig {
    fn default() -> Self {
        Self {
            registries: RegistryOptions::default(),
            credential_projects: HashMap::new(),
            local_dirs: Vec::new(),
            high_water: 85,
            low_water: 80,
            parallel_pulls: 8,
            image_bytes: StoreOptions::default().image_bytes,
            reserve: DiskReserve::default(),
            project_percent: StoreOptions::default().project_percent,
        }
    }
}

/// Whether a pod is of a project that has to have its own right to images.
pub(super) fn is_limited(project: Option<&str>) -> bool {
    project.is_some_and(|project| project != DEFAULT_PROJECT)
}

impl ImagesConfig {
    pub(super) fn store_options(&self) -> StoreOptions {
        let mut options = StoreOptions {
            image_bytes: self.image_bytes,
            reserve: self.reserve,
            project_percent: self.project_percent,
            ..StoreOptions::default()
        };
        options.limits.bytes = self.image_bytes;
        options
    }

    /// Whether the node has credentials for the registry of this image which
    /// are not for this project. A direct caller of the node has no project.
    pub(super) fn withholds_credentials(
        &self,
        reference: &Reference,
        project: Option<&str>,
    ) -> bool {
        let (Reference::Registry(name), Some(project)) = (reference, project) else {
            return false;
        };
        let allowed = self.credential_projects.get(name.host());
        let is_allowed = |one: &String| one == ANY_PROJECT || one == project;
        self.registries.credentials.contains_key(name.host())
            && is_limited(Some(project))
            && !allowed.is_some_and(|allowed| allowed.iter().any(is_allowed))
    }
}

#[cfg(test)]
mod tests {
    use strata_image::Credentials;

    use super::*;

    #[test]
    fn credentials_are_for_the_default_project_and_those_that_are_named() {
        let mut config = ImagesConfig::default();
        let credentials = Credentials {
            user: "strata".into(),
            password: "secret".into(),
        };
        let hosts = ["r.example", "open.example:5000"];
        for host in hosts {
            let known = &mut config.registries.credentials;
            known.insert(host.into(), credentials.clone());
        }
        let projects = &mut config.credential_projects;
        projects.insert("r.example".into(), vec!["shop".into()]);
        projects.insert("open.example:5000".into(), vec!["*".into()]);
        let withholds = |name: &str, project: Option<&str>| {
            config.withholds_credentials(&name.parse().unwrap(), project)
        };
        for project in [None, Some("default"), Some("shop")] {
            assert!(!withholds("r.example/app", project), "{project:?}");
        }
        assert!(withholds("r.example/app", Some("rival")));
        assert!(!withholds("open.example:5000/app", Some("rival")));
        // There is nothing to withhold.
        assert!(!withholds("other.example/app", Some("rival")));
        assert!(!withholds("oci:/srv/image", Some("rival")));
    }
}
