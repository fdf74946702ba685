//! The table of areas, and the mutants that no test noticed.

use crate::Equivalents;
use crate::tree::Tree;
use crate::trial;
use std::collections::{HashMap, HashSet};

/// Prints the report of the mutants of `drawn`.
pub fn print(tree: &Tree, same: &Equivalents, drawn: &HashSet<u32>, areas: &[String]) {
    let results: HashMap<String, trial::Outcome> =
        trial::read(&tree.out).into_iter().map(|r| (r.entry.clone(), r)).collect();
    println!("| area | mutants | drawn | do not compile | the same | tried | noticed | timed out | missed | score |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for area in areas {
        let mutants: Vec<_> = tree.mutants.iter().filter(|m| m.area == area).collect();
        if mutants.is_empty() {
            continue;
        }
        let all = mutants.len();
        let mutants: Vec<_> = mutants.into_iter().filter(|m| drawn.contains(&m.id)).collect();
        let unviable = mutants.iter().filter(|m| tree.dropped.contains(&m.id)).count();
        let equivalent = mutants.iter().filter(|m| same.has(m)).count();
        let left = mutants.iter().filter(|m| !tree.dropped.contains(&m.id) && !same.has(m));
        let ends: Vec<_> = left.filter_map(|m| Some((*m, results.get(&m.entry())?))).collect();
        let count = |end: &str| ends.iter().filter(|(_, o)| o.end == end).count();
        let (noticed, timeout) = (count("noticed"), count("timeout"));
        let score = 100.0 * (noticed + timeout) as f64 / ends.len().max(1) as f64;
        println!(
            "| {area} | {all} | {} | {unviable} | {equivalent} | {} | {noticed} | {timeout} | {} | {score:.0} % |",
            mutants.len(),
            ends.len(),
            ends.len() - noticed - timeout
        );
        missed.extend(ends.into_iter().filter(|(_, o)| o.is_unnoticed()));
    }
    println!();
    for (m, o) in missed {
        println!("{}: {}: {} ({})", m.area, o.end, m.name(), o.by);
    }
}
