//! Executables: `runtime.Executable` with `strata.v1.ExecutableOptions`.

use std::fmt;
use std::time::Duration;

use strata_types::{
    CellName, CommandLine, EnvironmentVariable, Error, ExecutableName, ExecutableSpec,
    ExecutableState, Identity, RestartPolicy,
};

use crate::runtime;
use crate::strata::v1;

/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 4096;
/// The most supplementary groups.
const MAX_GROUPS: usize = 64;
/// The longest grace between SIGTERM and SIGKILL.
const MAX_GRACE: Duration = Duration::from_secs(3600);
/// The longest standard input.
const MAX_INPUT: usize = 1 << 20;

impl TryFrom<runtime::Executable> for ExecutableSpec {
    type Error = Error;

    fn try_from(executable: runtime::Executable) -> Result<Self, Error> {
        let cell = CellName::from_field("executable.cell_name", &executable.cell_name)?;
        let name = ExecutableName::from_field("executable.name", &executable.name)?;
        let command = CommandLine::from_field("executable.command", &executable.command)?;
        if executable.description.len() > MAX_DESCRIPTION {
            return Err(Error::invalid(
                "executable.description",
                format!("is longer than {MAX_DESCRIPTION} bytes"),
            ));
        }
        let options = executable.options.unwrap_or_default();
        let stop_grace = match options.stop_grace_ms {
            Some(ms) => grace_from_field("executable.options.stop_grace_ms", ms)?,
            None => Self::default_grace(),
        };
        Ok(Self {
            name,
            cell,
            command,
            description: executable.description,
            environment: environment(options.environment)?,
            working_directory: working_directory(options.working_directory)?,
            identity: Identity {
                uid: id("executable.options.uid", options.uid)?,
                gid: id("executable.options.gid", options.gid)?,
                groups: groups(options.groups)?,
            },
            stop_grace,
            stop_signal: ExecutableSpec::default_stop_signal(),
            restart: restart(options.restart)?,
        })
    }
}

/// Takes the standard input out of a request, so that nothing that keeps or
/// prints the rest can come to it.
pub fn take_input(executable: &mut runtime::Executable) -> Result<Option<Vec<u8>>, Error> {
    let field = "executable.options.input";
    let Some(options) = &mut executable.options else {
        return Ok(None);
    };
    let input = options.input.take();
    match &input {
        Some(bytes) if bytes.len() > MAX_INPUT => Err(Error::invalid(
            field,
            format!("has {} bytes; the maximum is {MAX_INPUT}", bytes.len()),
        )),
        Some(_) if restart(options.restart)? != RestartPolicy::Never => Err(Error::invalid(
            field,
            "cannot be replayed, so it cannot be combined with a restart policy",
        )
        .with_hint("omit the policy, or let the command read a file")),
        _ => Ok(input),
    }
}

fn restart(number: i32) -> Result<RestartPolicy, Error> {
    match v1::ExecutableRestart::try_from(number) {
        Ok(v1::ExecutableRestart::Never) => Ok(RestartPolicy::Never),
        Ok(v1::ExecutableRestart::OnFailure) => Ok(RestartPolicy::OnFailure),
        Ok(v1::ExecutableRestart::Always) => Ok(RestartPolicy::Always),
        Err(_) => Err(Error::invalid(
            "executable.options.restart",
            format!("{number} is not a known value"),
        )),
    }
}

impl From<RestartPolicy> for v1::ExecutableRestart {
    fn from(policy: RestartPolicy) -> Self {
        match policy {
            RestartPolicy::Never => Self::Never,
            RestartPolicy::OnFailure => Self::OnFailure,
            RestartPolicy::Always => Self::Always,
        }
    }
}

/// Without its input, which is nobody's to read but its process's.
impl fmt::Debug for v1::ExecutableOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutableOptions")
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("groups", &self.groups)
            .field("environment", &self.environment)
            .field("working_directory", &self.working_directory)
            .field("stop_grace_ms", &self.stop_grace_ms)
            .field("restart", &self.restart())
            .finish_non_exhaustive()
    }
}

/// Reads a grace period in milliseconds from the field `field`.
pub fn grace_from_field(field: &str, ms: u32) -> Result<Duration, Error> {
    let grace = Duration::from_millis(ms.into());
    if grace > MAX_GRACE {
        return Err(Error::invalid(field, "is more than an hour (3600000)"));
    }
    Ok(grace)
}

fn environment(variables: Vec<String>) -> Result<Vec<EnvironmentVariable>, Error> {
    let field = "executable.options.environment";
    if variables.len() > EnvironmentVariable::MAX_COUNT {
        return Err(Error::invalid(
            field,
            format!(
                "has {} variables; the maximum is {}",
                variables.len(),
                EnvironmentVariable::MAX_COUNT
            ),
        ));
    }
    let total: usize = variables.iter().map(String::len).sum();
    if total > CommandLine::MAX_BYTES {
        return Err(Error::invalid(field, "is more than 65536 bytes in all"));
    }
    variables
        .into_iter()
        .map(|text| EnvironmentVariable::try_from(text).map_err(|why| why.in_field(field)))
        .collect()
}

fn working_directory(directory: String) -> Result<Option<String>, Error> {
    if directory.is_empty() {
        return Ok(None);
    }
    if !directory.starts_with('/') || directory.contains('\0') || directory.len() >= 4096 {
        return Err(Error::invalid(
            "executable.options.working_directory",
            "must be an absolute path",
        ));
    }
    Ok(Some(directory))
}

fn id(field: &str, id: Option<u32>) -> Result<Option<u32>, Error> {
    // The kernel reads the highest number as "leave it as it is".
    match id {
        Some(u32::MAX) => Err(Error::invalid(field, "4294967295 is not a valid ID")),
        id => Ok(id),
    }
}

fn groups(groups: Vec<u32>) -> Result<Vec<u32>, Error> {
    let field = "executable.options.groups";
    if groups.len() > MAX_GROUPS {
        return Err(Error::invalid(
            field,
            format!("has more than {MAX_GROUPS} groups"),
        ));
    }
    if groups.contains(&u32::MAX) {
        return Err(Error::invalid(field, "4294967295 is not a valid ID"));
    }
    Ok(groups)
}

impl From<&ExecutableSpec> for v1::ExecutableOptions {
    fn from(spec: &ExecutableSpec) -> Self {
        Self {
            uid: spec.identity.uid,
            gid: spec.identity.gid,
            groups: spec.identity.groups.clone(),
            environment: spec
                .environment
                .iter()
                .map(|v| v.as_str().to_owned())
                .collect(),
            working_directory: spec.working_directory.clone().unwrap_or_default(),
            stop_grace_ms: u32::try_from(spec.stop_grace.as_millis()).ok(),
            restart: v1::ExecutableRestart::from(spec.restart).into(),
            input: None,
        }
    }
}

impl From<ExecutableState> for v1::ExecutableState {
    fn from(state: ExecutableState) -> Self {
        match state {
            ExecutableState::Running => Self::Running,
            ExecutableState::Stopping => Self::Stopping,
            ExecutableState::Waiting => Self::Waiting,
            ExecutableState::Exited => Self::Exited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(change: impl FnOnce(&mut runtime::Executable)) -> Result<ExecutableSpec, Error> {
        let mut wire = runtime::Executable {
            name: "main".into(),
            command: "sleep 1".into(),
            cell_name: "web".into(),
            options: Some(v1::ExecutableOptions::default()),
            ..Default::default()
        };
        change(&mut wire);
        ExecutableSpec::try_from(wire)
    }

    type Case = (&'static str, fn(&mut runtime::Executable));

    #[test]
    fn bad_input_names_its_field() {
        fn options(e: &mut runtime::Executable) -> &mut v1::ExecutableOptions {
            e.options.as_mut().unwrap()
        }
        let cases: [Case; 13] = [
            ("executable.cell_name", |e| e.cell_name = "..".into()),
            ("executable.name", |e| e.name.clear()),
            ("executable.name", |e| e.name = "a/b".into()),
            ("executable.command", |e| e.command = "'".into()),
            ("executable.description", |e| {
                e.description = "x".repeat(5000);
            }),
            ("executable.options.uid", |e| {
                options(e).uid = Some(u32::MAX);
            }),
            ("executable.options.groups", |e| {
                options(e).groups = vec![1; 65];
            }),
            ("executable.options.environment", |e| {
                options(e).environment = vec!["X".into()];
            }),
            ("executable.options.environment", |e| {
                options(e).environment = vec!["A=b".into(); 101];
            }),
            ("executable.options.environment", |e| {
                options(e).environment = vec![format!("A={}", "x".repeat(20_000)); 4];
            }),
            ("executable.options.working_directory", |e| {
                options(e).working_directory = "tmp".into();
            }),
            ("executable.options.stop_grace_ms", |e| {
                options(e).stop_grace_ms = Some(u32::MAX);
            }),
            ("executable.options.restart", |e| options(e).restart = 7),
        ];
        for (field, change) in cases {
            assert_eq!(executable(change).unwrap_err().field(), Some(field));
        }
        assert!(executable(|_| {}).is_ok());
    }

    fn with_input(input: Vec<u8>, restart: v1::ExecutableRestart) -> runtime::Executable {
        runtime::Executable {
            options: Some(v1::ExecutableOptions {
                input: Some(input),
                restart: restart.into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn input_is_taken_once_within_its_bounds_and_never_twice() {
        use v1::ExecutableRestart::{Always, Never, OnFailure};
        let mut whole = with_input(vec![7; MAX_INPUT], Never);
        assert_eq!(take_input(&mut whole).unwrap().unwrap().len(), MAX_INPUT);
        assert_eq!(take_input(&mut whole).unwrap(), None);
        assert_eq!(
            take_input(&mut runtime::Executable::default()).unwrap(),
            None
        );
        for mut refused in [
            with_input(vec![7; MAX_INPUT + 1], Never),
            with_input(vec![7], Always),
            with_input(Vec::new(), OnFailure),
        ] {
            let error = take_input(&mut refused).unwrap_err();
            assert_eq!(error.field(), Some("executable.options.input"));
        }
    }

    #[test]
    fn a_request_does_not_print_its_input() {
        let request = with_input(b"hush".to_vec(), v1::ExecutableRestart::Never);
        let text = format!("{request:?}");
        assert!(!text.contains("104") && !text.contains("hush"), "{text}");
    }
}
