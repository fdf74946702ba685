//! Files of exported programs, `.agp`: written as a whole, and opened without reading their weights.

use super::atomic::write_parts_atomically;
use super::file_kinds::{open_regular, other_format};
use crate::arena::front::Front;
use crate::error::{Error, Kind, Result};
use crate::op::OpDef;
use crate::session::{ExportedHead, FIRST, MAGIC, OpenedHead, Program, Session, check_crc, table_bytes};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

impl Program {
    /// Writes the program as one file: its graphs, its plans, and its params and states as they are now. The file is
    /// replaced as a whole or not at all. [`Program::open`] makes the same program of it: steps give the same bits, and
    /// a program that trains goes on training. Values of inputs are not in the file.
    ///
    /// The file holds the graph as the user gave it, too, so that an engine of another version can compile it again
    /// ([`Session::compile_exported`]). By convention its name ends with `.agp`.
    ///
    /// # Errors
    /// The program is a size of a [`SizedProgram`](crate::session::SizedProgram), or was compiled to be traced or to
    /// look for NaN; a graph has constants of tens of megabytes (kind `Data`). The file cannot be written.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let loss = nn::linear(&g, "fc", g.input("x", [8, 3], DType::F32), 1).square().mean(..).named("loss");
    /// let step = train(&g.finish([loss])?, "loss", optim::Adam::new(1e-2))?;
    /// let mut p = Session::new().compile(&step)?;
    /// p.init(0)?;
    /// # let path = std::env::temp_dir().join(format!("arenagrad-doc-{}.agp", std::process::id()));
    /// p.export(&path)?;
    ///
    /// let mut q = Program::open(&path)?; // no pass, no planning: about as long as a few steps
    /// q.values_mut::<f32>("x")?.fill(1.0);
    /// q.step()?; // trains on, from the params and the state of Adam in the file
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let ExportedHead { head, values } = self.exported().map_err(|e| e.context(path.display()))?;
        write_parts_atomically(path, &[&head, values[0], values[1]])
    }

    /// Opens a program that [`Program::export`] wrote. Nothing is compiled: the graph is verified, and its plan is
    /// proved again. Params and states are mapped from the file: the system reads them when a step first uses them, and
    /// several processes share their memory. A program that trains copies the pages that it writes; the file stays as
    /// it is.
    ///
    /// The file must not be cut while the program lives: the system would end the process. (Replacing it, as
    /// [`Program::export`] does, is harmless.) The CRC-32 of the values is not compared, because that would read them;
    /// [`check_exported`] does that.
    ///
    /// # Errors
    /// The file cannot be read; it is damaged, or no exported program (kind `Syntax`); another engine exported it, or
    /// it is for other instructions (kind `Plan`): [`Session::compile_exported`] compiles the graph inside again.
    pub fn open(path: impl AsRef<Path>) -> Result<Program> {
        Program::open_with(path, &[])
    }

    /// As [`Program::open`], for a program with ops of the user's own.
    ///
    /// # Errors
    /// As for [`Program::open`]; the file uses an op that is not among `ops`.
    pub fn open_with(path: impl AsRef<Path>, ops: &[&'static OpDef]) -> Result<Program> {
        let path = path.as_ref();
        let open = || {
            let file = ExportedFile::read(path)?;
            let (head, front) = file.parts()?;
            head.program(front, ops)
        };
        open().map_err(|e: Error| e.context(path.display()))
    }
}

impl Session {
    /// Compiles the graphs of an exported program anew, with the choices of this session, and gives the program the
    /// params and states of the file: for a file that another engine exported, or for other choices. The values are
    /// read, and all CRC-32s compared.
    ///
    /// # Errors
    /// The file cannot be read or is damaged; a graph cannot be compiled: see [`Session::compile`].
    pub fn compile_exported(&self, path: impl AsRef<Path>) -> Result<Program> {
        let path = path.as_ref();
        let compile = || {
            let file = ExportedFile::read(path)?;
            let (head, front) = file.parts()?;
            check_crc(&head.values(), crc32fast::hash(front.bytes())).map_err(|why| Error::new(Kind::Syntax, why))?;
            head.compiled(self, &front, &[])
        };
        compile().map_err(|e: Error| e.context(path.display()))
    }
}

/// Compares all CRC-32s of an exported program with its bytes, those of the values included: reads the whole file.
///
/// # Errors
/// The file cannot be read (kind `Io`); it is damaged, or no exported program (kind `Syntax`). The error names file and
/// section.
pub fn check_exported(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let check = || {
        let mut file = ExportedFile::read(path)?;
        let values = OpenedHead::new(&file.head, file.len)?.values();
        file.file.seek(SeekFrom::Start(values.offset))?;
        let (mut sum, mut piece) = (crc32fast::Hasher::new(), vec![0; 1 << 16]);
        loop {
            match file.file.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => sum.update(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        check_crc(&values, sum.finalize()).map_err(|why| Error::new(Kind::Syntax, why))
    };
    check().map_err(|e: Error| e.context(path.display()))
}

/// A file whose head is in memory.
struct ExportedFile {
    file: File,
    len: u64,
    head: Vec<u8>,
}

impl ExportedFile {
    fn read(path: &Path) -> Result<ExportedFile> {
        let bad = |why: String| Error::new(Kind::Syntax, why);
        let (mut file, len) = open_regular(path)?;
        let mut head = Vec::new();
        let mut read = |head: &mut Vec<u8>, end: u64| {
            let more = end.saturating_sub(head.len() as u64);
            (&mut file).take(more).read_to_end(head).map_err(Error::from)
        };
        read(&mut head, FIRST as u64)?;
        let table =
            table_bytes(&head, len).map_err(|why| match other_format(&head).filter(|_| !head.starts_with(&MAGIC)) {
                Some(format) => bad(format!("no exported program, but {format}")),
                None => bad(why),
            })?;
        read(&mut head, table as u64)?;
        let end = OpenedHead::values_at(&head, len)?;
        read(&mut head, end)?;
        Ok(ExportedFile { file, len, head })
    }

    /// Its head, and its values, which are mapped.
    fn parts(&self) -> Result<(OpenedHead<'_>, Front)> {
        let head = OpenedHead::new(&self.head, self.len)?;
        let values = head.values();
        let len = usize::try_from(values.bytes).unwrap_or(usize::MAX);
        let front = Front::map(&self.file, values.offset, len).map_err(|e| Error::from(e).context(values.name()))?;
        Ok((head, front))
    }
}
