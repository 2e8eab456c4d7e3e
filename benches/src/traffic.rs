//! Both ends of a connection, as this program runs them in a pod or in a bare
//! namespace: as much as goes through in a while, and one byte to and fro.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::Result;

/// Makes this program the receiver.
pub(crate) const RECEIVE: &str = "--receive";
/// Makes it send, and print bits per second.
pub(crate) const SEND: &str = "--send";
/// Makes it measure round trips, and print the median in nanoseconds.
pub(crate) const PING: &str = "--ping";

const CHUNK: usize = 128 << 10;
const STREAM: u8 = b's';
const ECHO: u8 = b'e';
const TIMEOUT: Duration = Duration::from_secs(30);

/// Serves one connection after the other, without end.
pub(crate) fn receive(port: &str) -> Result {
    let listener = TcpListener::bind(("0.0.0.0", port.parse()?))?;
    let mut buffer = vec![0; CHUNK];
    for connection in listener.incoming() {
        // The sender reports a connection that breaks off.
        let _ = serve(connection?, &mut buffer);
    }
    Ok(())
}

fn serve(mut connection: TcpStream, buffer: &mut [u8]) -> Result {
    connection.set_nodelay(true)?;
    let mut kind = [0];
    connection.read_exact(&mut kind)?;
    let mut total: u64 = 0;
    loop {
        let length = connection.read(buffer)?;
        if length == 0 {
            break;
        }
        total += length as u64;
        if kind == [ECHO] {
            connection.write_all(&buffer[..length])?;
        }
    }
    connection.write_all(&total.to_be_bytes())?;
    Ok(())
}

fn connect(address: &str, kind: u8) -> Result<TcpStream> {
    let begin = Instant::now();
    // The receiver may be just starting.
    let mut connection = loop {
        match TcpStream::connect(address) {
            Ok(connection) => break connection,
            Err(error) if begin.elapsed() > TIMEOUT => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.write_all(&[kind])?;
    Ok(connection)
}

/// Sends as much as goes through, until the other side has all of it.
#[allow(clippy::print_stdout)]
pub(crate) fn send(address: &str, seconds: &str) -> Result {
    let span = Duration::from_secs(seconds.parse()?);
    let mut connection = connect(address, STREAM)?;
    let chunk = vec![0x5a; CHUNK];
    let begin = Instant::now();
    while begin.elapsed() < span {
        connection.write_all(&chunk)?;
    }
    connection.shutdown(std::net::Shutdown::Write)?;
    let mut total = [0; 8];
    connection.read_exact(&mut total)?;
    let bits = u64::from_be_bytes(total) as f64 * 8.0;
    println!("{:.0}", bits / begin.elapsed().as_secs_f64());
    Ok(())
}

#[allow(clippy::print_stdout)]
pub(crate) fn ping(address: &str, times: &str) -> Result {
    let mut connection = connect(address, ECHO)?;
    let mut trips = Vec::new();
    for _ in 0..times.parse::<usize>()? {
        let begin = Instant::now();
        connection.write_all(&[1])?;
        connection.read_exact(&mut [0])?;
        trips.push(begin.elapsed());
    }
    trips.sort_unstable();
    let median = trips.get(trips.len() / 2).ok_or("no trips")?;
    println!("{}", median.as_nanos());
    Ok(())
}
