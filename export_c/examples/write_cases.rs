//! Writes the C of the test cases into a folder, with the inputs and the bytes that the program must write:
//! `tools/check` compiles it for other machines.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Corpus, graphs};
use std::path::Path;

fn main() {
    let folder = std::env::args().nth(1).expect("write_cases FOLDER");
    let cases: Vec<common::Case> = graphs::networks().into_iter().chain(graphs::ops()).collect();
    let mut corpus = Corpus::of(&cases);
    graphs::add_drawn(&mut corpus, 20);
    corpus.write(Path::new(&folder));
    for (name, bytes) in &corpus.arenas {
        println!("{name} {bytes}");
    }
}
