//! `strata login`: remembers a server and the proof for it, once the server
//! has accepted it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_client::{Address, Context, Contexts, ServerClient};
use strata_identity::Credentials;

use super::whoami;
use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Save credentials for a server
#[derive(Args, Debug)]
#[command(after_help = "\
The context is stored in ~/.config/strata/config.toml, readable only by you.

Examples:
  strata login --server https://strata.lan:7700 --credentials ./me
  strata login --server https://strata.lan:7700 --ca ca.crt --token-file token
  strata login --refresh")]
pub struct Login {
    /// File with an API token; - is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,

    /// Name of the context
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: String,

    /// Update the trusted CA roots of the current context from its server
    #[arg(long, conflicts_with_all = ["token_file", "name"])]
    refresh: bool,
}

impl Login {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let usage = |what: &str, hint: &str| Failure::new(Exit::Usage, what).hint(hint);
        if self.refresh {
            return refresh(session).await;
        }
        let Some(address) = session.discovery.server.clone() else {
            return Err(usage(
                "no server specified",
                "add --server https://HOST:PORT",
            ));
        };
        let Some(file) = session.discovery.places.logins.clone() else {
            return Err(usage(
                "no home directory to store the context in",
                "set HOME",
            ));
        };
        if let Some(token) = &self.token_file {
            session.discovery.token = Some(read_token(token, &mut session.input)?);
        }
        let mut context = context(session, &address)?;
        let target = session.discovery.server()?;
        let caller = whoami::ask(&ServerClient::connect(&target).await?).await?;
        take_roots(&mut context, &caller.ca_pem)?;
        let mut contexts = Contexts::read(&file)?;
        contexts.use_context(&self.name, context);
        contexts.write(&file)?;
        session
            .printer
            .note(&format!("logged in as {}", caller.line()));
        Ok(())
    }
}

/// Asks the server of the login in use for the roots it trusts, and keeps them.
async fn refresh(session: &mut Session) -> Result {
    let nothing = || Failure::new(Exit::Usage, "no context to refresh");
    let file = session.discovery.places.logins.clone();
    let file = file.ok_or_else(nothing)?;
    let mut contexts = Contexts::read(&file)?;
    let name = contexts.current.clone();
    let mut context = contexts.current().cloned().ok_or_else(nothing)?;
    let server = session.server().await?;
    let caller = whoami::ask(&server).await?;
    take_roots(&mut context, &caller.ca_pem)?;
    contexts.use_context(name, context);
    contexts.write(&file)?;
    session
        .printer
        .note(&format!("stored the CA roots of {}", server.address()));
    Ok(())
}

/// Keeps the roots that a server trusts with a login. One that does not say
/// them leaves those there are.
fn take_roots(context: &mut Context, ca_pem: &str) -> Result {
    if ca_pem.is_empty() {
        return Ok(());
    }
    if context.ca_pem.is_some() {
        context.ca_pem = Some(ca_pem.to_owned());
    }
    if let Some(directory) = &context.credentials {
        Credentials::write_ca(directory, ca_pem).map_err(|why| {
            let what = format!("cannot write into {}", directory.display());
            Failure::new(Exit::Unexpected, what).because(why.to_string())
        })?;
    }
    Ok(())
}

fn context(session: &Session, address: &Address) -> Result<Context> {
    let discovery = &session.discovery;
    let directory = match (&discovery.credentials, &discovery.data_dir) {
        (Some(directory), _) => Some(directory.clone()),
        (None, Some(data_dir)) if discovery.token.is_none() => Some(data_dir.join("client")),
        _ => None,
    };
    if let Some(directory) = directory {
        let directory = directory
            .canonicalize()
            .map_err(|why| Failure::file("use", &directory, &why))?;
        return Ok(Context {
            server: address.to_string(),
            credentials: Some(directory),
            token: None,
            ca_pem: None,
        });
    }
    let (Some(token), Some(ca)) = (&discovery.token, &discovery.ca) else {
        return Err(Failure::new(Exit::Usage, "no credentials specified")
            .hint("add --credentials DIRECTORY, or --token-file FILE and --ca FILE"));
    };
    let ca_pem = std::fs::read_to_string(ca).map_err(|why| Failure::file("read", ca, &why))?;
    Ok(Context {
        server: address.to_string(),
        credentials: None,
        token: Some(token.clone()),
        ca_pem: Some(ca_pem),
    })
}

fn read_token(file: &Path, input: &mut dyn std::io::Read) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        input.read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    match text.trim() {
        "" => Err(Failure::new(
            Exit::Usage,
            format!("{} contains no token", file.display()),
        )),
        token => Ok(token.to_owned()),
    }
}
