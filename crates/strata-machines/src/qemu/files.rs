//! The files that virtual machines are made of.
//!
//! ```text
//! DIRECTORY/base-….cpio       what all machines boot
//! DIRECTORY/disk-20.raw       an empty file system of 20 GB; disks are clones
//! DIRECTORY/TAG/initrd        what this machine boots, with its secret; 0600
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::QemuConfig;
use crate::image::{Base, DISK_LABEL, ImageError, JoinFile, KernelDirectory, busybox, new_file};
use crate::{Boot, ProviderError, Target};

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
/// How long a file system may take to be made; it is a file with holes.
const FORMAT_TIMEOUT: Duration = Duration::from_secs(30);

/// What one machine is made of.
pub(super) struct Made {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) disk: Option<PathBuf>,
}

/// The files of all machines.
#[derive(Clone, Debug)]
pub(super) struct Files {
    config: Arc<QemuConfig>,
    /// What is for all machines is made by one at a time.
    shared: Arc<Mutex<()>>,
}

impl Files {
    pub(super) fn new(config: QemuConfig) -> Self {
        Self {
            config: Arc::new(config),
            shared: Arc::default(),
        }
    }

    fn of(&self, machine: &Target) -> PathBuf {
        self.config.directory.join(machine.tag.to_string())
    }

    /// Makes what a machine boots now; what an earlier boot was sent is gone.
    pub(super) async fn make(&self, machine: &Target, boot: &Boot) -> Result<Made, ProviderError> {
        let kernel = KernelDirectory::find(self.config.kernel_folder.as_deref())?;
        private(&self.config.directory)?;
        let shared = self.shared.lock().await;
        let base = Base {
            program: self.config.program.clone(),
            kernel: kernel.clone(),
            busybox: busybox(),
        };
        let base = base.ensure(&self.config.directory).await?;
        let disk = match machine.spec.disk {
            Some(gb) => self.disk(gb).await?,
            None => None,
        };
        drop(shared);
        let directory = self.of(machine);
        private(&directory)?;
        let join = JoinFile {
            server: boot.server.clone(),
            token: boot.join_token.expose().to_owned(),
            name: machine.id().to_string(),
            labels: boot.labels.clone(),
            images: self.config.images.clone(),
        };
        let initrd = directory.join("initrd");
        let to = initrd.clone();
        let composing = move || Base::compose(&base, &join, &to);
        let composed = tokio::task::spawn_blocking(composing).await;
        composed.map_err(|error| ProviderError::Unavailable(error.to_string()))??;
        Ok(Made {
            kernel: kernel.kernel(),
            initrd,
            disk,
        })
    }

    /// An empty file system that disks of this size are clones of: a guest
    /// brings nothing to make one with. Without `mkfs.ext4` here, there is no
    /// disk, and the machine keeps its data in memory.
    async fn disk(&self, gb: u64) -> Result<Option<PathBuf>, ProviderError> {
        let path = self.config.directory.join(format!("disk-{gb}.raw"));
        if path.is_file() {
            return Ok(Some(path));
        }
        let failed =
            |error: io::Error| ProviderError::from(ImageError::file("write", &path)(error));
        let file = new_file(&self.config.directory).map_err(failed)?;
        let bytes = gb.saturating_mul(GB).div_ceil(MIB) * MIB;
        file.as_file().set_len(bytes).map_err(failed)?;
        match format(file.path()).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::warn!("there is no mkfs.ext4: machines have no disks");
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(Some(path))
    }

    /// Takes away what is of one machine alone.
    pub(super) async fn remove(&self, machine: &Target) -> Result<(), ProviderError> {
        let directory = self.of(machine);
        match tokio::fs::remove_dir_all(&directory).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let shown = directory.display();
                let why = format!("cannot remove {shown}: {error}");
                Err(ProviderError::Unavailable(why))
            }
            _ => Ok(()),
        }
    }
}

/// What is not there, or not to be written, will not be the next time either,
/// unless it is a matter of room.
impl From<ImageError> for ProviderError {
    fn from(error: ImageError) -> Self {
        match &error {
            ImageError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self::Unavailable(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

fn private(directory: &Path) -> Result<(), ProviderError> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| ImageError::file("write", directory)(error).into())
}

async fn format(disk: &Path) -> io::Result<()> {
    let lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
    let making = tokio::process::Command::new("mkfs.ext4")
        .args(["-q", "-F", "-m", "0", "-L", DISK_LABEL, "-E", lazy])
        .arg(disk)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let made = tokio::time::timeout(FORMAT_TIMEOUT, making).await;
    let made = made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    match made.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&made.stderr);
            let line = said.lines().last().unwrap_or_default();
            Err(io::Error::other(format!("mkfs.ext4: {line}")))
        }
    }
}
