//! Finds the node or the server to talk to. What was said outright wins over
//! what lies in a directory, and a directory that was named is the only one looked
//! at: a command for one daemon must never reach another.
//!
//! | | node | server |
//! |---|---|---|
//! | said outright | `node` | `server` |
//! | named directory | its socket, else its TLS port | its server, else its node |
//! | else | | `node`, said outright |
//! | saved login | | the one in use |
//! | defaults | the default directory, else the default socket | the default directory, else the default socket |
//!
//! A node that runs alone is its own server, which is why the server may be
//! a node.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use strata_identity::Expect;

use crate::context::Contexts;
use crate::error::{Error, Result};
use crate::proof::{Peer, from_context};
use crate::{Address, Endpoints, Target};

/// Default locations.
#[derive(Clone, Debug)]
pub struct Places {
    /// The socket of a node.
    pub node_socket: PathBuf,
    /// The directory a daemon keeps its state in.
    pub data_dir: PathBuf,
    /// The file with the saved logins; none where there is no home.
    pub logins: Option<PathBuf>,
}

impl Places {
    /// The places of a machine, for the user whose home is `home`.
    pub fn new(home: Option<&Path>) -> Self {
        Self {
            node_socket: "/run/strata/node.sock".into(),
            data_dir: "/var/lib/strata".into(),
            logins: home.map(|home| home.join(".config/strata/config.toml")),
        }
    }
}

/// What was said about where to connect to and how.
#[derive(Clone)]
pub struct Discovery {
    /// The node, said outright.
    pub node: Option<Address>,
    /// The server, said outright.
    pub server: Option<Address>,
    /// The data directory of a daemon of this machine.
    pub data_dir: Option<PathBuf>,
    /// A directory with `{ca.crt,client.crt,client.key}`.
    pub credentials: Option<PathBuf>,
    /// An API token; requires `ca` or `data_dir`.
    pub token: Option<String>,
    /// The file of the CA that a token is shown to.
    pub ca: Option<PathBuf>,
    /// Where to look when nothing was said.
    pub places: Places,
}

impl Discovery {
    /// Nothing said: the defaults of `places`.
    pub fn new(places: Places) -> Self {
        Self {
            node: None,
            server: None,
            data_dir: None,
            credentials: None,
            token: None,
            ca: None,
            places,
        }
    }

    /// The node to talk to.
    pub fn node(&self) -> Result<Target> {
        if let Some(address) = self.node.clone() {
            return self.prove(node_at(address));
        }
        let mut tried = Vec::new();
        if let Some(data_dir) = &self.data_dir {
            let found = self.node_of(data_dir, &mut tried)?;
            return found.ok_or(Error::Nowhere {
                what: "node",
                tried,
            });
        }
        // Without a word the default directory may well not be ours to read.
        match self.node_of(&self.places.data_dir, &mut tried) {
            Ok(Some(target)) => Ok(target),
            Ok(None) | Err(Error::File { .. }) => Ok(self.default_socket()),
            Err(error) => Err(error),
        }
    }

    /// The server to talk to.
    pub fn server(&self) -> Result<Target> {
        if let Some(address) = self.server.clone() {
            return self.prove(server_at(address));
        }
        let mut tried = Vec::new();
        let found = if let Some(data_dir) = &self.data_dir {
            self.server_of(data_dir, &mut tried)?
        } else if let Some(address) = self.node.clone() {
            return self.prove(node_at(address));
        } else if let Some(target) = self.saved(&mut tried)? {
            Some(target)
        } else {
            match self.server_of(&self.places.data_dir, &mut tried) {
                Ok(None) | Err(Error::File { .. }) if usable(&self.places.node_socket) => {
                    Some(self.default_socket())
                }
                found => found?,
            }
        };
        found.ok_or(Error::Nowhere {
            what: "server",
            tried,
        })
    }

    fn default_socket(&self) -> Target {
        Target::Unix(self.places.node_socket.clone())
    }

    fn node_of(&self, data_dir: &Path, tried: &mut Vec<String>) -> Result<Option<Target>> {
        let client = data_dir.join("client");
        match read_endpoints(&client, tried)? {
            Some(endpoints) => self.node_among(&endpoints, &client, tried),
            None => Ok(None),
        }
    }

    fn node_among(
        &self,
        endpoints: &Endpoints,
        client: &Path,
        tried: &mut Vec<String>,
    ) -> Result<Option<Target>> {
        let file = Endpoints::path(client);
        match (&endpoints.node_socket, &endpoints.node) {
            (Some(socket), _) if usable(socket) => Ok(Some(Target::Unix(socket.clone()))),
            (_, Some(node)) => {
                let peer = node_at(parse(node, &file)?);
                self.prove_from(peer, client).map(Some)
            }
            // Let the socket itself say what is wrong with it.
            (Some(socket), None) => Ok(Some(Target::Unix(socket.clone()))),
            (None, None) => {
                tried.push(format!("{} names no node", file.display()));
                Ok(None)
            }
        }
    }

    fn server_of(&self, data_dir: &Path, tried: &mut Vec<String>) -> Result<Option<Target>> {
        let client = data_dir.join("client");
        let Some(endpoints) = read_endpoints(&client, tried)? else {
            return Ok(None);
        };
        match &endpoints.server {
            Some(server) => {
                let peer = server_at(parse(server, &Endpoints::path(&client))?);
                self.prove_from(peer, &client).map(Some)
            }
            None => self.node_among(&endpoints, &client, tried),
        }
    }

    fn saved(&self, tried: &mut Vec<String>) -> Result<Option<Target>> {
        let Some(file) = &self.places.logins else {
            return Ok(None);
        };
        let contexts = Contexts::read(file)?;
        let Some(context) = contexts.current() else {
            tried.push(format!("{} contains no context", file.display()));
            return Ok(None);
        };
        let peer = server_at(parse(&context.server, file)?);
        match self.said_proof(&peer)? {
            Some(target) => Ok(Some(target)),
            None => from_context(peer, context, file).map(Some),
        }
    }
}

fn node_at(address: Address) -> Peer {
    let expect = Expect::Node;
    Peer { address, expect }
}

fn server_at(address: Address) -> Peer {
    let expect = Expect::Server;
    Peer { address, expect }
}

fn read_endpoints(client: &Path, tried: &mut Vec<String>) -> Result<Option<Endpoints>> {
    let endpoints = Endpoints::read(client)?;
    if endpoints.is_none() {
        let file = Endpoints::path(client);
        tried.push(format!("{} does not exist", file.display()));
    }
    Ok(endpoints)
}

fn parse(address: &str, file: &Path) -> Result<Address> {
    let damaged = |why: crate::BadAddress| Error::Damaged {
        path: file.to_owned(),
        reason: why.to_string(),
    };
    address.parse().map_err(damaged)
}

/// Whether this user may write to the socket, which is what connecting is.
fn usable(socket: &Path) -> bool {
    access(socket, Access::WRITE_OK).is_ok()
}
