//! Files that are read.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::read::MultiGzDecoder;

/// Where a file's bytes come from.
pub(super) enum Source {
    File(BufReader<File>),
    /// What can only be read on: standard input, a compressed file.
    Stream(Box<dyn Read + Send>),
}

impl Read for Source {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read(bytes),
            Source::Stream(stream) => stream.read(bytes),
        }
    }
}

impl Source {
    /// Opens a file, which may be compressed by gzip; `-` is standard input.
    pub fn open(name: &str) -> io::Result<Source> {
        if name == "-" {
            return Ok(Source::Stream(Box::new(BufReader::new(io::stdin()))));
        }
        let mut file = File::open(name)?;
        let mut mark = [0; 2];
        let marked = file.read(&mut mark)? == 2 && mark == [0x1f, 0x8b];
        if file.seek(SeekFrom::Start(0)).is_err() {
            // A pipe has no beginning to go back to.
            let file = io::Cursor::new(mark).chain(file);
            return Ok(Source::Stream(Box::new(BufReader::new(file))));
        }
        let file = BufReader::new(file);
        Ok(if marked { Source::Stream(Box::new(MultiGzDecoder::new(file))) } else { Source::File(file) })
    }

    /// Goes to a place; a stream only forward from `now`.
    pub fn seek(&mut self, now: u64, to: u64) -> io::Result<()> {
        match self {
            Source::File(file) => file.seek(SeekFrom::Start(to)).map(|_| ()),
            Source::Stream(stream) => {
                let forward = to.checked_sub(now).ok_or_else(|| io::Error::other("cannot seek backward"))?;
                io::copy(&mut stream.take(forward), &mut io::sink()).map(|_| ())
            }
        }
    }
}
