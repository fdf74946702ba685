//! The lexer: tokens are slices of the text with their line.
//!
//! Invariant: every call advances, so the lexer ends on any text. Nothing is copied and nothing recurses.

use super::strings::{brief_text_string, is_name_byte};
use std::cell::Cell;
use std::fmt;

/// The longest name, in bytes.
pub(super) const MAX_NAME: usize = 1 << 16;

/// The name after a `%` or an `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'t> {
    /// A number.
    Number(u32),
    /// A plain name.
    Plain(&'t str),
    /// A quoted name, with its escapes.
    Quoted(&'t str),
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tok<'t> {
    /// A name, a keyword or a number.
    Word(&'t str),
    /// `%…`.
    Value(Name<'t>),
    /// `@…`.
    Region(Name<'t>),
    /// A string with its escapes, without its quotes.
    Str(&'t str),
    /// One of `( ) { } [ ] , = : *`.
    Punct(u8),
    /// `<-`.
    Arrow,
    /// The end of the text.
    End,
    /// No token, with the reason.
    Bad(&'static str),
}

/// A token with its location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    /// The token.
    pub(super) tok: Tok<'t>,
    /// First byte.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
    /// Line, from 1.
    pub(super) line: u32,
    /// First byte of the line.
    pub(super) line_start: usize,
    /// True for the first token of a line.
    pub(super) first: bool,
}

/// A byte of a line, and its column.
#[derive(Clone, Copy)]
struct Counted {
    line_start: usize,
    at: usize,
    column: u32,
}

/// Reads tokens from a text.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
    /// The last column that was counted, so that many columns of one long line are counted in linear time.
    counted: Cell<Counted>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0, line: 1, line_start: 0, counted: Cell::new(Counted { line_start: 0, at: 0, column: 1 }) }
    }

    /// True if `c` is the next character of this line.
    pub(super) fn follows(&self, c: u8) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        rest.iter().find(|b| !matches!(b, b' ' | b'\t')) == Some(&c)
    }

    /// The text of `token`.
    pub(super) fn slice(&self, token: &Token<'t>) -> &'t str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    /// The text from the start of `first` to the end of `last`.
    pub(super) fn between(&self, first: &Token<'t>, last: &Token<'t>) -> &'t str {
        self.text.get(first.start..last.end).unwrap_or_default()
    }

    /// Column of byte `at` on the line that starts at `line_start`, in characters from 1.
    pub(super) fn column(&self, line_start: usize, at: usize) -> u32 {
        let from = match self.counted.get() {
            counted if counted.line_start == line_start && counted.at <= at => counted,
            _ => Counted { line_start, at: line_start, column: 1 },
        };
        let column = from.column + self.text.get(from.at..at).map_or(0, |s| s.chars().count()) as u32;
        self.counted.set(Counted { line_start, at, column });
        column
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Skips blanks and comments. True if a new line begins.
    fn skip(&mut self) -> bool {
        let mut fresh = self.at == 0;
        while let Some(c) = self.peek(0) {
            match c {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                    fresh = true;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
        fresh
    }

    /// The next token; [`Tok::End`] at the end of the text.
    pub(super) fn next(&mut self) -> Token<'t> {
        let first = self.skip();
        let start = self.at;
        let tok = match self.peek(0) {
            None => Tok::End,
            Some(b'%') => self.parse_label("a name or a number must follow %").map_or_else(Tok::Bad, Tok::Value),
            Some(b'@') => self.parse_label("a name or a number must follow @").map_or_else(Tok::Bad, Tok::Region),
            Some(b'"') => self.string().map_or_else(Tok::Bad, Tok::Str),
            Some(b'<') if self.peek(1) == Some(b'-') => {
                self.at += 2;
                Tok::Arrow
            }
            Some(c @ (b'(' | b')' | b'{' | b'}' | b'[' | b']' | b',' | b'=' | b':' | b'*')) => {
                self.at += 1;
                Tok::Punct(c)
            }
            Some(c) if is_name_byte(c) || c == b'-' || c == b'+' => Tok::Word(self.word(c)),
            Some(_) => {
                self.at += self.text.get(start..).and_then(|s| s.chars().next()).map_or(1, char::len_utf8);
                Tok::Bad("this character has no meaning here")
            }
        };
        Token { tok, start, end: self.at, line: self.line, line_start: self.line_start, first }
    }

    fn word(&mut self, first: u8) -> &'t str {
        let start = self.at;
        // Inside a word, a sign is allowed in an exponent only.
        let letter = |c: u8| c.is_ascii_alphabetic() || c == b'_';
        let signed = matches!(first, b'-' | b'+') && self.peek(1).is_some_and(letter);
        let number = !(letter(first) || signed);
        let mut last = first;
        self.at += 1;
        while let Some(c) = self.peek(0) {
            if !(is_name_byte(c) || number && matches!(c, b'-' | b'+') && matches!(last, b'e' | b'E')) {
                break;
            }
            last = c;
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn parse_label(&mut self, none: &'static str) -> Result<Name<'t>, &'static str> {
        self.at += 1;
        match self.peek(0) {
            Some(b'"') => self.string().map(Name::Quoted),
            Some(c) if is_name_byte(c) => {
                let word = self.word(b'_');
                if c.is_ascii_digit() {
                    return word.parse().map(Name::Number).map_err(|_| "this is neither a name nor a number below 2³²");
                }
                match c {
                    b'.' => Err("a plain name starts with a letter or _; quote others"),
                    _ if word.len() > MAX_NAME => Err("this name is too long"),
                    _ => Ok(Name::Plain(word)),
                }
            }
            _ => Err(none),
        }
    }

    fn string(&mut self) -> Result<&'t str, &'static str> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek(0) {
                Some(b'"') => break,
                None | Some(b'\n') => return Err("this string does not end on its line"),
                Some(b'\\') if self.peek(1).is_some_and(|c| c != b'\n') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        let raw = self.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        if raw.len() > MAX_NAME { Err("this string is too long") } else { Ok(raw) }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Number(n) => write!(f, "{n}"),
            Name::Plain(s) => f.write_str(&brief_text_string(s)),
            Name::Quoted(s) => write!(f, "\"{}\"", brief_text_string(s)),
        }
    }
}
