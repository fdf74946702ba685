//! What the operating system knows about this process and its files.
//!
//! Invariant: what it does not know is `None`, never a guess. For all commands.

use crate::fail::{Run, bad, io};
use std::io::Read;
use std::path::Path;

/// Largest resident set so far, in bytes.
pub fn peak_rss() -> Option<u64> {
    status("VmHWM:")
}

/// The resident set, in bytes.
pub fn rss() -> Option<u64> {
    status("VmRSS:")
}

/// The part of the resident set that no file backs: heap and stacks, not code.
pub fn anon_rss() -> Option<u64> {
    status("RssAnon:")
}

/// Makes [`peak_rss`] start from the present, where the system can do that.
pub fn reset_peak_rss() {
    // The figure is for people; without it the peak since the start is shown, which is no smaller.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Threads that the system lets this process run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The bytes of a file of at most `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> Run<Vec<u8>> {
    let file = std::fs::File::open(path).map_err(io(path))?;
    let mut bytes = Vec::new();
    // The limit holds for pipes too, which have no length to ask for.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(io(path))?;
    if bytes.len() as u64 > limit {
        return Err(bad(format!("{}: more than {limit} bytes", path.display())));
    }
    Ok(bytes)
}

/// The text of a file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Run<String> {
    String::from_utf8(read_file(path, limit)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        bad(format!("{}: not UTF-8 at byte {at}", path.display()))
    })
}

/// A number with its thousands apart.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A size as a number of bytes; what no address reaches counts as all of memory.
pub fn bytes(size: bytesize::ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(grouped), ["0", "12", "123", "1,234", "1,234,567"]);
    }
}
