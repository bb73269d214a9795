//! Packets one after the other, from a file of any kind.

use std::io::{ErrorKind, Read};

use super::pcap;
use super::pcapng::{SECTION_HEADER, Section};
use super::{CaptureError, MOST, Record};

/// What kind of file it is.
#[derive(Clone, Debug)]
enum Kind {
    Pcap(pcap::Header),
    Pcapng(Section),
}

/// A file being read.
pub struct Reader<R> {
    source: R,
    kind: Kind,
    position: u64,
    /// A block of pcapng that was read already to know the link type.
    ahead: Option<(u32, Vec<u8>)>,
    cut: bool,
}

impl<R: Read> Reader<R> {
    /// Reads as much as says what kind of file it is and, as far as a file says it, what packets
    /// begin with.
    ///
    /// # Errors
    /// When it is no file of captured packets.
    pub fn new(mut source: R) -> Result<Reader<R>, CaptureError> {
        let mut header = [0; pcap::HEADER];
        match fill(&mut source, &mut header)? {
            0 => return Err(CaptureError::Empty),
            pcap::HEADER => {}
            _ => return Err(CaptureError::TooShort),
        }
        if header[..4] != SECTION_HEADER.to_le_bytes() {
            let kind = Kind::Pcap(pcap::Header::parse(&header)?);
            return Ok(Reader { source, kind, position: pcap::HEADER as u64, ahead: None, cut: false });
        }
        let part = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let section = Section::begin(part(8))?;
        let rest = (section.number(part(4)) as usize).checked_sub(pcap::HEADER).filter(|rest| *rest <= MOST);
        let position = pcap::HEADER as u64;
        let mut reader = Reader { source, kind: Kind::Pcapng(section), position, ahead: None, cut: false };
        reader.skip(rest.ok_or(CaptureError::BadRecord)?)?;
        // The first interface's link type is known as soon as it has been described.
        while reader.link().is_none() && reader.ahead.is_none() {
            match reader.raw_block()? {
                Some(block) if block.0 == 1 => reader.take_in(&block)?,
                block => reader.ahead = Some(block.unwrap_or_default()),
            }
        }
        Ok(reader)
    }

    /// What packets begin with; in a pcapng file, those of the first interface.
    pub fn link(&self) -> Option<u32> {
        match &self.kind {
            Kind::Pcap(header) => Some(header.link),
            Kind::Pcapng(section) => section.link(),
        }
    }

    /// Bytes read so far; where the next packet's header begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the file ended in the middle of something.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Goes on at `position`, where a packet's header begins, after `source` was moved there.
    pub fn moved(
        &mut self,
        position: u64,
        change: impl FnOnce(&mut R) -> std::io::Result<()>,
    ) -> Result<(), CaptureError> {
        change(&mut self.source)?;
        (self.position, self.ahead) = (position, None);
        Ok(())
    }

    /// The next packet; its bytes go into `bytes`. `None` at the end; what is left of a file that
    /// was cut off is not a packet.
    ///
    /// # Errors
    /// When the file cannot be read, or says what cannot be true.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, CaptureError> {
        if let Kind::Pcap(header) = &self.kind {
            let header = *header;
            return self.next_pcap(&header, bytes);
        }
        while let Some((kind, body)) = self.next_block()? {
            if let Kind::Pcapng(section) = &mut self.kind
                && let Some((record, data)) = section.block(kind, &body)?
            {
                bytes.clear();
                bytes.extend_from_slice(data);
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    fn next_pcap(
        &mut self,
        header: &pcap::Header,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Record>, CaptureError> {
        let mut record = [0; pcap::RECORD];
        let has = self.read(&mut record)?;
        if has < pcap::RECORD {
            self.cut = has != 0;
            return Ok(None);
        }
        let read = header.record(&record)?;
        self.skip(header.extra)?;
        bytes.resize(read.captured, 0);
        if self.read(bytes)? < read.captured {
            self.cut = true;
            return Ok(None);
        }
        self.skip(read.surplus)?;
        Ok(Some(read.record))
    }

    fn next_block(&mut self) -> Result<Option<(u32, Vec<u8>)>, CaptureError> {
        match self.ahead.take() {
            // What was found in place of a first block is the end.
            Some((0, body)) if body.is_empty() => Ok(None),
            Some(block) => Ok(Some(block)),
            None => self.raw_block(),
        }
    }

    /// A block's kind and body. A new section is begun here.
    fn raw_block(&mut self) -> Result<Option<(u32, Vec<u8>)>, CaptureError> {
        let mut frame = [0; 8];
        let has = self.read(&mut frame)?;
        if has < frame.len() {
            self.cut = has != 0;
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h] = frame;
        let Kind::Pcapng(section) = &mut self.kind else { return Ok(None) };
        let mut before = 8;
        if u32::from_le_bytes([a, b, c, d]) == SECTION_HEADER {
            let mut order = [0; 4];
            if fill(&mut self.source, &mut order)? < order.len() {
                return Ok(None);
            }
            self.position += 4;
            before += 4;
            *section = Section::begin(order)?;
        }
        let kind = section.number([a, b, c, d]);
        let length = section.number([e, f, g, h]) as usize;
        let body =
            length.checked_sub(before + 4).filter(|body| *body <= 2 * MOST && length.is_multiple_of(4));
        let mut bytes = vec![0; body.ok_or(CaptureError::BadRecord)?];
        if self.read(&mut bytes)? < bytes.len() {
            self.cut = true;
            return Ok(None);
        }
        self.skip(4)?;
        Ok(Some((kind, bytes)))
    }

    fn take_in(&mut self, (kind, body): &(u32, Vec<u8>)) -> Result<(), CaptureError> {
        match &mut self.kind {
            Kind::Pcapng(section) => section.block(*kind, body).map(|_| ()),
            Kind::Pcap(_) => Ok(()),
        }
    }

    /// As many bytes as there are, up to all.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, CaptureError> {
        let read = fill(&mut self.source, bytes)?;
        self.position += read as u64;
        Ok(read)
    }

    fn skip(&mut self, count: usize) -> Result<(), CaptureError> {
        let skipped = std::io::copy(&mut (&mut self.source).take(count as u64), &mut std::io::sink())?;
        self.position += skipped;
        Ok(())
    }
}

fn fill(source: &mut impl Read, bytes: &mut [u8]) -> Result<usize, CaptureError> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::super::pcapng::{Captured, Writer};
    use super::super::{link, pcap};
    use super::*;
    use proptest::prelude::*;

    fn all(file: &[u8]) -> (Option<u32>, Vec<(Record, Vec<u8>)>) {
        let mut reader = Reader::new(file).unwrap();
        let (mut packets, mut bytes) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut bytes).unwrap() {
            packets.push((record, bytes.clone()));
        }
        (reader.link(), packets)
    }

    fn written(packets: &[Vec<u8>], ng: bool) -> Vec<u8> {
        let mut file = Vec::new();
        if ng {
            let mut writer = Writer::new(&mut file, 2000).unwrap();
            for (index, bytes) in packets.iter().enumerate() {
                let interface = if index % 2 == 0 { "a" } else { "b" };
                let (time, length) = (index as u64 * 7, bytes.len() as u32 + 5);
                let packet = Captured {
                    interface,
                    link: 101,
                    time,
                    bytes,
                    length,
                    outgoing: Some(true),
                    comment: "seen",
                };
                writer.packet(&packet).unwrap();
            }
        } else {
            file.extend(pcap::header(true, 2000, link::RAW));
            for (index, bytes) in packets.iter().enumerate() {
                let (time, length) = (index as i64 * 7, bytes.len() as u32);
                file.extend(pcap::record(true, time, length, length + 5));
                file.extend(bytes);
            }
        }
        file
    }

    #[test]
    fn files_of_the_other_byte_order_and_of_several_sections_are_read() {
        let mut big = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 2000, 12, 5, 250, 2, 3] {
            big.extend(word.to_be_bytes());
        }
        big.extend([1, 2]);
        let (link, packets) = all(&big);
        assert_eq!(link, Some(link::RAW));
        assert_eq!(packets, [(Record { time: 5_000_250_000, length: 3, link: link::RAW }, vec![1, 2])]);

        let section = written(&[vec![1], vec![2, 3, 4]], true);
        assert_eq!(all(&[section.clone(), section].concat()).1.len(), 4);
        assert_eq!(all(&Vec::from(&written(&[], true)[..])).0, None);
    }

    #[test]
    fn what_is_no_file_of_packets_is_said() {
        let refused = |file: &[u8]| Reader::new(file).err().unwrap().to_string();
        assert_eq!(refused(b""), "empty file");
        assert_eq!(refused(b"short"), "not a tcpdump file (too short)");
        assert_eq!(refused(&[7; 100]), "not a tcpdump file (bad magic number)");
        assert_eq!(
            refused(&[&[0xd4, 0xc3, 0xb2, 0xa1, 9, 0], [0; 18].as_slice()].concat()),
            "unknown major version 9"
        );
    }

    #[test]
    fn a_file_that_was_cut_off_says_so() {
        for ng in [false, true] {
            let whole = written(&[vec![1; 60], vec![2; 60]], ng);
            let read = |end: usize| {
                let mut reader = Reader::new(&whole[..end]).unwrap();
                let mut bytes = Vec::new();
                let packets = std::iter::from_fn(|| reader.next(&mut bytes).unwrap()).count();
                (packets, reader.is_cut())
            };
            assert_eq!(read(whole.len()), (2, false));
            let last = if ng { whole.len() - 5 } else { whole.len() - 1 };
            assert_eq!((read(last), read(whole.len() - 50)), ((1, true), (1, true)));
        }
        let one = pcap::HEADER + pcap::RECORD + 60;
        let whole = written(&[vec![1; 60], vec![2; 60]], false);
        let cut = [one, one + 3, one + pcap::RECORD].map(|end| {
            let mut reader = Reader::new(&whole[..end]).unwrap();
            while reader.next(&mut Vec::new()).unwrap().is_some() {}
            reader.is_cut()
        });
        assert_eq!(cut, [false, true, true]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(packets: Vec<Vec<u8>>, ng: bool) {
            let (_, read) = all(&written(&packets, ng));
            prop_assert_eq!(read.len(), packets.len());
            for (index, ((record, bytes), packet)) in read.iter().zip(&packets).enumerate() {
                prop_assert_eq!((record.time, record.length), (index as i64 * 7, packet.len() as u32 + 5));
                prop_assert_eq!(bytes, packet);
            }
        }

        #[test]
        fn a_damaged_file_is_read_as_far_as_it_goes(
            packets: Vec<Vec<u8>>, ng: bool, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        ) {
            let mut file = written(&packets, ng);
            let place = at.index(file.len());
            file[place] = byte;
            file.truncate(cut.index(file.len()) + 1);
            if let Ok(mut reader) = Reader::new(&file[..]) {
                let mut bytes = Vec::new();
                for _ in 0..=file.len() {
                    if !matches!(reader.next(&mut bytes), Ok(Some(_))) {
                        break;
                    }
                }
                prop_assert!(reader.position() <= file.len() as u64);
            }
        }
    }
}
