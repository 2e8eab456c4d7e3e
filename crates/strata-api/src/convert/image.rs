//! Credentials on the wire are secrets: they are not printed.

use std::fmt;

use crate::strata::v1;

impl fmt::Debug for v1::ImageCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageCredentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_does_not_print_its_password() {
        let request = v1::PullImageRequest {
            credentials: Some(v1::ImageCredentials {
                user: "me".into(),
                password: "hunter2".into(),
            }),
            ..Default::default()
        };
        let text = format!("{request:?}");
        assert!(text.contains("me") && !text.contains("hunter2"), "{text}");
    }
}
