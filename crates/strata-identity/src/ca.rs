//! The embedded CA, in one directory; made at first use. It has one root, or two
//! while it is rotated (see [`crate::RotationPhase`]).
//!
//! Everything but the server's own certificate is signed by the root that
//! issues. The server's own stays with the old root until that is retired: a
//! node or client that does not have the new root yet still verifies the server
//! by the old one, receives the new one, and trusts it from then on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use tokio::sync::watch;

use crate::files::{self, FileError, in_full};
use crate::root::Root;
use crate::rotation::RootFiles;
use crate::{
    CertificateId, CertificateRequest, CertificateSpec, Clock, Credentials, Fingerprint, Issued,
    LiveTrust, PrivateKeyPem, RotationPhase, Validity,
};

/// The CA could not be opened, or did not sign.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// One of its files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate without its key signs nothing.
    #[error("{0} is missing beside its certificate; restore it from a backup")]
    KeyLost(PathBuf),
    /// A file that is not what its name says.
    #[error("{path} is not valid: {reason}")]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The CA's own certificate is over.
    #[error("the CA certificate expired at {0}")]
    Ended(Timestamp),
    /// There is nothing to go on with.
    #[error("no CA rotation is in progress")]
    NoRotation,
    /// A step that comes after another.
    #[error("the next root signs nothing yet")]
    NotActive,
    /// The roots cannot be used.
    #[error("the roots cannot be used")]
    Trust(#[from] crate::TlsError),
    /// The signing itself failed.
    #[error("cannot sign")]
    Sign(#[from] rcgen::Error),
}

impl From<CaError> for strata_types::Error {
    fn from(error: CaError) -> Self {
        match error {
            CaError::Ended(_) => Self::wrong_state(error.to_string()),
            CaError::NoRotation => {
                Self::wrong_state(error.to_string()).with_hint("start one: strata ca rotate")
            }
            CaError::NotActive => Self::wrong_state(error.to_string())
                .with_hint("activate it first: strata ca activate"),
            _ => Self::internal(in_full(&error)),
        }
    }
}

/// Signs certificates for one installation of the product.
pub struct Ca {
    files: RootFiles,
    roots: ArcSwap<Roots>,
    trust: Arc<LiveTrust>,
    changed: watch::Sender<()>,
    /// One step at a time.
    stepping: Mutex<()>,
    clock: Clock,
    observer: OnceLock<Observer>,
    serving: Mutex<Vec<Serving>>,
}

/// Has a server show a certificate of the root that serves now.
type Serving = Box<dyn Fn() + Send + Sync>;

/// Observer of certificates issued in this process.
type Observer = Box<dyn Fn(CertificateId) + Send + Sync>;

/// The roots there are now.
#[derive(Clone)]
enum Roots {
    Stable(Arc<Root>),
    Introduced { old: Arc<Root>, new: Arc<Root> },
    Issuing { old: Arc<Root>, new: Arc<Root> },
}

impl Roots {
    const fn phase(&self) -> RotationPhase {
        match self {
            Self::Stable(_) => RotationPhase::Stable,
            Self::Introduced { .. } => RotationPhase::Introduced,
            Self::Issuing { .. } => RotationPhase::Issuing,
        }
    }

    /// The root that signs for callers.
    const fn issuing(&self) -> &Arc<Root> {
        match self {
            Self::Stable(root) | Self::Introduced { old: root, .. } => root,
            Self::Issuing { new, .. } => new,
        }
    }

    /// The root that signs the server's own certificate.
    const fn serving(&self) -> &Arc<Root> {
        match self {
            Self::Stable(root)
            | Self::Introduced { old: root, .. }
            | Self::Issuing { old: root, .. } => root,
        }
    }

    const fn next(&self) -> Option<&Arc<Root>> {
        match self {
            Self::Stable(_) => None,
            Self::Introduced { new, .. } | Self::Issuing { new, .. } => Some(new),
        }
    }

    fn trusted_pem(&self) -> String {
        let mut pem = self.serving().pem.trim_end().to_owned();
        if let Some(next) = self.next() {
            pem.push('\n');
            pem.push_str(next.pem.trim_end());
        }
        pem.push('\n');
        pem
    }
}

/// What is known of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootInfo {
    /// What joining nodes know it by.
    pub fingerprint: Fingerprint,
    /// What its certificates have as [`CertificateId::issuer`].
    pub id: String,
    /// When it begins and ends.
    pub validity: Validity,
}

impl From<&Arc<Root>> for RootInfo {
    fn from(root: &Arc<Root>) -> Self {
        Self {
            fingerprint: root.fingerprint,
            id: root.id.clone(),
            validity: root.validity,
        }
    }
}

/// How far a rotation is, and between which roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// How far the rotation is.
    pub phase: RotationPhase,
    /// The root there was; the only one, where there is no rotation.
    pub current: RootInfo,
    /// The root to come.
    pub next: Option<RootInfo>,
}

impl Ca {
    /// The CA in `directory`, made if there is none.
    pub fn open(directory: &Path) -> Result<Self, CaError> {
        Self::open_with_clock(directory, Clock::system())
    }

    /// Like [`Ca::open`], by another clock.
    pub fn open_with_clock(directory: &Path, clock: Clock) -> Result<Self, CaError> {
        files::own_dir(directory)?;
        let files = RootFiles::new(directory);
        let phase = files.phase()?;
        let (key, certificate) = files.current();
        let old = Arc::new(Root::open_or_create(&key, &certificate, &clock)?);
        let (key, certificate) = files.next();
        let next = || Root::open(&key, &certificate).map(Arc::new);
        let roots = match phase {
            RotationPhase::Stable => Roots::Stable(old),
            RotationPhase::Introduced => Roots::Introduced { old, new: next()? },
            RotationPhase::Issuing => Roots::Issuing { old, new: next()? },
        };
        Ok(Self {
            files,
            trust: Arc::new(LiveTrust::new(&roots.trusted_pem())?),
            roots: ArcSwap::from_pointee(roots),
            changed: watch::Sender::new(()),
            stepping: Mutex::new(()),
            clock,
            observer: OnceLock::new(),
            serving: Mutex::default(),
        })
    }

    /// The trusted roots in PEM, for distribution.
    pub fn ca_pem(&self) -> String {
        self.trust.pem()
    }

    /// The roots that are trusted, as they change.
    pub fn trust(&self) -> Arc<LiveTrust> {
        self.trust.clone()
    }

    /// What joining nodes know the server by: the root of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.roots.load().serving().fingerprint
    }

    /// What the certificates of the root that issues have as
    /// [`CertificateId::issuer`].
    pub fn issuer(&self) -> String {
        self.roots.load().issuing().id.clone()
    }

    /// When the root that issues begins and ends.
    pub fn validity(&self) -> Validity {
        self.roots.load().issuing().validity
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How far a rotation is.
    pub fn rotation(&self) -> Rotation {
        let roots = self.roots.load();
        Rotation {
            phase: roots.phase(),
            current: roots.serving().into(),
            next: roots.next().map(RootInfo::from),
        }
    }

    /// Wakes with every step of a rotation: a holder of a certificate of this
    /// CA in this process has it issued again.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Makes a second root, which is trusted from now on and signs nothing.
    /// Idempotent: answers whether there was none.
    pub fn introduce(&self) -> Result<bool, CaError> {
        let _one = self.step();
        let Roots::Stable(old) = self.roots() else {
            return Ok(false);
        };
        let _files = self.files.lock()?;
        self.files.discard_next()?;
        let (key, certificate) = self.files.next();
        let new = Arc::new(Root::create(&key, &certificate, &self.clock)?);
        self.files.introduced()?;
        self.take(Roots::Introduced { old, new })?;
        Ok(true)
    }

    /// Has the second root sign from now on. Idempotent: answers whether it did
    /// not before.
    pub fn activate(&self) -> Result<bool, CaError> {
        let _one = self.step();
        match self.roots() {
            Roots::Stable(_) => Err(CaError::NoRotation),
            Roots::Issuing { .. } => Ok(false),
            Roots::Introduced { old, new } => {
                let _files = self.files.lock()?;
                self.files.activated()?;
                self.take(Roots::Issuing { old, new })?;
                Ok(true)
            }
        }
    }

    /// Trusts the first root no more, destroys its key, and has the second
    /// take its place.
    pub fn retire(&self) -> Result<(), CaError> {
        let _one = self.step();
        match self.roots() {
            Roots::Stable(_) => Err(CaError::NoRotation),
            Roots::Introduced { .. } => Err(CaError::NotActive),
            Roots::Issuing { new, .. } => {
                let _files = self.files.lock()?;
                self.files.retire()?;
                self.take(Roots::Stable(new))
            }
        }
    }

    fn step(&self) -> MutexGuard<'_, ()> {
        self.stepping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roots(&self) -> Roots {
        Roots::clone(&self.roots.load())
    }

    /// Has `serve` called whenever another root serves, before any client is
    /// sent that root as its only one: a client that trusts it alone can verify
    /// the server.
    pub fn on_serving_change(&self, serve: impl Fn() + Send + Sync + 'static) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.push(Box::new(serve));
    }

    /// Certificates follow the roots, and trust comes with both: a task that is
    /// woken finds what is on disk.
    fn take(&self, roots: Roots) -> Result<(), CaError> {
        let pem = roots.trusted_pem();
        self.roots.store(Arc::new(roots));
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.iter().for_each(|serve| serve());
        drop(serving);
        self.trust.replace(&pem)?;
        self.changed.send_replace(());
        Ok(())
    }

    /// Certifies the key of `request`.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        spec: &CertificateSpec,
    ) -> Result<Issued, CaError> {
        self.certify(&request.key, spec)
    }

    /// Has `observer` called with every certificate of a caller that
    /// [`Ca::issue`] makes from now on. Only the first observer is kept.
    pub fn on_issue(&self, observer: impl Fn(CertificateId) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Makes a key and certifies it, for holders on this machine.
    pub fn issue(&self, spec: &CertificateSpec) -> Result<Credentials, CaError> {
        self.issue_for(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?, spec)
    }

    /// Certifies a key that its holder on this machine keeps.
    pub fn issue_to(
        &self,
        key: &PrivateKeyPem,
        spec: &CertificateSpec,
    ) -> Result<Credentials, CaError> {
        self.issue_for(&KeyPair::from_pem(key.expose())?, spec)
    }

    fn issue_for(&self, key: &KeyPair, spec: &CertificateSpec) -> Result<Credentials, CaError> {
        let issued = self.certify(key, spec)?;
        if let (Some(observer), Some(id)) = (self.observer.get(), issued.id()) {
            observer(id);
        }
        Ok(Credentials {
            ca_pem: self.ca_pem(),
            certificate_pem: issued.certificate_pem,
            key_pem: PrivateKeyPem::new(key.serialize_pem()),
        })
    }

    fn certify(&self, key: &impl PublicKeyData, spec: &CertificateSpec) -> Result<Issued, CaError> {
        let roots = self.roots.load();
        let root = match spec.is_server() {
            true => roots.serving(),
            false => roots.issuing(),
        };
        let validity = spec.validity(self.clock.now(), root.validity)?;
        let certificate = spec.params(validity)?.signed_by(key, &root.issuer)?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            validity,
        })
    }
}

/// Its key is not for printing.
impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca")
            .field("rotation", &self.rotation())
            .finish_non_exhaustive()
    }
}
