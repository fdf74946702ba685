//! Variants of a conformance case: the same op on other operands or with other attributes, most of them wrong.
//!
//! Invariant: a variant differs from its case in one thing. Variants are texts, made from the case and the schema.

use super::sample::{Sample, SampleSource};
use super::tensor_draws::TensorDraws;
use crate::nodes::DType;
use crate::nodes::ir::attrs::{Field, Kind};
use std::fmt::Display;

/// What differs from the case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Differs {
    /// The number of operands.
    Number,
    /// The type of an operand, or their order.
    Operand,
    /// An attribute, which has an extreme value or a value of another form.
    Extreme,
    /// The attribute with this number in the schema, which has another value that is not extreme.
    Attribute(usize),
}

/// A variant of a case.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) differs: Differs,
    pub(super) given: SampleSource,
}

/// The largest rank of a tensor.
const RANK: usize = 8;

/// Sizes that no tensor has.
const HUGE: [i64; 4] = [1 << 31, 1 << 40, i64::MAX, i64::MIN];

/// Doubles at the limits of what an attribute may be.
const EXTREMES: [&str; 6] = ["nan", "inf", "-inf", "1e300", "-1e300", "5e-324"];

/// The variants of a sample's case.
pub(super) fn vary_case(s: &Sample, draw: &mut TensorDraws) -> Vec<Variant> {
    let mut all = vary_operands(s);
    for (k, field) in s.def.attrs.iter().enumerate() {
        let words: Vec<(&str, &str)> = s.given.attrs.split_whitespace().filter_map(|w| w.split_once('=')).collect();
        let old = words.iter().find(|w| w.0 == field.name).map(|w| w.1);
        let rest: Vec<String> =
            words.iter().filter(|w| w.0 != field.name).map(|(name, value)| format!("{name}={value}")).collect();
        for (usual, value) in variant_values(field, old, draw) {
            let differs = if usual { Differs::Attribute(k) } else { Differs::Extreme };
            let own = value.map(|value| format!("{}={value}", field.name));
            let attrs = rest.iter().cloned().chain(own).collect::<Vec<_>>().join(" ");
            all.push(Variant { differs, given: SampleSource { attrs, ..s.given.clone() } });
        }
    }
    all
}

/// Other numbers, types, shapes and orders of the operands.
fn vary_operands(s: &Sample) -> Vec<Variant> {
    let words: Vec<&str> = s.given.args.split_whitespace().collect();
    let mut all = Vec::new();
    let mut add = |differs, words: &[String]| {
        all.push(Variant { differs, given: SampleSource { args: words.join(" "), ..s.given.clone() } });
    };
    let owned: Vec<String> = words.iter().map(|w| w.to_string()).collect();
    if let Some((_, fewer)) = owned.split_last() {
        add(Differs::Number, fewer);
    }
    let one_more = [owned.clone(), vec![owned.last().cloned().unwrap_or("f[2]".into())]].concat();
    add(Differs::Number, &one_more);
    let many_more = [owned.clone(), vec!["bool[2,5,1]".to_string(); 20]].concat();
    add(Differs::Number, &many_more);
    for k in 0..words.len() {
        let with = |word: String| [&owned[..k], &[word], &owned[k + 1..]].concat();
        let Some((dtype, dims)) = words[k].strip_suffix(']').and_then(|w| w.split_once('[')) else { continue };
        let dims: Vec<usize> = dims.split(',').filter_map(|n| n.parse().ok()).collect();
        for dims in variant_dims(&dims) {
            add(Differs::Operand, &with(typed_variant(dtype, &dims)));
        }
        let float = s.float.to_string();
        let complex = s.float.complex().map(|d| d.to_string()).unwrap_or_default();
        for other in DType::ALL.iter().map(|d| d.to_string()) {
            let same = dtype == "f" && other == float || dtype == "c" && other == complex;
            if other != dtype && !same {
                add(Differs::Operand, &with(typed_variant(&other, &dims)));
            }
        }
        for j in k + 1..words.len() {
            let mut swapped = owned.clone();
            swapped.swap(k, j);
            if swapped != owned {
                add(Differs::Operand, &swapped);
            }
        }
    }
    all
}

fn typed_variant(dtype: &str, dims: &[usize]) -> String {
    format!("{dtype}{}", variant_list(dims))
}

fn variant_list<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(","))
}

/// Dimensions that differ by one in an axis, or by an axis; and those of the largest rank.
fn variant_dims(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for a in 0..dims.len() {
        let with = |n: usize| [&dims[..a], &[n], &dims[a + 1..]].concat();
        all.push(with(dims[a] + 1));
        all.extend(dims[a].checked_sub(1).map(with));
        all.push([&dims[..a], &dims[a + 1..]].concat());
    }
    all.extend([1, 2].map(|n| [dims, &[n]].concat()));
    all.extend([1, 2].map(|n| [&[n], dims].concat()));
    all.push([dims, &vec![1; RANK - dims.len().min(RANK)]].concat());
    all.retain(|other| other != dims && other.len() <= RANK);
    all.dedup();
    all
}

/// Other values of an attribute, as texts, and whether they are of the usual size; `None` leaves the attribute out.
fn variant_values(field: &Field, old: Option<&str>, draw: &mut TensorDraws) -> Vec<(bool, Option<String>)> {
    let mut all = Vec::new();
    if field.optional && old.is_some() {
        all.push((true, None));
    }
    let mut add = |usual, value: String| {
        if old != Some(value.as_str()) {
            all.push((usual, Some(value)));
        }
    };
    match field.kind {
        Kind::Bool => ["false", "true"].iter().for_each(|b| add(true, b.to_string())),
        Kind::Choice(names) => {
            let first = (draw.bits() % names.len().max(1) as u64) as usize;
            names.iter().cycle().skip(first).take(names.len()).for_each(|n| add(true, n.to_string()));
        }
        Kind::DType => DType::ALL.iter().for_each(|d| add(false, d.to_string())),
        Kind::Int => {
            let old: i64 = old.and_then(|x| x.parse().ok()).unwrap_or(1);
            [old.saturating_sub(1), old.saturating_add(1)].iter().for_each(|x| add(true, x.to_string()));
            HUGE.iter().chain(&[0, 1, 2, 3, -1, -2]).for_each(|x| add(false, x.to_string()));
        }
        Kind::F64 => {
            let (low, high) = (0.05 + 0.9 * draw.unit(), 1.05 + 1.5 * draw.unit());
            [low, high, -low].iter().for_each(|x| add(true, x.to_string()));
            ["0", "1", "-1"].iter().chain(&EXTREMES).for_each(|x| add(false, x.to_string()));
        }
        Kind::Ints | Kind::Shape => {
            let old: Vec<i64> = variant_numbers(old);
            variant_lists(&old).iter().for_each(|x| add(true, variant_list(x)));
            wrong_variant_lists(&old).iter().for_each(|x| add(false, variant_list(x)));
        }
        Kind::Floats => {
            let old: Vec<f64> = variant_numbers(old);
            add(false, variant_list(&[&old[..], &[0.5]].concat()));
            add(false, variant_list(&old[..old.len().saturating_sub(1)]));
        }
        Kind::Bytes => {
            let old = old.unwrap_or("0x");
            add(false, format!("{old}00"));
            add(false, old[..old.len().saturating_sub(2).max(2)].to_string());
        }
        // Names, and regions that the case makes.
        Kind::Sym | Kind::Region => {}
    }
    all
}

fn variant_numbers<T: std::str::FromStr>(list: Option<&str>) -> Vec<T> {
    let inner = list.unwrap_or("[]").trim_matches(['[', ']']);
    inner.split(',').filter_map(|n| n.parse().ok()).collect()
}

/// Lists of as many numbers: in another order, or one of them differs by one.
fn variant_lists(old: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![old.iter().rev().copied().collect()];
    for k in 0..old.len() {
        let near = [old[k].saturating_add(1), old[k].saturating_sub(1)];
        all.extend(near.map(|n| [&old[..k], &[n], &old[k + 1..]].concat()));
    }
    all
}

/// Lists of another length, with a repeat, with a negative or a huge number.
fn wrong_variant_lists(old: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new(), old[..old.len().saturating_sub(1)].to_vec()];
    all.extend([0, 1].map(|n| [old, &[n]].concat()));
    for k in 0..old.len() {
        let repeat = old[(k + 1) % old.len()];
        for n in [-1, 0, 2, repeat, HUGE[k % HUGE.len()]] {
            all.push([&old[..k], &[n], &old[k + 1..]].concat());
        }
    }
    all
}
