//! Roles: an explicit table to and from the wire.

use strata_types::{Error, Role};

use crate::strata::v1;

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Admin => Self::Admin,
            Role::Operator => Self::Operator,
            Role::Viewer => Self::Viewer,
            Role::Node => Self::Node,
        }
    }
}

impl TryFrom<v1::Role> for Role {
    type Error = Error;

    fn try_from(role: v1::Role) -> Result<Self, Error> {
        match role {
            v1::Role::Admin => Ok(Self::Admin),
            v1::Role::Operator => Ok(Self::Operator),
            v1::Role::Viewer => Ok(Self::Viewer),
            v1::Role::Node => Ok(Self::Node),
            v1::Role::Unspecified => Err(Error::invalid(
                "role",
                "must be one of admin, operator, viewer, node",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_comes_back() {
        for role in Role::ALL {
            assert_eq!(Role::try_from(v1::Role::from(role)).unwrap(), role);
        }
    }
}
