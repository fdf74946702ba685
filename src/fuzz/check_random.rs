//! Properties of any graph and of any text, which property tests and fuzz targets share.

use crate::error::Location;
use crate::nodes::ir::graph::GraphBuf;
use crate::nodes::ir::text;
use crate::nodes::ir::text::print;
use crate::nodes::ir::verify::{Stage, verify};
use crate::nodes::ops::table::OPS;

/// Properties of any graph, with custom ops or without: it verifies, and its text parses to it.
pub fn check_any_graph(g: &GraphBuf) {
    let broken = verify(g.view(), Stage::Block);
    // A text may hold what only a pass may write, and may use a region twice: reading is not verifying.
    let broken: Vec<String> = broken.iter().map(ToString::to_string).filter(|e| !is_pass_only_error(e)).collect();
    assert!(broken.is_empty(), "{broken:#?}\n{g:?}");
    let printed = print(g.view());
    let again = text::parse_with(&printed, &g.view().ops[OPS.len()..]);
    assert!(again.is_ok(), "{again:?}\n{printed}");
    if let Ok(again) = again {
        assert!(again == *g, "the text is of another graph:\n{printed}\n{again:?}");
        assert!(print(again.view()) == printed, "the text changes:\n{printed}\n{again:?}");
    }
}

fn is_pass_only_error(error: &str) -> bool {
    error.contains("V8: ") || error.contains("V9: ")
}

/// Properties of any text: it is a graph that verifies, or it has errors, each with a location.
pub fn check_any_text(text: &str) {
    match text::parse_all(text, &[]) {
        Ok(g) => check_any_graph(&g),
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= text::MAX_ERRORS);
            for e in errors {
                assert!(matches!(e.location, Location::Text(1.., 1..)), "no location: {e:?}");
                assert!(!e.message.is_empty() && e.message.len() < 1 << 20);
            }
        }
    }
}
