//! The `[backup]` section: where backups go.
//!
//! ```toml
//! [backup]
//! repository = "s3:https://s3.example.org/bucket/prefix"
//! password_file = "/etc/strata/backup.password"
//! access_key = "AKIA…"
//! secret_key_file = "/etc/strata/s3.secret"
//! keep = { daily = 7, weekly = 4, monthly = 12 }
//! limit_mb_per_second = 50
//! ```

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_backup::{Bucket, Location, RepositoryConfig, Secret};
use strata_types::backup::Retention;

/// Where backups go. Without any of it: a directory under the data directory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupTable {
    /// A directory, or `s3:https://HOST/BUCKET/PREFIX`.
    repository: Option<String>,
    /// File with the password. Default: generated in the data directory.
    password_file: Option<PathBuf>,
    /// Of an S3-compatible store.
    region: Option<String>,
    /// Of an S3-compatible store.
    access_key: Option<String>,
    /// The file with its secret.
    secret_key_file: Option<PathBuf>,
    /// An address without TLS is accepted.
    #[serde(default)]
    allow_http: bool,
    /// A file with certificate authorities to trust beside the system's.
    ca: Option<PathBuf>,
    /// zstd level, 1 to 22. Default: 3.
    compression: Option<i32>,
    /// Default retention rules of a prune.
    #[serde(default)]
    pub(crate) keep: Retention,
    /// Default upload limit.
    pub(crate) limit_mb_per_second: Option<u64>,
}

impl BackupTable {
    /// For a repository that is named on a command line.
    pub(crate) fn of(
        repository: Option<String>,
        password_file: Option<PathBuf>,
        file: Self,
    ) -> Self {
        Self {
            repository: repository.or(file.repository),
            password_file: password_file.or(file.password_file),
            ..file
        }
    }

    /// A repository that is there already: its password is, too.
    pub(crate) fn found(&self, data_dir: &Path) -> Result<RepositoryConfig, String> {
        let own = data_dir.join("backup/password");
        if self.password_file.is_none() && !own.exists() {
            return Err("the repository requires a password: pass --password-file".into());
        }
        self.config(data_dir)
    }

    /// The repository and its password, which is generated if none is
    /// configured.
    pub(crate) fn config(&self, data_dir: &Path) -> Result<RepositoryConfig, String> {
        let directory = data_dir.join("backup");
        let password = match &self.password_file {
            Some(path) => read_secret("password_file", path)?,
            None => own_password(&directory).map_err(|error| {
                format!("[backup] the password in {}: {error}", directory.display())
            })?,
        };
        let compression = self.compression.unwrap_or(3);
        if !(1..=22).contains(&compression) {
            return Err(format!(
                "[backup] compression is {compression}; it must be 1 to 22"
            ));
        }
        Ok(RepositoryConfig {
            location: self.location(&directory)?,
            password,
            compression,
            cache: Some(directory.join("cache")),
        })
    }

    fn location(&self, directory: &Path) -> Result<Location, String> {
        let Some(text) = &self.repository else {
            return Ok(Location::Directory(directory.join("repository")));
        };
        let Some(url) = text.strip_prefix("s3:") else {
            return Ok(Location::Directory(text.into()));
        };
        let bad = || format!("[backup] repository {text:?} is not s3:https://HOST/BUCKET/PREFIX");
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let mut parts = rest.splitn(3, '/');
        let host = parts
            .next()
            .filter(|host| !host.is_empty())
            .ok_or_else(bad)?;
        let name = parts
            .next()
            .filter(|name| !name.is_empty())
            .ok_or_else(bad)?;
        let secret = self.secret_key_file.as_deref();
        let secret = secret.ok_or("[backup] secret_key_file is missing")?;
        let authorities = match &self.ca {
            Some(path) => vec![read("ca", path)?],
            None => Vec::new(),
        };
        Ok(Location::S3(Bucket {
            endpoint: Some(format!("{scheme}://{host}")),
            region: self.region.clone().unwrap_or_else(|| "us-east-1".into()),
            name: name.to_owned(),
            prefix: parts.next().unwrap_or_default().to_owned(),
            access_key: Secret::new(self.access_key.clone().unwrap_or_default()),
            secret_key: read_secret("secret_key_file", secret)?,
            allow_http: self.allow_http,
            authorities,
        }))
    }
}

fn read(key: &str, path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("[backup] {key} {}: {error}", path.display()))
}

fn read_secret(key: &str, path: &Path) -> Result<Secret, String> {
    let text = read(key, path)?;
    match text.trim() {
        "" => Err(format!("[backup] {key} {} is empty", path.display())),
        secret => Ok(Secret::new(secret)),
    }
}

/// The password of this run's own repository, made the first time.
fn own_password(directory: &Path) -> io::Result<Secret> {
    let path = directory.join("password");
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(Secret::new(text.trim())),
        // Written over, what it opens could never be opened again.
        Ok(_) => return Err(io::Error::other("it is empty")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let mut random = [0; 24];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = directory.join("password.part");
    let _ = fs::remove_file(&part);
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&part, &path)?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_made_once_and_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let first = BackupTable::default().config(directory.path()).unwrap();
        let second = BackupTable::default().config(directory.path()).unwrap();
        assert_eq!(first.password, second.password);
        assert!(first.password.expose().len() >= 32);
        let file = fs::metadata(directory.path().join("backup/password")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_bucket_is_read_from_its_address() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, "hush\n").unwrap();
        let table = BackupTable {
            repository: Some("s3:https://s3.example.org/bucket/a/b".into()),
            secret_key_file: Some(secret),
            access_key: Some("key".into()),
            ..BackupTable::default()
        };
        let Location::S3(bucket) = table.config(directory.path()).unwrap().location else {
            panic!("it is a bucket");
        };
        assert_eq!(bucket.endpoint.as_deref(), Some("https://s3.example.org"));
        assert_eq!(
            (bucket.name.as_str(), bucket.prefix.as_str()),
            ("bucket", "a/b")
        );
        let bad = BackupTable {
            repository: Some("s3:bucket".into()),
            ..BackupTable::default()
        };
        assert!(bad.config(directory.path()).is_err());
    }
}
