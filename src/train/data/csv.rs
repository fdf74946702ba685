//! Tables of numbers from CSV files (RFC 4180), row by row or as a whole. The crate `csv` splits the text into fields.
//!
//! Invariant: a row takes no more memory than [`ROW_LIMIT`] bytes of text do, so an input need not fit in memory and
//! may be endless. Errors name the input, the line and the column.

use super::{bad_data, open_data};
use crate::error::{Error, Result};
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};
use std::fmt::Display;
use std::io::{self, Chain, ErrorKind, Read, Seek};
use std::path::Path;

/// Most bytes of text between two rows.
pub const ROW_LIMIT: u64 = 1 << 24;

/// A table of numbers in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Names of the columns, from the first line; empty if the file has no names.
    pub names: Vec<String>,
    /// Number of columns.
    pub columns: usize,
    /// Elements, `[rows, columns]`, row-major.
    pub values: Vec<f64>,
}

impl Table {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Row `i`; `None` if there are fewer rows.
    pub fn row(&self, i: usize) -> Option<&[f64]> {
        self.values.get(i.checked_mul(self.columns)?..)?.get(..self.columns).filter(|_| i < self.rows())
    }
}

/// How a table is written. `true` and `false` are tables with commas whose first line names the columns, or does not.
///
/// ```
/// use arenagrad::train::data::{CsvFormat, CsvRows};
/// # fn main() -> arenagrad::error::Result<()> {
/// let format = CsvFormat { delimiter: b';', ..CsvFormat::from(true) };
/// let mut rows = CsvRows::new("prices", &b"open;close\n1.5;2\n"[..], format)?;
/// assert_eq!(rows.names(), ["open", "close"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvFormat {
    /// Whether the first line names the columns.
    pub header: bool,
    /// What stands between two fields: an ASCII character that is no part of a number, of a quote or of a line end.
    pub delimiter: u8,
}

impl From<bool> for CsvFormat {
    fn from(header: bool) -> CsvFormat {
        CsvFormat { header, delimiter: b',' }
    }
}

/// Reads the file `path`; `format` is `true` if its first line names the columns, or a [`CsvFormat`].
///
/// Errors, of kind [`Kind::Data`](crate::error::Kind::Data), name the file, the line and the column: a field is no
/// number, or too large for an `f64`; two columns have one name; a row has more or fewer fields than the first; a row
/// is longer than 16 MiB; the file's length changes while it is read. `nan` and `inf` are numbers; an empty field is
/// none. A line ends with CR, LF or both. A pipe or a device has no length; read it with [`CsvRows`].
pub fn read_csv(path: impl AsRef<Path>, format: impl Into<CsvFormat>) -> Result<Table> {
    let path = path.as_ref();
    let named = |e: io::Error| Error::from(e).context(path.display());
    let (file, length) = open_data(path)?;
    let mut rows = CsvRows::new(path.display(), file, format)?;
    let (mut values, mut row) = (Vec::new(), Vec::new());
    while rows.read_row(&mut row)? {
        values.extend_from_slice(&row);
    }
    // A table has no end of its own: it may end where another program cut it.
    let read = rows.reader.get_mut().input.get_mut().0.stream_position().map_err(named)?;
    if read != length {
        return Err(rows.error(format!("the file had {length} bytes; {read} were read: it changes")));
    }
    Ok(Table { names: std::mem::take(&mut rows.names), columns: rows.columns, values })
}

/// The rows of an input that need not fit in memory and may be endless.
///
/// ```
/// use arenagrad::train::data::CsvRows;
/// # fn main() -> arenagrad::error::Result<()> {
/// let mut rows = CsvRows::new("prices", &b"open,close\n1.5,2\n3,-1e2\n"[..], true)?;
/// assert_eq!(rows.names(), ["open", "close"]);
/// let mut row = Vec::new();
/// assert!(rows.read_row(&mut row)? && row == [1.5, 2.0]);
/// assert!(rows.read_row(&mut row)? && row == [3.0, -100.0]);
/// assert!(!rows.read_row(&mut row)?);
/// # Ok(())
/// # }
/// ```
pub struct CsvRows<R> {
    name: String,
    reader: Reader<CsvRowBounded<Chain<R, &'static [u8]>>>,
    record: ByteRecord,
    names: Vec<String>,
    /// Fields of a row; 0 before the first.
    columns: usize,
}

impl<R: Read> CsvRows<R> {
    /// Rows of `input`, which errors call `name`; its first line names the columns if `format` says so. Errors: that
    /// line is empty, no UTF-8, cannot be read, or gives two columns one name; the delimiter may be a part of a number,
    /// of a quote or of a line end.
    pub fn new(name: impl Display, input: R, format: impl Into<CsvFormat>) -> Result<CsvRows<R>> {
        let CsvFormat { header, delimiter } = format.into();
        // A line ends with a line feed, the last one too; so the reader's line is that after the record.
        let input = CsvRowBounded { input: input.chain(&b"\n"[..]), left: ROW_LIMIT, after_cr: false };
        // Rows of other lengths are reported here, with their columns.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(input);
        let mut rows = CsvRows { name: name.to_string(), reader, record: ByteRecord::new(), names: vec![], columns: 0 };
        if !delimiter.is_ascii() || delimiter.is_ascii_alphanumeric() || b"\"\r\n+-.".contains(&delimiter) {
            let text = format!("the delimiter {:?} is no ASCII character between numbers", char::from(delimiter));
            return Err(rows.error(text));
        }
        if header {
            rows.read_names()?;
        }
        Ok(rows)
    }

    fn read_names(&mut self) -> Result<()> {
        if !self.advance()? {
            return Err(self.error("the file is empty; its first line should name the columns"));
        }
        let names = self.record.iter().map(|f| std::str::from_utf8(f.trim_ascii()).map(str::to_string));
        self.names = names.collect::<Result<_, _>>().map_err(|_| self.error("a name is not UTF-8"))?;
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|&i| (&self.names[i], i));
        match order.windows(2).find(|w| self.names[w[0]] == self.names[w[1]]) {
            Some(w) => {
                let text = format!("columns {} and {} are both called {:?}", w[0] + 1, w[1] + 1, self.names[w[0]]);
                Err(self.error(text))
            }
            None => Ok(()),
        }
    }

    /// The names of the columns; empty without a header.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of columns; 0 before the first row or header is read.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Line of the last row that was read, counted from 1: its last one, if fields with line ends make it several.
    pub fn line(&self) -> u64 {
        self.reader.position().line().saturating_sub(1).max(1)
    }

    /// An error at the present line of this input.
    fn error(&self, what: impl Display) -> Error {
        bad_data(format!("{}:{}: {what}", self.name, self.line()))
    }

    /// Reads the next record; false at the end. Blank lines are no records.
    fn advance(&mut self) -> Result<bool> {
        self.reader.get_mut().left = ROW_LIMIT;
        // If a row does not end, the reader is still in its line.
        let failed = |line, e| bad_data(format!("{}:{line}: {e}", self.name));
        let done = self.reader.read_byte_record(&mut self.record);
        let more = done.map_err(|e| failed(self.reader.position().line(), e))?;
        let n = self.record.len();
        if more && self.columns == 0 {
            self.columns = n;
        }
        match !more || n == self.columns {
            true => Ok(more),
            false => Err(self.error(format!("{n} fields, where the first row has {}", self.columns))),
        }
    }

    /// Reads the next row into `row`, whose old content goes; false at the end. Allocates nothing once `row` has room.
    /// Errors as for [`read_csv`].
    pub fn read_row(&mut self, row: &mut Vec<f64>) -> Result<bool> {
        row.clear();
        if !self.advance()? {
            return Ok(false);
        }
        for (i, field) in self.record.iter().enumerate() {
            let field = field.trim_ascii();
            let number = std::str::from_utf8(field).ok().and_then(|t| t.parse::<f64>().ok());
            let why = match number {
                // Only a word is infinite.
                Some(x) if x.is_infinite() && field.iter().any(u8::is_ascii_digit) => "is too large for an f64",
                Some(x) => {
                    row.push(x);
                    continue;
                }
                None => "is no number",
            };
            let name = self.names.get(i).map_or(String::new(), |n| format!(" ({n:?})"));
            // A field may be as long as a row.
            let shown = String::from_utf8_lossy(&field[..field.len().min(40)]);
            return Err(self.error(format!("column {}{name}: {shown:?} {why}", i + 1)));
        }
        Ok(true)
    }
}

/// An input that gives at most `left` bytes more, with line feeds for all line ends.
struct CsvRowBounded<R> {
    input: R,
    left: u64,
    /// Whether the last byte was a CR: a line feed behind it ends the same line.
    after_cr: bool,
}

impl<R: Read> Read for CsvRowBounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.input.read(into)?;
            let over = || io::Error::new(ErrorKind::InvalidData, format!("a row of more than {ROW_LIMIT} bytes"));
            self.left = self.left.checked_sub(n as u64).ok_or_else(over)?;
            let mut kept = 0;
            for i in 0..n {
                let byte = into[i];
                if byte != b'\n' || !self.after_cr {
                    into[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
                self.after_cr = byte == b'\r';
            }
            // No byte would be the end.
            if kept > 0 || n == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], header: bool) -> Result<Vec<Vec<f64>>> {
        let (mut rows, mut all, mut row) = (CsvRows::new("t.csv", text, header)?, Vec::new(), Vec::new());
        while rows.read_row(&mut row)? {
            all.push(row.clone());
        }
        Ok(all)
    }

    #[test]
    fn numbers_come_back() {
        assert_eq!(all(b"1,2\r\n\"3\", -4e-2 \n\n", false).unwrap(), [[1.0, 2.0], [3.0, -0.04]]);
        assert_eq!(all(b"a,b\n", true).unwrap().len(), 0);
        assert!(all(b"nan,inf\n", false).unwrap()[0][0].is_nan());
        let path = std::env::temp_dir().join(format!("arenagrad-csv-{}.csv", std::process::id()));
        std::fs::write(&path, "a, b\n1,2\n3,4\n").unwrap();
        let t = read_csv(&path, true).unwrap();
        assert_eq!((t.names.join("|"), t.rows(), t.row(1), t.row(2)), ("a|b".into(), 2, Some(&[3.0, 4.0][..]), None));
        std::fs::remove_file(path).unwrap();
        assert!(read_csv("/dev/zero", false).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_line_ends_with_cr_lf_or_both() {
        for text in ["1,2\r3,4\r", "1,2\r3,4", "1,2\r\n3,4\r\n", "1,2\r\r\n\n3,4", "1,2\n\r3,4\r\r"] {
            assert_eq!(all(text.as_bytes(), false).unwrap(), [[1.0, 2.0], [3.0, 4.0]], "{text:?}");
            // One byte at a time: the two bytes of a line end come apart.
            let slow = text.bytes().map(|b| [b]).collect::<Vec<_>>();
            let slow = slow.iter().fold(Box::new(io::empty()) as Box<dyn Read>, |r, b| Box::new(r.chain(&b[..])));
            let mut rows = CsvRows::new("t.csv", slow, false).unwrap();
            let mut row = Vec::new();
            assert!(rows.read_row(&mut row).unwrap() && row == [1.0, 2.0] && rows.line() == 1, "{text:?}");
            assert!(rows.read_row(&mut row).unwrap() && row == [3.0, 4.0] && !rows.read_row(&mut row).unwrap());
        }
        assert_eq!(all(b"a,b\r1,2\r", true).unwrap(), [[1.0, 2.0]]);
        assert!(all(b"1\r2\rx\r", false).unwrap_err().message.contains("t.csv:3:"));
    }

    #[test]
    fn a_delimiter_can_be_chosen() {
        for delimiter in [b';', b'\t', b' ', b'|', b':'] {
            let text = ["a", "b\n1", "-2.5\n"].join(&char::from(delimiter).to_string());
            let mut rows = CsvRows::new("t", text.as_bytes(), CsvFormat { header: true, delimiter }).unwrap();
            let mut row = Vec::new();
            assert!(rows.read_row(&mut row).unwrap() && row == [1.0, -2.5] && rows.names() == ["a", "b"]);
        }
        for delimiter in [b'"', b'\n', b'\r', b'.', b'-', b'+', b'e', b'0', 200] {
            let e = CsvRows::new("t", &b"1\n"[..], CsvFormat { header: false, delimiter }).err().unwrap();
            assert!(e.message.starts_with("t:1: the delimiter "), "{e}");
        }
    }

    #[test]
    fn bad_rows_are_refused_at_their_line() {
        for (text, header, part) in [
            (&b"1,2\n3\n"[..], false, "t.csv:2: 1 fields, where the first row has 2"),
            (b"a,b\n1,2\n1,2,3\n", true, "t.csv:3: 3 fields"),
            (b"a,b\n1,x\n", true, "t.csv:2: column 2 (\"b\"): \"x\" is no number"),
            (b"1,2\r\n1,x\r\n", false, "t.csv:2: column 2: \"x\" is no number"),
            (b"1,2\n\n\n1,x", false, "t.csv:4: column 2: \"x\" is no number"),
            (b"1\r\n\r\n\r\nx\r\n", false, "t.csv:4: column 1"),
            (b"1,\n", false, "t.csv:1: column 2: \"\" is no number"),
            (b"1,\xff\n", false, "is no number"),
            (b"1,1e400\n", false, "t.csv:1: column 2: \"1e400\" is too large for an f64"),
            (b"-1e999\n", false, "column 1: \"-1e999\" is too large"),
            (b"a,b, a\n1,2,3\n", true, "t.csv:1: columns 1 and 3 are both called \"a\""),
            (b"b,,\n1,2,3\n", true, "t.csv:1: columns 2 and 3 are both called \"\""),
            (b"", true, "t.csv:1: the file is empty"),
            (b"\xff\n", true, "t.csv:1: a name is not UTF-8"),
        ] {
            let e = all(text, header).unwrap_err();
            assert!(e.to_string().contains(part) && e.kind == crate::error::Kind::Data, "{e}");
        }
    }

    #[test]
    fn a_table_without_rows_has_no_row() {
        let path = std::env::temp_dir().join(format!("arenagrad-csv-empty-{}.csv", std::process::id()));
        std::fs::write(&path, "\n").unwrap();
        let t = read_csv(&path, false).unwrap();
        assert_eq!((t.columns, t.rows(), t.row(0)), (0, 0, None));
        std::fs::remove_file(path).unwrap();
        let mut rows = CsvRows::new("t.csv", &b"1,2,3\n"[..], false).unwrap();
        assert_eq!(rows.columns(), 0);
        assert!(rows.read_row(&mut Vec::new()).unwrap());
        assert_eq!(rows.columns(), 3);
        assert_eq!(CsvRows::new("t.csv", &b"a,b\n"[..], true).unwrap().columns(), 2);
    }

    /// The limit is that of one row: 17 of a mebibyte are more.
    #[test]
    fn a_table_may_be_longer_than_the_longest_row() {
        let text = format!("1{}\n", " ".repeat(1 << 20)).repeat(17);
        assert!(text.len() as u64 > ROW_LIMIT);
        assert_eq!(all(text.as_bytes(), false).unwrap(), vec![vec![1.0]; 17]);
    }

    /// An endless row ends with an error, an endless table goes on.
    #[test]
    fn endless_inputs_take_bounded_memory() {
        let e = CsvRows::new("zeros", io::repeat(b'0'), false).unwrap().read_row(&mut Vec::new()).unwrap_err();
        assert!(e.to_string().contains("a row of more than 16777216 bytes"), "{e}");
        struct Lines;
        impl Read for Lines {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into[..4].copy_from_slice(b"1,2\n");
                Ok(4)
            }
        }
        let (mut rows, mut row) = (CsvRows::new("lines", Lines, false).unwrap(), Vec::new());
        for _ in 0..100_000 {
            assert!(rows.read_row(&mut row).unwrap());
        }
        assert_eq!(rows.line(), 100_000);
    }
}
