//! The answers that images for clouds look for at their first boot: a disk
//! with the label `cidata` (cloud-init's NoCloud), as an ISO 9660 image.

use std::path::Path;

use strata_bootimage::files_image;
use strata_types::{Error, Label};

use crate::DiskError;

/// The longest file: what a person writes, not a disk.
const MAX_FILE_LEN: usize = 1 << 20;

/// What a guest receives at its first boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Names this guest: with another one, it takes it for its first boot.
    pub instance_id: String,
    /// What it calls itself.
    pub hostname: Label,
    /// Keys that may log in, as lines of `authorized_keys`.
    pub ssh_keys: Vec<String>,
    /// `#cloud-config` or a script; empty for none.
    pub user_data: String,
    /// How its network is set; none for DHCP.
    pub network_config: Option<String>,
}

impl Seed {
    pub fn check(&self) -> Result<(), Error> {
        let one_line = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        if !one_line(&self.instance_id) {
            return Err(Error::invalid("instance_id", "must be one line of text"));
        }
        for (number, key) in self.ssh_keys.iter().enumerate() {
            if !one_line(key) {
                let field = format!("ssh_keys[{number}]");
                return Err(Error::invalid(field, "must be one line of text"));
            }
        }
        let network = self.network_config.as_deref().unwrap_or_default();
        for (field, text) in [("user_data", &*self.user_data), ("network_config", network)] {
            if text.len() > MAX_FILE_LEN {
                let why = format!("is {} bytes long; 1 MiB is the most", text.len());
                return Err(Error::invalid(field, why));
            }
        }
        Ok(())
    }

    /// Writes the image. A file that is there already stays.
    pub fn write(&self, to: &Path) -> Result<(), Error> {
        use std::io::Write as _;
        self.check()?;
        let image = self.image();
        let written: Result<(), DiskError> = crate::disk::finish(to, |file| file.write_all(&image));
        written.map_err(Into::into)
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        let meta = self.meta_data();
        let user = if self.user_data.is_empty() {
            "#cloud-config\n"
        } else {
            &self.user_data
        };
        let mut files = vec![
            ("meta-data", meta.as_bytes()),
            ("user-data", user.as_bytes()),
        ];
        if let Some(network) = &self.network_config {
            files.insert(1, ("network-config", network.as_bytes()));
        }
        files_image("cidata", &files)
    }

    /// JSON, which is YAML with all its quotes.
    fn meta_data(&self) -> String {
        let mut meta = serde_json::json!({
            "instance-id": self.instance_id,
            "local-hostname": self.hostname.as_str(),
        });
        if !self.ssh_keys.is_empty() {
            meta["public-keys"] = self.ssh_keys.clone().into();
        }
        format!("{meta}\n")
    }
}
