//! What the overlay costs, from a node to an instance of another: how fast a
//! file comes, and how long a connection takes to be made.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use strata_testkit::NetworkNamespace;

use super::world::LARGE;

const DOWNLOADS: usize = 10;
const CONNECTIONS: usize = 200;

pub(super) struct Cost {
    /// The best of all downloads.
    bytes_per_second: f64,
    /// The median of all connections.
    round_trip: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes_per_second / 1e6;
        write!(f, "{megabytes:.1} MB/s, connected in {:?}", self.round_trip)
    }
}

pub(super) fn measure(network: &NetworkNamespace, to: Ipv4Addr) -> Cost {
    let measured = network.inside(move || {
        let mut best = Duration::MAX;
        for _ in 0..DOWNLOADS {
            best = best.min(download(to)?);
        }
        let mut times = Vec::new();
        for _ in 0..CONNECTIONS {
            let begin = Instant::now();
            TcpStream::connect((to, 80))?;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        Ok(Cost {
            bytes_per_second: LARGE as f64 / best.as_secs_f64(),
            round_trip: times[CONNECTIONS / 2],
        })
    });
    measured.unwrap()
}

/// From the first byte that is sent to the last that comes.
fn download(to: Ipv4Addr) -> io::Result<Duration> {
    let mut stream = TcpStream::connect((to, 80))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let begin = Instant::now();
    stream.write_all(b"GET /large HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::with_capacity(LARGE + 4096);
    stream.read_to_end(&mut answer)?;
    assert!(answer.len() >= LARGE, "{} bytes", answer.len());
    Ok(begin.elapsed())
}
