//! Any bytes either parse as a table of numbers or give an error that names the line.

use super::{READERS, Target};
use crate::engine::reader_error;
use arenagrad::train::data::{CsvFormat, CsvRows};

pub const TARGET: Target = Target {
    name: "csv",
    about: "any bytes are a table of numbers with rows of one length, or an error that names the line",
    run,
    seeds,
    words: WORDS,
    max_len: 1024,
    memory: READERS,
};

/// Runs the target. The first byte chooses whether there is a line of names, and the delimiter.
pub fn run(data: &[u8]) {
    let (how, file) = data.split_first().map_or((0, data), |(n, file)| (*n, file));
    // Of ASCII digits, which begin the seeds, commas.
    let delimiter = if how & 128 == 0 { b',' } else { how & 127 };
    let header = how % 2 == 1;
    let mut rows = match CsvRows::new("file", file, CsvFormat { header, delimiter }) {
        Ok(rows) => rows,
        Err(e) => return reader_error(&e, "file:"),
    };
    let (mut row, mut line, mut columns) = (Vec::new(), 0, rows.columns());
    let mut read = Vec::new();
    let end = loop {
        match rows.read_row(&mut row) {
            Ok(false) => break Ok(()),
            Ok(true) => {
                assert!(columns == 0 || row.len() == columns, "rows have one length");
                assert!(rows.line() > line, "lines rise");
                (line, columns) = (rows.line(), rows.columns());
                read.push(row.clone());
            }
            Err(e) => break Err(e),
        }
    };
    reads_back(&read);
    if let Err(e) = end {
        return reader_error(&e, "file:");
    }
    assert!(!header || rows.names().len() == rows.columns());
}

/// The shortest decimal of a number is read as that number.
fn reads_back(rows: &[Vec<f64>]) {
    let line = |row: &Vec<f64>| row.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(",");
    let text = rows.iter().map(line).collect::<Vec<_>>().join("\n");
    let bits = |row: &[f64]| row.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect::<Vec<_>>();
    let mut file = CsvRows::new("again", text.as_bytes(), false).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut again = Vec::new();
    for row in rows {
        assert_eq!(file.read_row(&mut again).as_ref(), Ok(&true), "{text}");
        assert_eq!(bits(row), bits(&again), "{text}");
    }
    assert_eq!(file.read_row(&mut again).as_ref(), Ok(&false), "{text}");
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "0",
        "01,2\n3,4\n",
        "1a,b\n1,2\n",
        "0\"1\",\" 2 \"\r\n-3e4,.5\r\n",
        "1\"a\nb\",c\n1,nan\n\ninf,-inf\n",
        "01;2\n",
        "1a,b\r1,2\r\n\r3,4\r",
        "0a\r1e400",
        "01,2\n3\n",
        "1\n",
        "0\"",
        "01e999,-0.0,1e-400\n",
    ];
    let semicolons = [&[b';' | 128][..], b"a;b\n1;2\n"].concat();
    texts.iter().map(|t| t.as_bytes().to_vec()).chain([semicolons]).collect()
}

const WORDS: &[&str] =
    &[",", "\n", "\r\n", "\"", "\"\"", "1.5", "nan", "-inf", "infinity", " ", "\t", ";", "\u{feff}", "e", "."];
