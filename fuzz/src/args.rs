//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// How to use the program.
pub const USAGE: &str = "\
arenagrad-fuzz list                 the targets, and the most bytes of their inputs
arenagrad-fuzz seeds [DIR]          write seeds to DIR/TARGET and dictionaries to DIR/TARGET.dict (fuzz/corpus)
arenagrad-fuzz agree FILE...        check graphs in the text form against the oracle: the check for `arenagrad reduce`
arenagrad-fuzz TARGET FILE...       run a target on inputs
arenagrad-fuzz TARGET [OPTIONS]     run a target on random inputs
  --seconds N    stop after N seconds (10)
  --runs N       stop after N inputs
  --seed S       the seed of mutations (1)
  --corpus DIR   start from the inputs in DIR too, and write there what reaches new code
  --prune        delete inputs in DIR that reach nothing new
  --max-len L    the most bytes of an input
  --findings N   stop after N different findings (20)
  --json         print the result as one line of JSON";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    List,
    Seeds(PathBuf),
    Agree(Vec<PathBuf>),
    Replay(String, Vec<PathBuf>),
    Fuzz(String, Options),
}

/// How to run a target on random inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long.
    pub time: Duration,
    /// The most inputs.
    pub runs: u64,
    /// The seed of mutations.
    pub seed: u64,
    /// A folder of inputs, read and written.
    pub corpus: Option<PathBuf>,
    /// Whether inputs of the folder that reach nothing new are deleted.
    pub prune: bool,
    /// The most bytes of an input; by default the target's.
    pub max_len: Option<usize>,
    /// Different findings after which a run stops.
    pub findings: usize,
    /// Whether the result is a line of JSON.
    pub json: bool,
}

impl Options {
    /// So many inputs, however long they take.
    pub fn runs(runs: u64) -> Options {
        Options { runs, time: Duration::MAX, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Options {
        let time = Duration::from_secs(10);
        Options { time, runs: u64::MAX, seed: 1, corpus: None, prune: false, max_len: None, findings: 20, json: false }
    }
}

/// The job that `args` ask for; an error is a line for the user.
pub fn parse_args(args: &[String]) -> Result<Job, String> {
    let Some((first, rest)) = args.split_first() else { return Err(USAGE.to_string()) };
    match (first.as_str(), rest) {
        ("list", []) => return Ok(Job::List),
        ("seeds", []) => return Ok(Job::Seeds(crate::files::package_dir().join("corpus"))),
        ("agree", files @ [_, ..]) => return Ok(Job::Agree(files.iter().map(PathBuf::from).collect())),
        ("seeds", [dir]) => return Ok(Job::Seeds(dir.into())),
        (flag, _) if flag.starts_with('-') => return Err(USAGE.to_string()),
        _ => {}
    }
    if rest.first().is_some_and(|a| !a.starts_with("--")) {
        return Ok(Job::Replay(first.clone(), rest.iter().map(PathBuf::from).collect()));
    }
    let (mut o, mut timed, mut rest) = (Options::default(), false, rest.iter());
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--seconds" => (o.time, timed) = (seconds(value()?)?, true),
            "--runs" => o.runs = number(flag, value()?)?,
            "--seed" => o.seed = number(flag, value()?)?,
            "--corpus" => o.corpus = Some(value()?.into()),
            "--max-len" => o.max_len = Some(number(flag, value()?)? as usize),
            "--findings" => o.findings = number(flag, value()?)?.max(1) as usize,
            "--prune" => o.prune = true,
            "--json" => o.json = true,
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
    }
    // A number of runs alone bounds a run.
    if o.runs != u64::MAX && !timed {
        o.time = Duration::MAX;
    }
    Ok(Job::Fuzz(first.clone(), o))
}

fn number(flag: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{flag} {text}: a whole number is expected"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or(format!("--seconds {text}: a number of seconds is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_from_words() {
        let job = |line: &str| parse_args(&line.split(' ').map(str::to_string).collect::<Vec<_>>());
        assert_eq!(job("list"), Ok(Job::List));
        assert_eq!(job("agree a"), Ok(Job::Agree(vec!["a".into()])));
        assert_eq!(job("text a b"), Ok(Job::Replay("text".into(), vec!["a".into(), "b".into()])));
        let Ok(Job::Fuzz(name, o)) = job("npy --runs 5 --seed 7 --json --corpus d --max-len 9") else { panic!() };
        assert_eq!((name.as_str(), o.runs, o.seed, o.json, o.time), ("npy", 5, 7, true, Duration::MAX));
        assert_eq!((o.corpus, o.max_len), (Some("d".into()), Some(9)));
        for bad in ["npy --runs", "npy --runs x", "npy --what", "--json", "npy --seconds -1"] {
            assert!(job(bad).is_err(), "{bad}");
        }
    }
}
