//! The graph that a command reads: its file, and the option `--size`.
//!
//! Invariant: this module only parses.

use clap::Args;
use std::path::PathBuf;

/// The graph that a command reads.
#[derive(Args, Debug)]
pub struct GraphArgs {
    /// The graph's text, or an ONNX model; for plan, run and export also an exported program (.agp).
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

/// Sizes of symbols, for commands that read a graph.
#[derive(Args, Debug, Default)]
pub struct SizeArgs {
    /// Size of a symbol of the text, such as batch in f32[batch,784]. Give it once for each symbol [default: none].
    #[arg(long = "size", value_name = "SYMBOL=N", value_parser = size_arg)]
    pub bound: Vec<SizeArg>,
}

/// A symbol and its size.
#[derive(Clone, Debug)]
pub struct SizeArg {
    /// The symbol.
    pub symbol: String,
    /// Its size.
    pub size: usize,
}

/// Parses `batch=7`.
fn size_arg(text: &str) -> Result<SizeArg, String> {
    let parts = text.split_once('=').and_then(|(symbol, size)| Some((symbol, size.parse().ok()?)));
    let Some((symbol, size)) = parts.filter(|(symbol, _)| !symbol.is_empty()) else {
        return Err(format!("{text} is not SYMBOL=N, such as batch=7"));
    };
    Ok(SizeArg { symbol: symbol.to_string(), size })
}
