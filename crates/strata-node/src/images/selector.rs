//! Which image is meant: a name in full, a digest or the beginning of one, or
//! the end of a name. Pure: what there is goes in, which of it comes out.

use strata_image::{Digest, Reference};
use strata_types::{Error, Result};

/// Fewer digits fit too many.
const MIN_DIGITS: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Selector {
    field: String,
    text: String,
    /// As a name, in full.
    name: Option<String>,
    /// As the beginning of a digest.
    digits: Option<String>,
}

impl Selector {
    pub(super) fn from_field(field: &str, text: &str) -> Result<Self> {
        let bare = text.strip_prefix("sha256:");
        let is_digits = |text: &&str| {
            (MIN_DIGITS..=64).contains(&text.len())
                && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let digits = Some(bare.unwrap_or(text)).filter(is_digits);
        let name = match (text.parse::<Reference>(), bare) {
            // `sha256:abc` would be a tag of an image called sha256.
            (_, Some(_)) if digits.is_some() => None,
            (Ok(reference), _) => Some(reference.to_string()),
            (Err(_), _) if digits.is_some() => None,
            (Err(error), _) => return Err(Error::from(error).in_field(field)),
        };
        Ok(Self {
            field: field.to_owned(),
            text: text.to_owned(),
            name,
            digits: digits.map(str::to_owned),
        })
    }

    /// The places of those that are meant: one by its name, or all names of
    /// one digest. None when there is no such image.
    pub(super) fn pick(&self, all: &[(String, Digest)]) -> Result<Vec<usize>> {
        let places = |fits: &dyn Fn(&(String, Digest)) -> bool| -> Vec<usize> {
            let mount_op = all.iter().enumerate().filter(|(_, image)| fits(image));
            mount_op.map(|(place, _)| place).collect()
        };
        let exact = places(&|(name, _)| self.name.as_ref() == Some(name));
        if !exact.is_empty() {
            return Ok(exact);
        }
        if let Some(digits) = &self.digits {
            let same = places(&|(_, digest)| digest.hex().starts_with(digits));
            let mut digests: Vec<String> =
                same.iter().map(|place| all[*place].1.to_string()).collect();
            digests.sort();
            digests.dedup();
            match digests.len() {
                0 => {}
                1 => return Ok(same),
                _ => return Err(self.ambiguous(&digests)),
            }
        }
        // `app:v1` for `registry.lan:5000/team/app:v1`, as lists are read.
        let tag = format!("/{}:latest", self.text);
        let end = format!("/{}", self.text);
        let ending = places(&|(name, _)| name.ends_with(&end) || name.ends_with(&tag));
        match ending.len() {
            0 | 1 => Ok(ending),
            _ => {
                let names: Vec<String> = ending.iter().map(|place| all[*place].0.clone()).collect();
                Err(self.ambiguous(&names))
            }
        }
    }

    fn ambiguous(&self, several: &[String]) -> Error {
        let shown = several.iter().take(5).cloned().collect::<Vec<_>>();
        Error::invalid(
            &self.field,
            format!("{} may be {}", self.text, shown.join(", ")),
        )
        .with_hint("write more of it")
    }

    /// That there is no such image.
    pub(super) fn unknown(&self) -> Error {
        Error::not_found(format!("there is no image {}", self.text))
            .with_hint("`strata image list` shows those there are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, Digest)> {
        let digest = |start: &str| Digest::from_hex(&format!("{start:0<64}")).unwrap();
        [
            ("docker.io/library/nginx:latest", "aaaa1"),
            ("docker.io/library/nginx:1.27", "aaaa1"),
            ("r.lan:5000/team/app:v1", "aaaa2"),
            ("r.lan:5000/team/app:latest", "cafe"),
            ("r.lan:5000/other/app:v1", "bbbb"),
            ("docker.io/library/cafe:latest", "dddd"),
            ("oci:/srv/x:v1", "eeee"),
        ]
        .map(|(name, start)| (name.to_owned(), digest(start)))
        .into()
    }

    fn pick(text: &str) -> Result<Vec<usize>> {
        Selector::from_field("image", text)?.pick(&all())
    }

    #[test]
    fn names_digests_and_their_beginnings_are_found() {
        for (text, places) in [
            ("nginx", vec![0]),
            ("nginx:1.27", vec![1]),
            ("sha256:aaaa1", vec![0, 1]),
            ("aaaa2", vec![2]),
            ("team/app:v1", vec![2]),
            ("app", vec![3]),
            ("team/app", vec![3]),
            // A name wins over the beginning of a digest.
            ("cafe", vec![5]),
            ("sha256:cafe", vec![3]),
            ("oci:/srv/x:v1", vec![6]),
            ("redis", vec![]),
            ("ffff", vec![]),
        ] {
            assert_eq!(pick(text).unwrap(), places, "{text}");
        }
    }

    #[test]
    fn ambiguous_image_selector_is_refused() {
        for text in ["aaaa", "app:v1", "A B", "", "https://x"] {
            let error = pick(text).unwrap_err();
            assert_eq!(error.field(), Some("image"), "{text}");
        }
    }
}
