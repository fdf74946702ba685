//! Attributes: a list of 32-bit words for each node, and a schema that says what they mean. Printing, parsing,
//! verification, hashing and the generators of random graphs use the schema only.
//!
//! Invariant: the words of a node are those of its op's fields, in order, and no others.

use crate::arena::{Region, Shape, Sym};
use crate::nodes::DType;

pub use super::attr_fields::{Field, Kind, attrs_are_inline};

/// An attribute as given to [`Emit::emit`](super::emit::Emit::emit).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attr<'s> {
    /// For [`Kind::Bool`].
    Bool(bool),
    /// For [`Kind::Int`].
    Int(i64),
    /// For [`Kind::F64`].
    F64(f64),
    /// For [`Kind::DType`].
    DType(DType),
    /// For [`Kind::Shape`]: interned already.
    Shape(Shape),
    /// For [`Kind::Ints`].
    Ints(&'s [i64]),
    /// For [`Kind::Floats`].
    Floats(&'s [f64]),
    /// For [`Kind::Sym`]: interned already.
    Sym(Sym),
    /// For [`Kind::Region`].
    Region(Region),
    /// For [`Kind::Bytes`].
    Bytes(&'s [u8]),
    /// For [`Kind::Choice`]: the index of the name.
    Choice(u32),
    /// For an optional field that is absent.
    Absent,
}

impl Attr<'_> {
    /// Appends the words of this attribute. An error if it is no value of `field`.
    pub fn encode(&self, field: &Field, words: &mut Vec<u32>) -> Result<(), String> {
        if field.optional {
            words.push(u32::from(*self != Attr::Absent));
            if *self == Attr::Absent {
                return Ok(());
            }
        }
        let kind = field.kind;
        let two = |w: &mut Vec<u32>, x: u64| w.extend([x as u32, (x >> 32) as u32]);
        match (*self, kind) {
            (Attr::Bool(b), Kind::Bool) => words.push(b as u32),
            (Attr::Int(i), Kind::Int) => two(words, i as u64),
            (Attr::F64(x), Kind::F64) => two(words, x.to_bits()),
            (Attr::DType(d), Kind::DType) => words.push(d as u32),
            (Attr::Shape(s), Kind::Shape) => words.push(s.0),
            (Attr::Ints(list), Kind::Ints) => {
                words.push(list.len() as u32);
                list.iter().for_each(|&i| two(words, i as u64));
            }
            (Attr::Floats(list), Kind::Floats) => {
                words.push(u32::try_from(list.len()).map_err(|_| "a list is limited to 2³² numbers")?);
                list.iter().for_each(|x| two(words, x.to_bits()));
            }
            (Attr::Sym(s), Kind::Sym) => words.push(s.0),
            (Attr::Region(r), Kind::Region) => words.push(r.0),
            (Attr::Bytes(b), Kind::Bytes) => {
                words.push(u32::try_from(b.len()).map_err(|_| "a constant is limited to 4 GiB")?);
                words.extend(b.chunks(4).map(|c| c.iter().rev().fold(0, |w, &x| w << 8 | x as u32)));
            }
            (Attr::Choice(i), Kind::Choice(names)) if (i as usize) < names.len() => words.push(i),
            _ => return Err(format!("attribute {self:?} where {kind:?} is asked for")),
        }
        Ok(())
    }
}

/// The attributes of one node: the schema of its op, and the words that hold their values.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Attrs<'x> {
    /// The schema.
    pub fields: &'static [Field],
    /// The words.
    pub words: &'x [u32],
}

impl<'x> Attrs<'x> {
    /// Number of words of `field`, which starts at word `at`.
    fn width(&self, field: &Field, at: usize) -> usize {
        if field.optional {
            let there = self.words[at] != 0;
            return 1 + if there { self.width(&Field { optional: false, ..*field }, at + 1) } else { 0 };
        }
        match field.kind {
            Kind::Int | Kind::F64 => 2,
            Kind::Ints | Kind::Floats => 1 + 2 * self.words[at] as usize,
            Kind::Bytes => 1 + (self.words[at] as usize).div_ceil(4),
            _ => 1,
        }
    }

    /// First word of the value of field `i`.
    pub(super) fn start(&self, i: usize) -> usize {
        let mut at = 0;
        for f in &self.fields[..i] {
            at += self.width(f, at);
        }
        at + usize::from(self.fields[i].optional)
    }

    /// True if the node has field `i`.
    pub fn has(&self, i: usize) -> bool {
        !self.fields[i].optional || self.words[self.start(i) - 1] != 0
    }

    fn word(&self, i: usize) -> u32 {
        self.words[self.start(i)]
    }

    fn double(&self, i: usize) -> u64 {
        let at = self.start(i);
        self.words[at] as u64 | (self.words[at + 1] as u64) << 32
    }

    /// Field `i`, a [`Kind::Bool`].
    pub fn bool(&self, i: usize) -> bool {
        self.word(i) != 0
    }

    /// Field `i`, a [`Kind::Int`].
    pub fn int(&self, i: usize) -> i64 {
        self.double(i) as i64
    }

    /// Field `i`, a [`Kind::Int`]; shape inference has checked that it is not negative.
    pub fn size(&self, i: usize) -> usize {
        self.int(i).max(0) as usize
    }

    /// Field `i`, a [`Kind::F64`].
    pub fn f64(&self, i: usize) -> f64 {
        f64::from_bits(self.double(i))
    }

    /// Field `i`, a [`Kind::DType`].
    pub fn dtype(&self, i: usize) -> DType {
        DType::ALL[self.word(i) as usize]
    }

    /// Field `i`, a [`Kind::Shape`].
    pub fn shape(&self, i: usize) -> Shape {
        Shape(self.word(i))
    }

    /// Field `i`, a [`Kind::Sym`].
    pub fn sym(&self, i: usize) -> Sym {
        Sym(self.word(i))
    }

    /// Field `i`, a [`Kind::Region`].
    pub fn region(&self, i: usize) -> Region {
        Region(self.word(i))
    }

    /// Field `i`, a [`Kind::Choice`].
    pub fn choice(&self, i: usize) -> u32 {
        self.word(i)
    }

    /// Field `i`, a [`Kind::Ints`].
    pub fn ints(&self, i: usize) -> Vec<i64> {
        let at = self.start(i);
        let n = self.words[at] as usize;
        let pairs = self.words[at + 1..at + 1 + 2 * n].chunks_exact(2);
        pairs.map(|p| (p[0] as u64 | (p[1] as u64) << 32) as i64).collect()
    }

    /// Field `i`, a [`Kind::Ints`]; shape inference has checked that no number is negative.
    pub fn sizes(&self, i: usize) -> Vec<usize> {
        self.ints(i).into_iter().map(|x| x.max(0) as usize).collect()
    }

    /// Field `i`, a [`Kind::Floats`].
    pub fn floats(&self, i: usize) -> Vec<f64> {
        // The same words hold integers and doubles.
        self.ints(i).into_iter().map(|bits| f64::from_bits(bits as u64)).collect()
    }

    /// Field `i`, a [`Kind::Bytes`].
    pub fn bytes(&self, i: usize) -> Vec<u8> {
        let at = self.start(i);
        let n = self.words[at] as usize;
        let words = &self.words[at + 1..at + 1 + n.div_ceil(4)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }

    /// All fields with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Field, Owned)> + use<'x> {
        let me = *self;
        self.fields.iter().enumerate().map(move |(i, f)| (f, me.owned(i)))
    }

    /// Field `i`, of any kind.
    pub fn owned(&self, i: usize) -> Owned {
        if !self.has(i) {
            return Owned::Absent;
        }
        match self.fields[i].kind {
            Kind::Bool => Owned::Bool(self.bool(i)),
            Kind::Int => Owned::Int(self.int(i)),
            Kind::F64 => Owned::F64(self.f64(i)),
            Kind::DType => Owned::DType(self.dtype(i)),
            Kind::Shape => Owned::Shape(self.shape(i)),
            Kind::Ints => Owned::Ints(self.ints(i)),
            Kind::Floats => Owned::Floats(self.floats(i)),
            Kind::Sym => Owned::Sym(self.sym(i)),
            Kind::Region => Owned::Region(self.region(i)),
            Kind::Bytes => Owned::Bytes(self.bytes(i)),
            Kind::Choice(_) => Owned::Choice(self.choice(i)),
        }
    }

    /// Checks the words against the schema: their number, and the ranges of booleans, dtypes, choices and ids.
    pub fn validate(&self, shapes: usize, strings: usize, regions: usize) -> Result<(), String> {
        let mut at = 0;
        for f in self.fields {
            let missing = || format!("attribute {} is missing", f.name);
            let mut word = *self.words.get(at).ok_or_else(missing)?;
            if f.optional && word < 2 {
                if word == 0 {
                    at += 1;
                    continue;
                }
                word = *self.words.get(at + 1).ok_or_else(missing)?;
            } else if f.optional {
                return Err(format!("attribute {} is out of range: {word}", f.name));
            }
            let ok = match f.kind {
                Kind::Bool => word < 2,
                Kind::DType => (word as usize) < DType::ALL.len(),
                Kind::Shape => (word as usize) < shapes,
                Kind::Sym => (word as usize) < strings,
                Kind::Region => (word as usize) < regions,
                Kind::Choice(names) => (word as usize) < names.len(),
                Kind::Int | Kind::F64 | Kind::Ints | Kind::Floats | Kind::Bytes => true,
            };
            if !ok {
                return Err(format!("attribute {} is out of range: {word}", f.name));
            }
            at += self.width(f, at);
        }
        if at != self.words.len() {
            return Err(format!("the attributes take {at} words, not {}", self.words.len()));
        }
        Ok(())
    }
}

/// An attribute by value.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    /// As [`Attr::Bool`].
    Bool(bool),
    /// As [`Attr::Int`].
    Int(i64),
    /// As [`Attr::F64`].
    F64(f64),
    /// As [`Attr::DType`].
    DType(DType),
    /// As [`Attr::Shape`].
    Shape(Shape),
    /// As [`Attr::Ints`].
    Ints(Vec<i64>),
    /// As [`Attr::Floats`].
    Floats(Vec<f64>),
    /// As [`Attr::Sym`].
    Sym(Sym),
    /// As [`Attr::Region`].
    Region(Region),
    /// As [`Attr::Bytes`].
    Bytes(Vec<u8>),
    /// As [`Attr::Choice`].
    Choice(u32),
    /// As [`Attr::Absent`].
    Absent,
}

impl Owned {
    /// The same attribute, borrowed.
    pub fn as_attr(&self) -> Attr<'_> {
        match self {
            Owned::Bool(b) => Attr::Bool(*b),
            Owned::Int(i) => Attr::Int(*i),
            Owned::F64(x) => Attr::F64(*x),
            Owned::DType(d) => Attr::DType(*d),
            Owned::Shape(s) => Attr::Shape(*s),
            Owned::Ints(v) => Attr::Ints(v),
            Owned::Floats(v) => Attr::Floats(v),
            Owned::Sym(s) => Attr::Sym(*s),
            Owned::Region(r) => Attr::Region(*r),
            Owned::Bytes(b) => Attr::Bytes(b),
            Owned::Choice(i) => Attr::Choice(*i),
            Owned::Absent => Attr::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["a", "b"];
    const FIELDS: &[Field] = &[
        Field::new("flag", Kind::Bool),
        Field::new("int", Kind::Int),
        Field::new("double", Kind::F64),
        Field::new("dtype", Kind::DType),
        Field::new("shape", Kind::Shape),
        Field::new("ints", Kind::Ints),
        Field::new("floats", Kind::Floats),
        Field::new("sym", Kind::Sym),
        Field::new("region", Kind::Region),
        Field::new("bytes", Kind::Bytes),
        Field::new("choice", Kind::Choice(NAMES)),
        Field::optional("maybe int", Kind::Int),
        Field::optional("maybe ints", Kind::Ints),
        Field::optional("maybe bytes", Kind::Bytes),
        Field::optional("maybe flag", Kind::Bool),
    ];

    fn encoded(values: &[Owned]) -> Vec<u32> {
        let mut words = Vec::new();
        values.iter().zip(FIELDS).for_each(|(value, field)| value.as_attr().encode(field, &mut words).unwrap());
        words
    }

    fn plain() -> Vec<Owned> {
        let (ints, floats) = (vec![1, (1 << 32) | 7], vec![0.5]);
        vec![
            Owned::Bool(true),
            Owned::Int(-2),
            Owned::F64(1.5),
            Owned::DType(DType::F64),
            Owned::Shape(Shape(5)),
            Owned::Ints(ints),
            Owned::Floats(floats),
            Owned::Sym(Sym(3)),
            Owned::Region(Region(2)),
            Owned::Bytes(vec![1, 2, 3, 4, 5]),
            Owned::Choice(1),
        ]
    }

    #[test]
    fn each_kind_has_its_words() {
        let words: &[&[u32]] = &[
            &[1, 0xffff_fffe, 0xffff_ffff, 0, 0x3ff8_0000, DType::F64 as u32, 5],
            &[2, 1, 0, 7, 1],
            &[1, 0, 0x3fe0_0000],
            &[3, 2],
            &[5, 0x0403_0201, 5],
            &[1],
        ];
        assert_eq!(encoded(&plain()), words.concat());
        let maybe = [Owned::Int(9), Owned::Ints(vec![4]), Owned::Bytes(vec![6; 4]), Owned::Bool(false)];
        let wanted = [vec![1, 9, 0], vec![1, 1, 4, 0], vec![1, 4, 0x0606_0606], vec![1, 0]];
        for present in 0..16 {
            let there = |k: usize| present >> k & 1 == 1;
            let (mut values, mut words) = (plain(), words.concat());
            for k in 0..4 {
                values.push(if there(k) { maybe[k].clone() } else { Owned::Absent });
                words.extend_from_slice(if there(k) { &wanted[k] } else { &[0] });
            }
            assert_eq!(encoded(&values), words);
            let attrs = Attrs { fields: FIELDS, words: &words };
            assert_eq!(attrs.validate(6, 4, 3), Ok(()));
            let read: Vec<(&str, Owned)> = attrs.iter().map(|(f, value)| (f.name, value)).collect();
            assert_eq!(read, FIELDS.iter().map(|f| f.name).zip(values).collect::<Vec<_>>());
            assert_eq!([0, 11, 12, 13, 14].map(|i| attrs.has(i)), [true, there(0), there(1), there(2), there(3)]);
        }
    }

    #[test]
    fn sizes_are_not_negative() {
        const SIZES: &[Field] = &[Field::new("size", Kind::Int), Field::new("sizes", Kind::Ints)];
        let mut words = Vec::new();
        Attr::Int(-1).encode(&SIZES[0], &mut words).unwrap();
        Attr::Ints(&[3, -4, 0]).encode(&SIZES[1], &mut words).unwrap();
        let attrs = Attrs { fields: SIZES, words: &words };
        assert_eq!((attrs.size(0), attrs.sizes(1), attrs.int(0)), (0, vec![3, 0, 0], -1));
    }

    #[test]
    fn values_of_another_kind_are_refused() {
        let refused = |attr: Attr<'_>, field: usize| attr.encode(&FIELDS[field], &mut Vec::new()).unwrap_err();
        assert_eq!(refused(Attr::Bool(true), 1), "attribute Bool(true) where Int is asked for");
        assert_eq!(refused(Attr::Absent, 0), "attribute Absent where Bool is asked for");
        assert_eq!(refused(Attr::Choice(2), 10), "attribute Choice(2) where Choice([\"a\", \"b\"]) is asked for");
        assert_eq!(refused(Attr::Bool(true), 11), "attribute Bool(true) where Int is asked for");
    }

    #[test]
    fn words_that_are_no_attributes_are_refused() {
        let valid = |fields: &'static [Field], words: &[u32]| Attrs { fields, words }.validate(6, 4, 3);
        let out = |name: &str, word: u32| Err(format!("attribute {name} is out of range: {word}"));
        let dtypes = DType::ALL.len() as u32;
        for (i, below) in [(0, 2), (3, dtypes), (4, 6), (7, 4), (8, 3), (10, 2)] {
            let fields = &FIELDS[i..=i];
            assert_eq!(valid(fields, &[below - 1]), Ok(()), "{}", fields[0].name);
            assert_eq!(valid(fields, &[below]), out(fields[0].name, below));
        }
        let missing = |name: &str| Err(format!("attribute {name} is missing"));
        let (flag, maybe) = (&FIELDS[..1], &FIELDS[14..]);
        assert_eq!(valid(flag, &[]), missing("flag"));
        assert_eq!(valid(flag, &[1, 0]), Err("the attributes take 1 words, not 2".to_string()));
        assert_eq!(valid(&FIELDS[5..6], &[3]), Err("the attributes take 7 words, not 1".to_string()));
        assert_eq!((valid(maybe, &[0]), valid(maybe, &[1, 1])), (Ok(()), Ok(())));
        assert_eq!((valid(maybe, &[1]), valid(maybe, &[])), (missing("maybe flag"), missing("maybe flag")));
        assert_eq!((valid(maybe, &[2, 0]), valid(maybe, &[1, 2])), (out("maybe flag", 2), out("maybe flag", 2)));
        // The word that says whether a field is there is 0 or 1, whatever the field can be.
        assert_eq!(valid(&FIELDS[11..12], &[2, 5, 0]), out("maybe int", 2));
        // What is behind an absent field counts as well.
        assert_eq!(valid(&FIELDS[13..], &[0, 2]), out("maybe flag", 2));
        assert_eq!(valid(&FIELDS[13..], &[0, 1, 1]), Ok(()));
    }
}
