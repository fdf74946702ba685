//! Event files of TensorBoard: numbers by step.
//!
//! A file is a list of records: the length of the data in 8 bytes and its check, the data and its check, all little
//! endian (TensorFlow, `core/lib/io/record_writer.h`). A check is a rotated CRC-32C plus a constant. The data is a
//! message `Event` of Protocol Buffers (`event.proto`, `summary.proto`), of which the fields below are written.
//!
//! Invariant: a record is one write, so a reader of complete records sees all of it or nothing.

use crate::clock::{Instant, seconds_since_1970};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A writer of TensorBoard's event files.
///
/// ```
/// use arenagrad::train::EventFile;
/// # fn main() -> std::io::Result<()> {
/// let mut file = EventFile::new(Vec::new(), 0)?; // `EventFile::create("runs/x", 0)` for a file
/// file.write(1, &[("train/loss", 0.5), ("lr", 1e-3)])?;
/// assert!(file.get_ref().windows(10).any(|w| w == b"train/loss"));
/// # Ok(())
/// # }
/// ```
pub struct EventFile<W> {
    out: W,
    record: Vec<u8>,
    event: Vec<u8>,
    summary: Vec<u8>,
    value: Vec<u8>,
    start: Instant,
    /// Seconds from 1970 to `start`.
    wall: f64,
}

impl EventFile<File> {
    /// A new file in folder `dir`, which is made if it is missing, for the steps after step `done`. TensorBoard forgets
    /// what older files of the folder say of these steps.
    ///
    /// # Errors
    /// The folder or the file cannot be made or written.
    pub fn create(dir: impl AsRef<Path>, done: u64) -> io::Result<EventFile<File>> {
        std::fs::create_dir_all(&dir)?;
        let (seconds, process) = (seconds_since_1970(), std::process::id());
        // TensorBoard reads files whose names contain `tfevents`, in the order of their names.
        let open = |n: u32| {
            let name = format!("events.out.tfevents.{:010}.arenagrad.{process}.{n}", seconds as u64);
            OpenOptions::new().append(true).create_new(true).open(dir.as_ref().join(name))
        };
        let taken = |e: &io::Result<File>| e.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists);
        let file = (0..1000).map(open).find(|file| !taken(file)).unwrap_or_else(|| open(1000))?;
        EventFile::new(file, done)
    }
}

impl<W: Write> EventFile<W> {
    /// Writes to `out`, for the steps after step `done`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, done: u64) -> io::Result<EventFile<W>> {
        let (start, wall) = (Instant::now(), seconds_since_1970());
        let [record, event, summary, value] = [(); 4].map(|_| Vec::with_capacity(256));
        let mut file = EventFile { out, record, event, summary, value, start, wall };
        file.begin(0);
        push_bytes(&mut file.event, 3, b"brain.Event:2"); // Event.file_version
        file.end()?;
        file.begin(done.saturating_add(1));
        push_bytes(&mut file.event, 7, &[1 << 3, 1]); // Event.session_log { status: START }
        file.end()?;
        Ok(file)
    }

    /// Writes numbers of step `step`. NaN and infinities are written as they are.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn write(&mut self, step: u64, numbers: &[(&str, f64)]) -> io::Result<()> {
        self.begin(step);
        self.summary.clear();
        for &(tag, x) in numbers {
            self.value.clear();
            push_bytes(&mut self.value, 1, tag.as_bytes()); // Value.tag
            self.value.push(2 << 3 | 5); // Value.simple_value
            self.value.extend((x as f32).to_le_bytes());
            push_bytes(&mut self.summary, 1, &self.value); // Summary.value
        }
        push_bytes(&mut self.event, 5, &self.summary); // Event.summary
        self.end()
    }

    /// The underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    fn begin(&mut self, step: u64) {
        self.event.clear();
        self.event.push(1 << 3 | 1); // Event.wall_time
        self.event.extend((self.wall + self.start.elapsed().as_secs_f64()).to_le_bytes());
        self.event.push(2 << 3); // Event.step
        push_varint(&mut self.event, step);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = (self.event.len() as u64).to_le_bytes();
        self.record.clear();
        self.record.extend(length);
        self.record.extend(masked_check(&length).to_le_bytes());
        self.record.extend(&self.event);
        self.record.extend(masked_check(&self.event).to_le_bytes());
        self.out.write_all(&self.record)
    }
}

/// Appends `x`, seven bits a byte, the last ones first.
fn push_varint(to: &mut Vec<u8>, mut x: u64) {
    while x > 0x7f {
        to.push(x as u8 | 0x80);
        x >>= 7;
    }
    to.push(x as u8);
}

/// Appends field number `field`, whose value is `bytes`.
fn push_bytes(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    to.push(field << 3 | 2);
    push_varint(to, bytes.len() as u64);
    to.extend(bytes);
}

/// The CRC-32C (Castagnoli, reflected) of each byte.
const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &b| CRC[(crc as u8 ^ b) as usize] ^ crc >> 8)
}

fn masked_check(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_those_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn records_follow_one_another_with_their_checks() {
        let mut file = EventFile::new(Vec::new(), 300).unwrap();
        file.write(301, &[("train/loss", 0.5), ("lr", f64::NAN)]).unwrap();
        let (mut left, mut events) = (&file.get_ref()[..], Vec::new());
        while !left.is_empty() {
            let length = u64::from_le_bytes(left[..8].try_into().unwrap()) as usize;
            let check = |at: usize, of: &[u8]| assert_eq!(left[at..at + 4], masked_check(of).to_le_bytes());
            check(8, &left[..8]);
            check(12 + length, &left[12..12 + length]);
            events.push(&left[12..12 + length]);
            left = &left[16 + length..];
        }
        let time = |e: &[u8]| f64::from_le_bytes(e[1..9].try_into().unwrap());
        assert!(events.iter().all(|e| e[0] == 9 && time(e) > 1.7e9));
        assert_eq!(events[0][9..], *b"\x10\x00\x1a\x0dbrain.Event:2");
        assert_eq!(events[1][9..], *b"\x10\xad\x02\x3a\x02\x08\x01");
        let loss = [&b"\x0a\x11\x0a\x0atrain/loss\x15"[..], &0.5f32.to_le_bytes()].concat();
        let lr = [&b"\x0a\x09\x0a\x02lr\x15"[..], &f32::NAN.to_le_bytes()].concat();
        assert_eq!(events[2][9..], [&b"\x10\xad\x02\x2a\x1e"[..], &loss, &lr].concat());
    }

    #[test]
    fn files_of_one_second_have_names_of_their_own() {
        let dir = std::env::temp_dir().join(format!("arenagrad-events-{}", std::process::id()));
        let files: Vec<_> = (0..3).map(|_| EventFile::create(&dir, 0).unwrap()).collect();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), files.len());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
