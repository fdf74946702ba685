//! Forests of decision trees, as gathers over the tables that a node holds.
//!
//! An example stands at one node of each tree. A level moves all to a child; a leaf is its own child. After as many
//! levels as the deepest tree has, all stand at leaves. Scores and labels are those of onnxruntime; where runtimes
//! would differ, a node is refused. Invariant: positions in the tables are those of nodes; no gather is out of range.

use super::ml::{floats, integers, transformed};
use super::{Entry, moved, own};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use crate::tensor::Tensor;
use arenagrad::graph::{DType, Var};
use std::collections::{BTreeSet, HashMap};

pub const OPS: &[Entry] = &[
    own("TreeEnsemble", ensemble),
    own("TreeEnsembleClassifier", classifier),
    own("TreeEnsembleRegressor", regressor),
    // Maps from classes to scores: their scores, in the order of the classes.
    moved("ZipMap", |c| one(c.x(0)?)),
];

/// The deepest tree.
const LEVELS: usize = 1024;
/// Most numbers of a table of scores, unless the file has many weights.
const MOST: usize = 1 << 22;
/// Most numbers of a table of scores for each weight of the file.
const MOST_PER_WEIGHT: usize = 1 << 10;

/// How a node compares an element with its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Mode {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Other,
}

/// In the order of the numbers of `TreeEnsemble`.
const MODES: [(&str, Mode); 6] = [
    ("BRANCH_LEQ", Mode::AtMost),
    ("BRANCH_LT", Mode::Below),
    ("BRANCH_GTE", Mode::AtLeast),
    ("BRANCH_GT", Mode::Above),
    ("BRANCH_EQ", Mode::Equal),
    ("BRANCH_NEQ", Mode::Other),
];

impl Mode {
    fn holds<'g>(self, x: Var<'g>, number: Var<'g>) -> Var<'g> {
        match self {
            Mode::AtMost => x.less_equal(number),
            Mode::Below => x.less(number),
            Mode::AtLeast => x.greater_equal(number),
            Mode::Above => x.greater(number),
            Mode::Equal => x.equal(number),
            Mode::Other => x.not_equal(number),
        }
    }
}

/// One node: what it compares, and its children. A leaf is its own child.
#[derive(Clone, Copy)]
struct Split {
    feature: i64,
    number: f64,
    mode: Mode,
    children: [usize; 2],
    /// Whether NaN goes to the first child.
    missing: bool,
}

/// The nodes of all trees, and what leaves add to the scores: leaf, target and weight.
#[derive(Default)]
struct Forest {
    nodes: Vec<Split>,
    roots: Vec<usize>,
    weights: Vec<(usize, i64, f64)>,
    /// The most levels above a leaf.
    levels: usize,
}

impl Forest {
    /// The nodes of the old ops, whose leaves have scores under `kind` (`class` or `target`).
    fn of(c: &Cx<'_, '_>, kind: &str) -> Result<Forest> {
        let list = |name: &str| c.list(&format!("nodes_{name}")).unwrap_or_default();
        let [trees, ids, features, first, second] =
            ["treeids", "nodeids", "featureids", "truenodeids", "falsenodeids"].map(list);
        let numbers = numbers(c, "nodes_values")?;
        let modes: Vec<&[u8]> =
            c.attr("nodes_modes").map_or_else(Vec::new, |a| a.strings.iter().map(|s| &s[..]).collect());
        let missing = list("missing_value_tracks_true");
        let n = ids.len();
        let lengths = [trees.len(), features.len(), first.len(), second.len(), numbers.len(), modes.len()];
        if n == 0 || lengths.iter().any(|&m| m != n) || !(missing.is_empty() || missing.len() == n) {
            return c.wrong("its lists of nodes differ in length, or are empty");
        }
        let places: HashMap<(i64, i64), usize> = (0..n).map(|i| ((trees[i], ids[i]), i)).collect();
        if places.len() != n {
            return c.wrong("two nodes of a tree have one number");
        }
        let place = |tree: i64, id: i64| match places.get(&(tree, id)) {
            Some(&at) => Ok(at),
            None => c.wrong(format!("tree {tree} has no node {id}")),
        };
        let mut forest = Forest::default();
        let mut is_child = vec![false; n];
        for i in 0..n {
            let leaf = modes[i] == b"LEAF";
            let mode = MODES.iter().find(|m| m.0.as_bytes() == modes[i]).map_or(Mode::AtMost, |m| m.1);
            if !leaf && !MODES.iter().any(|m| m.0.as_bytes() == modes[i]) {
                return c.refuse(format!("a node has the mode {:?}", String::from_utf8_lossy(modes[i])));
            }
            let children = if leaf { [i; 2] } else { [place(trees[i], first[i])?, place(trees[i], second[i])?] };
            if !leaf && children.contains(&i) {
                return c.wrong("a node is its own child");
            }
            children.iter().filter(|&&child| child != i).for_each(|&child| is_child[child] = true);
            let feature = if leaf { 0 } else { features[i] };
            let number = if leaf { 0.0 } else { numbers[i] };
            let missing = missing.get(i).is_some_and(|&m| m != 0);
            forest.nodes.push(Split { feature, number, mode, children, missing });
        }
        forest.roots = (0..n).filter(|&i| !is_child[i]).collect();
        let distinct: BTreeSet<i64> = trees.iter().copied().collect();
        if forest.roots.len() != distinct.len() {
            return c.wrong(format!("{} trees have {} roots", distinct.len(), forest.roots.len()));
        }
        let list = |name: &str| c.list(&format!("{kind}_{name}")).unwrap_or_default();
        let [trees, ids, targets] = ["treeids", "nodeids", "ids"].map(list);
        let weights = self::numbers(c, &format!("{kind}_weights"))?;
        if [ids.len(), targets.len(), weights.len()].iter().any(|&m| m != trees.len()) {
            return c.wrong("its lists of weights differ in length");
        }
        for i in 0..trees.len() {
            let at = place(trees[i], ids[i])?;
            // What no example reaches has weights too, in some models.
            if forest.nodes[at].children == [at; 2] {
                forest.weights.push((at, targets[i], weights[i]));
            }
        }
        forest.levels = forest.count_levels(c)?;
        Ok(forest)
    }

    /// The children of a node, each once; a leaf has none.
    fn below(&self, at: usize) -> impl Iterator<Item = usize> {
        let [a, b] = self.nodes[at].children;
        [a, b].into_iter().take(if a == b { 1 } else { 2 }).filter(move |&child| child != at)
    }

    /// The most levels above a leaf. A node with two parents is an error, and so is a circle.
    fn count_levels(&self, c: &Cx<'_, '_>) -> Result<usize> {
        let (mut seen, mut level, mut count) = (vec![false; self.nodes.len()], self.roots.clone(), 0);
        loop {
            let mut next = Vec::new();
            for at in level {
                if std::mem::replace(&mut seen[at], true) {
                    return c.wrong("a node of a tree has two parents");
                }
                next.extend(self.below(at));
            }
            if next.is_empty() {
                return Ok(count);
            }
            (level, count) = (next, count + 1);
            if count > LEVELS {
                return c.refuse(format!("a tree has more than {LEVELS} levels"));
            }
        }
    }

    /// The scores of each tree, `[examples, trees, targets]`; `empty` where a leaf has none.
    fn scores<'g>(&self, c: &Cx<'_, 'g>, x: Var<'g>, targets: usize, empty: f64) -> Result<Var<'g>> {
        let &[examples, columns] = &x.dims()[..] else {
            return c.refuse(format!("operand 0 has rank {}; examples are rows", x.rank()));
        };
        if let Some(node) = self.nodes.iter().find(|n| !(0..columns as i64).contains(&n.feature)) {
            return c.wrong(format!("a node reads column {} of {columns}", node.feature));
        }
        let whole = |all: &dyn Fn(&Split) -> usize| {
            integers(c, &self.nodes.iter().map(|n| all(n) as i64).collect::<Vec<i64>>())
        };
        let number = |all: &dyn Fn(usize) -> f64, n: usize| {
            let all: Vec<f64> = (0..n).map(all).collect();
            c.g.constant_f64(&all, [n]).cast(x.dtype())
        };
        let (features, numbers) = (whole(&|n| n.feature as usize), number(&|i| self.nodes[i].number, self.nodes.len()));
        let [first, second] = [0, 1].map(|k| whole(&|n| n.children[k]));
        let modes: BTreeSet<Mode> =
            self.nodes.iter().enumerate().filter(|(i, n)| n.children != [*i; 2]).map(|(_, n)| n.mode).collect();
        let (mode_of, tracks) = (whole(&|n| n.mode as usize), whole(&|n| n.missing.into()));
        let missing = self.nodes.iter().any(|n| n.missing);
        let roots: Vec<i64> = self.roots.iter().map(|&r| r as i64).collect();
        let mut at = integers(c, &roots).broadcast([examples, roots.len()]);
        for _ in 0..self.levels {
            let value = x.take_along_axis(features.gather(at, 0), 1);
            let limit = numbers.gather(at, 0);
            let kind = mode_of.gather(at, 0);
            let of = |mode: Mode| mode.holds(value, limit);
            let goes = modes
                .iter()
                .map(|&m| (m, of(m)))
                .reduce(|(_, a), (m, b)| (m, kind.equal(f64::from(m as u8)).select(b, a)));
            let Some((_, goes)) = goes else { break };
            let goes = match missing {
                true => goes.logical_or(value.isnan().logical_and(tracks.gather(at, 0).not_equal(0.0))),
                false => goes,
            };
            at = goes.select(first.gather(at, 0), second.gather(at, 0));
        }
        // Rows of scores, one for each leaf that has some, behind a row for those without.
        let mut row = vec![0i64; self.nodes.len()];
        let mut rows = 1usize;
        for &(leaf, _, _) in &self.weights {
            if row[leaf] == 0 {
                (row[leaf], rows) = (rows as i64, rows + 1);
            }
        }
        let most = MOST.max(MOST_PER_WEIGHT * self.weights.len());
        if rows.checked_mul(targets).is_none_or(|n| n > most) {
            return c.refuse(format!("{rows} leaves with {targets} scores each"));
        }
        let mut table: Vec<Option<f64>> = vec![None; rows * targets];
        for &(leaf, target, weight) in &self.weights {
            let Some(target) = usize::try_from(target).ok().filter(|&t| t < targets) else {
                return c.wrong(format!("a leaf has a weight for {target}, of {targets}"));
            };
            if table[row[leaf] as usize * targets + target].replace(weight).is_some() {
                return c.refuse("a leaf has two weights for one score, of which runtimes make other scores");
            }
        }
        let table = number(&|i| table[i].unwrap_or(empty), rows * targets).reshape([rows, targets]);
        Ok(table.gather(integers(c, &row).gather(at, 0), 0))
    }

    /// Whether a leaf has no weight.
    fn has_bare_leaf(&self) -> bool {
        let mut bare: Vec<bool> = self.nodes.iter().enumerate().map(|(i, n)| n.children == [i; 2]).collect();
        self.weights.iter().for_each(|w| bare[w.0] = false);
        bare.contains(&true)
    }

    /// Whether each of `targets` has a tree whose leaves all have a weight for it, so that every example has its score.
    fn is_complete(&self, targets: usize) -> bool {
        let mut tree = vec![usize::MAX; self.nodes.len()];
        let mut leaves = vec![0usize; self.roots.len()];
        for (k, &root) in self.roots.iter().enumerate() {
            let mut stack = vec![root];
            while let Some(at) = stack.pop() {
                tree[at] = k;
                leaves[k] += usize::from(self.nodes[at].children == [at; 2]);
                stack.extend(self.below(at));
            }
        }
        let found: BTreeSet<(i64, usize, usize)> = self.weights.iter().map(|w| (w.1, tree[w.0], w.0)).collect();
        let mut counts: HashMap<(i64, usize), usize> = HashMap::new();
        found.iter().for_each(|f| *counts.entry((f.0, f.1)).or_default() += 1);
        let whole = counts.iter().filter(|(key, n)| leaves.get(key.1) == Some(*n));
        let complete: BTreeSet<i64> = whole.map(|(key, _)| key.0).collect();
        (0..targets as i64).all(|t| complete.contains(&t))
    }
}

/// The numbers of an attribute, which may be a tensor under a name of its own.
fn numbers(c: &Cx<'_, '_>, name: &str) -> Result<Vec<f64>> {
    let tensor = [format!("{name}_as_tensor"), name.to_string()].iter().find_map(|n| c.attr(n)?.t.clone());
    let Some(t) = tensor else { return Ok(floats(c, name).into_iter().map(f64::from).collect()) };
    let t = Tensor::from_proto(&t, None)?;
    t.floats().map_or_else(|| c.wrong(format!("{name} is {}", t.dtype)), Ok)
}

/// Examples as numbers: `f64` stays, and all else is `f32`.
fn examples<'g>(c: &Cx<'_, 'g>) -> Result<Var<'g>> {
    let x = c.x(0)?;
    Ok(if x.dtype() == DType::F64 { x } else { x.cast(DType::F32) })
}

/// `scores` with the base values, of which there is none or one for each; `complete` if every example has all scores.
fn with_base<'g>(c: &Cx<'_, 'g>, scores: Var<'g>, complete: bool) -> Result<Var<'g>> {
    let base = numbers(c, "base_values")?;
    // Scores without a shape are an error of the builder already.
    let Some(&n) = scores.dims().get(1) else { return Ok(scores) };
    match base.len() {
        0 => Ok(scores),
        _ if !complete => c.refuse("base values of scores that examples may lack, to which not all runtimes add them"),
        m if m == n => Ok(scores + c.g.constant_f64(&base, [n]).cast(scores.dtype())),
        m => c.refuse(format!("{m} base values of {n} scores")),
    }
}

fn classifier<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let Some(labels) = c.list("classlabels_int64s").filter(|l| !l.is_empty()) else {
        return c.refuse("labels are strings");
    };
    let (forest, x) = (Forest::of(c, "class")?, examples(c)?);
    // As in onnxruntime, weights of nodes that are no leaves have a say here.
    let classes: BTreeSet<i64> = c.list("class_ids").unwrap_or_default().into_iter().collect();
    let share = !numbers(c, "class_weights")?.iter().any(|&w| w < 0.0);
    let labels_of = |at: Var<'g>| integers(c, &labels).gather(at, 0);
    match (labels.len(), classes.into_iter().collect::<Vec<_>>()) {
        (2, ids) if ids == [0] => {
            let score = with_base(c, forest.scores(c, x, 1, 0.0)?.sum(1), forest.is_complete(1))?;
            let at = score.squeeze(1).greater(if share { 0.5 } else { 0.0 }).cast(DType::I64);
            let both = |other: Var<'g>| other.concat(&[score], 1).cast(DType::F32);
            let scores = match c.text("post_transform", "NONE") {
                "NONE" => both(if share { 1.0 - score } else { -score }),
                "LOGISTIC" => both(-score).sigmoid(),
                other => return c.refuse(format!("post_transform={other} of one score for two classes")),
            };
            Ok(vec![labels_of(at), scores])
        }
        (n, _) if n > 2 && forest.is_complete(n) => {
            let scores = with_base(c, forest.scores(c, x, n, 0.0)?.sum(1), true)?;
            Ok(vec![labels_of(scores.arg_max(-1, DType::I64)), transformed(c, scores.cast(DType::F32))?])
        }
        (n, ids) => c.refuse(format!("weights for {} of {n} classes, of which runtimes make other labels", ids.len())),
    }
}

/// The scores of all trees together, as `aggregate` says.
fn together<'g>(c: &Cx<'_, 'g>, forest: &Forest, aggregate: &str, targets: usize) -> Result<Var<'g>> {
    let x = examples(c)?;
    let extreme = |empty: f64, f: fn(Var<'g>) -> Var<'g>| {
        let y = f(forest.scores(c, x, targets, empty)?);
        Ok(y.equal(empty).select(y.full_like(0.0), y))
    };
    match aggregate {
        "SUM" => Ok(forest.scores(c, x, targets, 0.0)?.sum(1)),
        "AVERAGE" => Ok(forest.scores(c, x, targets, 0.0)?.sum(1) / forest.roots.len() as f64),
        "MIN" | "MAX" if targets == 1 && forest.has_bare_leaf() => {
            c.refuse(format!("aggregate_function={aggregate} where a leaf has no weight, which is 0 for some runtimes"))
        }
        "MIN" => extreme(f64::INFINITY, |y| y.amin(1)),
        "MAX" => extreme(f64::NEG_INFINITY, |y| y.amax(1)),
        other => c.refuse(format!("aggregate_function={other}")),
    }
}

fn regressor<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let forest = Forest::of(c, "target")?;
    let Ok(targets @ 1..) = usize::try_from(c.int("n_targets", 1)) else { return c.wrong("it has no targets") };
    let transform = c.text("post_transform", "NONE");
    if targets == 1 && transform != "NONE" {
        return c.refuse(format!("post_transform={transform} of one target, which not all runtimes apply"));
    }
    let scores = together(c, &forest, c.text("aggregate_function", "SUM"), targets)?;
    let scores = with_base(c, scores, targets == 1 || forest.is_complete(targets))?;
    one(transformed(c, scores.cast(DType::F32))?)
}

/// The op of opset 5, whose leaves are numbered apart from its other nodes.
fn ensemble<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let list = |name: &str| c.list(name).unwrap_or_default();
    let [features, first, second] = ["nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"].map(list);
    let [first_leafs, second_leafs, targets, roots] =
        ["nodes_trueleafs", "nodes_falseleafs", "leaf_targetids", "tree_roots"].map(list);
    let missing = list("nodes_missing_value_tracks_true");
    let [splits, modes, weights] =
        [numbers(c, "nodes_splits")?, numbers(c, "nodes_modes")?, numbers(c, "leaf_weights")?];
    let (n, leaves) = (features.len(), targets.len());
    let lengths = [first.len(), second.len(), first_leafs.len(), second_leafs.len(), splits.len(), modes.len()];
    let missing_fits = missing.is_empty() || missing.len() == n;
    if n == 0 || lengths.iter().any(|&m| m != n) || !missing_fits || weights.len() != leaves || roots.is_empty() {
        return c.wrong("its lists of nodes or leaves differ in length, or are empty");
    }
    let place = |id: i64, leaf: bool| match usize::try_from(id).ok().filter(|&at| at < if leaf { leaves } else { n }) {
        Some(at) => Ok(if leaf { n + at } else { at }),
        None => c.wrong(format!("there is no {} {id}", if leaf { "leaf" } else { "node" })),
    };
    let mut forest = Forest::default();
    for i in 0..n {
        let Some(&(_, mode)) = MODES.iter().enumerate().find(|(k, _)| *k as f64 == modes[i]).map(|m| m.1) else {
            return c.refuse(format!("a node has the mode {}", modes[i]));
        };
        let children = [place(first[i], first_leafs[i] != 0)?, place(second[i], second_leafs[i] != 0)?];
        if children.contains(&i) {
            return c.wrong("a node is its own child");
        }
        let missing = missing.get(i).is_some_and(|&m| m != 0);
        forest.nodes.push(Split { feature: features[i], number: splits[i], mode, children, missing });
    }
    for at in n..n + leaves {
        forest.nodes.push(Split { feature: 0, number: 0.0, mode: Mode::AtMost, children: [at; 2], missing: false });
    }
    forest.roots = roots.iter().map(|&r| place(r, false)).collect::<Result<_>>()?;
    forest.weights = (0..leaves).map(|i| (n + i, targets[i], weights[i])).collect();
    forest.levels = forest.count_levels(c)?;
    let Ok(targets @ 1..) = usize::try_from(c.int("n_targets", 0)) else { return c.wrong("it has no targets") };
    let aggregate = match c.int("aggregate_function", 1) {
        0 => "AVERAGE",
        1 => "SUM",
        2 => "MIN",
        3 => "MAX",
        other => return c.refuse(format!("aggregate_function={other}")),
    };
    match c.int("post_transform", 0) {
        0 => one(together(c, &forest, aggregate, targets)?),
        // The text of the standard has softmax for 1, and onnxruntime the sigmoid.
        other => c.refuse(format!("post_transform={other}, on which runtimes differ")),
    }
}
