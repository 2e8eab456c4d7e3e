//! The watcher: receives changes from the kernel, and repairs what others
//! broke: a flushed ruleset, a removed bridge. Nothing is polled.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::Network;
use crate::error::{NetworkError, Result, kernel};
use crate::forwarding::is_uplink;
use crate::link::Link;
use crate::netlink::{Family, NetlinkError, Reply, Socket, groups, nft, route};
use crate::network::Inner;

/// A repair that failed is tried again after this.
const AGAIN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Repairs for as long as it is held.
#[derive(Debug)]
pub struct Watcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is broken, as far as notified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RepairNeeds {
    rules: bool,
    bridge: bool,
    overlay: bool,
    /// An interface of the host came that we have not seen.
    uplinks: bool,
}

impl RepairNeeds {
    const ALL: Self = Self {
        rules: true,
        bridge: true,
        overlay: true,
        uplinks: true,
    };
}

impl Network {
    /// Watches and repairs until the watcher is dropped.
    pub fn watch(&self) -> Result<Watcher> {
        let listen =
            |family, group| Socket::listen(family, group).map_err(kernel("listen for changes"));
        let rules = listen(Family::Netfilter, groups::NFTABLES)?;
        let links = listen(Family::Route, groups::LINK)?;
        let fail = |source: std::io::Error| NetworkError::Listen {
            what: "changes",
            source,
        };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
        let stop = Arc::new(stop);
        let mut watch = Watch {
            inner: Arc::clone(&self.0),
            stop: Arc::clone(&stop),
            rules,
            links,
            // What happened before it listened was not received.
            broken: self.0.broken_now(),
        };
        let thread = std::thread::Builder::new()
            .name("net-watch".into())
            .spawn(move || watch.run())
            .map_err(fail)?;
        Ok(Watcher {
            stop,
            thread: Some(thread),
        })
    }
}

struct Watch {
    inner: Arc<Inner>,
    stop: Arc<OwnedFd>,
    rules: Socket,
    links: Socket,
    broken: RepairNeeds,
}

impl Watch {
    fn run(&mut self) {
        loop {
            let failed = !self.repair();
            let ready = {
                let mut fds = [
                    PollFd::new(&*self.stop, PollFlags::IN),
                    PollFd::new(&self.rules, PollFlags::IN),
                    PollFd::new(&self.links, PollFlags::IN),
                ];
                match poll(&mut fds, failed.then_some(&AGAIN)) {
                    Ok(_) => fds.map(|fd| !fd.revents().is_empty()),
                    Err(_) => continue,
                }
            };
            if ready[0] {
                return;
            }
            if ready[1] {
                let heard = self.rules.receive();
                self.note(heard, Self::note_rules);
            }
            if ready[2] {
                let heard = self.links.receive();
                self.note(heard, Self::note_link);
            }
        }
    }

    fn note(&mut self, heard: Result<Vec<Reply>, NetlinkError>, each: fn(&mut Self, &Reply)) {
        match heard {
            Ok(replies) => replies.iter().for_each(|reply| each(self, reply)),
            // There was more than the socket holds: anything may have happened.
            Err(_) => self.broken = RepairNeeds::ALL,
        }
    }

    /// A change of our table by another program.
    fn note_rules(&mut self, reply: &Reply) {
        let ours = reply.port == self.inner.rules_port;
        if reply.kind >> 8 != nft::SUBSYSTEM || reply.kind == nft::NEWGEN || ours {
            return;
        }
        // All kinds have the name of the table as their first attribute.
        let table = reply.attributes(nft::HEADER).text(nft::TABLE_NAME);
        self.broken.rules |= table == Some(self.inner.table.as_str());
    }

    /// One of our devices that is gone, or down.
    fn note_link(&mut self, reply: &Reply) {
        let of_a_port = reply.body().first() != Some(&0);
        let Some(link) = Link::read(reply).filter(|_| !of_a_port) else {
            return;
        };
        if reply.kind == route::NEWLINK {
            let known = || self.inner.state().uplinks.contains(&link.name);
            self.broken.uplinks |= is_uplink(&link.name) && !known();
            if link.up {
                return;
            }
        }
        let tag = &self.inner.config.tag;
        self.broken.bridge |= link.name == tag.bridge();
        // The routes of the overlay go with the bridge.
        self.broken.overlay |= [tag.overlay(), tag.wireguard(), tag.bridge()].contains(&link.name);
    }

    /// Repairs what is broken; whether all of that worked.
    fn repair(&mut self) -> bool {
        let broken = std::mem::take(&mut self.broken);
        let inner = Arc::clone(&self.inner);
        let tried = |what: &'static str, wanted: bool, work: &dyn Fn() -> Result<()>| {
            if !wanted {
                return false;
            }
            match work() {
                Ok(()) => {
                    tracing::warn!(what, "network was changed from outside; repaired");
                    false
                }
                Err(error) => {
                    tracing::error!(what, %error, "network was changed from outside and is not repaired; retrying");
                    true
                }
            }
        };
        self.broken = RepairNeeds {
            bridge: tried("bridge", broken.bridge, &|| inner.repair_bridge()),
            uplinks: broken.uplinks && inner.refresh_uplinks().is_err(),
            overlay: tried("overlay", broken.overlay, &|| inner.repair_overlay()),
            rules: tried("rules", broken.rules, &|| inner.rebuild(&mut inner.rules())),
        };
        self.broken == RepairNeeds::default()
    }
}

impl Inner {
    fn broken_now(&self) -> RepairNeeds {
        let rules = !matches!(self.table_of(&mut self.rules()).exists(), Ok(true));
        let bridge = crate::link::find(&mut self.links(), &self.config.tag.bridge());
        RepairNeeds {
            rules,
            bridge: !matches!(bridge, Ok(Some(bridge)) if bridge.up),
            overlay: false,
            uplinks: false,
        }
    }
}
