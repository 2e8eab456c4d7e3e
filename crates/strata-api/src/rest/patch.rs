//! Request bodies that update resources: JSON merge patch, RFC 7396. A field
//! that is left out keeps its value; `null` resets it to its default. Objects
//! are merged, lists are replaced.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use strata_types::instance::{HealthSpec, SecuritySpec};
use strata_types::pod::RestartPolicy;

use super::ResourcesInput;

macro_rules! patches {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        /// `None` is left out; a client that needs `null` writes the JSON
        /// itself.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            /// Image reference.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(nullable = false, min_length = 1, max_length = 4096))]
            pub uri: Option<String>,
            /// Environment variables, `KEY=VALUE`; replaces the list.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub environment: Option<Vec<String>>,
            /// Resource limits.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub resources: Option<ResourcesInput>,
            /// Maximum number of processes and threads.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304))]
            pub pids: Option<u32>,
            /// Published ports, `8080:80`; replaces the list.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub ports: Option<Vec<String>>,
            /// Overrides the entry point of the image.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub command: Option<Vec<String>>,
            /// Overrides the command of the image.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub arguments: Option<Vec<String>>,
            /// Overrides the user of the image.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub user: Option<String>,
            /// Overrides the working directory of the image.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub working_directory: Option<String>,
            /// Volume mounts.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub volumes: Option<Vec<String>>,
            /// Secrets passed to it.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub secrets: Option<Vec<String>>,
            /// Whether an init runs as PID 1 instead of the program.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub init: Option<bool>,
            /// Security settings.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub security: Option<SecuritySpec>,
            /// Health check.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub health: Option<HealthSpec>,
            /// Restart policy.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub restart: Option<RestartPolicy>,
            /// Seconds between SIGTERM and SIGKILL.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub stop_grace_seconds: Option<u32>,
            /// Labels to merge; `null` removes a label.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, Option<String>>>))]
            pub labels: Option<BTreeMap<String, Option<String>>>,
            /// Placement rules, merged.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<strata_types::instance::PlacementRules>))]
            pub placement: Option<Value>,
            /// User data for cloud-init in a virtual machine.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub user_data: Option<String>,
        }
    )*};
}

patches! {
    /// A change to an instance. A changed specification replaces the running
    /// container or virtual machine.
    InstancePatch {
        /// New name.
        #[cfg_attr(feature = "schema", schema(nullable = false, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", min_length = 1, max_length = 63))]
        name: String,
        /// `RUNNING` starts it, `STOPPED` stops it.
        #[cfg_attr(feature = "schema", schema(nullable = false))]
        status: strata_types::instance::InstanceState,
    }
    /// A change to a workload. Its instances are not changed.
    WorkloadPatch {
        /// New name.
        #[cfg_attr(feature = "schema", schema(nullable = false, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", min_length = 1, max_length = 63))]
        name: String,
    }
}
