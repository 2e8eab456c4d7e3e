//! `strata pod create`: makes pods, or says what it would do.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use strata_api::strata::v1::{CreatePodRequest, GetPodRequest, Pod, PodSpec};
use strata_client::NodeClient;
use strata_types::pod::PodSpec as CheckedSpec;
use tonic::Code;

use super::pull;
use super::spec_args::PodSpecArgs;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::values::documents;
use crate::view::{PodSpecView, PodView, Restart};

/// Create pods without starting them
#[derive(Args, Debug)]
#[command(after_help = "\
Creating the same pod again succeeds; one that differs is rejected. Paths are
on the host of the node, relative to your directory.

Examples:
  strata pod create web nginx:1.27 -p 8080:80 -v /srv/www:/www:ro
  strata pod create job alpine --memory 64MiB --cpu 500m -- sh -c 'sleep 9'
  strata pod create db postgres --health-tcp 5432 -v data:/var/lib/postgresql
  strata pod create -f pods.yaml --dry-run")]
pub struct Create {
    #[command(flatten)]
    wanted: PodSpecArgs,

    #[command(flatten)]
    how: PodCreateOptions,
}

/// Options of pod creation.
#[derive(Args, Debug)]
pub(super) struct PodCreateOptions {
    /// Read pods from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "PodSpecArgs")]
    pub(super) file: Option<PathBuf>,

    /// Show what would change, without changing anything
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let pods = wanted(session, self.wanted, &self.how, Restart::default())?;
        let node = session.node().await?;
        if self.how.dry_run {
            return dry_run(session, &node, pods, self.how.output.format(), "create").await;
        }
        let mut made = Vec::new();
        for pod in pods {
            let pod = create(session, &node, pod, false).await?;
            session.printer.note(&format!("created {}", pod.spec.name));
            made.push(pod);
        }
        print(session, self.how.output, &made)
    }
}

/// The specifications from flags or a file.
pub(super) fn wanted(
    session: &mut Session,
    wanted: PodSpecArgs,
    how: &PodCreateOptions,
    restart: Restart,
) -> Result<Vec<PodSpecView>> {
    match &how.file {
        Some(file) => documents(file, &mut session.input, "pods"),
        None => Ok(vec![wanted.view(restart)?]),
    }
}

/// Pulls the image according to the policy, and creates the pod.
pub(super) async fn create(
    session: &mut Session,
    node: &NodeClient,
    pod: PodSpecView,
    start: bool,
) -> Result<PodView> {
    let pod = pull::ensure(session, node, pod).await?;
    let name = pod.name.clone();
    let request = CreatePodRequest {
        pod: Some(pod.into()),
        start,
    };
    let verb = if start { "run" } else { "create" };
    let answer = node.pods().create(request).await;
    let made = answer.map_err(cannot(node, format!("{verb} the pod {name}")))?;
    Ok(made.into_inner().into())
}

/// Prints the created pods with `-o`.
pub(super) fn print(session: &mut Session, output: OutputArgs, made: &[PodView]) -> Result {
    match (output.requested(), made) {
        (None, _) => Ok(()),
        (Some(format), [one]) => output::one(session, format, one),
        (Some(format), several) => output::rows(session, format, several, ""),
    }
}

/// Result of a dry run.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "action", content = "reason", rename_all = "snake_case")]
enum Plan {
    /// A pod would be created.
    Create,
    /// It already exists with the same specification.
    Nothing,
    /// It would be rejected.
    Refuse(String),
}

#[derive(Serialize)]
struct PlannedPod {
    name: String,
    #[serde(flatten)]
    plan: Plan,
}

/// Prints what creating the pods would do; changes nothing.
pub(super) async fn dry_run(
    session: &mut Session,
    node: &NodeClient,
    pods: Vec<PodSpecView>,
    format: Format,
    verb: &str,
) -> Result {
    let mut planned = Vec::new();
    let mut lines = String::new();
    for pod in pods {
        let (name, image) = (pod.name.clone(), pod.image.clone());
        let plan = plan(node, PodSpec::from(pod)).await?;
        lines += &match &plan {
            Plan::Create => format!("would {verb} {name} from {image}\n"),
            Plan::Nothing => format!("{name} already exists, would not change\n"),
            Plan::Refuse(why) => format!("would reject {name}: {why}\n"),
        };
        planned.push(PlannedPod { name, plan });
    }
    match format {
        Format::Json | Format::Yaml => output::document(session, format, &planned)?,
        _ => session.printer.data(lines.as_bytes())?,
    }
    let refused = |pod: &PlannedPod| matches!(pod.plan, Plan::Refuse(_));
    if planned.iter().any(refused) {
        return Err(Failure::silent(Exit::Refused));
    }
    Ok(())
}

async fn plan(node: &NodeClient, wanted: PodSpec) -> Result<Plan> {
    let name = wanted.name.clone();
    let mut wanted = match CheckedSpec::try_from(wanted) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Plan::Refuse(why.to_string())),
    };
    let Some(existing) = get(node, &name).await? else {
        return Ok(Plan::Create);
    };
    let Ok(existing) = CheckedSpec::try_from(existing.spec.unwrap_or_default()) else {
        return Ok(Plan::Refuse("a pod of that name already exists".into()));
    };
    // When its image was fetched is past, and no part of what it is.
    wanted.pull = existing.pull;
    Ok(if wanted == existing {
        Plan::Nothing
    } else {
        Plan::Refuse("a pod of that name already exists with a different specification".into())
    })
}

async fn get(node: &NodeClient, name: &str) -> Result<Option<Pod>> {
    let request = GetPodRequest {
        name: name.to_owned(),
    };
    match node.pods().get(request).await {
        Ok(answer) => Ok(Some(answer.into_inner())),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(cannot(node, format!("read the pod {name}"))(status)),
    }
}
