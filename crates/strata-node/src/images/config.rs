//! How a node deals with images.

use std::path::PathBuf;

use strata_image::RegistryOptions;

/// How a node deals with images.
#[derive(Clone, Debug)]
pub struct ImagesConfig {
    /// How registries are reached.
    pub registries: RegistryOptions,
    /// Folders below which operators may pull `oci:` and `docker-archive:`
    /// files of this machine. Admins may everywhere.
    pub local_folders: Vec<PathBuf>,
    /// When the file system of the images is fuller than this, in percent,
    /// unused images go, the least recently used first.
    pub high_water: u8,
    /// Until it is no fuller than this.
    pub low_water: u8,
    /// How many pulls run at once; more wait.
    pub parallel_pulls: usize,
}

impl Default for ImagesConfig {
    fn default() -> Self {
        Self {
            registries: RegistryOptions::default(),
            local_folders: Vec::new(),
            high_water: 85,
            low_water: 80,
            parallel_pulls: 8,
        }
    }
}
