//! Attention, rotary embeddings, linear attention.

use super::{Entry, own, same};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use arenagrad::graph::{Attention, DType, Var};
use arenagrad::op::Op;

pub const OPS: &[Entry] =
    &[same("Attention", attention), same("RotaryEmbedding", rotary), own("LinearAttention", linear)];

/// `[B, S, H·D]` as `[B, H, S, D]`; four axes stay.
fn heads<'g>(c: &Cx<'_, 'g>, x: Var<'g>, attr: &str) -> Result<Var<'g>> {
    let (d, n) = (x.dims(), c.int(attr, 0).max(0) as usize);
    match d[..] {
        [_, _, _, _] => Ok(x),
        [batch, steps, width] if n > 0 && width % n == 0 => {
            Ok(x.reshape([batch, steps, n, width / n]).transpose(&[0, 2, 1, 3]))
        }
        _ => c.wrong(format!("{attr} is {n} for shape {d}")),
    }
}

/// `[B, H, S, D]` as `[B, S, H·D]`.
fn joined(x: Var<'_>) -> Var<'_> {
    let d = x.dims();
    x.transpose(&[0, 2, 1, 3]).reshape([d[0], d[2], d[1] * d[3]])
}

/// A mask or a bias of the scores, up to all keys.
fn mask<'g>(c: &Cx<'_, 'g>, keys: usize) -> Result<Option<Var<'g>>> {
    let Some(m) = c.opt(3)? else { return Ok(None) };
    let d = m.dims();
    let given = d.last().copied().unwrap_or(1);
    if given >= keys || given == 1 {
        return Ok(Some(m));
    }
    let mut high = vec![0; d.len()];
    high[d.len() - 1] = keys - given;
    let value = if m.dtype() == DType::Bool { 0.0 } else { f64::NEG_INFINITY };
    Ok(Some(m.pad(&vec![0; d.len()], &high, value)))
}

fn attention<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let flat = c.dims(0)?.len() == 3;
    let (q, k, v) =
        (heads(c, c.x(0)?, "q_num_heads")?, heads(c, c.x(1)?, "kv_num_heads")?, heads(c, c.x(2)?, "kv_num_heads")?);
    let past = if c.has(4) && c.has(5) { Some((c.x(4)?, c.x(5)?)) } else { None };
    let (k, v, before) = match past {
        Some((pk, pv)) => (pk.concat(&[k], 2), pv.concat(&[v], 2), pk.dims()[2]),
        None => (k, v, 0),
    };
    if q.rank() != 4 || k.rank() != 4 || v.rank() != 4 {
        return c.wrong("q, k and v have not the same number of axes");
    }
    let (keys, width) = (k.dims()[2], q.dims()[3]);
    let mask = mask(c, keys)?;
    let scale = if c.attr("scale").is_some() { c.float("scale", 1.0) } else { 1.0 / (width as f64).sqrt() };
    let cap = c.float("softcap", 0.0);
    let (left, right) = (c.int("left_window_size", -1), c.int("right_window_size", -1));
    let causal = c.flag("is_causal", false);
    let simple = !c.has(6) && !c.wants(3) && left < 0 && right < 0 && v.dims()[3] == width && scale > 0.0;
    let y = match simple && (!causal || before == 0 || before + q.dims()[2] == keys) {
        true => {
            let mut opt = Attention::default().causal(causal).top_left(before == 0).scale(scale).softcap(cap);
            opt.bias = mask;
            [q.attention(k, v, opt), q]
        }
        false => {
            let rule = Rule { scale, cap, causal, left, right, before };
            scores(c, [q, k, v], mask, &rule)?
        }
    };
    let out = if flat { joined(y[0]) } else { y[0] };
    Ok(vec![out, k, v, y[1]])
}

/// How scores are computed.
struct Rule {
    scale: f64,
    cap: f64,
    causal: bool,
    /// Keys that a query sees before and after its own place; below 0: all.
    left: i64,
    right: i64,
    /// Keys before the first query.
    before: usize,
}

/// Attention in single steps, and the scores that are asked for.
fn scores<'g>(c: &Cx<'_, 'g>, [q, k, v]: [Var<'g>; 3], mask: Option<Var<'g>>, rule: &Rule) -> Result<[Var<'g>; 2]> {
    let (d, keys) = (q.dims(), k.dims()[2]);
    let [batch, all, queries, _] = d[..] else { return c.wrong("q has not four axes") };
    let each = all / k.dims()[1].max(1);
    let (k, v) = (k.repeat_interleave(each, 1), v.repeat_interleave(each, 1));
    let root = rule.scale.sqrt();
    let raw = (q * root).matmul_t(k * root, false, true);
    let capped = if rule.cap > 0.0 { (raw / rule.cap).tanh() * rule.cap } else { raw };
    let full = [batch, all, queries, keys];
    let minus = |seen: Var<'g>| seen.select_as(0.0, f64::NEG_INFINITY, capped.dtype());
    let mut bias = capped.full_like(0.0);
    match mask {
        Some(m) if m.dtype() == DType::Bool => bias = bias + minus(m),
        Some(m) => bias = bias + m,
        None => {}
    }
    let (i, j) = (c.g.iota(0, [queries, keys], DType::I64), c.g.iota(1, [queries, keys], DType::I64));
    // How far a key is before the query.
    let mut far = (i - j + rule.before as f64).reshape([1, 1, queries, keys]);
    if c.has(6) {
        let seen = c.stored(6)?.cast(DType::I64).reshape([batch, 1, 1, 1]);
        let place = j.reshape([1, 1, queries, keys]);
        bias = bias + minus(place.less(seen).broadcast([batch, 1, queries, keys]));
        far = (i - j).reshape([1, 1, queries, keys]) + (seen - queries as f64);
    }
    if rule.causal {
        bias = bias + minus(far.greater_equal(0.0));
    }
    if rule.left >= 0 {
        bias = bias + minus(far.less_equal(rule.left as f64));
    }
    if rule.right >= 0 {
        bias = bias + minus((-far).less_equal(rule.right as f64));
    }
    let biased = capped + bias;
    let blind = bias.reduce(Op::REDUCE_MAX, -1, true).equal(f64::NEG_INFINITY).broadcast(full);
    let weights = blind.select(biased.full_like(0.0), blind.select(biased.full_like(0.0), biased).softmax(-1));
    let asked = match c.int("qk_matmul_output_mode", 0) {
        0 => raw,
        1 => capped,
        2 => biased,
        _ => weights,
    };
    Ok([weights.matmul(v), asked])
}

fn rotary<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let (four, d) = (x.rank() == 4, x.dims());
    let rows = match d[..] {
        [_, _, _, _] => x.transpose(&[0, 2, 1, 3]),
        [batch, steps, width] => {
            let n = c.int("num_heads", 0).max(1) as usize;
            x.reshape([batch, steps, n, width / n])
        }
        _ => return c.wrong(format!("x has shape {d}")),
    };
    let width = rows.dims()[3];
    let turned = match c.int("rotary_embedding_dim", 0) {
        0 => width,
        n => (n.max(0) as usize).min(width),
    };
    let table = |i: usize| {
        let t = c.x(i)?;
        let t = if c.has(3) { t.gather(c.stored(3)?, 0) } else { t };
        Ok::<_, crate::Error>(t.unsqueeze(2))
    };
    let (cos, sin) = (table(1)?, table(2)?);
    let (part, rest) = (rows.narrow(-1, 0, turned), rows.narrow(-1, turned, width - turned));
    let half = turned / 2;
    let pairs = [&rows.dims()[..3], &[half, 2]].concat();
    let [a, b] = match c.flag("interleaved", false) {
        true => [0, 1].map(|k| part.reshape(&pairs).narrow(-1, k, 1).squeeze(-1)),
        false => [0, 1].map(|k| part.narrow(-1, k * half, half)),
    };
    let (re, im) = (a * cos - b * sin, a * sin + b * cos);
    let y = match c.flag("interleaved", false) {
        true => re.stack(&[im], -1).reshape(part.dims()),
        false => re.concat(&[im], -1),
    };
    let y = y.concat(&[rest], -1);
    one(if four { y.transpose(&[0, 2, 1, 3]) } else { y.reshape(d) })
}

/// The state of a head is a matrix, which each step decays, corrects and adds to.
fn linear<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (q, k, v) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let rule = c.text("update_rule", "gated_delta");
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    if !matches!(rule, "linear" | "gated" | "delta" | "gated_delta") {
        return c.refuse(format!("the rule {rule:?} is not supported"));
    }
    let (nq, n) = (c.int("q_num_heads", 0).max(0) as usize, c.int("kv_num_heads", 0).max(0) as usize);
    let d = q.dims();
    let [batch, steps, _] = d[..] else { return c.wrong("q has not three axes") };
    if n == 0 || nq % n != 0 || nq == 0 {
        return c.wrong(format!("{nq} heads of queries and {n} of keys"));
    }
    // [steps, batch, heads, width]
    let rows = |x: Var<'g>, heads: usize| {
        let width = x.dims()[2] / heads;
        x.reshape([batch, steps, heads, width]).transpose(&[1, 0, 2, 3])
    };
    let (q, k, v) = (rows(q, nq), rows(k, n), rows(v, n));
    let (wk, wv) = (k.dims()[3], v.dims()[3]);
    let scale = match c.float("scale", 0.0) {
        0.0 => 1.0 / (wk as f64).sqrt(),
        s => s,
    };
    let start = match c.opt(3)? {
        Some(s) => s,
        None => c.g.full(0.0, [batch, n, wk, wv], q.dtype()),
    };
    let mut xs = vec![q, k, v];
    if gated {
        let g = c.x(4)?;
        let per_head = g.dims()[2] / n;
        xs.push(g.reshape([batch, steps, n, per_head]).transpose(&[1, 0, 2, 3]));
    }
    if delta {
        let b = c.x(5)?;
        let count = b.dims()[2];
        xs.push(b.reshape([batch, steps, count, 1]).transpose(&[1, 0, 2, 3]));
    }
    let (last, y) = c.g.scan(&[start], &xs, |s, x| {
        let [q, k, v] = [x[0], x[1], x[2]];
        let state = if gated { s[0] * x[3].exp().unsqueeze(-1) } else { s[0] };
        let column = k.unsqueeze(-1);
        let v = match delta {
            true => x[x.len() - 1] * (v - (state * column).sum(2)),
            false => v,
        };
        let state = state + column * v.unsqueeze(2);
        let read = state.repeat_interleave(nq / n, 1);
        (vec![state], vec![(q.unsqueeze(-1) * read).sum(2) * scale])
    });
    let y = y[0].transpose(&[1, 0, 2, 3]).reshape([batch, steps, nq * wv]);
    let kept = if c.has(3) { c.dtype(3)? } else { c.dtype(0)? };
    Ok(vec![y.cast(c.dtype(0)?), last[0].cast(kept)])
}
