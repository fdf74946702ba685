//! Calls that move elements or reduce them: layouts, reductions, indexing, sorting, products.

use super::calls::{Call, Calls};
use super::dtype;
use arenagrad::graph::window::PadMode;
use arenagrad::graph::{Scatter, Var};

/// A method of a value and an axis.
fn on_axis(v: Var<'_>, axis: i64, which: u32) -> Var<'_> {
    match which {
        0 => v.softmax(axis),
        1 => v.softmin(axis),
        2 => v.log_softmax(axis),
        3 => v.logcumsumexp(axis),
        _ => v.unsqueeze(axis),
    }
}

/// A method of a value and several axes.
fn reduced<'g>(v: Var<'g>, axes: &[i64], which: u32) -> Var<'g> {
    match which {
        0 => v.sum(axes),
        1 => v.mean(axes),
        2 => v.amax(axes),
        3 => v.amin(axes),
        4 => v.prod(axes),
        5 => v.any(axes),
        6 => v.all(axes),
        7 => v.count_nonzero(axes),
        8 => v.logsumexp(axes),
        9 => v.squeeze(axes),
        _ => v.flip(axes),
    }
}

fn two<'g>(c: &mut Calls<'g>, (a, b): (Var<'g>, Var<'g>)) {
    c.put_all([a, b]);
}

const MODES: [Scatter; 5] = [Scatter::Set, Scatter::Add, Scatter::Mul, Scatter::Max, Scatter::Min];

/// Calls that move elements.
pub const CALLS: &[Call] = &[
    |c| {
        let (v, dims) = (c.var(), c.dims());
        let fits = if c.script.flag() { vec![v.numel()] } else { dims };
        c.put(v.reshape(fits));
    },
    |c| {
        let v = c.var();
        let mut axes: Vec<i64> = (0..v.rank() as i64).collect();
        let by = c.script.below(5) as usize;
        let rank = axes.len();
        axes.rotate_left(by.min(rank));
        let axes = if c.script.byte() < 32 { c.axes() } else { axes };
        c.put(v.transpose(&axes));
    },
    |c| {
        let v = c.var();
        let mut dims = v.dims().to_vec();
        dims.insert(0, c.size());
        let dims = if c.script.flag() { dims } else { c.dims() };
        c.put(v.broadcast(dims));
    },
    |c| {
        let (v, dims) = (c.var(), c.dims());
        c.put(v.unbroadcast(&dims));
    },
    |c| {
        let v = c.var();
        let (starts, limits, steps) = (c.sizes_for(v), c.sizes_for(v), c.sizes_for(v));
        c.put(v.slice(&starts, &limits, &steps));
    },
    |c| {
        let (v, axis, start, len) = (c.var(), c.axis(), c.any_size(), c.any_size());
        c.put(v.narrow(axis, start % 4, len));
    },
    |c| {
        let v = c.var();
        let (low, high, x) = (c.sizes_for(v), c.sizes_for(v), c.number());
        c.put(v.pad(&low, &high, x));
    },
    |c| {
        let v = c.var();
        let (low, high) = (c.sizes_for(v), c.sizes_for(v));
        let mode = c.script.pick(&[PadMode::Reflect, PadMode::Replicate, PadMode::Circular]);
        let small = |list: Vec<usize>| list.into_iter().map(|n| n % 16).collect::<Vec<_>>();
        c.put(v.pad_with(&small(low), &small(high), mode));
    },
    |c| {
        let (v, axes, which) = (c.var(), c.axes(), c.script.below(11));
        c.put(reduced(v, &axes, which));
    },
    |c| {
        let (v, which) = (c.var(), c.script.below(4));
        let y = match which {
            0 => v.sum(..),
            1 => v.mean(..),
            2 => v.amax(..),
            _ => v.norm(c.number(), ..),
        };
        c.put(y);
    },
    |c| {
        let (v, axes, correction, keep) = (c.var(), c.axes(), c.int(), c.script.flag());
        c.put(v.var(&axes[..], correction, keep));
    },
    |c| {
        let (v, axes, correction, keep) = (c.var(), c.axes(), c.int(), c.script.flag());
        c.put(v.std(&axes[..], correction, keep));
    },
    |c| {
        let (v, axes, dtype) = (c.var(), c.axes(), dtype(&mut c.script));
        c.put(v.sum_as(&axes[..], dtype));
    },
    |c| {
        let (v, axis, which) = (c.var(), c.axis(), c.script.below(5));
        c.put(on_axis(v, axis, which));
    },
    |c| {
        let (v, axis, dtype) = (c.var(), c.axis(), dtype(&mut c.script));
        let y = if c.script.flag() { v.arg_max(axis, dtype) } else { v.arg_min(axis, dtype) };
        c.put(y);
    },
    |c| {
        let (v, axis, exclusive, reverse) = (c.var(), c.axis(), c.script.flag(), c.script.flag());
        let y = if c.script.flag() { v.cumsum(axis, exclusive, reverse) } else { v.cumprod(axis, exclusive, reverse) };
        c.put(y);
    },
    |c| {
        let (v, axis) = (c.var(), c.axis());
        let both = if c.script.flag() { v.cummax(axis) } else { v.cummin(axis) };
        two(c, both);
    },
    |c| {
        let (v, axis, down) = (c.var(), c.axis(), c.script.flag());
        let both = v.sort(axis, down);
        two(c, both);
    },
    |c| {
        let (v, k, axis) = (c.var(), c.any_size(), c.axis());
        let both = v.top_k(k, axis);
        two(c, both);
    },
    |c| {
        let (v, axis, down) = (c.var(), c.axis(), c.script.flag());
        c.put(v.arg_sort(axis, down));
    },
    |c| {
        let (a, b, axis) = (c.var(), c.var(), c.axis());
        let rest = if c.script.flag() { vec![b] } else { vec![b, a] };
        let y = if c.script.flag() { a.concat(&rest, axis) } else { a.stack(&rest, axis) };
        c.put(y);
    },
    |c| {
        let (v, sizes, axis) = (c.var(), c.dims(), c.axis());
        c.put_all(v.split(&sizes, axis));
    },
    |c| {
        let (v, parts, axis) = (c.var(), c.size(), c.axis());
        c.put_all(v.chunk(parts, axis));
    },
    |c| {
        let (v, first, last) = (c.var(), c.axis(), c.axis());
        c.put(v.flatten(first, last));
    },
    |c| {
        let (v, axis, sizes) = (c.var(), c.axis(), c.dims());
        c.put(v.unflatten(axis, &sizes));
    },
    |c| {
        let (v, from, to) = (c.var(), c.axes(), c.axes());
        c.put(v.movedim(&from, &to));
    },
    |c| {
        let (v, times, axis) = (c.var(), c.any_size(), c.axis());
        c.put(v.repeat_interleave(times, axis));
    },
    |c| {
        let (v, offset, a, b) = (c.var(), c.int(), c.axis(), c.axis());
        let y = match c.script.below(3) {
            0 => v.diagonal(offset, a, b),
            1 => v.diag_embed(offset, a, b),
            _ => v.trace(offset, a, b),
        };
        c.put(y);
    },
    |c| {
        let (a, b) = (c.var(), c.var());
        c.put(a.outer(b));
    },
    |c| {
        let (v, axis, size, step) = (c.var(), c.axis(), c.any_size(), c.any_size());
        c.put(v.sliding_window(axis, size, step));
    },
    |c| {
        let (v, r) = (c.var(), c.any_size());
        let y = if c.script.flag() { v.pixel_shuffle(r) } else { v.pixel_unshuffle(r) };
        c.put(y);
    },
    |c| {
        let all = [c.var(), c.var()];
        c.put_all(c.g.meshgrid(&all));
    },
    |c| {
        let (v, k) = (c.var(), c.int());
        let y = if c.script.flag() { v.tril(k) } else { v.triu(k) };
        c.put(y);
    },
    |c| {
        let (v, shift, axis) = (c.var(), c.int(), c.axis());
        c.put(v.roll(shift, axis));
    },
    |c| {
        let v = c.var();
        let times = c.sizes_for(v);
        c.put(v.tile(&times));
    },
    |c| {
        let (a, b) = (c.var(), c.var());
        let y = match c.script.below(4) {
            0 => a.matmul(b),
            n => a.matmul_t(b, n & 1 == 1, n & 2 == 2),
        };
        c.put(y);
    },
    |c| {
        let (a, b) = (c.var(), c.var());
        let lists = [c.axes(), c.axes(), c.axes(), c.axes()];
        c.put(a.dot_general(b, [&lists[0], &lists[1]], [&lists[2], &lists[3]]));
    },
    |c| {
        let all = [c.var(), c.var()];
        let n = c.script.below(3) as usize;
        let equations =
            ["ij,jk->ik", "ij->ji", "ii->i", "...i,...i->...", "ij,ij->", "i,j->ij", "", "->", "i,,j", "ij,k"];
        let equation = c.script.pick(&equations);
        c.put(c.g.einsum(equation, &all[..n]));
    },
    |c| {
        let (v, at, axis) = (c.var(), c.var(), c.axis());
        let y = if c.script.flag() { v.gather(at, axis) } else { v.take_along_axis(at, axis) };
        c.put(y);
    },
    |c| {
        let (v, at, updates, axis, mode) = (c.var(), c.var(), c.var(), c.axis(), c.script.pick(&MODES));
        let y = match c.script.below(3) {
            0 => v.scatter(at, updates, axis, mode),
            1 => v.scatter_slices(at, updates, axis, mode),
            _ => v.scatter_nd(at, updates, mode),
        };
        c.put(y);
    },
    |c| {
        let (v, at, size, axis) = (c.var(), c.var(), c.any_size(), c.axis());
        let y = match c.script.below(3) {
            0 => v.gather_nd(at),
            1 => v.scatter_add(at, axis, size),
            _ => v.embedding(at, c.script.flag().then_some(size)),
        };
        c.put(y);
    },
    |c| {
        let (v, n, min, max) = (c.var(), c.size(), c.number(), c.number());
        let y = match c.script.below(3) {
            0 => v.histogram(n, min, max),
            1 => v.bin_count(n),
            _ => v.one_hot(n, dtype(&mut c.script)),
        };
        c.put(y);
    },
    |c| {
        let (v, update) = (c.var(), c.var());
        let sizes = c.sizes_for(v);
        let starts: Vec<Var<'_>> = (0..v.rank().min(4)).map(|_| c.var()).collect();
        let y =
            if c.script.flag() { v.dynamic_slice(&starts, &sizes) } else { v.dynamic_update_slice(update, &starts) };
        c.put(y);
    },
    |c| {
        let (v, axis) = (c.var(), c.axis());
        let y = if c.script.flag() { v.bernoulli() } else { v.categorical(axis, dtype(&mut c.script)) };
        c.put(y);
    },
];
