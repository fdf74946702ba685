//! Integers in a text that may depend on symbols: `batch`, `2*batch+1`, `len-1`.
//!
//! An expression is a sum of products of integers and symbols, without parentheses. Its value is computed while it is
//! read, so a graph holds numbers only. Invariant: every iteration of a loop consumes a token, and no sum or product
//! overflows.

use super::lexer::{Tok, Token};
use super::parser::Parser;
use super::strings::brief_text_string;
use crate::error::Result;
use std::str::FromStr;

/// True if `word` is the name of a symbol.
fn is_size_symbol(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

impl<'t> Parser<'t, '_> {
    /// True at `*`, or at a word that starts with a sign, on the same line.
    fn at_size_operator(&self) -> bool {
        let sign = matches!(self.tok.tok, Tok::Word(w) if w.starts_with(['+', '-']));
        (sign || self.is(b'*')) && !self.tok.first
    }

    /// Parses an integer or an expression. `wrong` is the message for a word that is neither, or for a value that is no
    /// `T`.
    pub(super) fn parse_size<T>(&mut self, wrong: &dyn Fn(&str) -> String) -> Result<T>
    where
        T: FromStr + TryFrom<i64>,
    {
        let (start, word) = self.size_word()?;
        if let Some(plain) = word.parse().ok().filter(|_| !self.at_size_operator()) {
            return Ok(plain);
        }
        let sum = self.size_sum(&start, word, wrong)?;
        let text = self.lex.between(&start, &self.before);
        let too_large = || self.error(&start, format!("{} is too large for 64 bits", brief_text_string(text)));
        let sum = sum.ok_or_else(too_large)?;
        T::try_from(sum).map_err(|_| {
            let brief = brief_text_string(text);
            let found = if brief == sum.to_string() { brief.into_owned() } else { format!("{brief}, which is {sum},") };
            self.error(&start, wrong(&found))
        })
    }

    /// The word at the current token, which is consumed.
    fn size_word(&mut self) -> Result<(Token<'t>, &'t str)> {
        let t = self.tok;
        let Tok::Word(word) = t.tok else { return Err(self.expected("an integer or a symbol")) };
        self.advance();
        Ok((t, word))
    }

    /// The value of the expression that starts with `word`, which is consumed already. `None` if it overflows.
    fn size_sum(&mut self, start: &Token<'t>, word: &'t str, wrong: &dyn Fn(&str) -> String) -> Result<Option<i64>> {
        let (mut token, mut word, mut sign, mut sum) = (*start, word, 1i64, Some(0i64));
        loop {
            let mut product = Some(self.size_factor(&token, word, wrong)?);
            while self.is(b'*') && !self.tok.first {
                self.advance();
                let (token, word) = self.size_word()?;
                let factor = self.size_factor(&token, word, wrong)?;
                product = product.and_then(|p| p.checked_mul(factor));
            }
            let term = product.and_then(|p| p.checked_mul(sign));
            sum = sum.zip(term).and_then(|(sum, term)| sum.checked_add(term));
            if !self.at_size_operator() {
                return Ok(sum);
            }
            let (signed, text) = self.size_word()?;
            sign = if text.starts_with('-') { -1 } else { 1 };
            (token, word) = match &text[1..] {
                "" => self.size_word()?,
                rest => (signed, rest),
            };
        }
    }

    /// The value of an integer or a symbol.
    fn size_factor(&self, t: &Token<'t>, word: &str, wrong: &dyn Fn(&str) -> String) -> Result<i64> {
        if !is_size_symbol(word) {
            return word.parse().map_err(|_| self.error(t, wrong(&brief_text_string(word))));
        }
        let size = self.sizes.ask(word).map_err(|e| {
            let brief = brief_text_string(word);
            let how = format!("bind it with --size {brief}=N, or with parse_with_sizes");
            self.error(t, format!("{}: {}; {how}", wrong(&brief), e.message))
        })?;
        // At most 2³² − 1.
        Ok(i64::try_from(size).unwrap_or(i64::MAX))
    }
}
