//! The params of kernels: structs that are encoded as words of an instruction.
//!
//! Invariant: `from_words(&p.to_words()) == p`.

/// A type that is encoded as one parameter word.
pub trait ParamWord: Copy {
    /// Encodes.
    fn to_word(self) -> u64;
    /// Decodes.
    fn from_word(word: u64) -> Self;
}

macro_rules! word {
    ($t:ty, $to:expr, $from:expr) => {
        impl ParamWord for $t {
            fn to_word(self) -> u64 {
                $to(self)
            }
            fn from_word(word: u64) -> $t {
                $from(word)
            }
        }
    };
}

word!(usize, |x| x as u64, |w| w as usize);
word!(u64, |x| x, |w| w);
word!(i64, |x| x as u64, |w| w as i64);
word!(f64, f64::to_bits, f64::from_bits);
word!(bool, u64::from, |w| w != 0);

/// Declares a parameter struct. Each field is one word, in order of declaration.
macro_rules! params {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty),*
        }

        impl $name {
            /// The parameter words of the instruction.
            pub fn to_words(self) -> Vec<u64> {
                vec![$($crate::params::ParamWord::to_word(self.$field)),*]
            }

            /// Reads the words back.
            #[allow(dead_code, reason = "some kernels read no parameters")]
            pub fn from_words(words: &[u64]) -> $name {
                let mut words = words.iter().copied();
                $(let $field = $crate::params::ParamWord::from_word(words.next().unwrap_or_default());)*
                $name { $($field),* }
            }
        }
    };
}
pub(crate) use params;
