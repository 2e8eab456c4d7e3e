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
            _ => Err(format!("{text:?} is not a label; write it as key=value")),
        }
    }
}

/// `key=value` says it, `key-` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelChange(pub(crate) String, pub(crate) Option<String>);

impl FromStr for LabelChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(LabelArg(key, value)) = text.parse() {
            return Ok(Self(key, Some(value)));
        }
        match text.strip_suffix('-') {
            Some(key) if !key.is_empty() && !key.contains('=') => Ok(Self(key.to_owned(), None)),
            _ => Err(format!(
                "{text:?} is not a label; write key=value, or key- to remove it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_takes_a_label_away() {
        let change = |text: &str| text.parse::<LabelChange>();
        assert_eq!(
            change("a=b-"),
            Ok(LabelChange("a".into(), Some("b-".into())))
        );
        assert_eq!(change("a-"), Ok(LabelChange("a".into(), None)));
        assert_eq!(
            change("a="),
            Ok(LabelChange("a".into(), Some(String::new())))
        );
        assert!(change("-").is_err() && change("a").is_err() && change("=a-").is_err());
    }

    #[test]
    fn the_first_sign_divides() {
        let label: LabelArg = "app=a=b".parse().unwrap();
        assert_eq!(label, LabelArg("app".into(), "a=b".into()));
        assert!("app".parse::<LabelArg>().is_err());
        assert!("=x".parse::<LabelArg>().is_err());
    }
}
