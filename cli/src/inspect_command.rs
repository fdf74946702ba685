//! The command `inspect`: lists the contents of a GGUF or a safetensors file.
//!
//! Invariant: the data of tensors is not read, except by the digest of a safetensors file. Texts of the file are
//! printed without control characters and on one line.

use crate::args::InspectArgs;
use crate::fail::{Run, fail_io};
use crate::stdout_stderr::emit_stdout;
use arenagrad::train::Weights;
use arenagrad::train::gguf::{Gguf, Meta};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Elements of an array of metadata that are printed.
const LISTED: usize = 8;
/// Characters of a text of metadata that are printed.
const SHOWN: usize = 80;

/// A tensor as a row of the table.
struct Row {
    name: String,
    kind: String,
    dims: Vec<usize>,
    bytes: usize,
}

/// What a file holds.
struct InspectedContents {
    format: String,
    /// The file, if it is one with metadata.
    gguf: Option<Gguf>,
    tensors: Vec<Row>,
}

impl InspectedContents {
    fn metadata(&self) -> &[(String, Meta)] {
        self.gguf.as_ref().map_or(&[], Gguf::metadata)
    }
}

/// Runs the command.
pub fn inspect_command(a: &InspectArgs) -> Run {
    let contents = match inspect_begins_as_gguf(&a.file)? {
        true => inspect_gguf(&a.file)?,
        false => inspect_safetensors(&a.file)?,
    };
    emit_stdout(if a.json { inspected_json(&contents).to_string() } else { inspected_text(&contents) })
}

/// Whether the first four bytes are those of a GGUF file.
fn inspect_begins_as_gguf(path: &Path) -> Run<bool> {
    let mut first = Vec::new();
    File::open(path).and_then(|f| f.take(4).read_to_end(&mut first)).map_err(fail_io(path))?;
    Ok(first == b"GGUF")
}

fn inspect_gguf(path: &Path) -> Run<InspectedContents> {
    let file = Gguf::open(path)?;
    let row = |t: &arenagrad::train::gguf::GgufTensor| Row {
        name: t.name.clone(),
        kind: t.kind.name().into(),
        dims: t.dims.clone(),
        bytes: t.bytes,
    };
    let tensors = file.tensors().iter().map(row).collect();
    Ok(InspectedContents { format: format!("GGUF {}", file.version()), gguf: Some(file), tensors })
}

fn inspect_safetensors(path: &Path) -> Run<InspectedContents> {
    let file = Weights::open(path)?;
    let row = |t: &arenagrad::train::Stored| Row {
        name: t.name.clone(),
        kind: t.dtype.name().into(),
        dims: t.dims.clone(),
        bytes: t.bytes,
    };
    let tensors = file.tensors().iter().map(row).collect();
    Ok(InspectedContents { format: "safetensors".into(), gguf: None, tensors })
}

/// The table: metadata, then a line for each tensor, then their sum.
fn inspected_text(c: &InspectedContents) -> String {
    let mut s = format!("{}\n", c.format);
    for (key, value) in c.metadata() {
        let _ = writeln!(s, "{} = {}", inspected_plain(key), inspected_short_value(value));
    }
    let width = c.tensors.iter().map(|t| t.name.chars().count()).max().unwrap_or(0).clamp(4, 60);
    for t in &c.tensors {
        let name = inspected_plain(&t.name);
        let _ = writeln!(s, "{name:width$}  {:8} {:>14} bytes  {:?}", t.kind, t.bytes, t.dims);
    }
    let bytes = c.tensors.iter().fold(0u64, |sum, t| sum.saturating_add(t.bytes as u64));
    let _ = writeln!(s, "{} tensors, {bytes} bytes", c.tensors.len());
    s
}

/// A text without control characters.
fn inspected_plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A value on one line: of a long text its start, of a long array its first elements.
fn inspected_short_value(value: &Meta) -> String {
    match value {
        Meta::Array(all) => {
            let first: Vec<String> =
                (0..all.len().min(LISTED)).filter_map(|i| all.get(i)).map(|v| inspected_short_value(&v)).collect();
            let rest = if all.len() > LISTED { ", …" } else { "" };
            format!("[{}{rest}] ({})", first.join(", "), all.len())
        }
        Meta::String(text) if text.chars().count() > SHOWN => {
            format!("{}… ({} bytes)", inspected_plain(&text.chars().take(SHOWN).collect::<String>()), text.len())
        }
        other => inspected_plain(&other.to_string()),
    }
}

fn inspected_json(c: &InspectedContents) -> Value {
    let metadata: serde_json::Map<String, Value> =
        c.metadata().iter().map(|(key, value)| (key.clone(), inspected_value_json(value))).collect();
    let tensors: Vec<Value> =
        c.tensors.iter().map(|t| json!({ "name": t.name, "type": t.kind, "dims": t.dims, "bytes": t.bytes })).collect();
    json!({ "format": c.format, "metadata": metadata, "tensors": tensors })
}

/// A value as JSON; a float that JSON has no number for, as a text.
fn inspected_value_json(value: &Meta) -> Value {
    let float = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
    match value {
        Meta::U8(x) => json!(x),
        Meta::I8(x) => json!(x),
        Meta::U16(x) => json!(x),
        Meta::I16(x) => json!(x),
        Meta::U32(x) => json!(x),
        Meta::I32(x) => json!(x),
        Meta::U64(x) => json!(x),
        Meta::I64(x) => json!(x),
        Meta::F32(x) => float(f64::from(*x)),
        Meta::F64(x) => float(*x),
        Meta::Bool(x) => json!(x),
        Meta::String(x) => json!(x),
        Meta::Array(all) => (0..all.len()).filter_map(|i| all.get(i)).map(|v| inspected_value_json(&v)).collect(),
    }
}
