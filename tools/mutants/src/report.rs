//! The table of areas, and the mutants that no test noticed.

use crate::Equivalents;
use crate::tree::Tree;
use crate::trial;
use std::collections::HashMap;

pub fn print(tree: &Tree, same: &Equivalents, areas: &[String]) {
    let results: HashMap<String, trial::Outcome> =
        trial::read(&tree.out).into_iter().map(|r| (r.name.clone(), r)).collect();
    println!("| area | mutants | drawn | do not compile | the same | tried | noticed | timed out | missed | score |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for area in areas {
        let mutants: Vec<_> = tree.mutants.iter().filter(|m| m.area == area).collect();
        if mutants.is_empty() {
            continue;
        }
        let all = mutants.len();
        let mutants: Vec<_> = mutants.into_iter().filter(|m| !tree.absent.contains(&m.id)).collect();
        let unviable = mutants.iter().filter(|m| tree.dropped.contains(&m.id)).count();
        let equivalent = mutants.iter().filter(|m| same.has(m)).count();
        let left = mutants.iter().filter(|m| !tree.dropped.contains(&m.id) && !same.has(m));
        let ends: Vec<&trial::Outcome> = left.filter_map(|m| results.get(&m.name())).collect();
        let count = |end: &str| ends.iter().filter(|o| o.end == end).count();
        let (noticed, timeout) = (count("noticed"), count("timeout"));
        let score = 100.0 * (noticed + timeout) as f64 / ends.len().max(1) as f64;
        println!(
            "| {area} | {all} | {} | {unviable} | {equivalent} | {} | {noticed} | {timeout} | {} | {score:.0} % |",
            mutants.len(),
            ends.len(),
            ends.len() - noticed - timeout
        );
        missed.extend(ends.into_iter().filter(|o| !matches!(o.end.as_str(), "noticed" | "timeout")));
    }
    println!();
    for o in missed {
        println!("{}: {}: {} ({})", o.area, o.end, o.name, o.by);
    }
}
