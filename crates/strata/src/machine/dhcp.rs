//! A DHCP client for a host that runs on Strata alone: tries every NIC in turn
//! until a server answers, and renews the lease.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use strata_network::dhcp::client::{DhcpReply, Lease, discover, read, request};
use strata_network::{Mac, uplink};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::say;

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 67);
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);
/// More than an Ethernet frame holds.
const LARGEST: usize = 2048;
/// How long an answer is waited for, the first time and at most; each try
/// waits twice as long as the one before.
const INITIAL_TIMEOUT: Duration = Duration::from_millis(250);
const MAX_TIMEOUT: Duration = Duration::from_secs(4);
/// Attempts on one NIC before the next one is tried.
const MAX_ATTEMPTS: usize = 4;
/// Interval between rounds over all NICs.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between renewals of a lease.
const MIN_RENEW_INTERVAL: Duration = Duration::from_secs(30);

/// Gets an address, reports it, and renews it. Never returns.
pub(super) async fn keep(told: watch::Sender<Option<Ipv4Addr>>) {
    loop {
        let (nic, lease) = first_lease().await;
        let (address, prefix) = (lease.address, lease.prefix);
        say(&format!("{} is {address}/{prefix}", nic.name));
        told.send_replace(Some(address));
        renew(&nic, lease).await;
        say(&format!("{address} could not be kept"));
    }
}

/// Sends requests on all NICs, again and again.
async fn first_lease() -> (Nic, Lease) {
    let mut silent = false;
    loop {
        for nic in Nic::all(Path::new("/sys/class/net")) {
            match nic.ask_for_one().await {
                Ok(lease) => return (nic, lease),
                Err(error) if silent => drop(error),
                Err(error) => say(&format!("no address for {}: {error}", nic.name)),
            }
        }
        silent = true;
        sleep(ROUND_INTERVAL).await;
    }
}

/// Renews the lease at half of its time, and again; returns when the server
/// rejects it, or when it expires.
async fn renew(nic: &Nic, mut lease: Lease) {
    loop {
        let Some(seconds) = lease.seconds else {
            return std::future::pending().await;
        };
        let whole = Duration::from_secs(seconds.into());
        let end = Instant::now() + whole;
        sleep((whole / 2).max(MIN_RENEW_INTERVAL)).await;
        lease = loop {
            match nic.ask_to_keep(&lease).await {
                Ok(Some(kept)) => break kept,
                Ok(None) => return,
                Err(_) if Instant::now() < end => sleep(MIN_RENEW_INTERVAL).await,
                Err(_) => return,
            }
        };
    }
}

#[derive(Debug)]
struct Nic {
    name: String,
    index: u32,
    mac: Mac,
}

impl Nic {
    /// All NICs of the machine, in the order the kernel found them. Bridges and
    /// the like have no device.
    fn all(interfaces: &Path) -> Vec<Self> {
        let entries = fs::read_dir(interfaces).into_iter().flatten().flatten();
        let nics = entries.filter_map(|entry| Self::look_at(&entry.path()));
        let mut nics: Vec<_> = nics.collect();
        nics.sort_by_key(|nic| nic.index);
        nics
    }

    fn look_at(directory: &Path) -> Option<Self> {
        const ETHERNET: &str = "1";
        let said = |file: &str| fs::read_to_string(directory.join(file)).ok();
        if said("type")?.trim() != ETHERNET || !directory.join("device").exists() {
            return None;
        }
        Some(Self {
            name: directory.file_name()?.to_str()?.to_owned(),
            index: said("ifindex")?.trim().parse().ok()?,
            mac: mac(said("address")?.trim())?,
        })
    }

    /// Brings the NIC up, requests an address and configures it.
    async fn ask_for_one(&self) -> io::Result<Lease> {
        uplink::switch_on(self.index).map_err(io::Error::other)?;
        let socket = self.socket()?;
        let offered = |told| match told {
            DhcpReply::Offered(lease) => Some(Ok(lease)),
            _ => None,
        };
        let lease = self
            .ask(&socket, |number| discover(number, self.mac), offered)
            .await?;
        match self.confirm(&socket, &lease).await? {
            Some(lease) => Ok(lease),
            None => Err(io::Error::other(
                "the server rejected the address it offered",
            )),
        }
    }

    async fn ask_to_keep(&self, lease: &Lease) -> io::Result<Option<Lease>> {
        self.confirm(&self.socket()?, lease).await
    }

    /// Requests this address and configures it on the NIC; `None` if the server
    /// rejects it.
    async fn confirm(&self, socket: &UdpSocket, lease: &Lease) -> io::Result<Option<Lease>> {
        let granted = |told| match told {
            DhcpReply::Granted(lease) => Some(Ok(Some(lease))),
            DhcpReply::Refused => Some(Ok(None)),
            DhcpReply::Offered(_) => None,
        };
        let asked = |number| request(number, self.mac, lease);
        let granted = self.ask(socket, asked, granted).await?;
        if let Some(lease) = &granted {
            uplink::give(self.index, lease).map_err(io::Error::other)?;
            fs::write("/etc/resolv.conf", resolv(lease))?;
        }
        Ok(granted)
    }

    /// Sends a message until it is answered.
    async fn ask<T>(
        &self,
        socket: &UdpSocket,
        say: impl Fn(u32) -> Vec<u8>,
        hear: impl Fn(DhcpReply) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut wait = INITIAL_TIMEOUT;
        for _ in 0..MAX_ATTEMPTS {
            let number = any_number();
            // Right after a NIC was switched on it may not send yet.
            let sent = socket.send_to(&say(number), SERVER).await;
            let until = Instant::now() + wait;
            wait = (wait * 2).min(MAX_TIMEOUT);
            if sent.is_err() {
                tokio::time::sleep_until(until).await;
                continue;
            }
            let mut buffer = [0; LARGEST];
            while let Ok(heard) = timeout_at(until, socket.recv(&mut buffer)).await {
                let told = read(&buffer[..heard?], number, self.mac);
                if let Some(answer) = told.and_then(&hear) {
                    return answer;
                }
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "no DHCP server answers",
        ))
    }

    /// A socket that sends and receives by this NIC alone.
    fn socket(&self) -> io::Result<UdpSocket> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        let socket = UdpSocket::from_std(fd.into())?;
        socket.bind_device(Some(self.name.as_bytes()))?;
        socket.set_broadcast(true)?;
        bind(&socket, &CLIENT)?;
        Ok(socket)
    }
}

/// Distinguishes our own exchange from those of others on the wire. A hasher
/// that is fed nothing still begins with random keys.
fn any_number() -> u32 {
    let hash = RandomState::new().build_hasher().finish();
    u32::try_from(hash >> 32).unwrap_or_default()
}

fn mac(text: &str) -> Option<Mac> {
    let mut parts = text.split(':').map(|part| u8::from_str_radix(part, 16));
    let mut bytes = [0; 6];
    for byte in &mut bytes {
        *byte = parts.next()?.ok()?;
    }
    parts.next().is_none().then_some(Mac(bytes))
}

fn resolv(lease: &Lease) -> String {
    let names = lease.names.iter();
    let mut text: String = names.map(|name| format!("nameserver {name}\n")).collect();
    if let Some(domain) = &lease.domain {
        text += &format!("search {domain}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dhcp_runs_only_on_nics() {
        let directory = tempfile::tempdir().unwrap();
        let interface = |name: &str, kind: &str, index: &str, device: bool| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            for (file, text) in [
                ("type", kind),
                ("ifindex", index),
                ("address", "02:00:00:00:00:07\n"),
            ] {
                fs::write(path.join(file), text).unwrap();
            }
            if device {
                fs::write(path.join("device"), "").unwrap();
            }
        };
        interface("lo", "772\n", "1\n", false);
        interface("eth1", "1\n", "3\n", true);
        interface("eth0", "1\n", "2\n", true);
        interface("br0", "1\n", "4\n", false);
        let nics = Nic::all(directory.path());
        let names: Vec<_> = nics.iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        assert_eq!(nics[0].mac, Mac([2, 0, 0, 0, 0, 7]));
        assert_eq!(mac("02:00:00:00:00"), None);
        assert_eq!(mac("02:00:00:00:00:00:00"), None);
    }
}
