//! Any text either parses to a graph that verifies and prints back to itself, or gives errors with locations.

use super::{MemoryLimit, Target, file_tests};
use arenagrad::tools::fuzz::check_any_text;

pub const TARGET: Target = Target {
    name: "text",
    about: "any text parses to a sound graph that prints back to itself, or gives errors with places",
    run,
    seeds: file_tests,
    words: WORDS,
    max_len: 2048,
    memory: MemoryLimit { base: 16 << 20, each: 4096 },
};

/// Runs the target.
pub fn run(data: &[u8]) {
    check_any_text(&String::from_utf8_lossy(data));
}

/// What the text form is made of.
const WORDS: &[&str] = &[
    "graph @g {\n",
    "region @r(",
    "}\n",
    "return ",
    "yield ",
    "update ",
    "%x",
    "%0",
    "@r",
    " : f32[2,3]",
    " : f64[]",
    "i64[4]",
    "bool[2]",
    "bf16[1]",
    "c64[2]",
    "u8[0]",
    "input",
    "param init=ones scale=0.0 frozen=false",
    "state ",
    "constant data=0x",
    "full value=",
    "call body=@r",
    "scan ",
    "map body=@r",
    "custom_fn ",
    "arg index=0",
    "axis=",
    "axes=[0,1]",
    "shape=[2,3]",
    "<-",
    "->",
    "\"",
    "\\u{e9}",
    "\\n",
    "; test ",
    "nan",
    "inf",
    "-inf",
    "0x",
    "true",
    "false",
    "symbol ",
    "matmul ",
    "reshape ",
    "broadcast ",
    "transpose perm=[1,0]",
    "sum axes=[0] keep=false",
    "\u{0}",
    "\u{feff}",
    "\r\n",
];
