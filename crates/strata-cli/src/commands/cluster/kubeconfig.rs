//! `strata cluster kubeconfig`: credentials for kubectl that end by themselves,
//! printed, written into a file of their own, or merged into kubectl's; and
//! taken back.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_api::rest::{Kubeconfig as Issued, KubeconfigRequest};
use strata_client::write_private;

use super::{ClusterArg, merge};
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::Span;

/// Create or revoke credentials for kubectl
#[derive(Args, Debug)]
#[command(after_help = "\
The credentials expire, and --revoke revokes all of yours at once. An operator
may do everything in the cluster, a viewer may only read. --merge keeps other
entries of the file, and adds a context for the cluster: strata-NAME.

Examples:
  strata cluster kubeconfig dev > dev.yaml
  strata cluster kubeconfig dev --output dev.yaml --ttl 8h
  strata cluster kubeconfig dev --merge --use
  strata cluster kubeconfig dev --revoke")]
pub struct Kubeconfig {
    #[command(flatten)]
    one: ClusterArg,

    /// Validity, 10m to 7d [default: 12h]
    #[arg(long, value_name = "DURATION")]
    ttl: Option<Span>,

    /// Write the kubeconfig to a file that only you can read
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Merge the kubeconfig into FILE [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "output")]
    #[arg(value_hint = ValueHint::FilePath)]
    merge: Option<Option<PathBuf>>,

    /// Name of the context in the merged file
    #[arg(long, value_name = "NAME", requires = "merge")]
    context: Option<String>,

    /// Make it the current context of kubectl
    #[arg(long = "use", requires = "merge")]
    current: bool,

    /// Revoke all your credentials for the cluster
    #[arg(long, conflicts_with_all = ["ttl", "output", "merge"])]
    revoke: bool,

    /// Revoke the credentials of another user
    #[arg(long, value_name = "NAME", requires = "revoke")]
    user: Option<String>,
}

impl Kubeconfig {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        if self.revoke {
            let user = self.user.as_deref();
            let revoked = rest.revoke_kubeconfig(name, user).await;
            revoked.map_err(unable(format!("revoke credentials for {name}")))?;
            let whose = user.unwrap_or("you");
            let note = format!("credentials of {whose} for {name} are revoked");
            session.printer.note(&note);
            return Ok(());
        }
        // Where it goes is known before anybody is let in.
        let into = match &self.merge {
            Some(Some(file)) => Some(file.clone()),
            Some(None) => Some(usual()?),
            None => None,
        };
        let asked = KubeconfigRequest {
            ttl_seconds: self.ttl.map(|ttl| ttl.0.as_secs()),
        };
        let made = rest.kubeconfig(name, &asked).await;
        let made = made.map_err(unable(format!("get credentials for {name}")))?;
        if let Some(file) = &into {
            return self.merged(session, file, &made);
        }
        if let Some(file) = &self.output {
            write_private(file, made.kubeconfig.as_bytes())?;
            let note = format!("wrote {}{}", file.display(), until(session, &made));
            session.printer.note(&note);
            return Ok(());
        }
        Ok(session.printer.data(made.kubeconfig.as_bytes())?)
    }

    fn merged(&self, session: &mut Session, file: &Path, made: &Issued) -> Result {
        let context = match &self.context {
            Some(context) => context.clone(),
            None => format!("strata-{}", self.one.name),
        };
        let current = merge::into(file, &made.kubeconfig, &context, self.current)?;
        let (shown, until) = (file.display(), until(session, made));
        let how = match current {
            true => "kubectl uses it now".to_owned(),
            false => format!("use it with `kubectl --context {context}`"),
        };
        let note = format!("merged {context} into {shown}{until}; {how}");
        session.printer.note(&note);
        Ok(())
    }
}

fn until(session: &Session, made: &Issued) -> String {
    let left = made.expires_at_ms / 1000 - session.now().as_second();
    format!(", valid for {}", human::seconds(left.max(0)))
}

/// The file that kubectl would write into.
fn usual() -> Result<PathBuf> {
    let told = std::env::var_os("KUBECONFIG");
    let told = told.iter().flat_map(std::env::split_paths);
    if let Some(first) = told.into_iter().find(|path| !path.as_os_str().is_empty()) {
        return Ok(first);
    }
    match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(Path::new(&home).join(".kube/config")),
        None => Err(
            Failure::new(Exit::Usage, "neither KUBECONFIG nor HOME is set")
                .hint("specify the file: --merge FILE"),
        ),
    }
}
