//! Random mutations of texts.

use super::draws::Draw;

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
