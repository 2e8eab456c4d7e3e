//! Contradictions are refused with the field; states go as the diagram says.
use proptest::prelude::*;

use super::*;

fn pod() -> PodSpec {
    PodSpec::new("web".parse().unwrap(), "registry.example/web:1")
}

fn refused(change: impl FnOnce(&mut PodSpec)) -> String {
    let mut pod = pod();
    change(&mut pod);
    let error = pod.check().unwrap_err();
    error.field().unwrap_or_default().to_owned()
}

#[test]
fn a_plain_pod_is_fine() {
    pod().check().unwrap();
}

#[test]
fn contradictions_are_refused_with_the_field() {
    let port = |text: &str| text.parse::<PortMapping>().unwrap();
    let field = refused(|pod| {
        pod.network = PodNetwork::Host;
        pod.ports = vec![port("80:80")];
    });
    assert_eq!(field, "pod.ports");
    assert_eq!(
        refused(|pod| pod.ports = vec![port("80:80"), port("80:81")]),
        "pod.ports[1]"
    );
    assert_eq!(
        refused(|pod| pod.limits.memory_bytes = Some(1)),
        "pod.limits.memory_bytes"
    );
    assert_eq!(
        refused(|pod| pod.limits.cpu_millis = Some(0)),
        "pod.limits.cpu_millis"
    );
    assert_eq!(refused(|pod| pod.limits.pids = Some(1)), "pod.limits.pids");
    assert_eq!(
        refused(|pod| pod.working_directory = Some("x".into())),
        "pod.working_directory"
    );
    let many = (1..=101).map(|i| port(&format!("{i}:{i}"))).collect();
    assert_eq!(refused(|pod| pod.ports = many), "pod.ports");
}

#[test]
fn volumes_stay_out_of_what_is_not_theirs() {
    let volume = |target: &str| Volume {
        source: VolumeSource::Memory(1 << 20),
        target: target.into(),
        read_only: false,
    };
    for bad in [
        "",
        "//proc/",
        "/./sys/x",
        "/a//b",
        "data",
        "/",
        "//",
        "/proc",
        "/proc/sys",
        "/sys/",
        "/dev",
        "/a/../b",
        "/a\0",
    ] {
        let field = refused(|pod| pod.volumes = vec![volume(bad)]);
        assert_eq!(field, "pod.volumes[0].target", "{bad:?}");
    }
    assert_eq!(
        refused(|pod| pod.volumes = vec![volume("/a"), volume("/a/")]),
        "pod.volumes[1].target"
    );
}

#[test]
fn looking_into_other_processes_needs_users_of_ones_own() {
    let ptrace = |pod: &mut PodSpec| {
        pod.security.capabilities = Capabilities::from_lists(&[], &["SYS_PTRACE"]).unwrap();
    };
    let of_the_host = |pod: &mut PodSpec| {
        ptrace(pod);
        pod.security.user_namespace = Some(false);
    };
    assert_eq!(refused(of_the_host), "pod.security.capabilities");
    let mut pod = pod();
    ptrace(&mut pod);
    pod.check().unwrap();
}

#[test]
fn user_namespace_is_the_default_of_pods() {
    let mut pod = pod();
    assert!(pod.has_own_users());
    pod.security.user_namespace = Some(false);
    assert!(!pod.has_own_users());
    pod.security.user_namespace = None;
    pod.network = PodNetwork::Host;
    assert!(!pod.has_own_users());
    pod.check().unwrap();
    // A record from before there was a default says what it meant.
    let old: PodSecurity = serde_json::from_str(r#"{"user_namespace": false}"#).unwrap();
    assert_eq!(old.user_namespace, Some(false));
}

#[test]
fn a_spec_comes_back_from_its_record() {
    let mut pod = pod();
    pod.ports = vec!["8080:80".parse().unwrap()];
    pod.sysctls = vec!["net.core.somaxconn=10".parse().unwrap()];
    pod.health = Some(HealthCheck::with(Probe::Tcp { port: 80 }));
    let text = serde_json::to_string(&pod).unwrap();
    assert_eq!(serde_json::from_str::<PodSpec>(&text).unwrap(), pod);
}

proptest! {
    #[test]
    fn a_pod_on_its_way_out_never_comes_back(path in proptest::collection::vec(0usize..9, 1..30)) {
        let mut state = PodState::Created;
        let mut going = false;
        for next in path.into_iter().map(|i| PodState::ALL[i]) {
            if state.may_become(next) {
                prop_assert!(!going);
                state = next;
            }
            going |= state == PodState::Destroying;
        }
    }
}
