//! The command `agree`: checks graphs in the text form as the targets check drawn ones. It is the check for
//! `arenagrad reduce`, which makes the graph of a finding smaller.

use arenagrad::graph::GraphBuf;
use arenagrad::tools::fuzz::{RunOptions, check_transform, check_with_oracle};
use arenagrad::tools::ir::text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Seeds of the values that a graph is checked on.
const SEEDS: u64 = 3;

/// What is wrong with the graph in the file at `path`; `None` if nothing was found.
///
/// # Errors
/// A file that cannot be read, or that is no graph.
pub fn disagreement(path: &Path) -> Result<Option<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let graph = text::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(match catch_unwind(AssertUnwindSafe(|| (0..SEEDS).find_map(|seed| graph_disagreement(&graph, seed)))) {
        Ok(found) => found,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Some(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string())
        }
    })
}

/// Runs the graph in all ways, and its derivatives.
fn graph_disagreement(graph: &GraphBuf, seed: u64) -> Option<String> {
    let run = check_with_oracle(graph.view(), seed, &RunOptions::all()).err();
    run.or_else(|| check_transform(graph, seed, 1).err()).map(|finding| finding.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_graph_agrees_and_a_wrong_file_is_an_error() {
        let path = std::env::temp_dir().join(format!("arenagrad-agree-{}.ir", std::process::id()));
        let graph = "graph @g {\n  %x = input : f32[3]\n  %y = tanh %x : f32[3]\n  return y=%y\n}\n";
        std::fs::write(&path, graph).unwrap();
        assert_eq!(disagreement(&path), Ok(None));
        std::fs::write(&path, "graph @g {").unwrap();
        assert!(disagreement(&path).unwrap_err().contains("arenagrad-agree"));
        std::fs::remove_file(&path).unwrap();
        assert!(disagreement(&path).is_err());
    }
}
