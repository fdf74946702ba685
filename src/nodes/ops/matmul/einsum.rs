//! Einstein sums: an equation of letters becomes diagonals, sums, products of pairs, and one transpose.

use crate::ensure;
use crate::error::Kind;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::{Builder, Var};
use std::collections::BTreeMap;

/// What an axis is called: a letter, or its distance from the last axis of those that `...` stands for. The order is
/// that of the axes of an implicit output: `...` first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EinsumLabel {
    Dots(std::cmp::Reverse<usize>),
    Letter(char),
}

impl std::fmt::Display for EinsumLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EinsumLabel::Letter(c) => write!(f, "letter {c}"),
            EinsumLabel::Dots(from_last) => write!(f, "axis -{} of `...`", from_last.0 + 1),
        }
    }
}

/// The letters of one operand or of the output.
struct EinsumSubscript {
    before: Vec<char>,
    dots: bool,
    /// Letters after `...`.
    after: Vec<char>,
}

impl EinsumSubscript {
    fn parse(text: &str) -> Result<EinsumSubscript, String> {
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let letters = |part: &str| {
            let bad = part.chars().find(|c| !c.is_ascii_alphabetic() && !c.is_whitespace());
            match bad {
                Some(c) => Err(format!("'{c}' in \"{}\" is no letter, and `...` stands at most once", text.trim())),
                None => Ok(part.chars().filter(|c| !c.is_whitespace()).collect::<Vec<char>>()),
            }
        };
        Ok(EinsumSubscript { before: letters(before)?, dots: after.is_some(), after: letters(after.unwrap_or(""))? })
    }

    /// The labels, where `...` stands for `dots` axes.
    fn labels(&self, dots: usize) -> Vec<EinsumLabel> {
        let middle = (0..if self.dots { dots } else { 0 }).rev().map(|i| EinsumLabel::Dots(std::cmp::Reverse(i)));
        let letters = |list: &[char]| list.iter().map(|&c| EinsumLabel::Letter(c)).collect::<Vec<_>>();
        letters(&self.before).into_iter().chain(middle).chain(letters(&self.after)).collect()
    }

    /// The labels of operand `i`, which has this rank.
    fn of_rank(&self, i: usize, rank: usize) -> Result<Vec<EinsumLabel>, String> {
        let letters = self.before.len() + self.after.len();
        let fits = if self.dots { letters <= rank } else { letters == rank };
        ensure!(fits, "operand {i} has rank {rank}, and its subscript {letters} letters");
        Ok(self.labels(rank - letters))
    }
}

/// A value with a label for each axis.
#[derive(Clone)]
struct EinsumTerm<'g> {
    x: Var<'g>,
    labels: Vec<EinsumLabel>,
}

impl<'g> EinsumTerm<'g> {
    fn has(&self, label: EinsumLabel) -> bool {
        self.labels.contains(&label)
    }

    fn at(&self, label: EinsumLabel) -> Option<usize> {
        self.labels.iter().position(|&l| l == label)
    }

    /// Diagonals instead of repeated letters, and no axes of length 1 that `...` broadcasts.
    fn distinct(mut self, sizes: &BTreeMap<EinsumLabel, usize>) -> EinsumTerm<'g> {
        let d = self.x.dims();
        let one = |a: &usize| matches!(self.labels[*a], EinsumLabel::Dots(_)) && d[*a] != sizes[&self.labels[*a]];
        let repeated: Vec<usize> = (0..self.labels.len()).filter(one).collect();
        self.x = self.x.squeeze(size_attrs_to_i64(&repeated).as_slice());
        for &a in repeated.iter().rev() {
            self.labels.remove(a);
        }
        let twice = |t: &EinsumTerm<'g>| {
            t.labels.iter().enumerate().find_map(|(b, &l)| t.at(l).filter(|&a| a < b).map(|a| (a, b)))
        };
        while let Some((a, b)) = twice(&self) {
            self.x = self.x.diagonal(0, size_attr_to_i64(a), size_attr_to_i64(b));
            let label = self.labels.remove(b);
            self.labels.remove(a);
            self.labels.push(label);
        }
        self
    }

    /// The sum over the labels that `kept` does not hold.
    fn summed(self, kept: impl Fn(EinsumLabel) -> bool) -> EinsumTerm<'g> {
        let lone: Vec<usize> = (0..self.labels.len()).filter(|&a| !kept(self.labels[a])).collect();
        if lone.is_empty() {
            return self;
        }
        let x = self.x.sum(size_attrs_to_i64(&lone).as_slice());
        EinsumTerm { x, labels: self.labels.into_iter().filter(|&l| kept(l)).collect() }
    }

    /// The axes in the order of `labels`; a label that this has not becomes an axis of length 1.
    fn arranged(&self, labels: &[EinsumLabel]) -> Var<'g> {
        if !self.x.is_some() {
            // An operation failed. The builder keeps its error.
            return self.x;
        }
        let perm: Vec<usize> = labels.iter().filter_map(|&l| self.at(l)).collect();
        let x = if perm.is_sorted() { self.x } else { self.x.permute(&perm) };
        let d = self.x.dims();
        x.reshape(labels.iter().map(|&l| self.at(l).map_or(1, |a| d[a])).collect::<Vec<usize>>())
    }

    /// The product of this and `b`, summed over the labels that both have and `kept` does not hold.
    fn times(&self, b: &EinsumTerm<'g>, kept: impl Fn(EinsumLabel) -> bool) -> EinsumTerm<'g> {
        let (shared, free): (Vec<EinsumLabel>, Vec<EinsumLabel>) = self.labels.iter().partition(|&&l| b.has(l));
        let (batch, gone): (Vec<EinsumLabel>, Vec<EinsumLabel>) = shared.into_iter().partition(|&l| kept(l));
        let free_b = b.labels.iter().copied().filter(|&l| !self.has(l));
        let labels: Vec<EinsumLabel> = batch.iter().copied().chain(free).chain(free_b).collect();
        let dtype = self.x.dtype();
        if gone.is_empty() || !(dtype.is_float() || dtype.is_index()) {
            // A product without a sum is no matrix product.
            let all = [&labels[..], &gone].concat();
            return EinsumTerm { x: self.arranged(&all) * b.arranged(&all), labels: all }.summed(kept);
        }
        let axes = |t: &EinsumTerm<'g>, list: &[EinsumLabel]| -> Vec<i64> {
            list.iter().filter_map(|&l| t.at(l)).map(size_attr_to_i64).collect()
        };
        let (batches, contracted) = ([axes(self, &batch), axes(b, &batch)], [axes(self, &gone), axes(b, &gone)]);
        let [both, sums] = [&batches, &contracted].map(|[a, b]| [a.as_slice(), b.as_slice()]);
        EinsumTerm { x: self.x.dot_general(b.x, both, sums), labels }
    }
}

/// The size of each label. A letter has one size; `...` broadcasts.
fn find_label_sizes(terms: &[EinsumTerm<'_>]) -> Result<BTreeMap<EinsumLabel, usize>, String> {
    let mut found: BTreeMap<EinsumLabel, (usize, usize)> = BTreeMap::new();
    for (i, t) in terms.iter().enumerate() {
        for (&label, &n) in t.labels.iter().zip(t.x.dims().iter()) {
            let (first, size) = *found.entry(label).or_insert((i, n));
            let broadcasts = matches!(label, EinsumLabel::Dots(_)) && (size == 1 || n == 1);
            ensure!(size == n || broadcasts, "{label} is {size} in operand {first} and {n} in operand {i}");
            if size != n && size == 1 {
                found.insert(label, (i, n));
            }
        }
    }
    Ok(found.into_iter().map(|(label, (_, size))| (label, size)).collect())
}

/// The labels of the output.
fn find_result_labels(output: Option<&str>, terms: &[EinsumTerm<'_>]) -> Result<Vec<EinsumLabel>, String> {
    let all = || terms.iter().flat_map(|t| &t.labels).copied();
    let dots = all().filter_map(|l| if let EinsumLabel::Dots(i) = l { Some(i.0 + 1) } else { None }).max().unwrap_or(0);
    let Some(text) = output else {
        let mut once: Vec<EinsumLabel> =
            all().filter(|&l| matches!(l, EinsumLabel::Dots(_)) || all().filter(|&k| k == l).count() == 1).collect();
        once.sort_unstable();
        once.dedup();
        return Ok(once);
    };
    let subscript = EinsumSubscript::parse(text)?;
    ensure!(subscript.dots || dots == 0, "`...` stands for {dots} axes of the operands, and the output has none");
    let labels = subscript.labels(dots);
    for (i, &l) in labels.iter().enumerate() {
        ensure!(!labels[..i].contains(&l), "{l} stands twice in the output");
        ensure!(all().any(|k| k == l), "{l} of the output is in no operand");
    }
    Ok(labels)
}

/// The pair whose product shortens the work most: the least size of the result, less the sizes of both; among equals
/// the least number of products, then the first.
fn choose_cheapest_pair(
    terms: &[EinsumTerm<'_>],
    sizes: &BTreeMap<EinsumLabel, usize>,
    out: &[EinsumLabel],
) -> (usize, usize) {
    let size = |labels: &mut dyn Iterator<Item = EinsumLabel>| labels.map(|l| sizes[&l] as f64).product::<f64>();
    let mut best = ((0, 1), (f64::INFINITY, f64::INFINITY));
    for i in 0..terms.len() {
        for k in i + 1..terms.len() {
            let (a, b) = (&terms[i], &terms[k]);
            let kept = |&l: &EinsumLabel| {
                out.contains(&l) || terms.iter().enumerate().any(|(n, t)| n != i && n != k && t.has(l))
            };
            let union = || a.labels.iter().copied().chain(b.labels.iter().copied().filter(|&l| !a.has(l)));
            let result = size(&mut union().filter(kept));
            let saved = size(&mut a.labels.iter().copied()) + size(&mut b.labels.iter().copied());
            let cost = (result - saved, size(&mut union()));
            if cost < best.1 {
                best = ((i, k), cost);
            }
        }
    }
    best.0
}

fn contract_operands<'g>(equation: &str, xs: &[Var<'g>]) -> Result<Var<'g>, String> {
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation, None),
    };
    let subscripts: Vec<&str> = inputs.split(',').collect();
    ensure!(subscripts.len() == xs.len(), "{} subscripts for {} operands", subscripts.len(), xs.len());
    if let Some(i) = xs.iter().position(|x| x.dtype() != xs[0].dtype()) {
        return Err(format!("operand 0 is {} and operand {i} {}; cast one", xs[0].dtype(), xs[i].dtype()));
    }
    let named = subscripts.iter().zip(xs).enumerate();
    let labelled =
        named.map(|(i, (text, &x))| Ok(EinsumTerm { x, labels: EinsumSubscript::parse(text)?.of_rank(i, x.rank())? }));
    let terms = labelled.collect::<Result<Vec<EinsumTerm<'g>>, String>>()?;
    let (sizes, out) = (find_label_sizes(&terms)?, find_result_labels(output, &terms)?);
    let mut terms: Vec<EinsumTerm<'g>> = terms.into_iter().map(|t| t.distinct(&sizes)).collect();
    for i in 0..terms.len() {
        let elsewhere = |l: EinsumLabel| terms.iter().enumerate().any(|(k, t)| k != i && t.has(l));
        terms[i] = terms[i].clone().summed(|l| out.contains(&l) || elsewhere(l));
    }
    while terms.len() > 1 {
        let (i, k) = choose_cheapest_pair(&terms, &sizes, &out);
        let (b, a) = (terms.remove(k), terms.remove(i));
        let product = a.times(&b, |l| out.contains(&l) || terms.iter().any(|t| t.has(l)));
        terms.insert(i, product);
    }
    Ok(terms[0].arranged(&out))
}

impl Builder {
    /// The Einstein sum of `xs` that `equation` describes, as in `torch.einsum`. Each operand has a subscript of
    /// letters, one for each axis; axes with one letter have one length. The output is the sum, over the letters that
    /// it has not, of the products of the elements. Without `->`, the output has `...` and then the letters that occur
    /// once, in alphabetical order (A–Z before a–z). A letter that an operand repeats takes its diagonal. `...` stands
    /// for any number of axes, which broadcast; lengths of letters do not. Spaces count for nothing.
    ///
    /// Operands are of one type, `f32`, `f64`, `i32` or `i64`. Several operands are multiplied pair by pair, by a
    /// greedy path: the pair whose product is smallest next to its factors first. Each pair with a common
    /// letter to sum over is one `dot_general`. Errors name the letter, the operands and both lengths.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("scores");
    /// let (q, k) = (g.input("q", [2, 4, 5, 8], DType::F32), g.input("k", [2, 4, 7, 8], DType::F32));
    /// let scores = g.einsum("bhqd,bhkd->bhqk", &[q, k]);
    /// assert_eq!(scores.dims()[..], [2, 4, 5, 7]);
    /// assert_eq!(g.einsum("...ii->...", &[scores.narrow(-1, 0, 5)]).dims()[..], [2, 4]); // traces
    /// g.einsum("bhqd,bhkd->bhqk", &[q, k.narrow(3, 0, 6)]);
    /// assert!(g.finish([scores]).unwrap_err().to_string().contains("letter d is 8 in operand 0 and 6 in operand 1"));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn einsum<'g>(&'g self, equation: &str, xs: &[Var<'g>]) -> Var<'g> {
        self.with_caller(|| {
            if !self.owns("einsum", xs) || xs.iter().any(|x| !x.is_some()) {
                return self.var(crate::arena::Value::NONE);
            }
            match contract_operands(equation, xs) {
                Ok(y) => y,
                Err(why) => self.fail(Kind::Shape, format!("einsum(\"{equation}\"): {why}")),
            }
        })
    }
}
