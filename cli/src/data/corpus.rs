//! Texts as tokens, one for each character.
//!
//! Invariant of [`Corpus`]: the vocabulary is sorted, each token is an index into it, and the training part and the
//! validation part are each longer than one window.

use super::vocabulary::{self, Vocabulary};
use crate::fail::{Run, fail_bad_input};
use crate::sys;
use std::path::Path;

/// Largest text, in bytes.
const LIMIT: u64 = 1 << 28;
/// The built-in text.
const BUILT_IN: &str = include_str!("../../../data/alice.txt");

/// A text in two halves.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Its characters.
    pub vocabulary: Vocabulary,
    /// The first nine tenths.
    pub train: Vec<i32>,
    /// The last tenth.
    pub validate: Vec<i32>,
}

/// Reads the text in `path`, or the built-in one, for windows of `context` tokens.
pub fn load_corpus(path: Option<&Path>, context: usize) -> Run<Corpus> {
    match path {
        None => split_corpus(BUILT_IN, context).map_err(fail_bad_input),
        Some(path) => {
            let named = |e| fail_bad_input(format!("{}: {e}", path.display()));
            split_corpus(&sys::sys_read_text(path, LIMIT)?, context).map_err(named)
        }
    }
}

/// Encodes a text and splits it into nine tenths and one tenth.
fn split_corpus(text: &str, context: usize) -> Result<Corpus, String> {
    let vocabulary = Vocabulary::of(text);
    if vocabulary.len() > vocabulary::LIMIT {
        return Err(format!("{} different characters; at most {} are a text", vocabulary.len(), vocabulary::LIMIT));
    }
    let mut train = vocabulary.encode(text)?;
    let validate = train.split_off((train.len() as u64 * 9 / 10) as usize);
    if train.len().min(validate.len()) <= context {
        let (a, b) = (train.len(), validate.len());
        return Err(format!("{a} characters to train on and {b} to validate on; a window takes {}", context + 1));
    }
    Ok(Corpus { vocabulary, train, validate })
}

/// Copies the windows of `context` tokens that begin at `starts` to `out`, `[starts.len(), context]`.
pub fn copy_corpus_windows(text: &[i32], starts: &[u32], context: usize, out: &mut [i32]) {
    for (&at, out) in starts.iter().zip(out.chunks_exact_mut(context)) {
        out.copy_from_slice(&text[at as usize..][..context]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_is_built_in_is_the_one_that_its_readme_describes() {
        let c = load_corpus(None, 64).unwrap();
        assert_eq!((c.train.len() + c.validate.len(), c.vocabulary.len()), (144_370, 69));
        let title: String = c.train[..5].iter().map(|&t| c.vocabulary.char(t as usize)).collect();
        assert_eq!(title, "ALICE");
    }

    #[test]
    fn texts_of_any_script_come_back() {
        let text = "né 日本\n語é".repeat(40);
        let c = split_corpus(&text, 4).unwrap();
        let back: String = c.train.iter().chain(&c.validate).map(|&t| c.vocabulary.char(t as usize)).collect();
        assert_eq!(back, text);
        assert_eq!(Vocabulary::from_json(&c.vocabulary.to_json().unwrap()), Ok(c.vocabulary.clone()));
        assert!(c.vocabulary.encode("n?").unwrap_err().contains("character 1, '?'"));
        assert!(Vocabulary::from_json("\"ba\"").is_err() && Vocabulary::from_json("\"\"").is_err());
    }

    #[test]
    fn short_texts_are_refused() {
        assert!(split_corpus("", 4).unwrap_err().contains("a window takes 5"));
        assert!(split_corpus(&"ab".repeat(20), 4).is_err() && split_corpus(&"ab".repeat(25), 4).is_ok());
        let e = split_corpus(&"ab".repeat(20), 4).unwrap_err();
        assert_eq!(e, "36 characters to train on and 4 to validate on; a window takes 5");
    }

    #[test]
    fn files_of_too_many_characters_are_no_texts() {
        let most = vocabulary::LIMIT as u32;
        let all = |n: u32| (0..).filter_map(char::from_u32).take(n as usize).collect::<String>();
        assert_eq!(split_corpus(&all(most), 4).unwrap().vocabulary.len(), vocabulary::LIMIT);
        let e = split_corpus(&all(most + 1), 4).unwrap_err();
        assert_eq!(e, "65537 different characters; at most 65536 are a text");
        let json = |text: &str| Vocabulary::from_json(&serde_json::to_string(text).unwrap());
        assert!(json(&all(most)).is_ok() && json(&all(most + 1)).unwrap_err().contains("not a sorted alphabet"));
        assert!(json("aa").is_err() && Vocabulary::from_json("{}").is_err());
    }

    #[test]
    fn windows_lie_one_after_another() {
        let mut out = [0; 6];
        copy_corpus_windows(&[0, 1, 2, 3, 4, 5], &[2, 0], 3, &mut out);
        assert_eq!(out, [2, 3, 4, 0, 1, 2]);
    }
}
