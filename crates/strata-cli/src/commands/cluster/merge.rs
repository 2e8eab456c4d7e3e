//! Credentials put among others in a file of kubectl's. What is in it of other
//! clusters stays as it is; the file is written whole or not at all, for its
//! owner alone.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use strata_client::write_private;

use crate::failure::{Exit, Failure, Result};

/// Maximum size of a kubeconfig.
const MAX_FILE: u64 = 16 << 20;
/// The lists of a kubeconfig, and what an entry of each holds.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// Merges the one cluster of `issued` into `file` as `context`. Answers whether
/// it is the one that kubectl uses then.
pub(super) fn into(file: &Path, issued: &str, context: &str, current: bool) -> Result<bool> {
    let file = followed(file)?;
    let before = match std::fs::metadata(&file) {
        Ok(found) if found.len() > MAX_FILE => return Err(foreign(&file, "it is too large")),
        Ok(_) => {
            std::fs::read_to_string(&file).map_err(|why| Failure::file("read", &file, &why))?
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(Failure::file("read", &file, &why)),
    };
    let all = read(&before).map_err(|why| foreign(&file, &why))?;
    let ours = read(issued)
        .map_err(|why| Failure::new(Exit::Server, "the server sent no kubeconfig").because(why))?;
    let merged = merged(all, &ours, context, current).map_err(|why| foreign(&file, why))?;
    let is_current = merged.get("current-context") == Some(&json!(context));
    let text = written(&merged)?;
    write_private(&file, text.as_bytes())?;
    Ok(is_current)
}

/// Target of a symbolic link: the link itself is kept.
fn followed(file: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(file) {
        Ok(real) => Ok(real),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(file.to_owned()),
        Err(why) => Err(Failure::file("read", file, &why)),
    }
}

fn foreign(file: &Path, why: &str) -> Failure {
    let what = format!("{} is not a kubeconfig", file.display());
    Failure::new(Exit::Refused, what)
        .because(why)
        .hint("choose another file: --merge FILE, or --output FILE")
}

/// An object, or nothing at all. Only `true` and `false` are truths: a user
/// may be called `yes`.
fn read(text: &str) -> std::result::Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    let read = serde_saphyr::from_str_with_options::<Value>(text, options);
    match read {
        Ok(Value::Object(all)) => Ok(all),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("it is not a mapping".to_owned()),
        Err(why) => Err(why
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

/// Every text is quoted: what one reader takes for a text, another takes for a
/// number or a truth.
fn written(all: &Map<String, Value>) -> Result<String> {
    let options = serde_saphyr::ser_options! { quote_all: true };
    let text = serde_saphyr::to_string_with_options(all, options);
    text.map_err(|why| {
        Failure::new(Exit::Unexpected, "cannot write a kubeconfig").because(why.to_string())
    })
}

/// `all` with the one cluster of `ours`, under one name in all lists: those
/// that the server gives may be those of another cluster's user.
fn merged(
    mut all: Map<String, Value>,
    ours: &Map<String, Value>,
    context: &str,
    current: bool,
) -> std::result::Result<Map<String, Value>, &'static str> {
    for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        all.entry(key).or_insert_with(|| json!(value));
    }
    for (list, what) in LISTS {
        let inner = match what {
            "context" => json!({ "cluster": context, "user": context }),
            _ => ours
                .get(list)
                .and_then(|list| list.get(0)?.get(what).cloned())
                .unwrap_or_default(),
        };
        let entry = json!({ "name": context, what: inner });
        let there = all.entry(list).or_insert(Value::Null);
        match there {
            Value::Null => *there = json!([entry]),
            Value::Array(there) => match there.iter_mut().find(|one| one["name"] == context) {
                Some(one) => *one = entry,
                None => there.push(entry),
            },
            _ => return Err("clusters, users and contexts must be lists"),
        }
    }
    let now = all.entry("current-context").or_insert_with(|| json!(""));
    if current || now.as_str().is_none_or(str::is_empty) {
        *now = json!(context);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ISSUED: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: dev
  cluster:
    server: https://127.0.0.1:7800
    certificate-authority-data: Q0E=
users:
- name: \"strata:ann:1\"
  user:
    client-key-data: S0VZ
contexts:
- name: \"strata:ann:1@dev\"
  context:
    cluster: dev
    user: \"strata:ann:1\"
current-context: \"strata:ann:1@dev\"
";

    const OTHERS: &str = "\
# kept by hand
apiVersion: v1
kind: Config
preferences: {}
current-context: work
clusters:
- name: work
  cluster: {server: 'https://work:6443', insecure-skip-tls-verify: true}
users:
- name: yes
  user: {token: 0123, username: off}
contexts:
- name: work
  context: {cluster: work, user: yes, namespace: '1e3'}
";

    fn file(text: Option<&str>) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kube/config");
        if let Some(text) = text {
            std::fs::create_dir(directory.path().join("kube")).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        (directory, file)
    }

    #[test]
    fn a_file_that_is_not_there_is_made_for_its_owner_alone() {
        let (_directory, file) = file(None);
        assert!(into(&file, ISSUED, "strata-dev", false).unwrap());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let all = read(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(all["current-context"], "strata-dev");
        assert_eq!(all["users"][0]["user"]["client-key-data"], "S0VZ");
        assert_eq!(
            all["contexts"][0]["context"],
            json!({ "cluster": "strata-dev", "user": "strata-dev" })
        );
    }

    #[test]
    fn other_kubeconfig_entries_are_kept() {
        let (_directory, file) = file(Some(OTHERS));
        assert!(!into(&file, ISSUED, "strata-dev", false).unwrap());
        // Twice is once.
        assert!(!into(&file, ISSUED, "strata-dev", false).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, after) = (read(OTHERS).unwrap(), read(&text).unwrap());
        for (list, _) in LISTS {
            assert_eq!(after[list].as_array().unwrap().len(), 2, "{text}");
            assert_eq!(after[list][0], before[list][0], "{text}");
        }
        assert_eq!(after["current-context"], "work");
        // Other readers take bare words for truths and numbers.
        for word in ["yes", "off", "1e3"] {
            let bare = format!(": {word}\n");
            assert!(!text.contains(&bare), "{text}");
        }
        assert!(into(&file, ISSUED, "strata-dev", true).unwrap());
    }

    #[test]
    fn a_link_stays_one_and_what_is_no_kubeconfig_stays_untouched() {
        let (directory, file) = file(Some(OTHERS));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        into(&link, ISSUED, "x", true).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(std::fs::read_to_string(&file).unwrap().contains("work"));
        for bad in ["just a text", "- a\n- b\n", "clusters: none\n", "{"] {
            std::fs::write(&file, bad).unwrap();
            assert!(into(&file, ISSUED, "x", true).is_err(), "{bad}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), bad);
        }
    }
}
