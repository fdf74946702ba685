//! The sizes of symbols, and which of them were asked for.

use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ir::sizes::Sizes;
use std::cell::RefCell;

/// Sizes, and which of them were asked for.
#[derive(Debug, Default)]
pub struct AskedSizes {
    sizes: Sizes,
    asked: RefCell<Vec<bool>>,
}

impl AskedSizes {
    /// None of `sizes` was asked for.
    pub fn new(sizes: Sizes) -> AskedSizes {
        let asked = RefCell::new(vec![false; sizes.names.len()]);
        AskedSizes { sizes, asked }
    }

    /// The size of the symbol called `name`, or why there is none.
    pub fn ask(&self, name: &str) -> Result<usize> {
        let Some(i) = self.sizes.position(name) else {
            let bound = match self.sizes.names.is_empty() {
                true => "; no symbol is bound".to_string(),
                false => format!(
                    "; bound are {}{}",
                    names::list_names(self.sizes.names()),
                    names::nearest_name(name, self.sizes.names())
                ),
            };
            return Err(Error::new(Kind::Name, format!("symbol {name:?} has no size{bound}")));
        };
        if let Some(asked) = self.asked.borrow_mut().get_mut(i) {
            *asked = true;
        }
        Ok(self.sizes.sizes[i])
    }

    /// The first symbol that was not asked for.
    pub fn unused(&self) -> Option<&str> {
        let at = self.asked.borrow().iter().position(|asked| !asked)?;
        self.sizes.names.get(at).map(String::as_str)
    }

    /// The names of the symbols that were asked for.
    pub fn used(&self) -> Vec<&str> {
        let asked = self.asked.borrow();
        self.sizes.names().zip(asked.iter()).filter(|(_, asked)| **asked).map(|(name, _)| name).collect()
    }

    /// The sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}
