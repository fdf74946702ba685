//! Where keys stand in a TOML text.
//!
//! A key is written as a path: `optimiser.lr`, and `optimiser.group[0].lr_scale` for the first of several tables.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A key of a text, and the bytes of the key and of its value.
struct TomlPosition {
    path: String,
    key: Range<usize>,
    value: Range<usize>,
}

/// The keys of a text.
pub struct TomlPositions<'t> {
    text: &'t str,
    keys: Vec<TomlPosition>,
}

impl<'t> TomlPositions<'t> {
    /// The keys of `text`. Of a text with errors, those that could be read.
    pub fn new(text: &'t str) -> TomlPositions<'t> {
        let mut keys = Vec::new();
        add_toml_positions(DeTable::parse_recoverable(text).0.get_ref(), "", &mut keys);
        TomlPositions { text, keys }
    }

    /// The line of the key `path`, counted from 1; if it is not there, that of the table that would have it.
    pub fn line(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(k) = self.keys.iter().find(|k| k.path == path) {
                let before = self.text.get(..k.key.start)?;
                return Some(before.matches('\n').count() + 1);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// The innermost key at byte `at`.
    pub fn key_at(&self, at: usize) -> Option<&str> {
        let reach = |k: &TomlPosition| {
            let ranges = [&k.key, &k.value];
            ranges.into_iter().filter(|r| r.contains(&at)).map(ExactSizeIterator::len).min()
        };
        let found = self.keys.iter().filter_map(|k| Some((reach(k)?, k))).min_by_key(|(reach, _)| *reach);
        found.map(|(_, k)| k.path.as_str())
    }
}

/// Adds the keys of `table`, whose paths begin with `prefix`.
fn add_toml_positions(table: &DeTable<'_>, prefix: &str, keys: &mut Vec<TomlPosition>) {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => add_toml_positions(inner, &format!("{path}."), keys),
            DeValue::Array(elements) => {
                for (i, element) in elements.iter().enumerate() {
                    if let DeValue::Table(inner) = element.get_ref() {
                        let path = format!("{path}[{i}]");
                        add_toml_positions(inner, &format!("{path}."), keys);
                        keys.push(TomlPosition { path, key: element.span(), value: element.span() });
                    }
                }
            }
            _ => {}
        }
        keys.push(TomlPosition { path, key: key.span(), value: value.span() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "steps = 7\n\n[optimiser]\nlr = 0.1\nbetas = [0.9,\n  0.99]\n\n[[optimiser.group]]\n\
                        pattern = \"a\"\n[[optimiser.group]]\npattern = \"b\"\nrule = { kind = \"sgd\", eps = 1 }\n";

    #[test]
    fn keys_are_found_by_path_and_by_byte() {
        let p = TomlPositions::new(TEXT);
        let lines = [
            ("steps", 1),
            ("optimiser.lr", 4),
            ("optimiser.betas", 5),
            ("optimiser.group[0].pattern", 9),
            ("optimiser.group[1].pattern", 11),
            ("optimiser.group[1].rule.eps", 12),
            // What is missing has the line of its table.
            ("optimiser.group[1].lr_scale", 10),
            ("optimiser.ema", 3),
        ];
        for (path, line) in lines {
            assert_eq!(p.line(path), Some(line), "{path}");
        }
        assert_eq!(p.line("schedule.kind"), None);
        let at = |part: &str| p.key_at(TEXT.rfind(part).unwrap());
        assert_eq!(at("7"), Some("steps"));
        assert_eq!(at("  0.99"), Some("optimiser.betas"));
        assert_eq!(at("\"b\""), Some("optimiser.group[1].pattern"));
        assert_eq!(at("eps"), Some("optimiser.group[1].rule.eps"));
    }

    #[test]
    fn a_text_with_errors_has_the_keys_that_could_be_read() {
        assert_eq!(TomlPositions::new("steps = 7\nseed = = 3\n").line("steps"), Some(1));
        TomlPositions::new(&format!("x = {}1", "[".repeat(100_000)));
        TomlPositions::new("[[[[\n]=\"\"\"");
    }
}
