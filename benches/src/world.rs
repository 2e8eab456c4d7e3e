//! A daemon in a network namespace of its own, so that it shares its bridge
//! with no other, with an image to make pods from.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use strata_testkit::images::Image;
use strata_testkit::v1::{PodSpec, PullImageRequest, RestartPolicy};
use strata_testkit::{Daemon, NetworkNamespace, Node};

use crate::Result;

/// The static program that all measurements run.
pub(crate) const PROGRAM: &str = "/bin/busybox";

pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) daemon: Daemon,
    pub(crate) network: NetworkNamespace,
    pub(crate) dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(binary: &Path) -> Result<Self> {
        let network = NetworkNamespace::new();
        let daemon = Daemon::build(binary)
            .role("node")
            .within(&network)
            .start()
            .await;
        let node = daemon.node().await;
        Ok(Self {
            node,
            daemon,
            network,
            dir: tempfile::tempdir()?,
        })
    }

    /// Where the layout of this image is.
    pub(crate) fn layout(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Busybox as an image, written but not pulled yet; what it is called.
    pub(crate) fn busybox(&self) -> String {
        Image::busybox().write_layout(&self.layout("busybox"), "latest")
    }

    pub(crate) async fn pull(&self, reference: &str) -> Result {
        let request = PullImageRequest {
            reference: reference.into(),
            ..PullImageRequest::default()
        };
        let answer = self.node.client().images().pull(request).await?;
        let mut progress = answer.into_inner();
        let mut pulled = false;
        while let Some(message) = progress.message().await? {
            pulled |= message.image.is_some();
        }
        if !pulled {
            return Err(format!("{reference} was not pulled").into());
        }
        Ok(())
    }

    pub(crate) async fn remove_image(&self, reference: &str) -> Result {
        let request = strata_testkit::v1::RemoveImageRequest {
            image: reference.into(),
        };
        self.node.client().images().remove(request).await?;
        Ok(())
    }
}

/// A pod that runs this command, once, and ends at the first signal.
pub(crate) fn pod(name: &str, image: &str, command: &[&str]) -> PodSpec {
    let mut pod = PodSpec {
        name: name.into(),
        image: image.into(),
        entrypoint: command.iter().map(|word| (*word).to_owned()).collect(),
        stop_grace_ms: Some(0),
        ..PodSpec::default()
    };
    pod.set_restart(RestartPolicy::Never);
    pod
}

/// Runs something on a thread in a network namespace.
pub(crate) fn within<T: Send>(
    network: &NetworkNamespace,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let file = std::fs::File::open(network.path())?;
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map(|()| work())
        });
        let done = running.join().map_err(|_| "a thread panicked")?;
        Ok(done?)
    })
}

/// Lets the kernel finish with what was removed before, a network namespace
/// above all, which it does in its own time and at the cost of the next
/// measurement.
pub(crate) fn rest() {
    std::thread::sleep(std::time::Duration::from_millis(30));
}

/// Lets the disk finish with what was written before, outside of any
/// measurement.
pub(crate) fn settle() {
    rustix::fs::sync();
}
