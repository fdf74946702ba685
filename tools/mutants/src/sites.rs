//! The places of a file that can be changed, and the file with all changes in it.
//!
//! Invariant: the changed branch of a mutant holds the original text, since one mutant is on at a time. So a file grows
//! by its depth only. Edits insert; they replace nothing.

use std::collections::HashSet;

/// One change.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub id: u32,
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub area: &'static str,
    /// The function, or the constant and the field of an op definition.
    pub function: String,
    /// `old -> new`.
    pub change: String,
    /// Which of the mutants of this function with this change it is, from 1; 0 if it is the only one.
    pub nth: usize,
}

impl Mutant {
    /// The name without line and column, for the list of mutants that compute the same.
    pub fn entry(&self) -> String {
        let nth = if self.nth > 0 { format!(" #{}", self.nth) } else { String::new() };
        format!("{} in {}: {}{nth}", self.file, self.function, self.change)
    }

    pub fn name(&self) -> String {
        format!("{}:{}:{} in {}: {}", self.file, self.line, self.column, self.function, self.change)
    }
}

/// How the branches of a site are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// An expression, or another.
    Choose,
    /// A truth value, or its opposite.
    Negate,
    /// A condition, or true, or false.
    Condition,
    /// A condition that binds names, or false.
    LetCondition,
    /// A statement, or nothing.
    Remove,
    /// A function's body, or an early return.
    Body,
}

/// A place of a file, and its mutants with their texts.
#[derive(Clone, Debug)]
pub struct Site {
    pub start: usize,
    pub end: usize,
    pub shape: Shape,
    pub alternatives: Vec<(u32, String)>,
}

/// Where a mutant is in the written file.
#[derive(Clone, Debug)]
pub struct Written {
    pub id: u32,
    /// The bytes of the changed branch.
    pub branch: (usize, usize),
    /// The bytes of the whole site.
    pub site: (usize, usize),
}

/// The file with the mutants that are not in `dropped`.
pub fn write(text: &str, sites: &[Site], dropped: &HashSet<u32>) -> (String, Vec<Written>) {
    let mut inserts: Vec<(usize, u8, isize, usize, usize, bool)> = Vec::new();
    let kept: Vec<Site> = sites
        .iter()
        .map(|s| Site {
            alternatives: s.alternatives.iter().filter(|a| !dropped.contains(&a.0)).cloned().collect(),
            ..s.clone()
        })
        .collect();
    for (k, s) in kept.iter().enumerate().filter(|(_, s)| !s.alternatives.is_empty()) {
        // At one place: ends first, inner ones before outer ones; then starts, outer ones before inner ones.
        let outer = if s.shape == Shape::Body { isize::MIN } else { -(s.end as isize) };
        inserts.push((s.start, 1, outer, k, k, true));
        if s.shape != Shape::Body {
            inserts.push((s.end, 0, -(s.start as isize), usize::MAX - k, k, false));
        }
    }
    inserts.sort();
    let (mut out, mut at, mut written) = (String::new(), 0, Vec::<Written>::new());
    for (place, _, _, _, k, opens) in inserts {
        out.push_str(&text[at..place]);
        at = place;
        let s = &kept[k];
        if opens {
            let from = out.len();
            open(s, &mut out, &mut written);
            for w in written.iter_mut().rev().take(s.alternatives.len()) {
                w.site = (from, out.len());
            }
        } else {
            out.push_str(match s.shape {
                Shape::Choose => ")})",
                Shape::Negate | Shape::Condition => "))",
                Shape::LetCondition | Shape::Body => "",
                Shape::Remove => "}",
            });
            for w in written.iter_mut().filter(|w| s.alternatives.iter().any(|a| a.0 == w.id)) {
                w.site.1 = out.len();
            }
        }
    }
    out.push_str(&text[at..]);
    (out, written)
}

fn open(s: &Site, out: &mut String, written: &mut Vec<Written>) {
    let is = |id: u32| format!("::arenagrad_mutants::is({id})");
    match s.shape {
        Shape::Choose => out.push('('),
        Shape::Condition => out.push('('),
        _ => {}
    }
    for (id, text) in &s.alternatives {
        let from = out.len();
        match s.shape {
            Shape::Choose => out.push_str(&format!("if {} {{({text})}} else ", is(*id))),
            Shape::Negate => out.push_str(&format!("({} != (", is(*id))),
            Shape::Condition if text == "true" => out.push_str(&format!("{} || ", is(*id))),
            Shape::Condition | Shape::LetCondition => out.push_str(&format!("!{} && ", is(*id))),
            Shape::Remove => out.push_str(&format!("if !{} {{", is(*id))),
            Shape::Body => out.push_str(&format!(" if {} {{ return {text}; }}", is(*id))),
        }
        written.push(Written { id: *id, branch: (from, out.len()), site: (from, out.len()) });
    }
    match s.shape {
        Shape::Choose => out.push_str("{("),
        Shape::Condition => out.push('('),
        _ => {}
    }
}
