//! Properties of any graph and of any text, and random mutations of texts. Property tests and fuzz targets share them.

use super::draws::Draw;
use crate::error::Location;
use crate::nodes::ir::graph::GraphBuf;
use crate::nodes::ir::text;
use crate::nodes::ir::text::print;
use crate::nodes::ir::verify::{Stage, verify};
use crate::nodes::ops::table::OPS;

/// Properties of any graph, with custom ops or without: it verifies, and its text parses to it.
pub fn check_random_graph(g: &GraphBuf) {
    let broken = verify(g.view(), Stage::Block);
    // A text may hold what only a pass may write, and may use a region twice: reading is not verifying.
    let broken: Vec<String> = broken.iter().map(ToString::to_string).filter(|e| !is_random_pass_error(e)).collect();
    assert!(broken.is_empty(), "{broken:#?}\n{g:?}");
    let printed = print(g.view());
    let again = text::parse_with(&printed, &g.view().ops[OPS.len()..]);
    assert!(again.is_ok(), "{again:?}\n{printed}");
    if let Ok(again) = again {
        assert!(again == *g, "the text is of another graph:\n{printed}\n{again:?}");
        assert!(print(again.view()) == printed, "the text changes:\n{printed}\n{again:?}");
    }
}

fn is_random_pass_error(error: &str) -> bool {
    error.contains("V8: ") || error.contains("V9: ")
}

/// Properties of any text: it is a graph that verifies, or it has errors, each with a location.
pub fn check_random_text(text: &str) {
    match text::parse_all(text, &[]) {
        Ok(g) => check_random_graph(&g),
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= text::MAX_ERRORS);
            for e in errors {
                assert!(matches!(e.location, Location::Text(1.., 1..)), "no location: {e:?}");
                assert!(!e.message.is_empty() && e.message.len() < 1 << 20);
            }
        }
    }
}

/// Pieces that a mutation inserts.
const PIECES: &[&str] = &[
    "%",
    "@",
    "\"",
    "\\",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    ":",
    "<-",
    ";",
    "\n",
    "-",
    "0x",
    "\u{e9}",
    "\u{0}",
    "18446744073709551616",
    "4294967296",
    "-1",
    "1e999",
    "nan",
    "-inf",
    "[0,0,0,0,0,0,0,0,0]",
    "[9223372036854775807,2]",
    "f32[]",
    "i64[4]",
    "%0",
    "%x",
    "%0\"x\"",
    "@body",
    "call body=@body",
    "region @r() {",
    "graph @g {",
    "yield ",
    "return ",
    "update ",
    "input",
    "param",
    "arg index=0",
    "constant data=0x",
    " : f32[2]",
    "\\u{110000}",
];

/// `text` with a few random cuts, copies, swaps and insertions.
pub fn mutate_text(text: &[u8], draw: &mut Draw<'_>) -> Vec<u8> {
    let mut t = text.to_vec();
    for _ in 0..=draw(4) {
        let len = t.len() as u32 + 1;
        let at = draw(len) as usize;
        let end = (at + draw(16) as usize).min(t.len());
        match draw(6) {
            0 => drop(t.drain(at..end)),
            1 => {
                let copy = t[at..end].to_vec();
                let to = draw(len) as usize;
                t.splice(to..to, copy);
            }
            2 if at < t.len() => t[at] = draw(256) as u8,
            3 => {
                let mut lines: Vec<Vec<u8>> = t.split(|&c| c == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (draw(lines.len() as u32) as usize, draw(lines.len() as u32) as usize);
                lines.swap(a, b);
                t = lines.join(&b'\n');
            }
            _ => {
                let piece = PIECES[draw(PIECES.len() as u32) as usize];
                t.splice(at..end, piece.bytes());
            }
        }
    }
    t
}
