//! A pickle as a tree of values, without running anything that it names.
//!
//! The machine has the opcodes that picklers of protocols 2 to 5 write. A call stays a [`Value::Call`] of a name; who
//! reads the tree decides which calls have a meaning. Invariants: an opcode takes memory in proportion to its bytes; a
//! value refers to values of the same pickle, perhaps to itself.

use super::super::header::bad_checkpoint;
use crate::error::{Error, Result};
use hashbrown::HashMap;
use std::ops::Range;

/// The index of a value.
pub(super) type Id = u32;

/// A value. Texts are ranges of the pickle.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// What holds no tensor: nothing, a float, bytes, a large number.
    Plain,
    Bool(bool),
    Int(i64),
    Text(Range<u32>),
    /// A name of Python: module and name.
    Global(Range<u32>, Range<u32>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// What is kept outside of the pickle, by its description.
    Persistent(Id),
    /// A call or a new object: the name, and the arguments.
    Call(Id, Id),
}

/// A parsed pickle.
pub(super) struct Pickle {
    bytes: Vec<u8>,
    values: Vec<Value>,
    pub root: Id,
}

impl Pickle {
    /// Parses `bytes`. Errors name the byte.
    pub fn parse(bytes: Vec<u8>) -> Result<Pickle> {
        let shared = vec![Value::Plain, Value::Bool(false), Value::Bool(true)];
        let (values, stack, marks) = (shared, Vec::new(), Vec::new());
        let mut m = Machine { bytes: &bytes, at: 0, opcode: 0, values, stack, marks, memo: HashMap::new() };
        let root = m.run()?;
        let values = m.values;
        Ok(Pickle { bytes, values, root })
    }

    /// Bytes of the pickle.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The value of an index.
    pub fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::Plain)
    }

    /// The text at a range; `None` if it is not UTF-8.
    pub fn text(&self, range: &Range<u32>) -> Option<&str> {
        str::from_utf8(self.bytes.get(range.start as usize..range.end as usize)?).ok()
    }

    /// The text of a value that is one.
    pub fn text_of(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(range) => self.text(range),
            _ => None,
        }
    }

    /// Module and name of a value that is a name.
    pub fn global(&self, id: Id) -> Option<(&str, &str)> {
        match self.get(id) {
            Value::Global(module, name) => Some((self.text(module)?, self.text(name)?)),
            _ => None,
        }
    }

    /// The items of a value that is a tuple.
    pub fn tuple(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::Tuple(items) => Some(items),
            _ => None,
        }
    }
}

const NONE: Id = 0;

struct Machine<'p> {
    bytes: &'p [u8],
    at: usize,
    /// Where the opcode at work is.
    opcode: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    /// Lengths of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Machine<'_> {
    fn error(&self, what: impl std::fmt::Display) -> Error {
        bad_checkpoint(format!("record \"data.pkl\", byte {}: {what}", self.opcode))
    }

    fn take(&mut self, len: u64) -> Result<Range<u32>> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end.filter(|end| *end <= self.bytes.len()) {
            Some(end) => Ok(std::mem::replace(&mut self.at, end) as u32..end as u32),
            None => Err(self.error(format_args!("{len} bytes are needed; {} follow", self.bytes.len() - self.at))),
        }
    }

    /// The next `len` bytes, at most 8, as a number.
    fn number(&mut self, len: u64) -> Result<u64> {
        let range = self.take(len)?;
        let bytes = self.bytes[range.start as usize..range.end as usize].iter();
        Ok(bytes.rev().fold(0, |n, &b| (n << 8) | u64::from(b)))
    }

    /// A text with its length of `len` bytes before it.
    fn sized(&mut self, len: u64) -> Result<Range<u32>> {
        let n = self.number(len)?;
        self.take(n)
    }

    /// The text up to the end of the line.
    fn line(&mut self) -> Result<Range<u32>> {
        let len = self.bytes[self.at..].iter().position(|&b| b == b'\n');
        let len = len.ok_or_else(|| self.error("a name without an end"))?;
        let range = self.take(len as u64)?;
        self.at += 1;
        Ok(range)
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len() as Id);
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<Id> {
        let above_mark = self.marks.last().is_none_or(|&mark| self.stack.len() > mark);
        self.stack.pop().filter(|_| above_mark).ok_or_else(|| self.error("the stack is empty"))
    }

    /// What stands above the last mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| self.error("there is no mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Id> {
        self.stack.last().copied().ok_or_else(|| self.error("the stack is empty"))
    }

    fn run(&mut self) -> Result<Id> {
        loop {
            self.opcode = self.at;
            let op = self.number(1)? as u8;
            if op == b'.' {
                let root = self.pop()?;
                return match self.stack.is_empty() && self.marks.is_empty() && self.at == self.bytes.len() {
                    true => Ok(root),
                    false => Err(self.error("the pickle ends, and values or bytes are left")),
                };
            }
            if !self.constant(op)? && !self.container(op)? && !self.call(op)? {
                return Err(self.error(format_args!("opcode {op:#04x}, which no pickle of tensors has")));
            }
        }
    }

    /// Numbers and texts. Whether `op` is one of them; so with the next two functions.
    fn constant(&mut self, op: u8) -> Result<bool> {
        let value = match op {
            0x80 => match self.number(1)? {
                2..=5 => return Ok(true),
                n => return Err(self.error(format_args!("protocol {n}; 2 to 5 can be read"))),
            },
            // A frame, which says how much may be read at once.
            0x95 => return self.number(8).map(|_| true),
            b'N' | 0x89 | 0x88 => {
                self.stack.push(if op == b'N' { NONE } else { Id::from(op == 0x88) + 1 });
                return Ok(true);
            }
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            0x8a => {
                let n = self.number(1)?;
                match n {
                    0 => Value::Int(0),
                    // The sign is in the highest bit.
                    1..=8 => Value::Int((self.number(n)? << (64 - 8 * n)) as i64 >> (64 - 8 * n)),
                    _ => self.take(n).map(|_| Value::Plain)?,
                }
            }
            0x8b => self.sized(4).map(|_| Value::Plain)?,
            b'G' => self.take(8).map(|_| Value::Plain)?,
            b'X' => Value::Text(self.sized(4)?),
            0x8c => Value::Text(self.sized(1)?),
            0x8d => Value::Text(self.sized(8)?),
            b'B' | b'T' => self.sized(4).map(|_| Value::Plain)?,
            b'C' | b'U' => self.sized(1).map(|_| Value::Plain)?,
            0x8e | 0x96 => self.sized(8).map(|_| Value::Plain)?,
            _ => return Ok(false),
        };
        self.push(value);
        Ok(true)
    }

    /// Tuples, lists, dictionaries.
    fn container(&mut self, op: u8) -> Result<bool> {
        match op {
            b'(' => self.marks.push(self.stack.len()),
            b')' => self.push(Value::Tuple(Vec::new())),
            // A set, too.
            b']' | 0x8f => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            // A frozen set is a list here.
            b't' | 0x91 => {
                let items = self.pop_to_mark()?;
                self.push(if op == b't' { Value::Tuple(items) } else { Value::List(items) });
            }
            0x85..=0x87 => {
                let mut items = (0..op - 0x84).map(|_| self.pop()).collect::<Result<Vec<Id>>>()?;
                items.reverse();
                self.push(Value::Tuple(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_to_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend(vec![key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.extend(items)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds items to the list, or keys and values to the dictionary, at the top of the stack.
    fn extend(&mut self, items: Vec<Id>) -> Result<()> {
        let top = self.top()? as usize;
        match self.values.get_mut(top) {
            Some(Value::List(list)) => list.extend(items),
            Some(Value::Dict(dict)) if items.len().is_multiple_of(2) => {
                dict.extend(items.as_chunks().0.iter().map(|&[key, value]| (key, value)));
            }
            // An object of a class of its own: what it holds has no meaning here.
            Some(Value::Call(..)) => {}
            _ => return Err(self.error("items for what is no list and no dictionary")),
        }
        Ok(())
    }

    /// Names, calls, the memo.
    fn call(&mut self, op: u8) -> Result<bool> {
        match op {
            b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_to_mark()?),
            b'2' => self.stack.push(self.top()?),
            b'q' | b'r' => {
                let slot = self.number(if op == b'q' { 1 } else { 4 })? as u32;
                self.memo.insert(slot, self.top()?);
            }
            0x94 => drop(self.memo.insert(self.memo.len() as u32, self.top()?)),
            b'h' | b'j' => {
                let slot = self.number(if op == b'h' { 1 } else { 4 })? as u32;
                let id = self.memo.get(&slot).copied();
                self.stack.push(id.ok_or_else(|| self.error(format_args!("nothing is kept under {slot}")))?);
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Global(module, name));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.values[module as usize], &self.values[name as usize]) {
                    (Value::Text(module), Value::Text(name)) => {
                        let global = Value::Global(module.clone(), name.clone());
                        self.push(global);
                    }
                    _ => return Err(self.error("a name that is no text")),
                }
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Value::Persistent(id));
            }
            b'R' | 0x81 | 0x92 => {
                let args = if op == 0x92 { self.pop().and_then(|_| self.pop())? } else { self.pop()? };
                let name = self.pop()?;
                let made = self.made(name, args);
                self.push(made);
            }
            // The state of an object: attributes, such as the versions of a state dict.
            b'b' => {
                self.pop()?;
                self.top()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The value of a call: a dictionary, if it makes an empty one.
    fn made(&self, name: Id, args: Id) -> Value {
        let text = |range: &Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        let empty = matches!(&self.values[args as usize], Value::Tuple(items) if items.is_empty());
        match &self.values[name as usize] {
            Value::Global(module, name) if empty && text(module) == b"collections" && text(name) == b"OrderedDict" => {
                Value::Dict(Vec::new())
            }
            _ => Value::Call(name, args),
        }
    }
}
