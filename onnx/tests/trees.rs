//! Forests of decision trees. Expected scores and labels are those of onnxruntime 1.32.

#![allow(clippy::unwrap_used)]

#[path = "common/attributes.rs"]
mod attributes;
mod common;

use arenagrad_onnx::proto::*;
use attributes::{attribute, integers, numbers, of_one, results, text};
use common::reading;

fn texts(name: &str, all: &[&str]) -> AttributeProto {
    AttributeProto { strings: all.iter().map(|s| s.as_bytes().to_vec()).collect(), ..attribute(name) }
}

fn near(got: &[f32], want: &[f32], what: &str) {
    let close = got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(got.len() == want.len() && close, "{what}: {got:?}, not {want:?}");
}

/// One tree that compares column 0 with 0, with these weights of its two leaves by class.
fn stump(ids: &[i64], weights: [&[f32]; 2], base: &[f32], transform: &str, classes: i64) -> ModelProto {
    let n = ids.len();
    let leaves = [vec![1; n], vec![2; n]].concat();
    let labels: Vec<i64> = (10..10 + classes).collect();
    let mut all = nodes(&["BRANCH_LEQ", "LEAF", "LEAF"]);
    all.extend([
        integers("class_treeids", &vec![0; 2 * n]),
        integers("class_nodeids", &leaves),
        integers("class_ids", &[ids, ids].concat()),
        numbers("class_weights", &weights.concat()),
        integers("classlabels_int64s", &labels),
        text("post_transform", transform),
    ]);
    all.extend((!base.is_empty()).then(|| numbers("base_values", base)));
    of_one("TreeEnsembleClassifier", &["label", "y"], all, 2)
}

fn nodes(modes: &[&str]) -> Vec<AttributeProto> {
    vec![
        integers("nodes_treeids", &[0; 3]),
        integers("nodes_nodeids", &[0, 1, 2]),
        integers("nodes_featureids", &[0; 3]),
        numbers("nodes_values", &[0.0; 3]),
        texts("nodes_modes", modes),
        integers("nodes_truenodeids", &[1, 0, 0]),
        integers("nodes_falsenodeids", &[2, 0, 0]),
    ]
}

#[test]
fn classifiers_have_the_labels_and_scores_of_onnxruntime() {
    type Weights<'w> = [&'w [f32]; 2];
    let share: Weights<'_> = [&[0.2], &[0.8]];
    let mixed: Weights<'_> = [&[-0.2], &[0.8]];
    let three: Weights<'_> = [&[0.1, 0.3, 0.6], &[0.2, 0.7, 0.1]];
    type Case<'w> = (&'w [i64], Weights<'w>, &'w [f32], &'w str, [i64; 2], &'w [f32]);
    let cases: [Case<'_>; 8] = [
        (&[0], share, &[], "NONE", [10, 11], &[0.8, 0.2, 0.2, 0.8]),
        (&[0], mixed, &[], "NONE", [10, 11], &[0.2, -0.2, -0.8, 0.8]),
        (&[0], share, &[], "LOGISTIC", [10, 11], &[0.450_166, 0.549_834, 0.310_025_5, 0.689_974_5]),
        (&[0], mixed, &[0.5], "LOGISTIC", [11, 11], &[0.425_557_5, 0.574_442_5, 0.214_165, 0.785_835]),
        (&[0, 1, 2], three, &[], "NONE", [12, 11], &[0.1, 0.3, 0.6, 0.2, 0.7, 0.1]),
        (&[0, 1, 2], three, &[0.1, 0.2, 0.3], "NONE", [12, 11], &[0.2, 0.5, 0.9, 0.3, 0.9, 0.4]),
        (
            &[0, 1, 2],
            three,
            &[],
            "SOFTMAX",
            [12, 11],
            &[0.258_389_7, 0.315_597_8, 0.426_012_5, 0.281_408, 0.463_964, 0.254_628],
        ),
        (
            &[0, 1, 2],
            three,
            &[],
            "LOGISTIC",
            [12, 11],
            &[0.524_979_2, 0.574_442_5, 0.645_656_3, 0.549_834, 0.668_187_7, 0.524_979_2],
        ),
    ];
    for (ids, weights, base, transform, labels, scores) in cases {
        let what = format!("{ids:?} {weights:?} {base:?} {transform}");
        let m = stump(ids, weights, base, transform, if ids.len() == 1 { 2 } else { 3 });
        let (y, found) = results(&m, &[-1.0, 0.0, 1.0, 0.0]);
        assert_eq!(found, labels, "{what}");
        near(&y, scores, &what);
    }
}

/// A tree of each mode, by turns: 1 where it holds.
#[test]
fn nodes_compare_in_their_modes_and_send_what_is_missing() {
    let modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
    for track in [false, true] {
        let (mut all, mut tree_of) = (vec![Vec::new(); 4], Vec::new());
        let mut kinds = Vec::new();
        for (tree, mode) in modes.iter().enumerate() {
            for (id, kind) in [*mode, "LEAF", "LEAF"].into_iter().enumerate() {
                tree_of.push(tree as i64);
                kinds.push(kind);
                let parts = [id as i64, i64::from(id == 0), i64::from(track), if id == 0 { 2 } else { 0 }];
                all.iter_mut().zip(parts).for_each(|(list, part)| list.push(part));
            }
        }
        let trees: Vec<i64> = (0..6).collect();
        let attributes = vec![
            integers("nodes_treeids", &tree_of),
            integers("nodes_nodeids", &all[0]),
            integers("nodes_featureids", &[1; 18]),
            numbers("nodes_values", &[0.5; 18]),
            texts("nodes_modes", &kinds),
            integers("nodes_truenodeids", &all[1]),
            integers("nodes_falsenodeids", &all[3]),
            integers("nodes_missing_value_tracks_true", &all[2]),
            integers("target_treeids", &trees),
            integers("target_nodeids", &[1; 6]),
            integers("target_ids", &trees),
            numbers("target_weights", &[1.0; 6]),
            AttributeProto { i: Some(6), ..attribute("n_targets") },
        ];
        let x = [0.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0, f32::NAN];
        let (y, _) = results(&of_one("TreeEnsembleRegressor", &["y"], attributes, 4), &x);
        let on = f32::from(u8::from(track));
        let lost = [on, on, on, on, on, 1.0];
        let rows =
            [[1.0, 1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0], lost];
        near(&y, rows.as_flattened(), &format!("{track}"));
    }
}

/// `m`, whose node has the attribute `new` in place of the one of that name.
fn with(mut m: ModelProto, new: AttributeProto) -> ModelProto {
    let all = &mut m.graph.as_mut().unwrap().node[0].attribute;
    all.retain(|old| old.name != new.name);
    all.push(new);
    m
}

fn integer(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i: Some(i), ..attribute(name) }
}

fn regressor() -> ModelProto {
    let mut all = nodes(&["BRANCH_LEQ", "LEAF", "LEAF"]);
    all.extend([
        integers("target_treeids", &[0, 0]),
        integers("target_nodeids", &[1, 2]),
        integers("target_ids", &[0, 0]),
        numbers("target_weights", &[2.0, 3.0]),
    ]);
    of_one("TreeEnsembleRegressor", &["y"], all, 2)
}

/// The same trees as the op of opset 5 has them.
fn ensemble() -> ModelProto {
    let all = vec![
        integer("n_targets", 1),
        integers("tree_roots", &[0]),
        numbers("nodes_modes", &[0.0]),
        integers("nodes_featureids", &[0]),
        numbers("nodes_splits", &[0.0]),
        integers("nodes_truenodeids", &[0]),
        integers("nodes_trueleafs", &[1]),
        integers("nodes_falsenodeids", &[1]),
        integers("nodes_falseleafs", &[1]),
        integers("leaf_targetids", &[0, 0]),
        numbers("leaf_weights", &[2.0, 3.0]),
    ];
    of_one("TreeEnsemble", &["y"], all, 2)
}

/// A classifier of three classes, whose node `leaf` alone has weights.
fn classifier(modes: &[&str], [first, second]: [&[i64]; 2], leaf: i64) -> ModelProto {
    let n = modes.len();
    let ids: Vec<i64> = (0..n as i64).collect();
    let all = vec![
        integers("nodes_treeids", &vec![0; n]),
        integers("nodes_nodeids", &ids),
        integers("nodes_featureids", &vec![0; n]),
        numbers("nodes_values", &vec![0.0; n]),
        texts("nodes_modes", modes),
        integers("nodes_truenodeids", first),
        integers("nodes_falsenodeids", second),
        integers("class_treeids", &[0; 3]),
        integers("class_nodeids", &[leaf; 3]),
        integers("class_ids", &[0, 1, 2]),
        numbers("class_weights", &[0.1, 0.3, 0.6]),
        integers("classlabels_int64s", &[10, 11, 12]),
    ];
    of_one("TreeEnsembleClassifier", &["label", "y"], all, 2)
}

#[test]
fn weights_below_0_count_where_no_leaf_is() {
    let new = [
        integers("class_treeids", &[0; 3]),
        integers("class_nodeids", &[0, 1, 2]),
        integers("class_ids", &[0; 3]),
        numbers("class_weights", &[-1.0, 0.2, 0.8]),
    ];
    let m = new.into_iter().fold(stump(&[0], [&[0.2], &[0.8]], &[], "NONE", 2), with);
    let (y, labels) = results(&m, &[-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(labels, [11, 11]);
    near(&y, &[-0.2, 0.2, -0.8, 0.8], "a weight of the root");
}

/// A walk over all paths of the first tree would not end, and one over all paths of the second not in this century.
#[test]
fn walks_over_damaged_and_narrow_trees_end() {
    let branch = "BRANCH_LEQ";
    let circle = classifier(&[branch, branch, "LEAF", branch], [&[1, 3, 0, 1], &[2, 2, 0, 2]], 2);
    let found = reading(&circle).err().map_or_else(|| "it is read".into(), |e| e.to_string());
    assert!(found.contains("two parents"), "{found}");

    let next: Vec<i64> = (1..=70).collect();
    let modes = [&[branch; 69][..], &["LEAF"]].concat();
    let (y, labels) = results(&classifier(&modes, [&next, &next], 69), &[-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(labels, [12, 12]);
    near(&y, &[0.1, 0.3, 0.6, 0.1, 0.3, 0.6], "one leaf");
}

#[test]
fn damaged_forests_are_errors() {
    let put = |a: AttributeProto| with(regressor(), a);
    let x = [-1.0, 0.0, 1.0, 0.0];
    near(&results(&regressor(), &x).0, &[2.0, 3.0], "whole");
    near(&results(&ensemble(), &x).0, &[2.0, 3.0], "whole");
    let bare = put(integers("target_nodeids", &[1, 0]));
    let one = stump(&[0], [&[0.2], &[0.8]], &[0.6], "NONE", 2);
    let cases = [
        (put(integers("nodes_truenodeids", &[7, 0, 0])), "tree 0 has no node 7"),
        (put(integers("nodes_truenodeids", &[0, 0, 0])), "its own child"),
        (put(integers("nodes_truenodeids", &[2, 0, 0])), "roots"),
        (put(integers("nodes_nodeids", &[0, 1, 1])), "two nodes of a tree have one number"),
        (put(integers("nodes_featureids", &[2, 0, 0])), "column 2 of 2"),
        (put(integers("nodes_featureids", &[-1, 0, 0])), "column -1 of 2"),
        (put(numbers("nodes_values", &[0.0])), "differ in length"),
        (put(numbers("target_weights", &[1.0])), "lists of weights differ in length"),
        (put(integers("target_ids", &[0, 1])), "a weight for 1, of 1"),
        (put(texts("nodes_modes", &["BRANCH_MEMBER", "LEAF", "LEAF"])), "BRANCH_MEMBER"),
        (put(text("aggregate_function", "MEDIAN")), "aggregate_function=MEDIAN"),
        (put(integers("target_nodeids", &[1, 1])), "two weights for one score"),
        (put(text("post_transform", "LOGISTIC")), "post_transform=LOGISTIC of one target"),
        (with(bare, text("aggregate_function", "MIN")), "aggregate_function=MIN where a leaf has no weight"),
        (with(one, integers("class_nodeids", &[0, 2])), "base values of scores that examples may lack"),
        (with(ensemble(), integers("nodes_trueleafs", &[0])), "its own child"),
        (with(ensemble(), integers("nodes_missing_value_tracks_true", &[1, 0])), "differ in length"),
        (with(ensemble(), integer("post_transform", 1)), "post_transform=1"),
        (put(numbers("base_values", &[1.0, 2.0])), "2 base values of 1 scores"),
        (stump(&[0, 1], [&[0.7, 0.3], &[0.2, 0.8]], &[], "NONE", 2), "weights for 2 of 2 classes"),
        (stump(&[0, 2], [&[0.7, 0.3], &[0.2, 0.8]], &[], "NONE", 3), "weights for 2 of 3 classes"),
        (stump(&[0], [&[0.7], &[0.2]], &[], "SOFTMAX", 2), "post_transform=SOFTMAX of one score"),
    ];
    for (m, why) in cases {
        let found = reading(&m).err().map_or_else(|| "it is read".into(), |e| e.to_string());
        assert!(found.contains(why), "{found:?} does not contain {why:?}");
    }
}
