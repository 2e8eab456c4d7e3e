//! Type of an instance.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Type of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum InstanceKind {
    /// A container.
    #[default]
    Container,
    /// A virtual machine.
    Vm,
}

impl InstanceKind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Container, Self::Vm];

    /// The name on the wire of the REST API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Container => "CONTAINER",
            Self::Vm => "VM",
        }
    }
}

impl fmt::Display for InstanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
