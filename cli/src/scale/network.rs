//! A network: how long messages of some sizes take, from a TOML file.
//!
//! Invariant of [`Network`]: sizes ascend, times are finite, positive and do not descend, and there are at least two.

use crate::config::fault::{KeyRun, key_fault};
use crate::fail::{Run, fail_bad_input};
use crate::sys;
use arenagrad_tables::text::TextFault;
use serde::Deserialize;
use std::path::Path;

/// Largest file, in bytes.
const LIMIT: u64 = 1 << 20;

/// The file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, expecting = "the keys of a network")]
struct NetworkFile {
    /// Its name in tables and charts.
    name: String,
    /// How the figures were measured, or who states them.
    source: String,
    /// Bytes per second that a rank copies: read and written, together.
    copied_bytes_per_second: f64,
    /// The times of messages.
    message: Vec<Message>,
}

/// A message.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq)]
#[serde(deny_unknown_fields, expecting = "bytes and seconds")]
struct Message {
    bytes: u64,
    /// Seconds in which two ranks send one another a message of this size.
    seconds: f64,
}

/// A network.
#[derive(Debug)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// How the figures were measured, or who states them.
    pub source: String,
    /// Bytes per second that a rank copies: read and written, together.
    pub copied_per_second: f64,
    messages: Vec<Message>,
}

impl Network {
    /// Reads `path`. A failure names the file, the line and the key.
    pub fn read(path: &Path) -> Run<Network> {
        Network::parse(path, &sys::sys_read_text(path, LIMIT)?)
    }

    /// As [`Network::read`], of a text.
    pub fn parse(path: &Path, text: &str) -> Run<Network> {
        let file: NetworkFile = toml::from_str(text).map_err(|e| {
            let TextFault { line, column, message, .. } = TextFault::new(text, &e);
            fail_bad_input(format!("{}:{line}:{column}: {message}", path.display()))
        })?;
        Network::check(file).map_err(|fault| fault.in_file(path, text))
    }

    fn check(file: NetworkFile) -> KeyRun<Network> {
        let speed = file.copied_bytes_per_second;
        if !(speed.is_finite() && speed >= 1.0) {
            let text = format!("copied_bytes_per_second is {speed}; it is at least 1");
            return Err(key_fault("copied_bytes_per_second", text));
        }
        let messages = file.message;
        if messages.len() < 2 {
            let text = format!("message has {} of at least 2 sizes", messages.len());
            return Err(key_fault("message", text));
        }
        for (i, m) in messages.iter().enumerate() {
            let key = format!("message[{i}].seconds");
            if !(m.seconds.is_finite() && m.seconds > 0.0) {
                return Err(key_fault(&key, format!("{key} is {}; it is above 0", m.seconds)));
            }
            let Some(before) = i.checked_sub(1).map(|i| messages[i]) else { continue };
            if m.bytes <= before.bytes {
                let key = format!("message[{i}].bytes");
                let text = format!("{key} is {}, no more than {} before it: sizes ascend", m.bytes, before.bytes);
                return Err(key_fault(&key, text));
            }
            if m.seconds < before.seconds {
                let text = format!("{key} is {}, less than {} of a smaller message", m.seconds, before.seconds);
                return Err(key_fault(&key, text));
            }
        }
        Ok(Network { name: file.name, source: file.source, copied_per_second: speed, messages })
    }

    /// The time of the smallest message, in seconds: what each round of an exchange costs at least.
    pub fn latency(&self) -> f64 {
        self.messages[0].seconds
    }

    /// The time of a message of `bytes` bytes, in seconds: on a straight line between two sizes, as the smallest below
    /// it, and on with the slope of the last two above the largest.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let m = &self.messages;
        let i = m.partition_point(|m| (m.bytes as f64) < bytes).clamp(1, m.len() - 1);
        let (a, b) = (m[i - 1], m[i]);
        let part = (bytes - a.bytes as f64) / (b.bytes - a.bytes) as f64;
        a.seconds + part.max(0.0) * (b.seconds - a.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"n\"\nsource = \"s\"\ncopied_bytes_per_second = 1e9\nmessage = [\n  \
                        { bytes = 10, seconds = 1.0 },\n  { bytes = 20, seconds = 2.0 },\n  \
                        { bytes = 40, seconds = 8.0 },\n]\n";

    #[test]
    fn times_lie_on_lines_between_the_sizes_of_the_file() {
        let n = Network::parse(Path::new("n.toml"), TEXT).unwrap();
        let got = [0.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0].map(|b| n.seconds(b));
        assert_eq!(got, [1.0, 1.0, 1.5, 2.0, 5.0, 8.0, 11.0]);
        assert_eq!(n.latency(), 1.0);
    }

    #[test]
    fn a_refused_file_names_its_line() {
        let of = |from: &str, to: &str| {
            assert!(TEXT.contains(from));
            Network::parse(Path::new("n.toml"), &TEXT.replace(from, to)).unwrap_err().message
        };
        assert_eq!(
            of("bytes = 20", "bytes = 9"),
            "n.toml:6: message[1].bytes is 9, no more than 10 before it: sizes ascend"
        );
        assert!(of("2.0", "0.5").starts_with("n.toml:6: message[1].seconds is 0.5, less than 1"));
        assert!(of("8.0", "inf").starts_with("n.toml:7: message[2].seconds is inf"));
        assert!(of("1.0", "0.0").starts_with("n.toml:5: message[0].seconds is 0"));
        assert!(of("1e9", "nan").starts_with("n.toml:3: copied_bytes_per_second is NaN"));
        assert!(of("source = \"s\"\n", "").contains("source"));
        assert!(of("name", "title").starts_with("n.toml:1:1: unknown key `title`"));
        assert!(of("bytes = 20", "bytes = -20").starts_with("n.toml:6:"));
        let few = TEXT.replace("  { bytes = 20, seconds = 2.0 },\n  { bytes = 40, seconds = 8.0 },\n", "");
        assert_eq!(
            Network::parse(Path::new("n.toml"), &few).unwrap_err().message,
            "n.toml:4: message has 1 of at least 2 sizes"
        );
    }
}
