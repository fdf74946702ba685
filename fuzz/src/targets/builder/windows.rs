//! Calls of convolutions, pools, windows, norms and attention.

use super::calls::{Call, Calls};
use arenagrad::graph::window::{Conv, ConvTranspose, GridSample, GridSampling, Interpolation, Outside, Pool, Unfold};
use arenagrad::graph::{Attention, Layout, Pairing, Rope, Var};

fn sizes<const N: usize>(c: &mut Calls<'_>) -> [usize; N] {
    std::array::from_fn(|_| c.size())
}

/// Sizes that are mostly 1.
fn steps<const N: usize>(c: &mut Calls<'_>) -> [usize; N] {
    std::array::from_fn(|_| if c.script.byte() < 64 { c.any_size() } else { 1 })
}

fn conv<const N: usize, const P: usize>(c: &mut Calls<'_>) -> Conv<N, P> {
    let pad = std::array::from_fn(|_| if c.script.byte() < 64 { c.any_size() } else { 0 });
    let [groups] = steps(c);
    Conv::default().stride(steps(c)).pad(pad).dilation(steps(c)).groups(groups)
}

fn transposed<const N: usize>(c: &mut Calls<'_>) -> ConvTranspose<N> {
    let [groups] = steps(c);
    let (pad, output_pad) = (steps::<N>(c).map(|n| n - n.min(1)), steps::<N>(c).map(|n| n - n.min(1)));
    ConvTranspose::default().stride(steps(c)).pad(pad).output_pad(output_pad).dilation(steps(c)).groups(groups)
}

fn pool<const N: usize, const P: usize>(c: &mut Calls<'_>) -> Pool<N, P> {
    let mut pool = Pool::new(sizes::<N>(c));
    if c.script.flag() {
        pool = pool.stride(steps::<N>(c)).padding(c.size() % 4).ceil_mode(c.script.flag());
    }
    if c.script.byte() < 64 {
        pool = pool.dilation(steps::<N>(c)).count_include_pad(c.script.flag());
    }
    if c.script.byte() < 32 { pool.divisor_override(c.size()) } else { pool }
}

/// An image, a sequence or a volume, or whatever is there.
fn image<'g>(c: &mut Calls<'g>) -> Var<'g> {
    let v = c.var();
    match c.script.below(4) {
        0 => v,
        1 => v.sum(..).broadcast([2, 4, 5]),
        2 => v.sum(..).broadcast([1, 2, 3, 4, 3]),
        _ => v.sum(..).broadcast([2, 4, 6, 5]),
    }
}

const LAYOUTS: [Layout; 3] = [Layout::Bhsd, Layout::Bshd, Layout::Bsd];
const PAIRINGS: [Pairing; 2] = [Pairing::Halves, Pairing::Neighbours];
const RESIZES: [Interpolation; 6] = [
    Interpolation::Nearest,
    Interpolation::NearestExact,
    Interpolation::Linear,
    Interpolation::LinearAligned,
    Interpolation::Cubic,
    Interpolation::CubicAligned,
];

/// Calls with windows.
pub const CALLS: &[Call] = &[
    |c| c.put_image(),
    |c| {
        let (x, w) = (image(c), c.var());
        let y = match c.script.below(3) {
            0 => x.conv1d(w, conv(c)),
            1 => x.conv2d(w, conv(c)),
            _ => x.conv3d(w, conv(c)),
        };
        c.put(y);
    },
    |c| {
        let (x, w) = (image(c), c.var());
        let y = match c.script.below(3) {
            0 => x.conv_transpose1d(w, transposed(c)),
            1 => x.conv_transpose2d(w, transposed(c)),
            _ => x.conv_transpose3d(w, transposed(c)),
        };
        c.put(y);
    },
    |c| {
        let x = image(c);
        let y = match c.script.below(8) {
            0 => x.max_pool1d(pool(c)),
            1 => x.max_pool3d(pool(c)),
            2 => x.min_pool2d(pool(c)),
            3 => x.sum_pool2d(pool(c)),
            4 => x.avg_pool1d(pool(c)),
            5 => x.avg_pool3d(pool(c)),
            6 => x.avg_pool2d(pool(c)),
            _ => x.max_pool2d(pool(c)),
        };
        c.put(y);
    },
    |c| {
        let x = image(c);
        let y = match c.script.below(4) {
            0 => x.adaptive_max_pool1d(sizes(c)),
            1 => x.adaptive_avg_pool2d(sizes(c)),
            2 => x.adaptive_avg_pool3d(sizes(c)),
            _ => x.adaptive_max_pool2d(sizes(c)),
        };
        c.put(y);
    },
    |c| {
        let x = image(c);
        let both =
            if c.script.flag() { x.max_pool2d_with_indices(pool(c)) } else { x.max_pool1d_with_indices(pool(c)) };
        c.put_all(both);
    },
    |c| {
        let (x, kernel) = (image(c), sizes::<2>(c));
        let unfold = Unfold::new(kernel).padding(steps::<2>(c).map(|n| n % 8));
        let y = if c.script.flag() { x.im2col(unfold) } else { x.col2im(sizes(c), unfold) };
        c.put(y);
    },
    |c| {
        let (x, to, mode) = (image(c), c.dims(), c.script.pick(&RESIZES));
        let small: Vec<usize> = to.iter().map(|n| n % 64).collect();
        c.put(x.interpolate(&small, mode));
    },
    |c| {
        let (x, grid) = (image(c), c.var().sum(..).broadcast([2, 3, 3, 2]));
        let mode = c.script.pick(&[GridSampling::Nearest, GridSampling::Linear, GridSampling::Cubic]);
        let padding = c.script.pick(&[Outside::Zeros, Outside::Border, Outside::Reflection]);
        let y = x.grid_sample(grid, GridSample::default().mode(mode).padding(padding).align_corners(c.script.flag()));
        c.put(y);
    },
    |c| {
        let (x, gamma, beta, eps) = (c.var(), c.var(), c.var(), c.number());
        let y = match c.script.below(4) {
            0 => x.layer_norm(gamma, beta, eps),
            1 => x.rms_norm(gamma, beta, eps),
            2 => x.group_norm(c.size(), gamma, beta, eps),
            _ => x.batch_norm(gamma, beta, eps)[0],
        };
        c.put(y);
    },
    |c| {
        let (x, gamma, beta, eps) = (c.var(), c.var(), c.var(), c.number());
        let (statistics, axis) = ([c.var(), c.var()], c.axis());
        c.put(x.batch_norm_inference(gamma, beta, statistics, axis, eps));
    },
    |c| {
        let (x, size) = (image(c), c.size());
        let numbers = [c.number(), c.number(), c.number()];
        c.put(x.local_response_norm(size, numbers[0], numbers[1], numbers[2]));
    },
    |c| {
        let (q, k, v, layout) = (image(c), image(c), image(c), c.script.pick(&LAYOUTS));
        let mut o = Attention::default().layout(layout).causal(c.script.flag());
        if c.script.flag() {
            (o.heads, o.kv_heads) = (c.size(), c.size());
        }
        if c.script.byte() < 64 {
            o = o.window(c.any_size()).ahead(c.any_size()).top_left(c.script.flag());
        }
        if c.script.byte() < 64 {
            o = o.scale(c.number()).softcap(c.number()).dropout(c.number());
        }
        if c.script.byte() < 64 {
            o = o.bias(c.var()).padding(c.var());
        }
        c.put_all(q.attention_with_lse(k, v, o));
    },
    |c| {
        let (x, dims) = (image(c), [c.size(), c.size()]);
        let [cos, sin] = c.g.rope_tables(dims[0], dims[1], c.number(), arenagrad::graph::DType::F32);
        let (layout, heads) = (c.script.pick(&LAYOUTS), c.size());
        let y = x.rope(
            cos,
            sin,
            Rope::default().layout(layout).heads(heads).pairing(c.script.pick(&PAIRINGS)).inverse(c.script.flag()),
        );
        c.put(y);
    },
];

impl Calls<'_> {
    /// Keeps an image.
    fn put_image(&mut self) {
        let v = image(self);
        self.put(v);
    }
}
