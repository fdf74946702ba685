//! What cross entropies refuse: labels and weights that do not fit the logits, values of another builder.

use arenagrad::graph::{Builder, CrossEntropy, DType, Reduction, Var};

const F64: DType = DType::F64;
const I64: DType = DType::I64;

/// Checks that a graph of x `[3, 2, 4]` has an error with these words, which names this file.
fn refused(why: &str, f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) {
    let g = Builder::new("bad");
    f(&g, g.input("x", [3, 2, 4], F64));
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains(why) && e.contains("tests/ops/cross_entropies.rs"), "{e}\nnot {why}");
}

fn labels<'g>(g: &'g Builder) -> Var<'g> {
    g.input("y", [3, 2], I64)
}

/// Floats of the shape of the logits are probabilities, all else is labels, one for each row.
#[test]
fn labels_have_the_rows_of_the_logits() {
    refused("cross_entropy: labels of shape [4] do not fit logits of shape [3,2,4], classes last", |_, x| {
        x.cross_entropy(x.sum([0, 1]))
    });
    refused("cross_entropy: labels of shape [3,2,4] do not fit logits of shape [3,2,4], classes last", |g, x| {
        x.cross_entropy(g.input("k", [3, 2, 4], I64))
    });
    refused("cross_entropy: labels of shape [] do not fit logits of shape [], classes last", |g, x| {
        x.sum(..).cross_entropy(g.input("k", [], I64))
    });
}

#[test]
fn weights_have_the_type_of_the_logits() {
    refused("cross_entropy: weights of f32[4] do not fit logits of f64[3,2,4], classes last", |g, x| {
        let weight = Some(x.sum([0, 1]).cast(DType::F32));
        x.cross_entropy_with(labels(g), CrossEntropy::default().weight(weight))
    });
}

#[test]
fn a_lack_of_classes_a_smoothing_above_1_and_integers_are_named() {
    refused("cross_entropy: logits of shape [2,0] have no class", |g, _| {
        g.input("p", [2, 0], F64).cross_entropy(g.input("t", [2, 0], F64))
    });
    refused("cross_entropy: label_smoothing is 1.5; it must lie in [0, 1]", |g, x| {
        let (weight, label_smoothing) = (Some(x.sum([0, 1])), 1.5);
        x.cross_entropy_with(labels(g), CrossEntropy::default().weight(weight).label_smoothing(label_smoothing))
    });
    refused("bce: targets of i64[2] do not fit probabilities of i64[2]", |g, _| {
        g.input("p", [2], I64).bce(g.input("t", [2], I64), Reduction::Sum)
    });
}

#[test]
fn probabilities_may_be_of_one_class() {
    let g = Builder::new("one");
    let (x, t) = (g.input("x", [2, 1], F64), g.input("t", [2, 1], F64));
    let loss = x.cross_entropy_with(t, CrossEntropy::default().reduction(Reduction::None));
    assert_eq!(loss.dims()[..], [2]);
    g.finish([loss.named("loss")]).unwrap();
}

#[test]
fn a_value_of_another_builder_is_refused_by_the_name_of_the_loss() {
    let (g, other) = (Builder::new("g"), Builder::new("other"));
    g.input("x", [2], F64).bce(other.input("t", [2], F64), Reduction::Sum);
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("bce: a value of another builder is used"), "{e}");
    let (g, other) = (Builder::new("g"), Builder::new("other"));
    g.input("x", [3, 4], F64).cross_entropy(other.input("t", [3], I64));
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("cross_entropy: a value of another builder is used"), "{e}");
}
