//! The params and states of an exported program as a record: their names, where their bytes lie in the last section,
//! and whether they hold a value.

use super::fields::{Done, Fields, Record};
use crate::error::{Error, Kind, Result};
use crate::session::bindings::Binding;
use crate::session::fresh::Fresh;
use std::ops::Range;

/// A param or a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredValue {
    pub name: String,
    /// First byte in the section, which is that in the arena.
    pub offset: usize,
    pub bytes: usize,
    /// Whether it was initialised, loaded or written.
    pub set: bool,
}

impl StoredValue {
    /// Its bytes in the section.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.bytes)
    }
}

/// All of them, in the order of the program's bindings.
#[derive(Clone, Debug, Default)]
pub struct ValueRecord(pub Vec<StoredValue>);

impl Record for ValueRecord {
    fn fields(&mut self, f: &mut dyn Fields) -> Done {
        let mut count = self.0.len();
        f.count(&mut count)?;
        for i in 0..count {
            if i == self.0.len() {
                self.0.push(StoredValue::default());
            }
            let value = &mut self.0[i];
            f.text(&mut value.name)?;
            f.count(&mut value.offset)?;
            f.count(&mut value.bytes)?;
            let mut set = usize::from(value.set);
            f.count(&mut set)?;
            value.set = set == 1;
            if set > 1 {
                return Err(format!("param or state {:?} is neither set nor unset", value.name));
            }
        }
        Ok(())
    }
}

impl ValueRecord {
    /// Those of a program.
    pub fn of(bindings: &[Binding], fresh: &Fresh) -> ValueRecord {
        let kept = bindings.iter().enumerate().filter(|(_, b)| b.is_persistent());
        let one = |(i, b): (usize, &Binding)| StoredValue {
            name: b.name.clone(),
            offset: b.offset,
            bytes: b.bytes,
            set: fresh.is_set(i),
        };
        ValueRecord(kept.map(one).collect())
    }

    /// Marks what holds a value. Errors: these are not the params and states of `bindings`.
    pub fn mark(&self, bindings: &[Binding], fresh: &mut Fresh) -> Result<()> {
        let kept = bindings.iter().enumerate().filter(|(_, b)| b.is_persistent());
        let same = |((_, b), v): (&(usize, &Binding), &StoredValue)| {
            (&b.name, b.offset, b.bytes) == (&v.name, v.offset, v.bytes)
        };
        let kept: Vec<(usize, &Binding)> = kept.collect();
        if kept.len() != self.0.len() || !kept.iter().zip(&self.0).all(same) {
            return Err(Error::new(Kind::Syntax, "params and states are not those of the graphs"));
        }
        kept.iter().zip(&self.0).filter(|(_, v)| v.set).for_each(|((i, _), _)| fresh.put(*i));
        Ok(())
    }
}
