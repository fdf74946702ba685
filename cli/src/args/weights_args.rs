//! How weights are read: the command `inspect`, and the options `--prefix` and `--transpose` of others.
//!
//! Invariant: this module only parses.

use clap::Args;
use std::path::PathBuf;

/// How weights are read.
#[derive(Args, Debug, Default)]
pub struct ReadArgs {
    /// Read only tensors whose names begin with KEY and a dot, without it: the key of the state dict in a checkpoint of
    /// torch [default: all].
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Exchange the last two axes of the tensors that match PATTERN, a name in the file whose first * stands for any
    /// characters [default: of none].
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    pub transpose: Vec<String>,
}

/// Options of `inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// A GGUF file, a safetensors file, a file of torch.save, a list of shards (`.index.json`), or a folder with one of
    /// the last three under the names of Hugging Face.
    pub file: PathBuf,
    /// Only tensors whose names begin with KEY and a dot, without it [default: all].
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Print JSON: the format, all metadata, and the tensors.
    #[arg(long)]
    pub json: bool,
}
