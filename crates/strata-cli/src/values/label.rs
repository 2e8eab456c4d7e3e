//! Labels: `key=value`, put on things and asked for again.

use std::str::FromStr;

/// One `--label`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelArg(pub(crate) String, pub(crate) String);

impl FromStr for LabelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self(key.to_owned(), value.to_owned())),
            _ => Err(format!("{text:?} is no label; write it as key=value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sign_divides() {
        let label: LabelArg = "app=a=b".parse().unwrap();
        assert_eq!(label, LabelArg("app".into(), "a=b".into()));
        assert!("app".parse::<LabelArg>().is_err());
        assert!("=x".parse::<LabelArg>().is_err());
    }
}
