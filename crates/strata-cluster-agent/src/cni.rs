//! The file by which containerd attaches pods: to the bridge `cni0`, with an
//! address of this machine's subnet. The machine masquerades by itself
//! (`ipMasq` is off), since the plugin would do so between machines too.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use serde_json::json;

use crate::{CniConfig, CniPlugins, PodNetworkConfig};

/// The file's name: the first in the order of names is used.
pub(crate) const FILE: &str = "10-strata.conflist";
const BRIDGE: &str = "cni0";

/// What is in the file.
pub(crate) fn text(network: &PodNetworkConfig) -> String {
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "strata",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "mtu": network.mtu,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": network.pod_subnet }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    format!("{list:#}\n")
}

/// Ensures that the file is as it should be; returns whether it was not. Where
/// another plugin is meant to attach pods, ours is removed.
pub(crate) fn ensure(cni: &CniConfig, network: &PodNetworkConfig) -> io::Result<bool> {
    let path = cni.dir.join(FILE);
    if cni.plugins == CniPlugins::Foreign {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            done => done.map(|()| true),
        };
    }
    let text = text(network);
    if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(false);
    }
    fs::create_dir_all(&cni.dir)?;
    replace(&path, &text)?;
    Ok(true)
}

/// Half a file is never seen: containerd watches the directory too. It reads
/// only names that end as ours does, which the temporary one does not.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> PodNetworkConfig {
        PodNetworkConfig {
            address: [192, 0, 2, 1].into(),
            pod_subnet: "10.244.3.0/24".parse().unwrap(),
            cluster_subnet: "10.244.0.0/16".parse().unwrap(),
            vni: 1,
            port: 8472,
            mtu: 1450,
            peers: Vec::new(),
        }
    }

    #[test]
    fn the_file_is_written_once_mended_and_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let mut cni = CniConfig {
            dir: dir.path().join("net.d"),
            plugins: CniPlugins::Bridge,
        };
        let path = cni.dir.join(FILE);
        assert!(ensure(&cni, &network()).unwrap());
        assert!(!ensure(&cni, &network()).unwrap());
        fs::write(&path, "{").unwrap();
        assert!(ensure(&cni, &network()).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), text(&network()));
        cni.plugins = CniPlugins::Foreign;
        assert!(ensure(&cni, &network()).unwrap());
        assert_eq!(fs::read_dir(&cni.dir).unwrap().count(), 0);
    }
}
