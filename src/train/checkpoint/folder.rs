//! Folders of weights, as Hugging Face's libraries write them.

use super::header::bad_checkpoint;
use crate::error::Result;
use std::path::{Path, PathBuf};

/// The files that hold a folder's weights. The first that is there is read.
const CANDIDATES: [&str; 4] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];

/// The file of weights in `folder`, and a note if there are others. Other files, such as `config.json`, do not count.
pub(super) fn choose(folder: &Path) -> Result<(PathBuf, Option<String>)> {
    let there: Vec<&str> = CANDIDATES.into_iter().filter(|name| folder.join(name).is_file()).collect();
    let Some((first, others)) = there.split_first() else {
        return Err(bad_checkpoint(format!("{}: a folder with none of {}", folder.display(), CANDIDATES.join(", "))));
    };
    let note = format!("{}: {first} is read, and {} is not", folder.display(), others.join(", "));
    Ok((folder.join(first), (!others.is_empty()).then_some(note)))
}
