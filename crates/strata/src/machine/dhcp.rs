//! An address for a machine that is on its own: asked for on every card in
//! turn until a server answers, and kept for as long as it may be.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use strata_network::dhcp::client::{Lease, Told, discover, read, request};
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
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// So often it is asked on one card before the next one's turn.
const TRIES: usize = 4;
/// Between two rounds over all cards.
const PAUSE: Duration = Duration::from_secs(1);
/// No lease is asked to be kept more often than that.
const LEAST_REST: Duration = Duration::from_secs(30);

/// Gets an address, tells it, and keeps it. Never ends.
pub(super) async fn keep(told: watch::Sender<Option<Ipv4Addr>>) {
    loop {
        let (card, lease) = first_lease().await;
        let (address, prefix) = (lease.address, lease.prefix);
        say(&format!("{} is {address}/{prefix}", card.name));
        told.send_replace(Some(address));
        renew(&card, lease).await;
        say(&format!("{address} could not be kept"));
    }
}

/// Asks on all cards, again and again.
async fn first_lease() -> (Card, Lease) {
    let mut silent = false;
    loop {
        for card in Card::all(Path::new("/sys/class/net")) {
            match card.ask_for_one().await {
                Ok(lease) => return (card, lease),
                Err(error) if silent => drop(error),
                Err(error) => say(&format!("no address for {}: {error}", card.name)),
            }
        }
        silent = true;
        sleep(PAUSE).await;
    }
}

/// Asks to keep the address when half of its time is over, and again; ends
/// when the server says no, or has said nothing until it is over.
async fn renew(card: &Card, mut lease: Lease) {
    loop {
        let Some(seconds) = lease.seconds else {
            return std::future::pending().await;
        };
        let whole = Duration::from_secs(seconds.into());
        let end = Instant::now() + whole;
        sleep((whole / 2).max(LEAST_REST)).await;
        lease = loop {
            match card.ask_to_keep(&lease).await {
                Ok(Some(kept)) => break kept,
                Ok(None) => return,
                Err(_) if Instant::now() < end => sleep(LEAST_REST).await,
                Err(_) => return,
            }
        };
    }
}

/// A network card.
#[derive(Debug)]
struct Card {
    name: String,
    index: u32,
    mac: Mac,
}

impl Card {
    /// All cards of the machine, in the order the kernel found them. Bridges
    /// and the like have no device.
    fn all(interfaces: &Path) -> Vec<Self> {
        let entries = fs::read_dir(interfaces).into_iter().flatten().flatten();
        let cards = entries.filter_map(|entry| Self::look_at(&entry.path()));
        let mut cards: Vec<_> = cards.collect();
        cards.sort_by_key(|card| card.index);
        cards
    }

    fn look_at(folder: &Path) -> Option<Self> {
        const ETHERNET: &str = "1";
        let said = |file: &str| fs::read_to_string(folder.join(file)).ok();
        if said("type")?.trim() != ETHERNET || !folder.join("device").exists() {
            return None;
        }
        Some(Self {
            name: folder.file_name()?.to_str()?.to_owned(),
            index: said("ifindex")?.trim().parse().ok()?,
            mac: mac(said("address")?.trim())?,
        })
    }

    /// Switches the card on, asks for an address and takes it.
    async fn ask_for_one(&self) -> io::Result<Lease> {
        uplink::switch_on(self.index).map_err(io::Error::other)?;
        let socket = self.socket()?;
        let offered = |told| match told {
            Told::Offered(lease) => Some(Ok(lease)),
            _ => None,
        };
        let lease = self
            .ask(&socket, |number| discover(number, self.mac), offered)
            .await?;
        match self.confirm(&socket, &lease).await? {
            Some(lease) => Ok(lease),
            None => Err(io::Error::other("the server took back what it offered")),
        }
    }

    async fn ask_to_keep(&self, lease: &Lease) -> io::Result<Option<Lease>> {
        self.confirm(&self.socket()?, lease).await
    }

    /// Asks for this address, and gives it to the card; none when the server
    /// says no.
    async fn confirm(&self, socket: &UdpSocket, lease: &Lease) -> io::Result<Option<Lease>> {
        let granted = |told| match told {
            Told::Granted(lease) => Some(Ok(Some(lease))),
            Told::Refused => Some(Ok(None)),
            Told::Offered(_) => None,
        };
        let asked = |number| request(number, self.mac, lease);
        let granted = self.ask(socket, asked, granted).await?;
        if let Some(lease) = &granted {
            uplink::give(self.index, lease).map_err(io::Error::other)?;
            fs::write("/etc/resolv.conf", resolv(lease))?;
        }
        Ok(granted)
    }

    /// Says something until somebody answers it.
    async fn ask<T>(
        &self,
        socket: &UdpSocket,
        say: impl Fn(u32) -> Vec<u8>,
        hear: impl Fn(Told) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut wait = FIRST_WAIT;
        for _ in 0..TRIES {
            let number = any_number();
            // Right after a card was switched on it may not send yet.
            let sent = socket.send_to(&say(number), SERVER).await;
            let until = Instant::now() + wait;
            wait = (wait * 2).min(LONGEST_WAIT);
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
        Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers"))
    }

    /// A socket that speaks and hears by this card alone.
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

/// Tells our own conversation from those of others on the wire. The table that
/// is never filled begins with something random.
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
    fn only_cards_are_asked_on() {
        let folder = tempfile::tempdir().unwrap();
        let interface = |name: &str, kind: &str, index: &str, device: bool| {
            let path = folder.path().join(name);
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
        let cards = Card::all(folder.path());
        let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        assert_eq!(cards[0].mac, Mac([2, 0, 0, 0, 0, 7]));
        assert_eq!(mac("02:00:00:00:00"), None);
        assert_eq!(mac("02:00:00:00:00:00:00"), None);
    }
}
