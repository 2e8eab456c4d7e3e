//! What a client sends to change something: RFC 7396. What is left out
//! stays; `null` gives a field its default again. Objects are merged, lists
//! are replaced.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use strata_types::instance::{HealthSpec, SecuritySpec};
use strata_types::pod::RestartPolicy;

use super::ResourcesInput;

macro_rules! patches {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        ///
        /// `None` is left out; whoever needs a `null` writes the JSON itself.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            /// The image.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(nullable = false, min_length = 1, max_length = 4096))]
            pub uri: Option<String>,
            /// `KEY=VALUE`, all of them.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub environment: Option<Vec<String>>,
            /// What it may use.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub resources: Option<ResourcesInput>,
            /// Processes and threads that it may have at once.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304))]
            pub pids: Option<u32>,
            /// `8080:80`, all of them.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub ports: Option<Vec<String>>,
            /// Instead of the image's entry point.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub command: Option<Vec<String>>,
            /// Instead of the image's command.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub arguments: Option<Vec<String>>,
            /// Instead of the image's user.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub user: Option<String>,
            /// Instead of the image's folder.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub working_directory: Option<String>,
            /// What is mounted into it.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub volumes: Option<Vec<String>>,
            /// Secrets that it is given.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(max_items = 100))]
            pub secrets: Option<Vec<String>>,
            /// Whether an init runs as PID 1, or its own program.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub init: Option<bool>,
            /// What it may do.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub security: Option<SecuritySpec>,
            /// How it is found out whether it works.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub health: Option<HealthSpec>,
            /// What happens when it ends by itself.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub restart: Option<RestartPolicy>,
            /// Between SIGTERM and SIGKILL.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub stop_grace_seconds: Option<u32>,
            /// Merged; a label that is `null` goes.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, Option<String>>>))]
            pub labels: Option<BTreeMap<String, Option<String>>>,
            /// What it asks of its place, merged.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<strata_types::instance::PlacementRules>))]
            pub placement: Option<Value>,
            /// For cloud-init, in a virtual machine.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub user_data: Option<String>,
        }
    )*};
}

patches! {
    /// A change to an instance. Another specification replaces what its node
    /// has of it.
    InstancePatch {
        /// Another name.
        #[cfg_attr(feature = "schema", schema(nullable = false, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", min_length = 1, max_length = 63))]
        name: String,
        /// `RUNNING` starts it, `STOPPED` stops it.
        #[cfg_attr(feature = "schema", schema(nullable = false))]
        status: strata_types::instance::InstanceState,
    }
    /// A change to a workload. Its instances stay as they are.
    WorkloadPatch {
        /// Another name.
        #[cfg_attr(feature = "schema", schema(nullable = false, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", min_length = 1, max_length = 63))]
        name: String,
    }
}
