//! What a deployed machine executes at its first boot: it fetches our program,
//! checks it, and runs it as a node. As JSON, which is YAML with all its
//! quotes.
//!
//! The token is in a file that root alone reads, not on a command line.

use std::collections::BTreeMap;

use serde_json::json;

use super::config::MaasConfig;
use crate::{Boot, ProviderError, Target};

/// `$1` the URL, `$2` the SHA-256.
const INSTALL: &str = "\
#!/bin/sh
set -eu
new=$(mktemp /usr/local/bin/.strata.XXXXXX)
trap 'rm -f \"$new\"' EXIT
tries=0
until curl -fsSL --max-time 600 -o \"$new\" \"$1\"; do
  tries=$((tries + 1))
  [ $tries -lt 30 ] || exit 1
  sleep 10
done
echo \"$2  $new\" | sha256sum -c -
chmod 755 \"$new\"
mv \"$new\" /usr/local/bin/strata
systemctl daemon-reload
systemctl enable --now strata-node.service
";

const UNIT: &str = "\
[Unit]
Description=Strata node
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/etc/strata/join
ExecStart=/usr/local/bin/strata node --data-dir /var/lib/strata --config /etc/strata/node.toml \
--node-socket /run/strata-node.sock --server ${STRATA_SERVER} --name ${STRATA_NAME}
Restart=always
RestartSec=5
KillMode=process

[Install]
WantedBy=multi-user.target
";

/// The document, for a machine and its boot.
pub(super) fn user_data(
    config: &MaasConfig,
    machine: &Target,
    boot: &Boot,
) -> Result<String, ProviderError> {
    let sha256 = config.binary_sha256.to_ascii_lowercase();
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ProviderError::Refused(
            "binary_sha256 of [machines.maas] is no SHA-256: 64 hex digits".into(),
        ));
    }
    let token = boot.join_token.expose();
    for (what, text) in [
        ("the join token", token),
        ("the server's address", &*boot.server),
    ] {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/+=[]".contains(&byte);
        if text.is_empty() || !text.bytes().all(plain) {
            return Err(ProviderError::Refused(format!(
                "{what} has odd letters in it"
            )));
        }
    }
    let environment = format!(
        "STRATA_JOIN_TOKEN={token}\nSTRATA_SERVER={}\nSTRATA_NAME={}\n",
        boot.server,
        machine.id()
    );
    let file = |path: &str, mode: &str, content: &str| json!({ "path": path, "permissions": mode, "owner": "root:root", "content": content });
    let document = json!({
        "write_files": [
            file("/etc/strata/join", "0600", &environment),
            file("/etc/strata/node.toml", "0644", &settings(&boot.labels)),
            file("/etc/systemd/system/strata-node.service", "0644", UNIT),
            file("/usr/local/sbin/strata-install", "0755", INSTALL),
        ],
        "runcmd": [["/usr/local/sbin/strata-install", config.binary_url, sha256]],
    });
    Ok(format!("#cloud-config\n{document}\n"))
}

/// TOML's texts are written as JSON's.
fn settings(labels: &BTreeMap<String, String>) -> String {
    let pairs = labels
        .iter()
        .map(|(key, value)| format!("{} = {}\n", json!(key), json!(value)));
    format!("[node.labels]\n{}", pairs.collect::<String>())
}
