//! `strata cell start`: runs a command in a cell, and stays with it if asked.

use std::path::{Path, PathBuf};

use clap::Args;
use strata_api::runtime::{Executable, StartCellRequest};
use strata_api::strata::v1::{ExecutableOptions, ExecutableRestart, GetCellRequest};
use strata_api::take_input;
use strata_client::NodeClient;
use strata_types::{CellName, CommandLine, ExecutableName, ExecutableSpec};

use super::wait;
use crate::commands::logs;
use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::values::{Span, cell_name, executable_name, variable};
use crate::view::{CellView, ExecutableView, Restart, pid_phrase};

/// Start an executable in a cell
#[derive(Args, Debug)]
#[command(after_help = "\
No shell is involved: $HOME, * and
 are ordinary characters.

Examples:
  strata cell start web main -- nginx -g 'daemon off;'
  strata cell start batch job --follow -- sh -c 'echo $HOSTNAME; exit 3'
  strata cell start web tick --uid 1000 --env TZ=UTC --command 'sleep 60'
  strata cell start web main --restart always -- nginx -g 'daemon off;'
  strata cell start batch sums -i files.txt --follow -- xargs sha256sum")]
pub struct Start {
    /// Name of the cell
    #[arg(value_parser = cell_name, add = complete::cells())]
    cell: CellName,

    /// Name of the executable; the name of an exited one can be reused
    #[arg(value_parser = executable_name)]
    name: ExecutableName,

    /// User to run as
    #[arg(long, value_name = "ID")]
    uid: Option<u32>,
    /// Group to run as
    #[arg(long, value_name = "ID")]
    gid: Option<u32>,
    /// Supplementary group; repeatable
    #[arg(long, value_name = "ID")]
    group: Vec<u32>,
    /// Set an environment variable; repeatable
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<String>,
    /// Working directory
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<String>,
    /// Time between SIGTERM and SIGKILL on stop [default: 10s]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Restart policy, also after a reboot [default: never]
    #[arg(long, value_enum, value_name = "WHEN")]
    restart: Option<Restart>,
    /// File to use as standard input, at most 1 MiB; - is stdin
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Stream its output until it exits; exit with 7 if it fails
    #[arg(long, conflicts_with_all = ["wait", "dry_run"])]
    follow: bool,
    /// Wait until it exits; exit with 7 if it fails
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Command as one string, split into words like a shell does
    #[arg(long, value_name = "STRING", required_unless_present = "words")]
    command: Option<String>,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "command")]
    words: Vec<String>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let executable = self.executable(session)?;
        let (cell, name) = (self.cell.to_string(), self.name.to_string());
        let node = session.node().await?;
        if self.dry_run {
            return dry_run(session, &node, executable).await;
        }
        let request = StartCellRequest {
            executable: Some(executable),
        };
        let answer = node
            .cell_service()
            .start(request)
            .await
            .map_err(cannot(&node, format!("start {cell}/{name}")))?
            .into_inner();
        let pid = pid_phrase(answer.process_id);
        session.printer.note(&format!("started {cell}/{name}{pid}"));
        if !self.follow && !self.wait {
            return match self.output.requested() {
                Some(format) => wait::print_current(session, &node, &cell, &name, format).await,
                None => Ok(()),
            };
        }
        let detached = tokio::select! {
            result = follow_output(session, &node, &cell, &name, self.follow, self.output) => return result,
            interrupted = tokio::signal::ctrl_c() => interrupted,
        };
        if detached.is_ok() {
            session.printer.note(&format!(
                "\n{cell}/{name} keeps running. Follow it with `strata logs {cell} {name} -f`, stop it with `strata cell stop {cell} {name}`"
            ));
        }
        Err(Failure::silent(Exit::Interrupted))
    }

    fn executable(&self, session: &mut Session) -> Result<Executable> {
        let input = self.input.as_deref();
        let input = input.map(|file| read_input(file, &mut session.input));
        let command = match &self.command {
            Some(text) => text.clone(),
            None => joined(self.words.clone())?,
        };
        Ok(Executable {
            name: self.name.to_string(),
            command,
            description: self.description.clone().unwrap_or_default(),
            cell_name: self.cell.to_string(),
            options: Some(ExecutableOptions {
                uid: self.uid,
                gid: self.gid,
                groups: self.group.clone(),
                environment: self.env.clone(),
                working_directory: self.workdir.clone().unwrap_or_default(),
                stop_grace_ms: self.grace.map(Span::millis_u32),
                restart: self
                    .restart
                    .map_or(ExecutableRestart::Never, restart)
                    .into(),
                input: input.transpose()?,
            }),
        })
    }
}

fn restart(restart: Restart) -> ExecutableRestart {
    match restart {
        Restart::Never => ExecutableRestart::Never,
        Restart::OnFailure => ExecutableRestart::OnFailure,
        Restart::Always => ExecutableRestart::Always,
    }
}

/// Contents of a file, read up to one byte beyond the limit of the node.
fn read_input(file: &Path, stdin: &mut dyn std::io::Read) -> Result<Vec<u8>> {
    use std::io::Read as _;
    const INPUT_READ_LIMIT: u64 = (1 << 20) + 1;
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        stdin.take(INPUT_READ_LIMIT).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file)
            .and_then(|file| file.take(INPUT_READ_LIMIT).read_to_end(&mut bytes))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    Ok(bytes)
}

/// The words as one text that splits into the same words again.
fn joined(words: Vec<String>) -> Result<String> {
    CommandLine::try_from(words)
        .map(|command| command.to_string())
        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))
}

async fn follow_output(
    session: &mut Session,
    node: &NodeClient,
    cell: &str,
    name: &str,
    follow: bool,
    output: OutputArgs,
) -> Result {
    if follow {
        logs::follow(session, node, cell, name).await?;
    }
    let ended = wait::until_end(node, cell, name).await?;
    wait::conclude(session, &ended, output)
}

async fn dry_run(session: &mut Session, node: &NodeClient, mut executable: Executable) -> Result {
    let path = format!("{}/{}", executable.cell_name, executable.name);
    let refused =
        |why: String| Failure::new(Exit::Refused, format!("cannot start {path}")).because(why);
    take_input(&mut executable).map_err(|why| refused(why.to_string()))?;
    let spec = ExecutableSpec::try_from(executable).map_err(|why| refused(why.to_string()))?;
    let request = GetCellRequest {
        cell_name: spec.cell.to_string(),
    };
    let answer = node
        .cells()
        .get(request)
        .await
        .map_err(cannot(node, format!("start {path}")))?;
    let cell = CellView::from(answer.into_inner());
    let taken = |e: &&ExecutableView| e.name == spec.name.as_str() && e.is_running();
    if let Some(running) = cell.executables.iter().find(taken) {
        return Err(refused(format!("already running{}", running.with_pid())));
    }
    let line = format!("would start {path}: {}\n", spec.command);
    Ok(session.printer.data(line.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_quoted_for_the_wire() {
        let words = ["sh", "-c", "echo 'a b' > \"$HOME\""]
            .map(str::to_owned)
            .to_vec();
        let text = joined(words.clone()).unwrap();
        let split: Vec<String> = CommandLine::from_field("command", &text).unwrap().into();
        assert_eq!(split, words);
    }

    proptest! {
        #[test]
        fn the_wire_splits_words_back_as_they_were(
            words in proptest::collection::vec("[^\0]{1,12}", 1..6)
        ) {
            let text = joined(words.clone()).unwrap();
            let split: Vec<String> = CommandLine::from_field("command", &text).unwrap().into();
            prop_assert_eq!(split, words);
        }
    }
}
