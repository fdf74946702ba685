//! The command `pack`: places the buffers of a CSV file in as little memory as possible, or within a capacity.
//!
//! It reads and writes MiniMalloc's format: columns `id`, `lower`, `upper` (half-open) and `size`, in any order. Other
//! columns are kept. The written file has `offset` as its last column.
//!
//! Invariant: a packing is proven before it is shown.

use crate::args::PackArgs;
use crate::fail::{Fail, Run, fail_bad_input, fail_expectation};
use crate::stdout_stderr::emit_stdout;
use crate::sys::sys_read_file;
use arenagrad::tools::sched::pack::{self, Buffers, Options, Packing, instances};
use arenagrad::train::write_atomically;
use csv::{ReaderBuilder, StringRecord};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

/// The required columns.
const COLUMNS: [&str; 4] = ["id", "lower", "upper", "size"];

/// Columns of the format for features that this packer lacks, each with the value that asks for nothing.
const UNSUPPORTED: [(&str, &str); 3] = [("alignment", "1"), ("gaps", ""), ("hint", "")];

/// Largest file, in bytes.
const LIMIT: u64 = 4 << 30;

/// Largest number of rows: buffers are counted in 32 bits.
const ROWS: usize = u32::MAX as usize;

/// A CSV file: its rows, and the buffers that they describe.
struct Table {
    header: StringRecord,
    rows: Vec<StringRecord>,
    buffers: Buffers,
}

/// The results. The names are the keys of `--json`.
#[derive(Serialize)]
struct PackMetrics {
    solved: bool,
    optimal: bool,
    buffers: usize,
    height: u64,
    max_live: u64,
    bound: u64,
    capacity: Option<u64>,
    nodes: u64,
    seconds: f64,
}

/// Runs the command.
pub fn pack_command(a: &PackArgs) -> Run {
    let (table, name) = match (&a.file, &a.make) {
        (Some(file), _) => (read_pack_table(file, a.capacity)?, file.display().to_string()),
        (None, what) => {
            let what = what.clone().unwrap_or_default();
            (synthetic_pack_command_table(&what)?, what)
        }
    };
    let named = |e| fail_bad_input(format!("{name}: {e}"));
    let started = Instant::now();
    let options = Options { capacity: a.capacity, nodes: a.nodes.unwrap_or(Options::default().nodes) };
    let p = pack::pack(&table.buffers, &options).map_err(named)?;
    let seconds = started.elapsed().as_secs_f64();
    pack::proof::prove_packing(&table.buffers, &p.at, p.height, 1)
        .map_err(|e| fail_expectation(format!("the packing is wrong: {e}")))?;
    if let Some(out) = &a.out {
        write_atomically(out, &pack_table_with_offsets(&table, &p)?)?;
    }
    let metrics = PackMetrics {
        solved: p.solved,
        optimal: p.optimal(),
        buffers: table.buffers.len(),
        height: p.height,
        max_live: p.max_live,
        bound: p.bound,
        capacity: a.capacity,
        nodes: p.nodes,
        seconds,
    };
    emit_stdout(if a.json { serde_json::to_string(&metrics).map_err(fail_bad_input)? } else { metrics.text() })?;
    match (p.solved, a.capacity) {
        (true, _) => Ok(()),
        (false, Some(c)) => Err(fail_expectation(format!("{name}: the best height is {}, the capacity {c}", p.height))),
        (false, None) => Err(fail_expectation(format!(
            "{}: height {} is not proven to be the least; the lower bound is {}",
            name, p.height, p.bound
        ))),
    }
}

impl PackMetrics {
    fn text(&self) -> String {
        let ratio = if self.max_live == 0 { 1.0 } else { self.height as f64 / self.max_live as f64 };
        format!(
            "{} buffers\nheight   {}{}\nmax-live {} (ratio {ratio:.4})\nnodes    {}\nseconds  {:.6}",
            self.buffers,
            self.height,
            if self.optimal { " (the least possible)" } else { "" },
            self.max_live,
            self.nodes,
            self.seconds
        )
    }
}

/// Largest number of synthetic buffers.
const SYNTHETIC: usize = 10_000_000;

/// Synthetic buffers, as `KIND:N` or `KIND:N:SEED` describes them.
fn synthetic_pack_command_table(what: &str) -> Run<Table> {
    let wrong = || {
        fail_bad_input(format!(
            "--make is {what:?}; it should be like training:1000:1, with at most {SYNTHETIC} buffers"
        ))
    };
    let parts: Vec<&str> = what.split(':').collect();
    let (kind, n, seed) = match parts[..] {
        [kind, n] => (kind, n, "0"),
        [kind, n, seed] => (kind, n, seed),
        _ => return Err(wrong()),
    };
    let n = n.parse().ok().filter(|n| (1..=SYNTHETIC).contains(n)).ok_or_else(wrong)?;
    let seed = seed.parse().map_err(|_| wrong())?;
    let buffers = match kind {
        "training" => instances::training_instance(n, seed),
        "unrolled" => instances::unrolled_instance(n),
        "power" => instances::power_law_instance(n, seed),
        "perfect" => instances::perfect_instance(n, 1 << 16, 1 << 20, seed),
        _ => return Err(wrong()),
    };
    let row = |i: usize| [i as u64, buffers.first[i], buffers.end[i], buffers.size[i]].map(|x| x.to_string());
    let rows = (0..buffers.len()).map(|i| StringRecord::from(&row(i)[..])).collect();
    Ok(Table { header: StringRecord::from(&COLUMNS[..]), rows, buffers })
}

/// A column whose fields must be empty or neutral.
struct Unsupported {
    index: usize,
    name: &'static str,
    neutral: &'static str,
}

/// Reads a file row by row. Errors name the line. No allocation takes its size from a number in the file.
fn read_pack_table(path: &Path, capacity: Option<u64>) -> Run<Table> {
    let bytes = sys_read_file(path, LIMIT)?;
    let mut csv = ReaderBuilder::new().flexible(true).from_reader(&bytes[..]);
    let header = csv.headers().map_err(|e| fail_bad_input(format!("{}: {e}", path.display())))?.clone();
    let at = |line: u64, what: &dyn Display| fail_bad_input(format!("{}:{line}: {what}", path.display()));
    if header.is_empty() {
        return Err(at(1, &"the file is empty; its first line should name id,lower,upper,size"));
    }
    let column = |name: &str| header.iter().position(|h| h.trim() == name);
    let known = COLUMNS.iter().copied().chain(UNSUPPORTED.map(|c| c.0)).chain(["offset"]);
    if let Some(name) = known.into_iter().find(|name| header.iter().filter(|h| h.trim() == *name).count() > 1) {
        return Err(at(1, &format!("more than one column is called {name:?}")));
    }
    let mut columns = [0; 4];
    for (name, index) in COLUMNS.iter().zip(&mut columns) {
        *index = column(name)
            .ok_or_else(|| at(1, &format!("no column is called {name:?}; there must be {}", COLUMNS.join(", "))))?;
    }
    let mut unsupported = Vec::new();
    for (name, neutral) in UNSUPPORTED {
        unsupported.extend(column(name).map(|index| Unsupported { index, name, neutral }));
    }
    let (mut rows, mut buffers, mut ids) = (Vec::new(), Buffers::default(), HashMap::new());
    for record in csv.records() {
        let row = record.map_err(|e| fail_bad_input(format!("{}: {e}", path.display())))?;
        let line = row.position().map_or(0, csv::Position::line);
        if row.len() != header.len() {
            return Err(at(line, &format!("{} fields, where the first line has {}", row.len(), header.len())));
        }
        if let Some(c) = unsupported.iter().find(|c| !["", c.neutral].contains(&row[c.index].trim())) {
            return Err(at(line, &format!("column {:?} is not supported", c.name)));
        }
        let id = row[columns[0]].trim().to_string();
        if let Some(before) = ids.insert(id.clone(), line) {
            return Err(at(line, &format!("id {id:?} is that of line {before} too")));
        }
        let [lower, upper, size] = [1, 2, 3].map(|k| pack_table_number(COLUMNS[k], &row[columns[k]]));
        let named = |e: String| at(line, &e);
        let (lower, upper, size) = (lower.map_err(named)?, upper.map_err(named)?, size.map_err(named)?);
        if lower >= upper {
            return Err(at(line, &format!("lower is {lower}, upper {upper}: it should be the larger one")));
        }
        if let Some(c) = capacity.filter(|&c| size > c) {
            return Err(at(line, &format!("size {size} is larger than the capacity {c}")));
        }
        buffers.push(lower, upper, size);
        rows.push(row);
        if rows.len() > ROWS {
            return Err(at(line, &format!("more than {ROWS} buffers")));
        }
    }
    Ok(Table { header, rows, buffers })
}

/// The whole number in a field, or what is wrong with it.
fn pack_table_number(column: &str, field: &str) -> Result<u64, String> {
    let text = field.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(x) => Ok(x),
        Err(_) if whole && digits.len() < text.len() => Err(format!("{column} is {text}, which is negative")),
        Err(_) if whole => Err(format!("{column} is {text}, which is more than {}", u64::MAX)),
        Err(_) => Err(format!("{column} is {text:?}, which is no whole number")),
    }
}

/// The rows as CSV, with their offsets in the last column.
fn pack_table_with_offsets(t: &Table, p: &Packing) -> Run<Vec<u8>> {
    let old = t.header.iter().position(|h| h.trim() == "offset");
    let kept = |row: &StringRecord| -> Vec<String> {
        let fields = row.iter().enumerate().filter(|(k, _)| Some(*k) != old);
        fields.map(|(_, field)| field.to_string()).collect()
    };
    let mut csv = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| -> Fail { fail_bad_input(e) };
    csv.write_record(kept(&t.header).iter().map(String::as_str).chain(["offset"])).map_err(failed)?;
    for (row, at) in t.rows.iter().zip(&p.at) {
        csv.write_record(kept(row).iter().map(String::as_str).chain([at.to_string().as_str()])).map_err(failed)?;
    }
    csv.into_inner().map_err(fail_bad_input)
}
