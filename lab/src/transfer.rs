//! A long TCP transfer whose bytes are compared from end to end.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{Host, LabError, Result};

/// What a transfer came to.
pub struct Transfer {
    /// Bytes sent.
    pub bytes: u64,
    /// SHA-256 of what was sent, in hexadecimal.
    pub sent: String,
    /// SHA-256 of what arrived.
    pub arrived: String,
    /// From the connection to the last byte.
    pub time: Duration,
}

/// Sends `bytes` pseudo-random bytes from one host to an address of another, and gives the hashes
/// of both ends.
pub fn transfer(from: &Host, to: &Host, address: IpAddr, bytes: u64) -> Result<Transfer> {
    const PORT: u16 = 5001;
    let listener = to.inside(move || -> std::io::Result<TcpListener> {
        let any: IpAddr =
            if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        // A child that was forked off beside, and has not begun its program yet, may have the
        // listener of a transfer before.
        let start = Instant::now();
        loop {
            match TcpListener::bind((any, PORT)) {
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse && start.elapsed() < Duration::from_secs(5) =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                bound => return bound,
            }
        }
    })?;
    let listener = joined(listener)?;
    let receiver = std::thread::spawn(move || -> std::io::Result<String> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut hash = Hash::new()?;
        let mut block = vec![0; 256 << 10];
        loop {
            match stream.read(&mut block)? {
                0 => return hash.finish(),
                n => hash.update(&block[..n])?,
            }
        }
    });
    let start = Instant::now();
    let sender = from.inside(move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&(address, PORT).into(), Duration::from_secs(5))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        let mut hash = Hash::new()?;
        let mut block = vec![0u8; 256 << 10];
        let mut random = chance::Random(1);
        let mut left = bytes;
        while left > 0 {
            for word in block.as_chunks_mut::<8>().0 {
                *word = random.next().to_le_bytes();
            }
            let part = &block[..left.min(block.len() as u64) as usize];
            hash.update(part)?;
            stream.write_all(part)?;
            left -= part.len() as u64;
        }
        hash.finish()
    })?;
    let sent = joined(sender)?;
    let arrived = joined(receiver)?;
    Ok(Transfer { bytes, sent, arrived, time: start.elapsed() })
}

fn joined<T>(thread: std::thread::JoinHandle<std::io::Result<T>>) -> Result<T> {
    let ended = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")));
    ended.map_err(LabError::io("a TCP transfer"))
}

/// coreutils' sha256sum, fed through a pipe: it uses the processor's own instructions.
struct Hash(Child);

impl Hash {
    fn new() -> std::io::Result<Hash> {
        let child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        Ok(Hash(child))
    }

    fn update(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), |pipe| pipe.write_all(bytes))
    }

    fn finish(mut self) -> std::io::Result<String> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output()?;
        Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned())
    }
}
