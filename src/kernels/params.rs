//! The params of kernels: structs that are encoded as words of an instruction.
//!
//! Invariant: `from_words(&p.to_words()) == p`.

/// A value that is encoded as parameter words.
pub trait Param: Copy {
    /// Number of words.
    const WORDS: usize;
    /// Appends the words.
    fn write(self, words: &mut Vec<u64>);
    /// Reads the words back. Missing words are 0.
    fn read(words: &mut impl Iterator<Item = u64>) -> Self;
}

macro_rules! word {
    ($t:ty, $to:expr, $from:expr) => {
        impl Param for $t {
            const WORDS: usize = 1;
            fn write(self, words: &mut Vec<u64>) {
                words.push($to(self));
            }
            fn read(words: &mut impl Iterator<Item = u64>) -> $t {
                $from(words.next().unwrap_or_default())
            }
        }
    };
}

word!(usize, |x| x as u64, |w| w as usize);
word!(u64, |x| x, |w| w);
word!(i64, |x| x as u64, |w| w as i64);
word!(f64, f64::to_bits, f64::from_bits);
word!(bool, u64::from, |w| w != 0);

impl<T: Param, const N: usize> Param for [T; N] {
    const WORDS: usize = N * T::WORDS;
    fn write(self, words: &mut Vec<u64>) {
        self.into_iter().for_each(|x| x.write(words));
    }
    fn read(words: &mut impl Iterator<Item = u64>) -> [T; N] {
        std::array::from_fn(|_| T::read(words))
    }
}

/// Declares a parameter struct. Its words are those of its fields, in order of declaration.
macro_rules! params {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty),*
        }

        impl $name {
            /// Number of parameter words.
            #[allow(dead_code, reason = "few kernels have words after their params")]
            pub const WORDS: usize = 0 $(+ <$ty as $crate::params::Param>::WORDS)*;

            /// The parameter words of the instruction.
            pub fn to_words(self) -> Vec<u64> {
                let mut words = Vec::with_capacity($name::WORDS);
                $($crate::params::Param::write(self.$field, &mut words);)*
                words
            }

            /// Reads the words back. Words after them are ignored, and missing words are 0.
            #[allow(dead_code, reason = "some kernels read no parameters")]
            pub fn from_words(words: &[u64]) -> $name {
                let mut words = words.iter().copied();
                $(let $field = $crate::params::Param::read(&mut words);)*
                $name { $($field),* }
            }
        }
    };
}
pub(crate) use params;
