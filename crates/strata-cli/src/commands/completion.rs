//! `strata completion`: the script that makes a shell ask us.

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::complete;
use crate::failure::Result;
use crate::session::Session;

/// Print the completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Completes names of live instances, nodes, pods, cells and other resources too.

Examples:
  source <(strata completion bash)                        # in ~/.bashrc
  source <(strata completion zsh)                         # in ~/.zshrc
  strata completion fish > ~/.config/fish/completions/strata.fish")]
pub struct Completion {
    /// Shell
    shell: ShellArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    pub(crate) fn run(self, session: &mut Session) -> Result {
        let shell: &dyn EnvCompleter = match self.shell {
            ShellArg::Bash => &Bash,
            ShellArg::Zsh => &Zsh,
            ShellArg::Fish => &Fish,
        };
        let mut script = Vec::new();
        shell.write_registration(
            complete::COMPLETE_VARIABLE,
            "strata",
            "strata",
            "strata",
            &mut script,
        )?;
        Ok(session.printer.data(&script)?)
    }
}
