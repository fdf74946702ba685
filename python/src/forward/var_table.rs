//! Methods of values that are no op of the table, or take options that the table does not.

use super::{Forward, conv, forwards, pool, transposed};
use arenagrad::graph::signal::FftNorm;
use arenagrad::graph::window::{GridSample, GridSampling, Interpolation, Outside, PadMode};
use arenagrad::graph::{CrossEntropy, Scatter};

const NORMS: &[(&str, FftNorm)] =
    &[("backward", FftNorm::Backward), ("ortho", FftNorm::Ortho), ("forward", FftNorm::Forward)];

const PAD_MODES: &[(&str, PadMode)] =
    &[("reflect", PadMode::Reflect), ("replicate", PadMode::Replicate), ("circular", PadMode::Circular)];

const SAMPLINGS: &[(&str, GridSampling)] =
    &[("nearest", GridSampling::Nearest), ("linear", GridSampling::Linear), ("cubic", GridSampling::Cubic)];

const OUTSIDES: &[(&str, Outside)] =
    &[("zeros", Outside::Zeros), ("border", Outside::Border), ("reflection", Outside::Reflection)];

pub const TABLE: &[Forward] = forwards! {
    "matmul" "(other: Var, ta: bool = False, tb: bool = False) -> Var"
    "The matrix product; `ta` and `tb` transpose the last two axes of the operands."
    => |a| a.me()?.matmul_t(a.var(1)?, a.bool(2)?, a.bool(3)?);
    "outer" "(other: Var) -> Var"
    "The outer product of two vectors."
    => |a| a.me()?.outer(a.var(1)?);
    "conv1d" "(w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var"
    "The convolution of x [N, C, L] with w [O, C/groups, k]."
    => |a| a.me()?.conv1d(a.var(1)?, conv(a, 2)?);
    "conv2d" "(w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var"
    "The convolution of x [N, C, H, W] with w [O, C/groups, kh, kw]."
    => |a| a.me()?.conv2d(a.var(1)?, conv(a, 2)?);
    "conv3d" "(w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var"
    "The convolution of x [N, C, D, H, W] with w [O, C/groups, kd, kh, kw]."
    => |a| a.me()?.conv3d(a.var(1)?, conv(a, 2)?);
    "conv_transpose1d"
    "(w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) \
     -> Var"
    "The transposed convolution of x [N, C, L] with w [C, O/groups, k]."
    => |a| a.me()?.conv_transpose1d(a.var(1)?, transposed(a, 2)?);
    "conv_transpose2d"
    "(w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) \
     -> Var"
    "The transposed convolution of x [N, C, H, W] with w [C, O/groups, kh, kw]."
    => |a| a.me()?.conv_transpose2d(a.var(1)?, transposed(a, 2)?);
    "conv_transpose3d"
    "(w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) \
     -> Var"
    "The transposed convolution of x [N, C, D, H, W] with w [C, O/groups, kd, kh, kw]."
    => |a| a.me()?.conv_transpose3d(a.var(1)?, transposed(a, 2)?);
    "sum" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "The sum over axes, or over all."
    => |a| { let x = a.me()?; keep(x, x.sum(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "mean" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "The mean over axes, or over all."
    => |a| { let x = a.me()?; keep(x, x.mean(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "amax" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "The largest element over axes, or over all."
    => |a| { let x = a.me()?; keep(x, x.amax(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "amin" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "The smallest element over axes, or over all."
    => |a| { let x = a.me()?; keep(x, x.amin(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "prod" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "The product over axes, or over all."
    => |a| { let x = a.me()?; keep(x, x.prod(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "logsumexp" "(axis: Axes = None, keepdims: bool = False) -> Var"
    "ln Σ eˣ over axes, or over all, without overflow."
    => |a| { let x = a.me()?; keep(x, x.logsumexp(&a.axes(1, x)?[..]), &a.axes(1, x)?, a.bool(2)?) };
    "var" "(axis: Axes = None, correction: int = 1, keepdims: bool = False) -> Var"
    "The variance over axes, or over all, divided by n − correction."
    => |a| { let x = a.me()?; x.var(&a.axes(1, x)?[..], a.i64(2)?, a.bool(3)?) };
    "std" "(axis: Axes = None, correction: int = 1, keepdims: bool = False) -> Var"
    "The standard deviation over axes, or over all."
    => |a| { let x = a.me()?; x.std(&a.axes(1, x)?[..], a.i64(2)?, a.bool(3)?) };
    "norm" "(p: float = 2.0, axis: Axes = None) -> Var"
    "The p-norm over axes, or over all."
    => |a| { let x = a.me()?; x.norm(a.f64(1)?, &a.axes(2, x)?[..]) };
    "any" "(axis: Axes = None) -> Var"
    "Whether any element over axes is true."
    => |a| { let x = a.me()?; x.any(&a.axes(1, x)?[..]) };
    "all" "(axis: Axes = None) -> Var"
    "Whether all elements over axes are true."
    => |a| { let x = a.me()?; x.all(&a.axes(1, x)?[..]) };
    "count_nonzero" "(axis: Axes = None) -> Var"
    "The number of elements over axes that are not 0."
    => |a| { let x = a.me()?; x.count_nonzero(&a.axes(1, x)?[..]) };
    "arg_max" "(axis: int = -1, dtype: DTypeLike = \"i64\") -> Var"
    "The position of the largest element along an axis."
    => |a| a.me()?.arg_max(a.i64(1)?, a.dtype(2)?);
    "arg_min" "(axis: int = -1, dtype: DTypeLike = \"i64\") -> Var"
    "The position of the smallest element along an axis."
    => |a| a.me()?.arg_min(a.i64(1)?, a.dtype(2)?);
    "cumsum" "(axis: int, exclusive: bool = False, reverse: bool = False) -> Var"
    "The running sum along an axis."
    => |a| a.me()?.cumsum(a.i64(1)?, a.bool(2)?, a.bool(3)?);
    "cumprod" "(axis: int, exclusive: bool = False, reverse: bool = False) -> Var"
    "The running product along an axis."
    => |a| a.me()?.cumprod(a.i64(1)?, a.bool(2)?, a.bool(3)?);
    "logcumsumexp" "(axis: int) -> Var"
    "The logarithm of the running sum of exponentials along an axis."
    => |a| a.me()?.logcumsumexp(a.i64(1)?);
    "reshape" "(shape: Shape) -> Var"
    "The same elements with another shape. One size may be -1: it is computed."
    => |a| a.me()?.reshape(a.dims_with_rest(1)?);
    "transpose" "(perm: Axes = None) -> Var"
    "Axis i of the result is axis perm[i]; without `perm`, the last two axes are exchanged."
    => |a| match a.maybe_ints(1)? { Some(perm) => a.me()?.transpose(&perm), None => a.me()?.t() };
    "t" "() -> Var"
    "The last two axes exchanged."
    => |a| a.me()?.t();
    "broadcast" "(shape: Shape) -> Var"
    "Elements repeated up to a shape, as in NumPy."
    => |a| a.me()?.broadcast(a.dims(1)?);
    "slice" "(starts: Shape, limits: Shape, steps: Shape | None = None) -> Var"
    "Elements starts[i]..limits[i] along each axis i, in steps of steps[i]."
    => |a| { let starts = a.dims(1)?; let steps = a.maybe_dims(3)?.unwrap_or(vec![1; starts.len()]);
        a.me()?.slice(&starts, &a.dims(2)?, &steps) };
    "narrow" "(axis: int, start: int, length: int) -> Var"
    "`length` elements along an axis, from `start` on."
    => |a| a.me()?.narrow(a.i64(1)?, a.size(2)?, a.size(3)?);
    "pad" "(low: Shape, high: Shape, value: float = 0.0) -> Var"
    "`low[i]` elements before and `high[i]` after each axis i."
    => |a| a.me()?.pad(&a.dims(1)?, &a.dims(2)?, a.f64(3)?);
    "pad_with" "(low: Shape, high: Shape, mode: str) -> Var"
    "As `pad`, with elements of the value itself: `reflect`, `replicate` or `circular`."
    => |a| a.me()?.pad_with(&a.dims(1)?, &a.dims(2)?, a.one_of(3, "mode", PAD_MODES)?);
    "sliding_window" "(axis: int, size: int, step: int = 1) -> Var"
    "Windows along an axis, in steps of `step`; their elements are a new last axis."
    => |a| a.me()?.sliding_window(a.i64(1)?, a.size(2)?, a.size(3)?);
    "flip" "(axis: Axes = None) -> Var"
    "The elements in reverse order along axes."
    => |a| { let x = a.me()?; x.flip(&a.axes(1, x)?[..]) };
    "concat" "(others: Var | Sequence[Var], axis: int) -> Var"
    "Values one after another along an axis."
    => |a| a.me()?.concat(&a.vars(1)?, a.i64(2)?);
    "stack" "(others: Var | Sequence[Var], axis: int) -> Var"
    "Values along a new axis."
    => |a| a.me()?.stack(&a.vars(1)?, a.i64(2)?);
    "split" "(sizes: Shape, axis: int) -> tuple[Var, ...]"
    "Parts of these sizes along an axis."
    => |a| a.me()?.split(&a.dims(1)?, a.i64(2)?);
    "chunk" "(parts: int, axis: int) -> tuple[Var, ...]"
    "Equal parts along an axis."
    => |a| a.me()?.chunk(a.size(1)?, a.i64(2)?);
    "squeeze" "(axis: Axes) -> Var"
    "Without axes of size 1."
    => |a| a.me()?.squeeze(&a.ints(1)?[..]);
    "unsqueeze" "(axis: int) -> Var"
    "A new axis of size 1."
    => |a| a.me()?.unsqueeze(a.i64(1)?);
    "flatten" "(first: int = 0, last: int = -1) -> Var"
    "Axes `first` to `last` as one."
    => |a| a.me()?.flatten(a.i64(1)?, a.i64(2)?);
    "unflatten" "(axis: int, sizes: Shape) -> Var"
    "One axis as several. One size may be -1: it is computed."
    => |a| a.me()?.unflatten(a.i64(1)?, &a.dims_with_rest(2)?);
    "movedim" "(source: Axes, to: Axes) -> Var"
    "Axes moved to other places."
    => |a| a.me()?.movedim(&a.ints(1)?, &a.ints(2)?);
    "roll" "(shift: int, axis: int) -> Var"
    "Elements shifted along an axis, around its end."
    => |a| a.me()?.roll(a.i64(1)?, a.i64(2)?);
    "tile" "(times: Shape) -> Var"
    "The value repeated along each axis."
    => |a| a.me()?.tile(&a.dims(1)?);
    "repeat_interleave" "(times: int, axis: int) -> Var"
    "Each element repeated along an axis."
    => |a| a.me()?.repeat_interleave(a.size(1)?, a.i64(2)?);
    "tril" "(k: int = 0) -> Var"
    "The lower triangle of matrices."
    => |a| a.me()?.tril(a.i64(1)?);
    "triu" "(k: int = 0) -> Var"
    "The upper triangle of matrices."
    => |a| a.me()?.triu(a.i64(1)?);
    "diagonal" "(offset: int = 0, axis1: int = 0, axis2: int = 1) -> Var"
    "The diagonal of two axes, as the last axis."
    => |a| a.me()?.diagonal(a.i64(1)?, a.i64(2)?, a.i64(3)?);
    "diag_embed" "(offset: int = 0, axis1: int = -2, axis2: int = -1) -> Var"
    "Matrices whose diagonal is the last axis; other elements are 0."
    => |a| a.me()?.diag_embed(a.i64(1)?, a.i64(2)?, a.i64(3)?);
    "trace" "(offset: int = 0, axis1: int = 0, axis2: int = 1) -> Var"
    "The sum of a diagonal."
    => |a| a.me()?.trace(a.i64(1)?, a.i64(2)?, a.i64(3)?);
    "select" "(a: Operand, b: Operand) -> Var"
    "`a` where this bool is true, `b` elsewhere; one of them may be a number."
    => |a| match (a.maybe_number(1)?, a.maybe_number(2)?) { (Some(x), _) => a.me()?.select(x, a.var(2)?), (_,
        Some(y)) => a.me()?.select(a.var(1)?, y), _ => a.me()?.select(a.var(1)?, a.var(2)?) };
    "masked_fill" "(mask: Var, value: float) -> Var"
    "`value` where `mask` is true."
    => |a| a.me()?.masked_fill(a.var(1)?, a.f64(2)?);
    "clamp" "(lo: float, hi: float) -> Var"
    "max(lo, min(x, hi))."
    => |a| a.me()?.clamp(a.f64(1)?, a.f64(2)?);
    "cast" "(dtype: DTypeLike) -> Var"
    "The elements as another type."
    => |a| a.me()?.cast(a.dtype(1)?);
    "full_like" "(value: float) -> Var"
    "A fill of this type."
    => |a| a.me()?.full_like(a.f64(1)?);
    "square" "() -> Var"
    "x²."
    => |a| a.me()?.square();
    "maximum" "(other: Operand) -> Var"
    "The larger of both, which broadcast."
    => |a| a.me()?.maximum(a.operand(1)?);
    "minimum" "(other: Operand) -> Var"
    "The smaller of both, which broadcast."
    => |a| a.me()?.minimum(a.operand(1)?);
    "equal" "(other: Operand) -> Var"
    "Whether a = b, as a bool."
    => |a| a.me()?.equal(a.operand(1)?);
    "not_equal" "(other: Operand) -> Var"
    "Whether a ≠ b, as a bool."
    => |a| a.me()?.not_equal(a.operand(1)?);
    "logical_and" "(other: Var) -> Var"
    "Logical and of two bools."
    => |a| a.me()?.logical_and(a.var(1)?);
    "logical_or" "(other: Var) -> Var"
    "Logical or of two bools."
    => |a| a.me()?.logical_or(a.var(1)?);
    "logical_not" "() -> Var"
    "Logical not of a bool."
    => |a| a.me()?.logical_not();
    "lerp" "(end: Var, weight: Operand) -> Var"
    "x + weight·(end − x)."
    => |a| a.me()?.lerp(a.var(1)?, a.operand(2)?);
    "nan_to_num" "(nan: float = 0.0, high: float | None = None, low: float | None = None) -> Var"
    "NaN and infinities replaced by numbers."
    => |a| a.me()?.nan_to_num(a.f64(1)?, a.maybe_f64(2)?, a.maybe_f64(3)?);
    "sinc" "() -> Var"
    "sin(πx)/(πx)."
    => |a| a.me()?.sinc();
    "logit" "() -> Var"
    "ln(x/(1 − x))."
    => |a| a.me()?.logit();
    "logsigmoid" "() -> Var"
    "ln σ(x)."
    => |a| a.me()?.logsigmoid();
    "leaky_relu" "(slope: float = 0.01) -> Var"
    "x, times `slope` where x < 0."
    => |a| a.me()?.leaky_relu(a.f64(1)?);
    "elu" "(alpha: float = 1.0) -> Var"
    "x, and alpha·(eˣ − 1) where x < 0."
    => |a| a.me()?.elu(a.f64(1)?);
    "celu" "(alpha: float = 1.0) -> Var"
    "max(0, x) + min(0, alpha·(e^(x/alpha) − 1))."
    => |a| a.me()?.celu(a.f64(1)?);
    "selu" "() -> Var"
    "The scaled exponential linear unit."
    => |a| a.me()?.selu();
    "mish" "() -> Var"
    "x·tanh(softplus(x))."
    => |a| a.me()?.mish();
    "hardsigmoid" "() -> Var"
    "min(1, max(0, x/6 + 1/2))."
    => |a| a.me()?.hardsigmoid();
    "hardswish" "() -> Var"
    "x·hardsigmoid(x)."
    => |a| a.me()?.hardswish();
    "hardtanh" "() -> Var"
    "x between −1 and 1."
    => |a| a.me()?.hardtanh();
    "relu6" "() -> Var"
    "x between 0 and 6."
    => |a| a.me()?.relu6();
    "softsign" "() -> Var"
    "x/(1 + |x|)."
    => |a| a.me()?.softsign();
    "tanhshrink" "() -> Var"
    "x − tanh x."
    => |a| a.me()?.tanhshrink();
    "softshrink" "(limit: float = 0.5) -> Var"
    "x moved towards 0 by `limit`."
    => |a| a.me()?.softshrink(a.f64(1)?);
    "hardshrink" "(limit: float = 0.5) -> Var"
    "x, and 0 where |x| ≤ limit."
    => |a| a.me()?.hardshrink(a.f64(1)?);
    "prelu" "(slope: Var) -> Var"
    "x, times a slope where x < 0."
    => |a| a.me()?.prelu(a.var(1)?);
    "threshold" "(at: float, value: float) -> Var"
    "x where it is above `at`, else `value`."
    => |a| a.me()?.threshold(a.f64(1)?, a.f64(2)?);
    "softmin" "(axis: int = -1) -> Var"
    "softmax(−x)."
    => |a| a.me()?.softmin(a.i64(1)?);
    "softmax" "(axis: int = -1) -> Var"
    "The softmax along an axis."
    => |a| a.me()?.softmax(a.i64(1)?);
    "log_softmax" "(axis: int = -1) -> Var"
    "The logarithm of the softmax along an axis."
    => |a| a.me()?.log_softmax(a.i64(1)?);
    "cross_entropy"
    "(labels: Var, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = \"mean\", weight: Var | \
     None = None) -> Var"
    "The cross entropy of logits and labels, or probabilities."
    => |a| a.me()?.cross_entropy_with(a.var(1)?, CrossEntropy::default()
            .ignore_index(a.i64(2)?).label_smoothing(a.f64(3)?).reduction(a.choice(4, "reduction")?)
            .weight(a.maybe_var(5)?));
    "mse" "(target: Var, reduction: str = \"mean\") -> Var"
    "The squared error."
    => |a| a.me()?.mse_with(a.var(1)?, a.choice(2, "reduction")?);
    "bce" "(target: Var, reduction: str = \"mean\") -> Var"
    "The binary cross entropy of probabilities."
    => |a| a.me()?.bce(a.var(1)?, a.choice(2, "reduction")?);
    "bce_with_logits" "(target: Var, reduction: str = \"mean\") -> Var"
    "The binary cross entropy of logits."
    => |a| a.me()?.bce_with_logits_with(a.var(1)?, a.choice(2, "reduction")?);
    "gather" "(indices: Var, axis: int = 0) -> Var"
    "Slices along an axis, by their indices."
    => |a| a.me()?.gather(a.var(1)?, a.i64(2)?);
    "embedding" "(indices: Var, padding: int | None = None) -> Var"
    "Rows of this table, by their indices; row `padding` gets no gradient."
    => |a| a.me()?.embedding(a.var(1)?, a.maybe_size(2)?);
    "take_along_axis" "(indices: Var, axis: int) -> Var"
    "Elements along an axis, by their indices."
    => |a| a.me()?.take_along_axis(a.var(1)?, a.i64(2)?);
    "gather_nd" "(indices: Var) -> Var"
    "Elements by their coordinates."
    => |a| a.me()?.gather_nd(a.var(1)?);
    "scatter_nd" "(indices: Var, updates: Var, mode: str = \"set\") -> Var"
    "This with updates at coordinates: set, or joined by `add`, `mul`, `max` or `min`."
    => |a| a.me()?.scatter_nd(a.var(1)?, a.var(2)?, a.choice::<Scatter>(3, "mode")?);
    "one_hot" "(depth: int, dtype: DTypeLike = \"f32\") -> Var"
    "1 at each index, 0 elsewhere, along a new last axis."
    => |a| a.me()?.one_hot(a.size(1)?, a.dtype(2)?);
    "sort" "(axis: int = -1, descending: bool = False) -> tuple[Var, Var]"
    "The sorted elements and their positions."
    => |a| a.me()?.sort(a.i64(1)?, a.bool(2)?);
    "arg_sort" "(axis: int = -1, descending: bool = False) -> Var"
    "The positions of the sorted elements."
    => |a| a.me()?.arg_sort(a.i64(1)?, a.bool(2)?);
    "top_k" "(k: int, axis: int = -1) -> tuple[Var, Var]"
    "The largest elements and their positions."
    => |a| a.me()?.top_k(a.size(1)?, a.i64(2)?);
    "cummax" "(axis: int) -> tuple[Var, Var]"
    "The running maximum and its positions."
    => |a| a.me()?.cummax(a.i64(1)?);
    "cummin" "(axis: int) -> tuple[Var, Var]"
    "The running minimum and its positions."
    => |a| a.me()?.cummin(a.i64(1)?);
    "dropout" "(p: float = 0.5) -> Var"
    "Elements dropped with probability p while training, the others scaled."
    => |a| a.me()?.dropout(a.f64(1)?);
    "bernoulli" "() -> Var"
    "1 with the probability that is the element, else 0."
    => |a| a.me()?.bernoulli();
    "categorical" "(axis: int = -1, dtype: DTypeLike = \"i32\") -> Var"
    "A class drawn by logits along an axis."
    => |a| a.me()?.categorical(a.i64(1)?, a.dtype(2)?);
    "layer_norm" "(gamma: Var, beta: Var, eps: float = 1e-5) -> Var"
    "Layer norm with a gain and a shift."
    => |a| a.me()?.layer_norm(a.var(1)?, a.var(2)?, a.f64(3)?);
    "rms_norm" "(gamma: Var, beta: Var, eps: float = 1e-5) -> Var"
    "RMS norm with a gain and a shift."
    => |a| a.me()?.rms_norm(a.var(1)?, a.var(2)?, a.f64(3)?);
    "group_norm" "(groups: int, gamma: Var, beta: Var, eps: float = 1e-5) -> Var"
    "Group norm with a gain and a shift."
    => |a| a.me()?.group_norm(a.size(1)?, a.var(2)?, a.var(3)?, a.f64(4)?);
    "fft" "(n: int | None = None, axis: int = -1, norm: str = \"backward\") -> Var"
    "The Fourier transform along an axis."
    => |a| a.me()?.fft(a.maybe_size(1)?, a.i64(2)?, a.one_of(3, "norm", NORMS)?);
    "ifft" "(n: int | None = None, axis: int = -1, norm: str = \"backward\") -> Var"
    "The inverse Fourier transform along an axis."
    => |a| a.me()?.ifft(a.maybe_size(1)?, a.i64(2)?, a.one_of(3, "norm", NORMS)?);
    "rfft" "(n: int | None = None, axis: int = -1, norm: str = \"backward\") -> Var"
    "The Fourier transform of real numbers: half a spectrum."
    => |a| a.me()?.rfft(a.maybe_size(1)?, a.i64(2)?, a.one_of(3, "norm", NORMS)?);
    "irfft" "(n: int | None = None, axis: int = -1, norm: str = \"backward\") -> Var"
    "The inverse of `rfft`."
    => |a| a.me()?.irfft(a.maybe_size(1)?, a.i64(2)?, a.one_of(3, "norm", NORMS)?);
    "conj" "() -> Var"
    "The complex conjugate."
    => |a| a.me()?.conj();
    "angle" "() -> Var"
    "The angle of complex numbers."
    => |a| a.me()?.angle();
    "solve" "(b: Var) -> Var"
    "The solution x of a·x = b."
    => |a| a.me()?.solve(a.var(1)?);
    "cholesky" "() -> Var"
    "The lower Cholesky factor."
    => |a| a.me()?.cholesky();
    "inverse" "() -> Var"
    "The inverse of matrices."
    => |a| a.me()?.inverse();
    "det" "() -> Var"
    "The determinant of matrices."
    => |a| a.me()?.det();
    "slogdet" "() -> tuple[Var, Var]"
    "The sign and the logarithm of the absolute determinant."
    => |a| a.me()?.slogdet();
    "qr" "() -> tuple[Var, Var]"
    "The QR factors."
    => |a| a.me()?.qr();
    "eigh" "() -> tuple[Var, Var]"
    "Eigenvalues and eigenvectors of symmetric matrices."
    => |a| a.me()?.eigh();
    "svd" "() -> tuple[Var, Var, Var]"
    "Singular values and vectors."
    => |a| a.me()?.svd();
    "lstsq" "(b: Var) -> Var"
    "The least-squares solution."
    => |a| a.me()?.lstsq(a.var(1)?);
    "min_pool1d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> \
     Var"
    "The smallest element of each window of x [N, C, L]; NaN if the window has one. Padding never wins."
    => |a| a.me()?.min_pool1d(pool(a)?.dilation(a.each::<1>(5)?));
    "sum_pool1d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var"
    "The sum of each window of x [N, C, L]."
    => |a| a.me()?.sum_pool1d(pool(a)?);
    "adaptive_max_pool1d" "(output: Shape) -> Var"
    "The largest element of each of `output` windows along each axis of x [N, C, L]."
    => |a| a.me()?.adaptive_max_pool1d(a.each(1)?);
    "adaptive_avg_pool1d" "(output: Shape) -> Var"
    "The mean of each of `output` windows along each axis of x [N, C, L]."
    => |a| a.me()?.adaptive_avg_pool1d(a.each(1)?);
    "min_pool2d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> \
     Var"
    "The smallest element of each window of x [N, C, H, W]; NaN if the window has one. Padding never wins."
    => |a| a.me()?.min_pool2d(pool(a)?.dilation(a.each::<2>(5)?));
    "sum_pool2d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var"
    "The sum of each window of x [N, C, H, W]."
    => |a| a.me()?.sum_pool2d(pool(a)?);
    "adaptive_max_pool2d" "(output: Shape) -> Var"
    "The largest element of each of `output` windows along each axis of x [N, C, H, W]."
    => |a| a.me()?.adaptive_max_pool2d(a.each(1)?);
    "adaptive_avg_pool2d" "(output: Shape) -> Var"
    "The mean of each of `output` windows along each axis of x [N, C, H, W]."
    => |a| a.me()?.adaptive_avg_pool2d(a.each(1)?);
    "min_pool3d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> \
     Var"
    "The smallest element of each window of x [N, C, D, H, W]; NaN if the window has one. Padding never wins."
    => |a| a.me()?.min_pool3d(pool(a)?.dilation(a.each::<3>(5)?));
    "sum_pool3d"
    "(kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var"
    "The sum of each window of x [N, C, D, H, W]."
    => |a| a.me()?.sum_pool3d(pool(a)?);
    "adaptive_max_pool3d" "(output: Shape) -> Var"
    "The largest element of each of `output` windows along each axis of x [N, C, D, H, W]."
    => |a| a.me()?.adaptive_max_pool3d(a.each(1)?);
    "adaptive_avg_pool3d" "(output: Shape) -> Var"
    "The mean of each of `output` windows along each axis of x [N, C, D, H, W]."
    => |a| a.me()?.adaptive_avg_pool3d(a.each(1)?);
    "pixel_shuffle" "(r: int) -> Var"
    "Channels to pixels, by a factor."
    => |a| a.me()?.pixel_shuffle(a.size(1)?);
    "pixel_unshuffle" "(r: int) -> Var"
    "Pixels to channels, by a factor."
    => |a| a.me()?.pixel_unshuffle(a.size(1)?);
    "interpolate" "(size: Shape, mode: str = \"nearest\") -> Var"
    "Images of another size."
    => |a| a.me()?.interpolate(&a.dims(1)?, a.choice::<Interpolation>(2, "mode")?);
    "grid_sample"
    "(grid: Var, mode: str = \"linear\", padding: str = \"zeros\", align_corners: bool = False) -> Var"
    "Images [N, C, H, W] read at places [N, H, W, 2], or volumes [N, C, D, H, W] at [N, D, H, W, 3], from −1 to 1."
    => |a| a.me()?.grid_sample(a.var(1)?, GridSample::default().mode(a.one_of(2, "mode", SAMPLINGS)?)
        .padding(a.one_of(3, "padding", OUTSIDES)?).align_corners(a.bool(4)?));
};

/// `y`, a reduction of `x` over `axes`, with these axes of size 1 if `keepdims`.
fn keep<'g>(
    x: arenagrad::graph::Var<'g>,
    y: arenagrad::graph::Var<'g>,
    axes: &[i64],
    keepdims: bool,
) -> arenagrad::graph::Var<'g> {
    if !keepdims || !y.is_some() {
        return y;
    }
    let rank = x.rank() as i64;
    let kept = |i: i64| axes.iter().any(|&a| a == i || a + rank == i);
    let dims: Vec<usize> = x.dims().iter().enumerate().map(|(i, &d)| if kept(i as i64) { 1 } else { d }).collect();
    y.reshape(dims)
}
