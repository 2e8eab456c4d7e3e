//! Platforms as people write them.

use strata_image::Platform;
use strata_types::{Error, Result};

/// `linux/arm64/v8`, `linux/amd64` or `amd64`; empty is this machine's own.
pub(crate) fn platform_from_field(field: &str, text: &str) -> Result<Platform> {
    if text.is_empty() {
        return Ok(Platform::host());
    }
    let word = |word: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
        (1..=32).contains(&word.len()) && word.chars().all(fits)
    };
    let words: Vec<&str> = text.split('/').collect();
    let (os, architecture, variant) = match words.as_slice() {
        [architecture] => ("linux", *architecture, None),
        [os, architecture] => (*os, *architecture, None),
        [os, architecture, variant] => (*os, *architecture, Some(*variant)),
        _ => ("", "", None),
    };
    if os != "linux" || !word(architecture) || !variant.is_none_or(word) {
        return Err(Error::invalid(
            field,
            "must be as linux/amd64, linux/arm64/v8 or arm64",
        ));
    }
    Ok(Platform {
        os: os.into(),
        architecture: architecture.into(),
        variant: variant.unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_read_and_others_refused() {
        let read = |text| platform_from_field("platform", text).map(|p| p.to_string());
        assert_eq!(read("arm64").unwrap(), "linux/arm64");
        assert_eq!(read("linux/arm/v7").unwrap(), "linux/arm/v7");
        assert_eq!(read("").unwrap(), Platform::host().to_string());
        for bad in [
            "windows/amd64",
            "linux/",
            "a/b/c/d",
            "linux/AMD64",
            "linux/amd64/",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
