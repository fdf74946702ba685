//! The C functions that a step calls: templates in the folder `c`, instantiated for element types.
//!
//! A template file is a list of blocks between empty lines. A block is a comment and one function or struct. All names
//! begin with `ag_`; the other names of a block are what it needs. Placeholders:
//!
//! | placeholder | stands for |
//! |---|---|
//! | `@f`, `@T`, `@U`, `@s` | an element type: its tag, its name in C, the unsigned integer of its size, the suffix of C's functions |
//! | `@i`, `@I` | a type of indices: its tag, its name in C |
//! | `@w`, `@W` | an element that is moved: its tag, its name in C |
//! | `@r`, `@j` | what a reduction is, and how it joins partial results |
//! | `@{NAME}` | a constant of the element type, of [`constants`](super::constants) |
//!
//! Invariant: an instance is left out if a constant, or a function that it needs, does not exist for its type.

use crate::constants::constant;
use std::collections::{BTreeMap, BTreeSet};

const SOURCES: [&str; 8] = [
    include_str!("../c/numbers.c"),
    include_str!("../c/functions.c"),
    include_str!("../c/reductions.c"),
    include_str!("../c/products.c"),
    include_str!("../c/rows.c"),
    include_str!("../c/optimisers.c"),
    include_str!("../c/moves.c"),
    include_str!("../c/windows.c"),
];

/// Tag, name in C, unsigned integer of the size, suffix of functions of `math.h`.
const TYPES: [[&str; 4]; 4] = [
    ["f32", "float", "uint32_t", "f"],
    ["f64", "double", "uint64_t", ""],
    ["i32", "int32_t", "uint32_t", ""],
    ["i64", "int64_t", "uint64_t", ""],
];
const INDICES: [[&str; 2]; 2] = [["i32", "int32_t"], ["i64", "int64_t"]];
/// All element types. Elements are moved as what they are: memory is read as the type as which it was written.
const WORDS: [[&str; 2]; 10] = [
    ["f32", "float"],
    ["f64", "double"],
    ["i8", "int8_t"],
    ["u8", "uint8_t"],
    ["i16", "int16_t"],
    ["u16", "uint16_t"],
    ["i32", "int32_t"],
    ["u32", "uint32_t"],
    ["i64", "int64_t"],
    ["u64", "uint64_t"],
];
/// Reductions, and the joins of their partial results.
const FOLDS: [[&str; 2]; 8] = [
    ["sum", "sum"],
    ["prod", "prod"],
    ["max", "max"],
    ["min", "min"],
    ["squares", "sum"],
    ["deviations", "sum"],
    ["variance", "sum"],
    ["exp", "sum"],
];
/// Functions that `math.h` declares.
const MATH: [&str; 18] = [
    "fmaf",
    "fma",
    "fabsf",
    "fabs",
    "copysignf",
    "copysign",
    "sqrtf",
    "sqrt",
    "floorf",
    "floor",
    "ceilf",
    "ceil",
    "rintf",
    "rint",
    "trunc",
    "sinf",
    "cosf",
    "tanf",
];

/// A function or struct of C.
struct Helper {
    text: String,
    /// Its place among all.
    at: usize,
    needs: BTreeSet<String>,
}

/// All functions, by name.
pub struct Helpers(BTreeMap<String, Helper>);

impl Helpers {
    /// Instantiates all templates.
    pub fn new() -> Helpers {
        let mut all = BTreeMap::new();
        let blocks = SOURCES.iter().flat_map(|text| text.split("\n\n")).map(str::trim).filter(|b| !b.is_empty());
        for text in blocks.flat_map(instances) {
            let Some(name) = own_name(&text) else { continue };
            let needs = names(&text).into_iter().filter(|n| *n != name).collect();
            let at = all.len();
            all.insert(name, Helper { text, at, needs });
        }
        let mut before = all.len() + 1;
        while all.len() < before {
            before = all.len();
            let known: BTreeSet<String> = all.keys().cloned().collect();
            all.retain(|_, helper| helper.needs.is_subset(&known));
        }
        Helpers(all)
    }

    /// The first function that `code` calls and that does not exist.
    pub fn missing_in(&self, code: &str) -> Option<String> {
        names(code).into_iter().find(|name| !self.0.contains_key(name))
    }

    /// The text of what `code` calls and of what that needs, in an order in which C takes them.
    pub fn used_by(&self, code: &str) -> String {
        let mut chosen = BTreeMap::new();
        let mut open: Vec<String> = names(code);
        while let Some(name) = open.pop() {
            if let Some(helper) = self.0.get(&name)
                && chosen.insert(helper.at, helper).is_none()
            {
                open.extend(helper.needs.iter().cloned());
            }
        }
        // Templates stand in the order in which C takes them; instances of one may need one another across types.
        let mut written = BTreeSet::new();
        let mut out = String::new();
        for helper in chosen.values() {
            self.write(helper, &mut written, &mut out);
        }
        out
    }

    /// Writes what `helper` needs, then it.
    fn write(&self, helper: &Helper, written: &mut BTreeSet<usize>, out: &mut String) {
        if !written.insert(helper.at) {
            return;
        }
        for need in &helper.needs {
            if let Some(needed) = self.0.get(need) {
                self.write(needed, written, out);
            }
        }
        out.push_str(&helper.text);
        out.push_str("\n\n");
    }
}

/// The functions of `math.h` that `code` calls, in the order of [`MATH`].
pub fn math_functions(code: &str) -> Vec<&'static str> {
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    MATH.iter().copied().filter(|name| words.contains(name)).collect()
}

/// The name of the function or struct of a block.
fn own_name(text: &str) -> Option<String> {
    let code = text.split_once("*/").map_or(text, |(_, code)| code);
    // Before its name, a function may name the struct that it returns.
    let head =
        if code.trim_start().starts_with("static") { code.split('(').next()? } else { code.split('{').next()? };
    names(head).pop()
}

/// The identifiers of `code` that begin with `ag_`, each once, in order.
fn names(code: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("ag_"));
    words.filter(|w| seen.insert(w.to_string())).map(String::from).collect()
}

/// The block for all types and reductions that it has placeholders for.
fn instances(block: &str) -> Vec<String> {
    let mut all = vec![(block.to_string(), "f32")];
    if block.contains("@f") {
        all = TYPES
            .iter()
            .flat_map(|[f, t, u, s]| {
                all.iter()
                    .map(move |(b, _)| (b.replace("@f", f).replace("@T", t).replace("@U", u).replace("@s", s), *f))
            })
            .collect();
    }
    for (tag, other, list) in [("@i", "@I", &INDICES[..]), ("@w", "@W", &WORDS[..]), ("@r", "@j", &FOLDS[..])] {
        if block.contains(tag) {
            all = list
                .iter()
                .flat_map(|[name, value]| {
                    all.iter().map(move |(b, f)| (b.replace(tag, name).replace(other, value), *f))
                })
                .collect();
        }
    }
    all.into_iter().filter_map(|(text, f)| with_constants(&text, f)).collect()
}

/// The text with its constants; `None` if one does not exist for type `f`.
fn with_constants(text: &str, f: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("@{") {
        let (name, after) = after.split_once('}')?;
        // A name may end with the type that it is of.
        let (name, f) = ["f32", "f64"]
            .iter()
            .find_map(|t| Some((name.strip_suffix(t)?.strip_suffix('_')?, *t)))
            .unwrap_or((name, f));
        out.push_str(before);
        out.push_str(&constant(name, f)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_exist_for_the_types_that_have_what_they_need() {
        let all = Helpers::new();
        for (name, helper) in &all.0 {
            assert!(!helper.text.contains('@'), "{name}: {}", helper.text);
        }
        let there = "ag_row_squares_f32 ag_gather_f32_i64 ag_exp_f64 ag_adam_step_f32 ag_rows_sum_i64 ag_log_softmax_f32 \
            ag_layer_norm_backward_f32 ag_cross_entropy_both_f32_i32 ag_product_lanes_f64 ag_lifted_f32";
        assert_eq!(all.missing_in(there), None);
        for name in ["ag_exp_i32", "ag_tanh_f64", "ag_row_exp_i64", "ag_softmax_i32"] {
            assert_eq!(all.missing_in(name).as_deref(), Some(name));
        }
    }

    #[test]
    fn only_what_is_called_is_written() {
        let text = Helpers::new().used_by("x = ag_sigmoid_f32(y);");
        assert!(text.contains(" ag_exp_below_f32(") && !text.contains("tanh") && !text.contains("double ag_exp"));
        assert!(text.find(" ag_fma_f32(") < text.find(" ag_sigmoid_f32("));
        assert_eq!(math_functions(&text), ["fmaf", "fabsf"]);
    }
}
