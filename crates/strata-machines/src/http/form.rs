//! Forms, as MAAS takes them.

use std::fmt::Write as _;

/// `a=b&c=d%20e`.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        encode(&mut text, name);
        text.push('=');
        encode(&mut text, value);
    }
    text
}

fn encode(to: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_means_something_in_a_form_is_escaped() {
        let text = super::form(&[("a", "b c&d=é"), ("op", "x")]);
        assert_eq!(text, "a=b%20c%26d%3D%C3%A9&op=x");
    }
}
