//! Paths of the node's machine. The node stands in another directory than the
//! user, so what was typed is made absolute here. The paths are the node's:
//! whether there is something, only it can tell.

/// The path as seen from the user's directory, absolute.
pub(crate) fn absolute(text: &str) -> Result<String, String> {
    let path = std::path::absolute(text).map_err(|why| format!("{text:?} is not a path: {why}"))?;
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_users_directory() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute("a/b"), Ok(here.join("a/b").display().to_string()));
        assert_eq!(absolute("/a/b"), Ok("/a/b".into()));
        assert!(absolute("").is_err());
    }
}
