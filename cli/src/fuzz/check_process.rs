//! The check of `reduce`: a command of the shell that says whether a file is interesting.
//!
//! Invariant: no process of a check outlives it; a check is a process group of its own, which is killed at its end.

use crate::fail::{Run, fail_bad_input, fail_io};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a check said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Exit code 0.
    Interesting,
    /// Not interesting, and why.
    Not(String),
    /// The program was interrupted.
    Stopped,
}

/// A check, with a folder for candidates that goes with it.
pub struct CheckProcess {
    line: String,
    dir: PathBuf,
    file: PathBuf,
    timeout: Duration,
    stop: Arc<AtomicBool>,
}

impl CheckProcess {
    /// The check `command`, in which `{}` is the path of the candidate.
    pub fn new(command: &str, timeout: Duration, stop: Arc<AtomicBool>) -> Run<CheckProcess> {
        let dir = std::env::temp_dir().join(format!("arenagrad-reduce-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(fail_io(&dir))?;
        let file = dir.join("candidate.ir");
        let quoted = format!("'{}'", file.display().to_string().replace('\'', r"'\''"));
        let line = match command.contains("{}") {
            true => command.replace("{}", &quoted),
            false => format!("{command} {quoted}"),
        };
        Ok(CheckProcess { line, dir, file, timeout, stop })
    }

    /// Runs the check on `text`.
    pub fn run(&self, text: &str) -> Run<Answer> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Answer::Stopped);
        }
        std::fs::write(&self.file, text).map_err(fail_io(&self.file))?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&self.line);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn().map_err(|e| fail_bad_input(format!("sh: {e}")))?;
        let answer = self.wait(&mut child);
        kill_check_process(&child);
        // The shell has ended or was killed, so this does not wait.
        let _ = child.wait();
        answer
    }

    fn wait(&self, child: &mut Child) -> Run<Answer> {
        let (begin, mut pause) = (Instant::now(), Duration::from_micros(200));
        loop {
            let ended = child.try_wait().map_err(|e| fail_bad_input(format!("--check: {e}")))?;
            match ended {
                Some(status) if status.success() => return Ok(Answer::Interesting),
                Some(status) => return Ok(Answer::Not(format!("ended with {status}"))),
                None if self.stop.load(Ordering::Relaxed) => return Ok(Answer::Stopped),
                None if begin.elapsed() >= self.timeout => {
                    return Ok(Answer::Not(format!("took more than {} s", self.timeout.as_secs_f64())));
                }
                None => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Kills what is left of a check. The standard library kills single processes only; the shell kills groups.
fn kill_check_process(child: &Child) {
    let line = format!("kill -KILL -{}", child.id());
    // An empty group is an error of `kill` that tells nothing.
    let _ = Command::new("sh").arg("-c").arg(line).stdin(Stdio::null()).stderr(Stdio::null()).status();
}

impl Drop for CheckProcess {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
