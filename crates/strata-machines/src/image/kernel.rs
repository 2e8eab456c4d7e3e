//! The kernel that machines boot, and the drivers it needs: a directory as
//! `scripts/guest-kernel` writes it.

use std::fs;
use std::path::{Path, PathBuf};

use super::ImageError;

/// A directory with a kernel in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDirectory(PathBuf);

impl KernelDirectory {
    /// The directory that was configured; else `$STRATA_CACHE/guest`, else
    /// `~/.cache/strata/guest`.
    pub fn find(configured: Option<&Path>) -> Result<Self, ImageError> {
        let directory = configured.map_or_else(usual, Path::to_owned);
        match directory.join("vmlinuz").is_file() && directory.join("modules/order").is_file() {
            true => Ok(Self(directory)),
            false => Err(ImageError::NoKernel(directory)),
        }
    }

    pub fn kernel(&self) -> PathBuf {
        self.0.join("vmlinuz")
    }

    /// Where the drivers are.
    pub fn modules(&self) -> PathBuf {
        self.0.join("modules")
    }

    /// The file names of the drivers, in the order to load them.
    pub fn order(&self) -> Result<Vec<String>, ImageError> {
        let path = self.modules().join("order");
        let text = fs::read_to_string(&path).map_err(ImageError::file("read", path))?;
        let names = text.lines().map(str::trim);
        // A path would lead out of the directory.
        let names = names.filter(|name| !name.is_empty() && !name.contains('/'));
        Ok(names.map(str::to_owned).collect())
    }
}

fn usual() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/strata");
    std::env::var_os("STRATA_CACHE")
        .map_or_else(home, PathBuf::from)
        .join("guest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_a_kernel_is_an_error_with_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let error = KernelDirectory::find(Some(directory.path())).unwrap_err();
        assert!(error.to_string().contains("guest-kernel"), "{error}");
    }

    #[test]
    fn kernel_modules_are_listed_in_load_order() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("modules")).unwrap();
        fs::write(directory.path().join("vmlinuz"), "").unwrap();
        fs::write(
            directory.path().join("modules/order"),
            "b.ko\n\n../x.ko\na.ko\n",
        )
        .unwrap();
        let found = KernelDirectory::find(Some(directory.path())).unwrap();
        assert_eq!(found.order().unwrap(), ["b.ko", "a.ko"]);
    }
}
