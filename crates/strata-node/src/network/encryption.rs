//! Whether this node encrypts the overlay: what the configuration requests,
//! what the kernel has, and the key, which is made once and kept.
//!
//! The key never leaves the node. Other nodes are given the public one by the
//! server, which has it over this node's own link.

use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use strata_api::strata::v1;
use strata_network::{PrivateKey, PublicKey, WireGuardConfig, wireguard_is_available};
use strata_types::{Error, Result};

/// The private key in base64, as WireGuard's own tools write it.
const KEY: &str = "wireguard.key";
/// The UDP port, so that it is the same after a restart.
const PORT: &str = "wireguard.port";
/// The port that others use too; another one where it is taken.
const USUAL_PORT: u16 = 51820;

/// What the configuration requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlayEncryption {
    /// Encrypted with every node that can, in the clear with the others.
    #[default]
    Auto,
    /// Nodes with which nothing can be encrypted are not reached.
    Required,
    Off,
}

/// What this node can.
#[derive(Debug)]
pub(super) enum EncryptionSupport {
    EncryptionIdentity(Box<EncryptionIdentity>),
    /// And why not.
    Plain(String),
}

/// With what it encrypts.
#[derive(Debug)]
pub(super) struct EncryptionIdentity {
    key: PrivateKey,
    public: PublicKey,
    port: AtomicU16,
    /// Holds the port until the kernel listens on it.
    held: Mutex<Option<UdpSocket>>,
}

impl EncryptionSupport {
    /// Looks what the kernel has, and makes a key where there is none.
    pub(super) fn find(wanted: OverlayEncryption, dir: &Path) -> Result<Self> {
        let lack = match wanted {
            OverlayEncryption::Off => "switched off in the configuration",
            _ if !wireguard_is_available() => "the kernel has no WireGuard",
            _ => {
                let encrypts = EncryptionIdentity::new(dir)?;
                return Ok(Self::EncryptionIdentity(Box::new(encrypts)));
            }
        };
        match wanted {
            OverlayEncryption::Auto => tracing::warn!(
                reason = lack,
                "overlay traffic of this node is not encrypted"
            ),
            OverlayEncryption::Required => tracing::error!(
                reason = lack,
                "overlay encryption is required: this node reaches no other node"
            ),
            OverlayEncryption::Off => {}
        }
        Ok(Self::Plain(lack.to_owned()))
    }

    /// What the network is made with. From here on the kernel has the port.
    pub(super) fn config(&self) -> Option<WireGuardConfig> {
        match self {
            Self::EncryptionIdentity(encrypts) => {
                let mut held = encrypts.held.lock().unwrap_or_else(PoisonError::into_inner);
                drop(held.take());
                Some(WireGuardConfig {
                    key: encrypts.key.clone(),
                    port: encrypts.port.load(Ordering::Relaxed),
                })
            }
            Self::Plain(_) => None,
        }
    }

    /// The kernel listens on this port, which others are to know. It is kept,
    /// so that the next start has it too.
    pub(super) fn listens_on(&self, port: u16, dir: &Path) {
        if let Self::EncryptionIdentity(encrypts) = self
            && encrypts.port.swap(port, Ordering::Relaxed) != port
            && let Err(error) = write(dir, PORT, &port.to_string())
        {
            tracing::error!(port, %error, "port of the encrypted overlay not saved");
        }
    }

    /// As reported to the server.
    pub(super) fn report(&self) -> v1::OverlayEncryption {
        match self {
            Self::EncryptionIdentity(encrypts) => v1::OverlayEncryption {
                wireguard_key: encrypts.public.as_bytes().to_vec(),
                wireguard_port: encrypts.port.load(Ordering::Relaxed).into(),
                unencrypted_reason: String::new(),
            },
            Self::Plain(reason) => v1::OverlayEncryption {
                unencrypted_reason: reason.clone(),
                ..v1::OverlayEncryption::default()
            },
        }
    }
}

impl EncryptionIdentity {
    fn new(dir: &Path) -> Result<Self> {
        let key = own_key(dir)?;
        let public = key.public().map_err(|error| bad_key(dir, error))?;
        let (port, held) = own_port(dir)?;
        Ok(Self {
            key,
            public,
            port: AtomicU16::new(port),
            held: Mutex::new(held),
        })
    }
}

fn bad_key(dir: &Path, error: strata_network::KeyError) -> Error {
    let path = dir.join(KEY);
    Error::internal(format!("the overlay's key {} {error}", path.display()))
        .with_hint("delete the file and restart the node: it makes a new key")
}

/// The key of this node, made when it has none.
fn own_key(dir: &Path) -> Result<PrivateKey> {
    match std::fs::read_to_string(dir.join(KEY)) {
        Ok(text) => text.parse().map_err(|error| bad_key(dir, error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = PrivateKey::generate().map_err(|error| bad_key(dir, error))?;
            write(dir, KEY, &key.to_base64())?;
            Ok(key)
        }
        Err(error) => Err(Error::internal(format!("read the overlay's key: {error}"))),
    }
}

/// The port of this node. One that was chosen before may be the kernel's
/// already, so only a new one is held.
fn own_port(dir: &Path) -> Result<(u16, Option<UdpSocket>)> {
    let kept = std::fs::read_to_string(dir.join(PORT)).ok();
    let kept = kept.and_then(|text| text.trim().parse().ok());
    if let Some(port) = kept.filter(|port: &u16| *port != 0) {
        return Ok((port, None));
    }
    let cannot = |error: std::io::Error| {
        Error::internal(format!("choose a UDP port for the overlay: {error}"))
    };
    let held = UdpSocket::bind(("0.0.0.0", USUAL_PORT))
        .or_else(|_| UdpSocket::bind(("0.0.0.0", 0)))
        .map_err(cannot)?;
    let port = held.local_addr().map_err(cannot)?.port();
    write(dir, PORT, &port.to_string())?;
    Ok((port, Some(held)))
}

/// Writes a file that only root reads, whole or not at all.
fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let write = || {
        std::fs::create_dir_all(dir)?;
        let partial = dir.join(format!("{name}.partial"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&partial, dir.join(name))
    };
    let written: std::io::Result<()> = write();
    written.map_err(|error| {
        let path = dir.join(name);
        Error::internal(format!("cannot write {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_root_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let key = own_key(dir.path()).unwrap();
        assert_eq!(own_key(dir.path()).unwrap(), key);
        let mode = std::fs::metadata(dir.path().join(KEY)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        std::fs::write(dir.path().join(KEY), "nonsense").unwrap();
        let error = own_key(dir.path()).unwrap_err().to_string();
        assert!(error.contains(KEY), "{error}");
    }

    #[test]
    fn a_port_is_another_ones_where_the_usual_is_taken_and_is_kept() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, held) = own_port(one.path()).unwrap();
        assert!(held.is_some());
        let (second, _held) = own_port(two.path()).unwrap();
        assert_ne!(first, second);
        assert_eq!(own_port(one.path()).unwrap().0, first);
    }

    #[test]
    fn disabled_encryption_has_no_key_and_reports_it() {
        let dir = tempfile::tempdir().unwrap();
        let ability = EncryptionSupport::find(OverlayEncryption::Off, dir.path()).unwrap();
        assert!(ability.config().is_none());
        let report = ability.report();
        assert!(report.wireguard_key.is_empty());
        assert!(report.unencrypted_reason.contains("configuration"));
        assert!(!dir.path().join(KEY).exists());
    }
}
