//! What of Redfish's resources is read. Vendors leave out what they like, so
//! all may be missing.

use serde::Deserialize;

use crate::call::or_default;

/// The most members of a collection that are read.
pub(super) const MAX_ITEMS: usize = 256;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Link {
    #[serde(rename = "@odata.id", default)]
    pub(super) id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Root {
    pub(super) systems: Option<Link>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Collection {
    #[serde(deserialize_with = "or_default")]
    pub(super) members: Vec<Link>,
    #[serde(rename = "Members@odata.nextLink")]
    pub(super) next: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct System {
    #[serde(rename = "@odata.etag")]
    pub(super) etag: Option<String>,
    pub(super) asset_tag: Option<String>,
    pub(super) power_state: Option<String>,
    pub(super) boot: Option<BootOverride>,
    pub(super) processor_summary: Option<Processors>,
    pub(super) memory_summary: Option<Memory>,
    pub(super) virtual_media: Option<Link>,
    pub(super) storage: Option<Link>,
    pub(super) links: Option<Links>,
    pub(super) actions: Option<SystemActions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BootOverride {
    #[serde(rename = "BootSourceOverrideEnabled")]
    pub(super) enabled: Option<String>,
    #[serde(rename = "BootSourceOverrideTarget")]
    pub(super) target: Option<String>,
    #[serde(rename = "BootSourceOverrideTarget@Redfish.AllowableValues")]
    pub(super) allowed: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Processors {
    pub(super) logical_processor_count: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    #[serde(rename = "TotalSystemMemoryGiB")]
    pub(super) gib: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Links {
    #[serde(deserialize_with = "or_default")]
    pub(super) managed_by: Vec<Link>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SystemActions {
    #[serde(rename = "#ComputerSystem.Reset")]
    pub(super) reset: Option<Reset>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reset {
    pub(super) target: String,
    #[serde(rename = "ResetType@Redfish.AllowableValues")]
    pub(super) allowed: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Action {
    pub(super) target: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Manager {
    pub(super) virtual_media: Option<Link>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Media {
    #[serde(rename = "@odata.etag")]
    pub(super) etag: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) media_types: Vec<String>,
    pub(super) image: Option<String>,
    pub(super) inserted: Option<bool>,
    pub(super) actions: Option<MediaActions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MediaActions {
    #[serde(rename = "#VirtualMedia.InsertMedia")]
    pub(super) insert: Option<Action>,
    #[serde(rename = "#VirtualMedia.EjectMedia")]
    pub(super) eject: Option<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Storage {
    #[serde(deserialize_with = "or_default")]
    pub(super) drives: Vec<Link>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Drive {
    pub(super) name: Option<String>,
    pub(super) actions: Option<DriveActions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DriveActions {
    #[serde(rename = "#Drive.SecureErase")]
    pub(super) secure_erase: Option<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Task {
    pub(super) task_state: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) messages: Vec<Message>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Message {
    pub(super) message: Option<String>,
    pub(super) message_id: Option<String>,
    pub(super) resolution: Option<String>,
}

/// The error of a BMC.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) error: RefusalBody,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RefusalBody {
    pub(super) message: Option<String>,
    #[serde(rename = "@Message.ExtendedInfo", deserialize_with = "or_default")]
    pub(super) extended: Vec<Message>,
}

impl Refusal {
    /// The most reporting of its texts, for people.
    pub(super) fn text(&self) -> Option<String> {
        let reported = |message: &Message| {
            let text = message.message.clone()?;
            Some(match &message.resolution {
                Some(resolution) if resolution != "None" && resolution != "None." => {
                    format!("{text} {resolution}")
                }
                _ => text,
            })
        };
        let extended = self.error.extended.iter().find_map(reported);
        let by_id = || {
            self.error
                .extended
                .iter()
                .find_map(|m| m.message_id.clone())
        };
        let text = extended
            .or_else(|| self.error.message.clone())
            .or_else(by_id)?;
        Some(strata_http::one_line(&text))
    }
}
