//! What is started in a pod: what was requested on top of the image's
//! configuration. Nothing here touches the machine.

use std::collections::HashMap;
use std::time::Duration;

use strata_image::RunConfig;
use strata_types::pod::{DEFAULT_PIDS, HealthCheck, PodSpec, Probe};
use strata_types::{
    CellSpec, CommandLine, CpuLimit, EnvironmentVariable, Error, ExecutableSpec, Limits,
    MemoryLimit, Result, RootMode,
};

use super::MAIN;
use super::kind::{PodAllocation, PodKind};
use super::users::User;
use crate::units::UnitKind as _;
use strata_types::pod::PodNetwork;

/// The cell of a pod.
pub(super) fn cell(spec: &PodSpec, allocated: &PodAllocation) -> CellSpec {
    let mut cell = CellSpec::named(PodKind::cell(spec));
    cell.cpu_shares = spec.cpu_shares;
    cell.isolated_network = spec.network != PodNetwork::Host;
    cell.root = RootMode::Handed;
    cell.id_map = allocated.id_map;
    cell.limits = Limits {
        cpu: spec.limits.cpu_millis.map(|millis| CpuLimit {
            quota_us: u64::from(millis) * 100,
            period_us: 100_000,
        }),
        memory: MemoryLimit {
            max: spec.limits.memory_bytes,
            ..MemoryLimit::default()
        },
        pids_max: Some(spec.limits.pids.unwrap_or(DEFAULT_PIDS.into())),
        ..Limits::default()
    };
    cell
}

/// The words of its command: the entry point, then the arguments. An entry
/// point of one's own makes the image's command meaningless.
pub(super) fn command(spec: &PodSpec, config: &RunConfig) -> Result<CommandLine> {
    let entrypoint = spec.entrypoint.as_ref().unwrap_or(&config.entrypoint);
    let arguments = match (&spec.arguments, &spec.entrypoint) {
        (Some(arguments), _) => arguments.as_slice(),
        (None, Some(_)) => &[],
        (None, None) => &config.cmd,
    };
    let words: Vec<String> = entrypoint.iter().chain(arguments).cloned().collect();
    if words.is_empty() {
        return Err(Error::invalid(
            "pod.arguments",
            format!(
                "must not be empty: image {} does not say what to run",
                spec.image
            ),
        ));
    }
    CommandLine::try_from(words).map_err(|why| why.in_field("pod.entrypoint"))
}

/// The image's variables, the requested ones, and the usual ones. Later ones
/// win.
pub(super) fn environment(
    spec: &PodSpec,
    config: &RunConfig,
    user: &User,
) -> Vec<EnvironmentVariable> {
    let hostname = spec.hostname.as_ref().unwrap_or(spec.name.label());
    let usual = [
        Some(format!("HOSTNAME={hostname}")),
        Some(format!("HOME={}", user.home)),
        spec.terminal.then(|| "TERM=xterm".to_owned()),
    ];
    // By key, in the order of their last mention: an image may have thousands.
    let (mut all, mut places) = (Vec::new(), HashMap::new());
    let usual = usual.into_iter().flatten();
    let image = usual.chain(config.env.iter().cloned());
    // An image may hold anything; what is no variable is left out.
    let image = image.filter_map(|text| EnvironmentVariable::try_from(text).ok());
    for variable in image.chain(spec.environment.iter().cloned()) {
        if let Some(earlier) = places.insert(variable.key().to_owned(), all.len()) {
            all[earlier] = None;
        }
        all.push(Some(variable));
    }
    all.into_iter().flatten().collect()
}

/// The directory its processes start in.
pub(super) fn working_directory(spec: &PodSpec, config: &RunConfig) -> String {
    // Images that were pulled before may have anything here.
    let image = Some(config.working_dir.as_str());
    let image = image.filter(|dir| !dir.is_empty() && !dir.contains('\0'));
    let dir = spec.working_directory.as_deref().or(image).unwrap_or("/");
    match dir.starts_with('/') {
        true => dir.to_owned(),
        false => format!("/{dir}"),
    }
}

/// How it is found out whether it works: as requested, else as the image
/// defines unless that is disabled.
pub(super) fn health(spec: &PodSpec, config: &RunConfig) -> Option<HealthCheck> {
    // As Docker has them.
    const INTERVAL: u64 = 30_000_000_000;
    const TIMEOUT: u64 = 30_000_000_000;
    const RETRIES: u32 = 3;
    if spec.health.is_some() || spec.no_image_health {
        return spec.health.clone();
    }
    let image = config.healthcheck.as_ref()?;
    let command = match image.test.split_first() {
        Some((how, words)) if how == "CMD" => words.to_vec(),
        Some((how, [text])) if how == "CMD-SHELL" => {
            ["/bin/sh", "-c", text].map(str::to_owned).to_vec()
        }
        _ => return None,
    };
    let time = |ns: u64, usual: u64| Duration::from_nanos(if ns == 0 { usual } else { ns });
    let check = HealthCheck {
        probe: Probe::Exec(command),
        interval: time(image.interval, INTERVAL),
        timeout: time(image.timeout, TIMEOUT),
        retries: if image.retries == 0 {
            RETRIES
        } else {
            image.retries
        },
        start_period: time(image.start_period, 0),
    };
    // An image may hold anything; what makes no sense is left out.
    check.check("health").is_ok().then_some(check)
}

/// The pod's own process.
pub(super) fn main(
    spec: &PodSpec,
    allocated: &PodAllocation,
    user: User,
) -> Result<ExecutableSpec> {
    Ok(ExecutableSpec {
        name: MAIN.parse()?,
        cell: PodKind::cell(spec),
        command: command(spec, &allocated.config)?,
        description: String::new(),
        environment: environment(spec, &allocated.config, &user),
        identity: user.identity,
        working_directory: Some(working_directory(spec, &allocated.config)),
        stop_grace: spec.stop_grace,
        stop_signal: stop_signal(&allocated.config.stop_signal),
        restart: ExecutableSpec::default_restart(),
    })
}

/// `SIGQUIT`, `QUIT` or `3`; SIGTERM when it is none of these.
fn stop_signal(text: &str) -> i32 {
    const NAMES: [(&str, i32); 12] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("KILL", 9),
        ("USR1", 10),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("WINCH", 28),
        ("PWR", 30),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(real_time) = name.strip_prefix("RTMIN+") {
        let offset = real_time.parse::<i32>().unwrap_or(0);
        return 34 + offset.clamp(0, 30);
    }
    let named = NAMES.iter().find(|(known, _)| *known == name);
    let number = || name.parse::<i32>().ok().filter(|n| (1..=64).contains(n));
    named
        .map(|(_, number)| *number)
        .or_else(number)
        .unwrap_or(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodSpec {
        PodSpec::new("web".parse().unwrap(), "example/web")
    }

    fn words(spec: &PodSpec, config: &RunConfig) -> Vec<String> {
        command(spec, config).unwrap().words().to_vec()
    }

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_command_is_the_entry_point_and_the_arguments() {
        let image = RunConfig {
            entrypoint: list(&["/entry"]),
            cmd: list(&["serve"]),
            ..RunConfig::default()
        };
        assert_eq!(words(&pod(), &image), ["/entry", "serve"]);
        let mut spec = pod();
        spec.arguments = Some(list(&["check"]));
        assert_eq!(words(&spec, &image), ["/entry", "check"]);
        spec.entrypoint = Some(list(&["/other"]));
        assert_eq!(words(&spec, &image), ["/other", "check"]);
        spec.arguments = None;
        assert_eq!(words(&spec, &image), ["/other"]);
        let nothing = command(&pod(), &RunConfig::default()).unwrap_err();
        assert_eq!(nothing.field(), Some("pod.arguments"));
    }

    #[test]
    fn later_variables_win() {
        let image = RunConfig {
            env: list(&["A=image", "B=image", "no variable", "HOME=/image"]),
            ..RunConfig::default()
        };
        let mut spec = pod();
        spec.environment = vec!["A=asked".to_owned().try_into().unwrap()];
        let user = User {
            identity: strata_types::Identity::default(),
            home: "/root".into(),
        };
        let all = environment(&spec, &image, &user);
        let texts: Vec<_> = all.iter().map(EnvironmentVariable::as_str).collect();
        assert_eq!(texts, ["HOSTNAME=web", "B=image", "HOME=/image", "A=asked"]);
    }

    /// Quadratic, this took minutes at every start and every exec.
    #[test]
    fn an_image_with_many_variables_is_no_work() {
        let image = RunConfig {
            env: (0..200_000)
                .map(|n| format!("V{}=x", n % 100_000))
                .collect(),
            ..RunConfig::default()
        };
        let user = User {
            identity: strata_types::Identity::default(),
            home: "/root".into(),
        };
        let begin = std::time::Instant::now();
        let all = environment(&pod(), &image, &user);
        assert_eq!(all.len(), 100_002);
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn image_defines_default_directory_and_stop_signal() {
        let image = RunConfig {
            working_dir: "srv".into(),
            ..RunConfig::default()
        };
        assert_eq!(working_directory(&pod(), &image), "/srv");
        assert_eq!(working_directory(&pod(), &RunConfig::default()), "/");
        let two = RunConfig {
            working_dir: "/srv\0/bin/evil".into(),
            ..RunConfig::default()
        };
        assert_eq!(working_directory(&pod(), &two), "/");
        for (text, number) in [
            ("", 15),
            ("SIGQUIT", 3),
            ("quit", 3),
            ("9", 9),
            ("x", 15),
            ("RTMIN+3", 37),
        ] {
            assert_eq!(stop_signal(text), number, "{text}");
        }
    }

    #[test]
    fn image_health_check_is_the_default_of_the_pod() {
        let image = |text: &str| RunConfig {
            healthcheck: serde_json::from_str(text).unwrap(),
            ..RunConfig::default()
        };
        let shell =
            image(r#"{"Test":["CMD-SHELL","curl -f x"],"Interval":5000000000,"Retries":2}"#);
        let check = health(&pod(), &shell).unwrap();
        assert_eq!(
            check.probe,
            Probe::Exec(list(&["/bin/sh", "-c", "curl -f x"]))
        );
        assert_eq!((check.interval.as_secs(), check.retries), (5, 2));
        assert_eq!(check.timeout.as_secs(), 30);
        let words = image(r#"{"Test":["CMD","/ask","it"]}"#);
        let check = health(&pod(), &words).unwrap();
        assert_eq!(check.probe, Probe::Exec(list(&["/ask", "it"])));
        for none in [
            r#"{"Test":["NONE"]}"#,
            r#"{"Test":[]}"#,
            r#"{"Test":["CMD"]}"#,
            "null",
        ] {
            assert_eq!(health(&pod(), &image(none)), None, "{none}");
        }
        let mut spec = pod();
        spec.no_image_health = true;
        assert_eq!(health(&spec, &shell), None);
        spec.health = Some(HealthCheck::with(Probe::Tcp { port: 1 }));
        assert_eq!(health(&spec, &shell), spec.health);
    }

    #[test]
    fn limits_become_those_of_the_cell() {
        let mut spec = pod();
        spec.limits.cpu_millis = Some(1500);
        spec.limits.memory_bytes = Some(1 << 20);
        let allocated = PodAllocation {
            image_digest: String::new(),
            layers: Vec::new(),
            config: RunConfig::default(),
            address: None,
            id_map: None,
            image_volumes: Vec::new(),
        };
        let cell = cell(&spec, &allocated);
        assert_eq!(cell.limits.cpu.map(|cpu| cpu.quota_us), Some(150_000));
        assert_eq!(cell.limits.memory.max, Some(1 << 20));
        assert!(cell.isolated_network);
    }
}
