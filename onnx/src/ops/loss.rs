//! Losses.

use super::{Entry, same};
use crate::error::Result;
use crate::import::{Cx, one};
use arenagrad::graph::{CrossEntropy, Reduction, Var};
use arenagrad::nn::{NllLoss, nll_loss};

pub const OPS: &[Entry] = &[
    same("NegativeLogLikelihoodLoss", |c| one(nll(c, c.x(0)?)?)),
    same("SoftmaxCrossEntropyLoss", |c| {
        let x = c.x(0)?;
        if c.wants(1) {
            let p = x.log_softmax(1);
            return Ok(vec![nll(c, p)?, p]);
        }
        let (rows, labels, [shape, _]) = rows(c, x)?;
        let mut opt = CrossEntropy::per_row().ignore_index(ignored(c)).reduction(reduction(c)?);
        opt.weight = c.opt(2)?;
        let y = rows.cross_entropy_with(labels, opt);
        one(if y.rank() == 1 { y.reshape(shape) } else { y })
    }),
];

/// The label that has no loss. Without one, a number that is no label.
fn ignored(c: &Cx<'_, '_>) -> i64 {
    c.int("ignore_index", i64::from(i32::MIN))
}

fn reduction(c: &Cx<'_, '_>) -> Result<Reduction> {
    Ok(match c.text("reduction", "mean") {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        other => return c.refuse(format!("the reduction {other:?} is not supported")),
    })
}

/// Scores `[N, C, …]` as rows `[…, C]`, the labels in the same order, their shape, and that of the scores.
fn rows<'g>(c: &Cx<'_, 'g>, x: Var<'g>) -> Result<(Var<'g>, Var<'g>, [Vec<usize>; 2])> {
    let (d, labels) = (x.dims(), c.stored(1)?);
    if d.len() < 2 {
        return c.wrong(format!("scores have shape {d}; a batch and classes are needed"));
    }
    let count = d.numel() / d[1].max(1);
    let rows = x.movedim(&[1], &[-1]).reshape([count, d[1]]);
    Ok((rows, labels.reshape([count]), [labels.dims().to_vec(), d.to_vec()]))
}

fn nll<'g>(c: &Cx<'_, 'g>, x: Var<'g>) -> Result<Var<'g>> {
    let (rows, labels, [shape, _]) = rows(c, x)?;
    let mut opt = NllLoss::default().ignore_index(ignored(c)).reduction(reduction(c)?);
    opt.weight = c.opt(2)?;
    let y = nll_loss(rows, labels, opt);
    Ok(if y.rank() == 1 { y.reshape(shape) } else { y })
}
