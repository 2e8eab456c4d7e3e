//! The grammar of image names, as Docker and the distribution specification
//! have it. One pass, no regular expressions: each refusal knows its reason.

use std::path::PathBuf;

use super::{Reference, ReferenceError, RegistryReference};

const DEFAULT_HOST: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";
/// A path of the system, a tag and a digest fit.
pub(super) const MAX_TEXT: usize = 4096;

pub(super) fn reference(text: &str) -> Result<Reference, ReferenceError> {
    if text.is_empty() {
        return Err(ReferenceError::Empty);
    }
    if text.len() > MAX_TEXT {
        return Err(ReferenceError::TooLong(text.len()));
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(ReferenceError::Character(c));
    }
    if let Some(rest) = text.strip_prefix("oci:") {
        return layout(rest);
    }
    if let Some(path) = text.strip_prefix("docker-archive:") {
        if path.is_empty() {
            return Err(ReferenceError::NoPath("docker-archive:"));
        }
        return Ok(Reference::Archive {
            path: PathBuf::from(path),
        });
    }
    registry(text).map(Reference::Registry)
}

/// A colon behind the last slash starts the tag; one before it is of the path.
fn layout(rest: &str) -> Result<Reference, ReferenceError> {
    let name = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (path, tag) = match rest[name..].rfind(':') {
        Some(colon) => (
            &rest[..name + colon],
            Some(tag(&rest[name + colon + 1..])?.to_owned()),
        ),
        None => (rest, None),
    };
    if path.is_empty() {
        return Err(ReferenceError::NoPath("oci:"));
    }
    Ok(Reference::Layout {
        path: PathBuf::from(path),
        tag,
    })
}

fn registry(text: &str) -> Result<RegistryReference, ReferenceError> {
    if let Some(end) = text.find("://") {
        return Err(ReferenceError::Scheme(text[..end + 3].to_owned()));
    }
    if let Some(c) = text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !"._-/:@[]".contains(*c))
    {
        return Err(ReferenceError::Character(c));
    }
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest.parse()?)),
        None => (text, None),
    };
    let (host, rest) = split_host(name)?;
    let (repository, given_tag) = match rest.rsplit_once(':') {
        Some((repository, text)) => (repository, Some(tag(text)?.to_owned())),
        None => (rest, None),
    };
    check_repository(repository)?;
    let repository = if host == DEFAULT_HOST && !repository.contains('/') {
        format!("library/{repository}")
    } else {
        repository.to_owned()
    };
    if repository.len() > 255 {
        return Err(ReferenceError::RepositoryTooLong(repository.len()));
    }
    let tag = match (given_tag, &digest) {
        (None, None) => Some(DEFAULT_TAG.to_owned()),
        (tag, _) => tag,
    };
    Ok(RegistryReference {
        host,
        repository,
        tag,
        digest,
    })
}

/// The first part is a host when it could not be a repository: it has a dot
/// or a port, is `localhost`, or an address in brackets.
fn split_host(name: &str) -> Result<(String, &str), ReferenceError> {
    let Some((first, rest)) = name.split_once('/') else {
        return Ok((DEFAULT_HOST.to_owned(), name));
    };
    let host = first.to_ascii_lowercase();
    if !host.contains(['.', ':', '[']) && host != "localhost" {
        // Docker takes capital letters for a sign of a host. Kept in lower case
        // as all hosts are, `HOST/app` would be read again as an image of
        // Docker Hub, which somebody else may own.
        return match first == host {
            true => Ok((DEFAULT_HOST.to_owned(), name)),
            false => Err(ReferenceError::UpperCase(first.to_owned())),
        };
    }
    check_host(&host)?;
    let host = match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_HOST.to_owned(),
        _ => host,
    };
    Ok((host, rest))
}

fn check_host(host: &str) -> Result<(), ReferenceError> {
    let refuse = || ReferenceError::Host(host.to_owned());
    let port_fits = |port: &str| {
        !port.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port != 0)
    };
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or_else(refuse)?;
        let port_is_good = port.is_empty() || port.strip_prefix(':').is_some_and(port_fits);
        return if address.parse::<std::net::Ipv6Addr>().is_ok() && port_is_good {
            Ok(())
        } else {
            Err(refuse())
        };
    }
    let name = match host.split_once(':') {
        Some((name, port)) if port_fits(port) => name,
        Some(_) => return Err(refuse()),
        None => host,
    };
    let label_fits = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if name.len() <= 253 && name.split('.').all(label_fits) {
        Ok(())
    } else {
        Err(refuse())
    }
}

fn check_repository(repository: &str) -> Result<(), ReferenceError> {
    if repository.is_empty() {
        return Err(ReferenceError::Empty);
    }
    if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(ReferenceError::UpperCase(repository.to_owned()));
    }
    match repository.split('/').find(|part| !part_fits(part)) {
        Some(part) => Err(ReferenceError::Part(part.to_owned())),
        None => Ok(()),
    }
}

/// Letters and digits; between them one dot, one or two underscores, or any
/// number of dashes.
fn part_fits(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    if !is_word(first) || !is_word(last) {
        return false;
    }
    part.split(|c: char| is_word(c as u8))
        .filter(|gap| !gap.is_empty())
        .all(|gap| matches!(gap, "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-'))
}

fn tag(text: &str) -> Result<&str, ReferenceError> {
    let fits = (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if fits {
        Ok(text)
    } else {
        Err(ReferenceError::Tag(text.chars().take(140).collect()))
    }
}
