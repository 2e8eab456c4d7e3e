//! The registries of the server's host, as a machine receives them when it joins:
//! by the connection that the join token authenticates, and not by what the
//! machine boots. Boot media and what MAAS hands over are read in the clear by
//! the way, and passwords of registries are good for more than one join
//! (decision 54).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use strata_api::strata::v1::{NodeRegistries, NodeRegistryCredentials};

use super::{Credentials, Handover, ImagesConfig};

/// In the data directory of the node.
const DIRECTORY: &str = "registries";
/// The file with the `[images]` section.
const SECTION: &str = "images.toml";

impl ImagesConfig {
    /// Whether nothing is configured about registries.
    #[must_use]
    pub fn has_no_registries(&self) -> bool {
        let registries = &self.registries;
        registries.plain_http.is_empty()
            && registries.authorities.is_empty()
            && registries.credentials.is_empty()
    }

    /// What another node is given of it; none where nothing is configured.
    #[must_use]
    pub fn to_joining(&self) -> Option<NodeRegistries> {
        let credentials = self.registries.credentials.iter().map(|(host, known)| {
            let projects = self.credential_projects.get(host).cloned();
            let credentials = NodeRegistryCredentials {
                user: known.user.clone(),
                password: known.password.clone(),
                projects: projects.unwrap_or_default(),
            };
            (host.clone(), credentials)
        });
        (!self.has_no_registries()).then(|| NodeRegistries {
            plain_http: self.registries.plain_http.clone(),
            authorities: self.registries.authorities.clone(),
            credentials: credentials.collect(),
        })
    }
}

/// Where the section is that a node was given.
#[must_use]
pub fn joined_section(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY).join(SECTION)
}

/// Keeps what a node was given, for root alone: it reads it at every start, and
/// joins once.
pub fn keep_joined(data_dir: &Path, given: NodeRegistries) -> io::Result<()> {
    let mut config = ImagesConfig::default();
    config.registries.plain_http = given.plain_http;
    config.registries.authorities = given.authorities;
    for (host, given) in given.credentials {
        let NodeRegistryCredentials {
            user,
            password,
            projects,
        } = given;
        let credentials = Credentials { user, password };
        config.credential_projects.insert(host.clone(), projects);
        config.registries.credentials.insert(host, credentials);
    }
    let directory = std::path::absolute(data_dir)?.join(DIRECTORY);
    let text = directory.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut handover = Handover::new(&config, text);
    let section = std::mem::take(&mut handover.section);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)?;
    // The section is last: what it names is there.
    handover.write(&directory)?;
    handover.files = [(SECTION.to_owned(), section)].into();
    handover.write(&directory)
}
