//! Shapes and rows that losses refuse or leave out: no loss broadcasts, rows are ignored and weighted as in torch.

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::{Builder, CrossEntropy, DType, GradOptions, Reduction, Var, grad};
use arenagrad::nn::{self, NllLoss, PoissonNll, Triplet};

const F64: DType = DType::F64;

/// The error of `f` on inputs of these shapes.
fn refused(shapes: &[&[usize]], f: &dyn for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> String {
    let g = Builder::new("loss");
    let xs: Vec<Var> = shapes.iter().enumerate().map(|(i, d)| g.input(&format!("x{i}"), d, F64)).collect();
    let y = f(&xs);
    g.finish([y.named("y")]).unwrap_err().to_string()
}

#[test]
fn no_loss_broadcasts() {
    type Loss = &'static dyn for<'g> Fn(&[Var<'g>]) -> Var<'g>;
    let pairs: [(&str, Loss); 10] = [
        ("l1_loss", &|x| nn::l1_loss(x[0], x[1], Reduction::Mean)),
        ("huber_loss", &|x| nn::huber_loss(x[0], x[1], 1.0, Reduction::Mean)),
        ("smooth_l1_loss", &|x| nn::smooth_l1_loss(x[0], x[1], 1.0, Reduction::Mean)),
        ("gaussian_nll_loss", &|x| nn::gaussian_nll_loss(x[0], x[1], x[0], false, 1e-6, Reduction::Mean)),
        ("poisson_nll_loss", &|x| nn::poisson_nll_loss(x[0], x[1], PoissonNll::default())),
        ("kl_div", &|x| nn::kl_div(x[0], x[1], Reduction::Sum)),
        ("hinge_embedding_loss", &|x| nn::hinge_embedding_loss(x[0], x[1], 1.0, Reduction::Mean)),
        ("mse_loss", &|x| x[0].mse(x[1])),
        ("bce", &|x| x[0].bce(x[1], Reduction::Mean)),
        ("bce_with_logits", &|x| x[0].bce_with_logits(x[1])),
    ];
    for (name, loss) in pairs {
        for shapes in [[&[4, 1][..], &[4]], [&[4], &[4, 1]], [&[1], &[4]], [&[], &[4]]] {
            let e = refused(&shapes, loss);
            let dims = shapes.map(|d| format!("{d:?}").replace(", ", ","));
            assert!(e.contains(name) && e.contains("loss_shapes.rs"), "{e}");
            assert!(dims.iter().all(|d| e.replace(", ", ",").contains(d.as_str())), "{e} {dims:?}");
        }
    }
    let rows = |y: &'static [usize]| [&[4, 3][..], &[4, 3], y];
    let cosine: Loss = &|x| nn::cosine_embedding_loss(x[0], x[1], x[2], 0.0, Reduction::Mean);
    assert!(refused(&rows(&[4, 1]), cosine).contains("labels of f64[4,1] do not fit rows of f64[4]"));
    assert!(refused(&[&[4, 3], &[3], &[4]], cosine).contains("cosine_embedding_loss"));
    let triplet: Loss = &|x| nn::triplet_margin_loss(x[0], x[1], x[2], Triplet::default());
    assert!(refused(&rows(&[3]), triplet).contains("negatives of f64[3] do not fit anchors of f64[4,3]"));
    assert!(refused(&[&[4, 3], &[1, 3], &[4, 3]], triplet).contains("triplet_margin_loss: positives"));
    let nll: Loss = &|x| nn::gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, Reduction::Mean);
    assert!(refused(&rows(&[3]), nll).contains("variances of shape [3]"));
}

fn value(inputs: &[(&[usize], DType, &[f64])], f: impl for<'g> FnOnce(&[Var<'g>]) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("loss");
    let xs: Vec<Var> = inputs.iter().enumerate().map(|(i, x)| g.input(&format!("x{i}"), x.0, x.1)).collect();
    let y = f(&xs).named("y");
    let tensors = inputs.iter().map(|x| Tensor { dtype: x.1, dims: x.0.to_vec(), data: x.2.to_vec() });
    run(&g.finish([y]).unwrap(), &tensors.collect::<Vec<_>>(), PLAIN).remove(0).data
}

/// Values of torch's `gaussian_nll_loss` with one variance for each row: ½·mean(ln v + (x − t)²/v).
#[test]
fn variances_may_be_those_of_rows() {
    let inputs =
        [(&[2, 2][..], F64, &[1.0, 2.0, 3.0, 4.0][..]), (&[2, 2], F64, &[0.0; 4]), (&[2, 1], F64, &[1.0, 2.0])];
    let got = value(&inputs, |x| nn::gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, Reduction::Mean));
    let want = 0.5 * (5.0 + 2.0 * 2f64.ln() + 25.0 / 2.0) / 4.0;
    assert!((got[0] - want).abs() < 1e-14, "{got:?} {want}");
}

#[test]
fn a_target_of_nan_or_below_0_is_not_hidden() {
    let inputs = [(&[4][..], F64, &[-1.0; 4][..]), (&[4], F64, &[f64::NAN, 0.0, 0.5, -0.5])];
    let got = value(&inputs, |x| nn::kl_div(x[0], x[1], Reduction::None));
    assert!(got[0].is_nan() && got[1] == 0.0 && got[3].is_nan(), "{got:?}");
    assert!((got[2] - 0.5 * (0.5f64.ln() + 1.0)).abs() < 1e-15, "{got:?}");
}

/// The loss of logits by `log_softmax` and `nll_loss` is that of `cross_entropy`, with and without weights; a mean over
/// no row is NaN, as in torch.
#[test]
fn rows_are_ignored_and_weighted_as_in_cross_entropy() {
    let logits = (&[4, 3][..], F64, &[0.1, 0.2, 0.3, 1.0, -1.0, 0.5, 2.0, 0.0, 0.0, -0.3, 0.8, 0.1][..]);
    for labels in [[0.0, 2.0, 1.0, 2.0], [-100.0, 2.0, -100.0, 1.0]] {
        let weights = (&[3][..], F64, &[1.0, 2.0, 0.5][..]);
        let inputs = [logits, (&[4], DType::I64, &labels), weights];
        for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None] {
            for weighted in [false, true] {
                let ours = value(&inputs, |x| {
                    let weight = weighted.then_some(x[2]);
                    let used = x[2].sum(..) * 0.0;
                    nn::nll_loss(x[0].log_softmax(-1), x[1], NllLoss::default().weight(weight).reduction(reduction))
                        + used
                });
                let theirs = value(&inputs, |x| {
                    let weight = weighted.then_some(x[2]);
                    let used = x[2].sum(..) * 0.0;
                    x[0].cross_entropy_with(x[1], CrossEntropy::default().weight(weight).reduction(reduction)) + used
                });
                assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-14), "{ours:?} {theirs:?}");
            }
        }
    }
    let none = [(&[1, 2][..], F64, &[-0.5, -1.0][..]), (&[1], DType::I64, &[7.0])];
    assert!(value(&none, |x| nn::nll_loss(x[0], x[1], NllLoss::default().ignore_index(7)))[0].is_nan());
    let e = refused(&[&[4, 3], &[2]], &|x| {
        let labels = x[0].arg_max(1, DType::I64);
        nn::nll_loss(x[0], labels, NllLoss::default().weight(x[1]))
    });
    assert!(e.contains("nll_loss: weights of f64[2] do not fit log-probabilities of f64[4,3]"), "{e}");
}

/// The slope of each channel is on axis 1, as in torch, also where the last axis has as many elements.
#[test]
fn slopes_of_prelu_are_those_of_channels() {
    let x = (&[1, 2, 2][..], F64, &[-1.0, -2.0, -3.0, 4.0][..]);
    let slope = |dims: &'static [usize], s: &'static [f64]| value(&[x, (dims, F64, s)], |x| x[0].prelu(x[1]));
    assert_eq!(slope(&[2], &[0.5, 0.1]), [-0.5, -1.0, -0.1 * 3.0, 4.0]);
    assert_eq!(slope(&[1], &[0.5]), [-0.5, -1.0, -1.5, 4.0]);
    assert_eq!(slope(&[1, 1, 2], &[0.5, 0.1]), [-0.5, -0.2, -1.5, 4.0]);
    let e = refused(&[&[1, 2, 3], &[3]], &|x| x[0].prelu(x[1]));
    assert!(e.contains("prelu") && e.contains("[3]") && e.contains("[1,2,3]"), "{e}");
    let g = Builder::new("prelu");
    let (x, s) = (g.input("x", [2, 3, 4], F64), g.input("s", [3], F64));
    let graph = g.finish([x.prelu(s).sum(..).named("loss")]).unwrap();
    assert!(grad(&graph, "loss", &GradOptions::wrt(&["s"])).unwrap().to_string().contains("grad.s"));
}
