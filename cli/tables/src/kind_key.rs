//! Keys that only some kinds of optimisers and schedules read.

use crate::fault::{KeyRun, key_fault};
use serde::Serialize;

/// The value of an absent key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyDefault {
    /// A value, as TOML has it.
    Value(&'static str),
    /// What stands in for it.
    Text(&'static str),
    /// None: the key must be given.
    Required,
}

/// A key that a kind reads.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct KindKey {
    /// The key.
    pub name: &'static str,
    /// Its default.
    pub default: KeyDefault,
}

/// A key whose default is the TOML `value`.
pub const fn kind_key(name: &'static str, value: &'static str) -> KindKey {
    KindKey { name, default: KeyDefault::Value(value) }
}

/// A key whose default is no value of TOML.
pub const fn kind_key_by(name: &'static str, text: &'static str) -> KindKey {
    KindKey { name, default: KeyDefault::Text(text) }
}

/// A key that must be given.
pub const fn kind_key_needed(name: &'static str) -> KindKey {
    KindKey { name, default: KeyDefault::Required }
}

/// The keys of `table` that have a value.
pub fn given_kind_keys(table: &impl Serialize) -> Vec<String> {
    toml::Table::try_from(table).map_or(Vec::new(), |t| t.keys().cloned().collect())
}

/// A fault if the table `at` of this `kind` has a key of `given` that it does not read. `shared` are read by all kinds.
pub fn refuse_keys_of_other_kind(at: &str, kind: &str, given: &[String], shared: &[&str], reads: &[KindKey]) -> KeyRun {
    let read = |key: &String| shared.contains(&key.as_str()) || reads.iter().any(|k| k.name == key);
    let Some(key) = given.iter().find(|key| !read(key)) else { return Ok(()) };
    let names: Vec<&str> = reads.iter().map(|k| k.name).collect();
    let known = if names.is_empty() { "no other key".to_string() } else { names.join(", ") };
    Err(key_fault(format!("{at}.{key}"), format!("{at}.{key} means nothing to {kind}; it reads {known}")))
}
