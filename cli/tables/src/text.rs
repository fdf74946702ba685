//! Tables from TOML texts, for programs in which a user writes one table alone.
//!
//! Invariant: an error names the key, and the line of the text where there is one.

use crate::bounds::within_bounds;
use crate::fault::{KeyFault, KeyRun, key_fault};
use crate::optimiser::OptimiserTable;
use crate::schedule::ScheduleTable;
use crate::toml_positions::TomlPositions;
use crate::words::plain_words;
use arenagrad::error::{Error, Kind, Location, Result};
use arenagrad::optim::Optimiser;
use arenagrad::train::Schedule;
use serde::de::DeserializeOwned;

/// Longest text of a table, in bytes.
pub const LIMIT: usize = 1 << 20;

/// Why the parser refuses a text.
#[non_exhaustive]
pub struct TextFault {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The message, with the key where there is one.
    pub message: String,
}

impl TextFault {
    /// What the parser says of `text`.
    pub fn new(text: &str, e: &toml::de::Error) -> TextFault {
        let at = e.span().map_or(0, |s| s.start).min(text.len());
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let what = plain_words(e.message());
        let keys = TomlPositions::new(text);
        // The message names an unknown key itself.
        let table = |key: &'_ str| key.rfind('.').map(|dot| key[..dot].to_string());
        let key = match what.starts_with("unknown key") {
            true => keys.key_at(at).and_then(table),
            false => keys.key_at(at).map(str::to_string),
        };
        let key = key.map_or(String::new(), |key| format!("{key}: "));
        TextFault { line, column, message: format!("{key}{what}") }
    }
}

/// The table in `text`, whose name in a configuration is `at`.
fn read<T: DeserializeOwned>(at: &str, text: &str) -> Result<T> {
    if text.len() > LIMIT {
        return Err(Error::new(Kind::Syntax, format!("{at}: the text is larger than {} MiB", LIMIT >> 20)));
    }
    toml::from_str(text).map_err(|e| {
        let TextFault { line, column, message } = TextFault::new(text, &e);
        Error::new(Kind::Syntax, format!("{at}: {message}")).at(Location::Text(line as u32, column as u32))
    })
}

/// What a table of `text` gives. Paths of keys begin with `at`.
fn built<T>(at: &str, text: &str, run: KeyRun<T>) -> Result<T> {
    run.map_err(|KeyFault { key, message }| {
        let own = key.strip_prefix(at).and_then(|key| key.strip_prefix('.'));
        let line = own.and_then(|key| TomlPositions::new(text).line(key));
        let place = line.map_or(Location::Nowhere, |line| Location::Text(line as u32, 1));
        Error::new(Kind::Syntax, message).at(place)
    })
}

/// The optimiser of a text with the keys of `[optimiser]`; `lr` must be among them.
///
/// ```
/// use arenagrad_tables::text::optimiser;
/// let adam = optimiser("kind = \"adamw\"\nlr = 1e-3\nweight_decay = 0.05")?;
/// assert_eq!(adam.lr, 1e-3);
/// let e = optimiser("kind = \"sgd\"\nlr = 1e-3\nbetas = [0.9, 0.99]").unwrap_err();
/// assert!(e.to_string().starts_with("3:1: optimiser.betas"), "{e}");
/// # Ok::<(), arenagrad::Error>(())
/// ```
///
/// # Errors
/// The text is no TOML; a key is unknown, missing, of another kind or out of its bounds.
pub fn optimiser(text: &str) -> Result<Optimiser> {
    let at = "optimiser";
    let table: OptimiserTable = read(at, text)?;
    let run = table
        .lr
        .ok_or_else(|| key_fault(format!("{at}.lr"), format!("{at}.lr is missing; it is the learning rate")))
        .and_then(|lr| within_bounds("optimiser.lr", lr, 0.0, 1e6))
        .and_then(|lr| {
            within_bounds("optimiser.accumulate", table.accumulate.unwrap_or(1), 1, 1 << 16)?;
            table.build(lr)
        });
    built(at, text, run)
}

/// The schedule of a text with the keys of `[schedule]`, for `steps` steps whose base or peak rate is `lr`.
///
/// ```
/// use arenagrad_tables::text::schedule;
/// let cycle = schedule("kind = \"one-cycle\"", 4e-3, 200)?;
/// assert!((cycle.lr(0) - 4e-3 / 25.0).abs() < 1e-12);
/// # Ok::<(), arenagrad::Error>(())
/// ```
///
/// # Errors
/// As those of [`optimiser`].
pub fn schedule(text: &str, lr: f64, steps: u64) -> Result<Schedule> {
    let at = "schedule";
    let table: ScheduleTable = read(at, text)?;
    let run = within_bounds("lr", lr, 0.0, 1e6).and_then(|lr| table.build(at, lr, steps));
    let schedule = built(at, text, run)?;
    schedule.validate()?;
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_text_names_key_and_line() {
        let of = |text: &str| optimiser(text).unwrap_err().to_string();
        assert_eq!(of("kind = \"sgd\""), "optimiser.lr is missing; it is the learning rate");
        assert_eq!(of("\nlr = -1.0"), "2:1: optimiser.lr is -1; it goes from 0 to 1000000");
        assert!(of("lr = nan").contains("optimiser.lr is NaN"));
        assert!(of("lr = 0.1\nrate = 2").starts_with("2:1: optimiser: unknown key `rate`"));
        assert!(of("lr = 0.1\nkind = \"adm\"").starts_with("2:8: optimiser: kind: unknown name `adm`"));
        assert!(of("lr = = 1").starts_with("1:6: optimiser: "));
        assert!(of("lr = 0.1\n[[group]]\nlr_scale = 2.0").starts_with("2:1: optimiser.group[0].pattern is missing"));
        assert!(of(&" ".repeat(LIMIT + 1)).contains("larger than 1 MiB"));
        let of = |text: &str, lr| schedule(text, lr, 10).unwrap_err().to_string();
        assert!(of("kind = \"step\"", 0.1).contains("schedule.step_size is missing"));
        assert!(of("", f64::NAN).starts_with("lr is NaN"));
    }
}
