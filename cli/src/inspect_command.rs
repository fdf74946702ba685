//! The command `inspect`: lists the contents of a GGUF file, a safetensors file or one of torch.save.
//!
//! Invariant: the data of tensors is not read, except by the digest of a safetensors file or the CRC-32 of records.
//! Texts of the file are printed without control characters and on one line.

use crate::args::InspectArgs;
use crate::fail::{Run, fail_bad_input, fail_io};
use crate::stdout_stderr::{BufferedStdout, emit_stdout};
use crate::weights_file::open_weights;
use arenagrad::train::gguf::{Gguf, Meta, TensorType};
use arenagrad::train::open_regular;
use serde_json::json;
use std::fmt::Write;
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
    bytes: u64,
    /// Why it cannot be used; empty if it can.
    why: &'static str,
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
    let contents = match !a.file.is_dir() && inspect_begins_as_gguf(&a.file)? {
        true if a.prefix.is_empty() => inspect_gguf(&a.file)?,
        true => return Err(fail_bad_input("--prefix does not apply to GGUF files")),
        false => inspect_weights(&a.file, &a.prefix)?,
    };
    if !a.json {
        return emit_stdout(inspected_text(&contents));
    }
    let mut out = BufferedStdout::new();
    print_inspected_json(&contents, &mut out)?;
    out.write("\n")?;
    out.flush()
}

/// Whether the first four bytes are those of a GGUF file.
fn inspect_begins_as_gguf(path: &Path) -> Run<bool> {
    let mut first = Vec::new();
    let file = open_regular(path).map_err(|e| e.context(path.display()))?.0;
    file.take(4).read_to_end(&mut first).map_err(fail_io(path))?;
    Ok(first == b"GGUF")
}

fn inspect_gguf(path: &Path) -> Run<InspectedContents> {
    let file = Gguf::open(path)?;
    let row = |t: &arenagrad::train::gguf::GgufTensor| Row {
        name: t.name.clone(),
        kind: t.kind.name().into(),
        dims: t.dims.clone(),
        bytes: t.bytes as u64,
        why: if matches!(t.kind, TensorType::Other(_)) { "there is no reader for this type here" } else { "" },
    };
    let tensors = file.tensors().iter().map(row).collect();
    Ok(InspectedContents { format: format!("GGUF {}", file.version()), gguf: Some(file), tensors })
}

fn inspect_weights(path: &Path, prefix: &str) -> Run<InspectedContents> {
    let file = open_weights(path, prefix)?;
    let row = |t: &arenagrad::train::Stored| Row {
        name: t.name.clone(),
        kind: t.dtype.name().into(),
        dims: t.dims.clone(),
        bytes: t.bytes as u64,
        why: "",
    };
    let unusable = |t: &arenagrad::train::Unusable| Row {
        name: t.name.clone(),
        kind: t.kind.clone(),
        dims: t.dims.clone(),
        bytes: t.bytes,
        why: t.why,
    };
    let mut tensors: Vec<Row> = file.tensors().iter().map(row).collect();
    tensors.extend(file.unusable().iter().map(unusable));
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(InspectedContents { format: file.format().into(), gguf: None, tensors })
}

/// The table: metadata, then a line for each tensor, then their sum.
fn inspected_text(c: &InspectedContents) -> String {
    let mut s = format!("{}\n", c.format);
    for (key, value) in c.metadata() {
        let _ = writeln!(s, "{} = {}", inspected_plain(key), inspected_short_value(value));
    }
    let width = c.tensors.iter().map(|t| t.name.chars().count()).max().unwrap_or(0).clamp(4, 60);
    for t in &c.tensors {
        let (name, kind) = (inspected_plain(&t.name), inspected_plain(&t.kind));
        let why = if t.why.is_empty() { String::new() } else { format!("  unusable: {}", t.why) };
        let _ = writeln!(s, "{name:width$}  {kind:8} {:>14} bytes  {:?}{why}", t.bytes, t.dims);
    }
    let bytes = c.tensors.iter().fold(0u64, |sum, t| sum.saturating_add(t.bytes));
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
        other => {
            let text = other.to_string();
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{}… ({} bytes)", inspected_plain(&text[..end]), text.len()),
                None => inspected_plain(&text),
            }
        }
    }
}

/// Prints the contents as JSON, piece by piece: an array of metadata may take most of a file.
fn print_inspected_json(c: &InspectedContents, out: &mut BufferedStdout) -> Run {
    out.write(&format!("{{\"format\":{},\"metadata\":{{", json!(c.format)))?;
    for (i, (key, value)) in c.metadata().iter().enumerate() {
        out.write(&format!("{}{}:", if i == 0 { "" } else { "," }, json!(key)))?;
        print_inspected_value(value, out)?;
    }
    out.write("},\"tensors\":[")?;
    for (i, t) in c.tensors.iter().enumerate() {
        let mut row = json!({ "name": t.name, "type": t.kind, "dims": t.dims, "bytes": t.bytes });
        if !t.why.is_empty() {
            row["unusable"] = json!(t.why);
        }
        out.write(&format!("{}{row}", if i == 0 { "" } else { "," }))?;
    }
    out.write("]}")
}

/// Prints a value as JSON; a float that JSON has no number for, as a text; bytes that are not UTF-8, as escapes.
fn print_inspected_value(value: &Meta, out: &mut BufferedStdout) -> Run {
    let float = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
    let one = match value {
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
        Meta::Bytes(_) => json!(value.to_string()),
        Meta::Array(all) => {
            out.write("[")?;
            for (i, v) in (0..all.len()).filter_map(|i| all.get(i)).enumerate() {
                out.write(if i == 0 { "" } else { "," })?;
                print_inspected_value(&v, out)?;
            }
            return out.write("]");
        }
    };
    out.write(&one.to_string())
}
