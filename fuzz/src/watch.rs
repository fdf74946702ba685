//! Writes each input to a file before it runs: if the process dies or hangs, the file holds the input that did it.
//!
//! Invariant: the file is written before an input runs, so a crash of any kind leaves it behind.

use crate::report::cpu_seconds;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The exit code of a process whose input ran for too long.
pub const HANG: u8 = 71;
/// Bytes before the input: its length, the number of runs, the number of edges.
const HEAD: usize = 24;
/// Seconds of processor time, of all threads, after which an input hangs. Code without optimisation is slow.
const LIMIT: f64 = if cfg!(debug_assertions) { 60.0 } else { 20.0 };
/// Seconds after which any input hangs: one that waits uses no processor.
const WAIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 1200 } else { 400 });

/// The file of the input that runs.
pub struct Watch {
    file: File,
    path: PathBuf,
    start: Instant,
    /// Milliseconds from `start` to the start of the input; 0 between inputs.
    since: Arc<AtomicU64>,
}

/// What a process that died left behind.
pub struct Left {
    /// Number of runs before the last.
    pub runs: u64,
    /// Number of edges.
    pub edges: u64,
    /// The last input.
    pub input: Vec<u8>,
}

/// The file of the process `pid` that runs a target whose findings go to `dir`.
pub fn watch_path(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!(".running-{pid}"))
}

impl Watch {
    /// Starts the thread that looks for hangs.
    pub fn new(dir: &Path) -> std::io::Result<Watch> {
        std::fs::create_dir_all(dir)?;
        let path = watch_path(dir, std::process::id());
        let (file, start) = (File::create(&path)?, Instant::now());
        let since = Arc::new(AtomicU64::new(0));
        let seen = since.clone();
        std::thread::spawn(move || {
            // The start of the input that was seen last, and the processor time then.
            let mut input = (0, 0.0);
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let at = seen.load(Ordering::Relaxed);
                if at == 0 {
                    continue;
                }
                if at != input.0 {
                    input = (at, cpu_seconds());
                }
                let waits = start.elapsed().saturating_sub(Duration::from_millis(at)) > WAIT;
                if waits || cpu_seconds() - input.1 > LIMIT {
                    eprintln!("an input takes more than {LIMIT} s of the processor, or {} s in all", WAIT.as_secs());
                    std::process::exit(i32::from(HANG));
                }
            }
        });
        Ok(Watch { file, path, start, since })
    }

    /// An input begins.
    pub fn begin(&self, data: &[u8], runs: u64, edges: u64) {
        let mut bytes = Vec::with_capacity(HEAD + data.len());
        for n in [data.len() as u64, runs, edges] {
            bytes.extend_from_slice(&n.to_le_bytes());
        }
        bytes.extend_from_slice(data);
        // Without the file a finding would still be reported, but for a death of the process.
        let _ = self.file.write_all_at(&bytes, 0);
        self.since.store(self.start.elapsed().as_millis().max(1) as u64, Ordering::Relaxed);
    }

    /// An input is done.
    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads and removes the file of a process that died.
pub fn take_left(path: &Path) -> Option<Left> {
    let bytes = std::fs::read(path).ok()?;
    let _ = std::fs::remove_file(path);
    let word = |i: usize| Some(u64::from_le_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let len = usize::try_from(word(0)?).ok()?;
    Some(Left { runs: word(1)?, edges: word(2)?, input: bytes.get(HEAD..HEAD.checked_add(len)?)?.to_vec() })
}
