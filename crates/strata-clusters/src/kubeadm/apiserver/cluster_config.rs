//! The arguments of API servers in the `ClusterConfiguration` that a cluster
//! keeps: kubeadm's own YAML, which is edited by line so that everything else
//! in it, also what an admin added, stays to the letter.

use super::{ENCRYPTION_ARGUMENT, pairs, volumes};

/// kubeadm's own name of the section.
const SECTION: &str = "apiServer:";

/// The same text with the arguments and volumes of API servers. One that has
/// them is released as it is.
pub(in crate::kubeadm) fn with_arguments(text: &str) -> String {
    if text.contains(&format!("name: {ENCRYPTION_ARGUMENT}\n")) {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(SECTION)) else {
        return format!("{SECTION}\n{}{text}", section(&[]));
    };
    let below = &lines[at + 1..];
    let length = below.iter().position(|line| !line.starts_with([' ', '-']));
    let length = length.unwrap_or(below.len());
    let (own, rest) = below.split_at(length);
    let mut out = joined(&lines[..at]);
    // `apiServer: {}` has nothing below.
    out.push_str(SECTION);
    out.push('\n');
    out.push_str(&section(own));
    out.push_str(&joined(rest));
    out
}

/// What is below `apiServer:`, with ours at the head of both lists.
fn section(own: &[&str]) -> String {
    let mut out = String::new();
    let (mut arguments, mut volumes) = (false, false);
    for line in own {
        out.push_str(line);
        out.push('\n');
        match line.trim_end() {
            "  extraArgs:" => {
                arguments = true;
                out.push_str(&our_arguments(own));
            }
            "  extraVolumes:" => {
                volumes = true;
                out.push_str(&our_volumes());
            }
            _ => {}
        }
    }
    if !arguments {
        out.push_str("  extraArgs:\n");
        out.push_str(&our_arguments(own));
    }
    if !volumes {
        out.push_str("  extraVolumes:\n");
        out.push_str(&our_volumes());
    }
    out
}

/// All that the section does not set otherwise.
fn our_arguments(own: &[&str]) -> String {
    let set = |name: &str| {
        let line = format!("  - name: {name}");
        own.iter().any(|it| it.trim_end() == line)
    };
    let ours = pairs().into_iter().filter(|(name, _)| !set(name));
    ours.map(|(name, value)| format!("  - name: {name}\n    value: \"{value}\"\n"))
        .collect()
}

/// JSON is YAML too.
fn our_volumes() -> String {
    let all = volumes();
    let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| format!("  - {one}\n")).collect()
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\ncontrollerManager:\n  extraArgs:\n  - name: leader-elect\n    value: \"false\"\n";

    fn own(text: &str) -> String {
        let (own, rest) = text.split_once("apiVersion:").unwrap();
        assert_eq!(format!("apiVersion:{rest}"), AFTER);
        own.to_owned()
    }

    #[test]
    fn old_cluster_configuration_gets_arguments_and_volumes() {
        for before in [
            "apiServer: {}\n",
            "apiServer:\n  certSANs:\n  - kubernetes\n",
        ] {
            let text = with_arguments(&format!("{before}{AFTER}"));
            let own = own(&text);
            assert_eq!(own.matches("  extraArgs:\n").count(), 1, "{own}");
            assert_eq!(own.matches("  extraVolumes:\n").count(), 1, "{own}");
            let argument = "  - name: encryption-provider-config\n    value: \"/etc/kubernetes/strata/encryption.json\"\n";
            assert!(own.contains(argument), "{own}");
            assert!(
                own.contains("{\"hostPath\":\"/var/lib/strata-kubernetes/audit\""),
                "{own}"
            );
            assert_eq!(
                before.contains("certSANs"),
                own.contains("  certSANs:\n  - kubernetes\n")
            );
            assert_eq!(with_arguments(&text), text);
        }
    }

    #[test]
    fn admin_arguments_are_preserved() {
        let before = "apiServer:\n  extraArgs:\n  - name: audit-log-maxage\n    value: \"4\"\n  timeoutForControlPlane: 4m0s\n";
        let own = own(&with_arguments(&format!("{before}{AFTER}")));
        assert!(
            own.contains(
                "    value: \"20\"\n  - name: audit-log-maxage\n    value: \"4\"\n  timeout"
            ),
            "{own}"
        );
        assert_eq!(own.matches("audit-log-maxage").count(), 1, "{own}");
        assert_eq!(own.matches("extraArgs").count(), 1, "{own}");
    }

    #[test]
    fn missing_api_server_section_is_added() {
        let text = with_arguments(AFTER);
        assert!(text.starts_with("apiServer:\n  extraArgs:\n"), "{text}");
        assert!(text.ends_with(AFTER), "{text}");
    }
}
