"""Methods of values and builders: one for each op, and those of the library.

Made by tools/write_ops.py from the tables of the extension. Do not edit it.
"""

from __future__ import annotations


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from ._arenagrad import Var
    from ._types import Axes, DTypeLike, InitLike, Operand, Shape, Vars


class VarOps:
    """The methods of `Var` that follow from the tables."""

    def abs(self) -> Any:  # noqa: E501
        """y = |x|; y'(0) = 0"""
        return self.builder.op("abs", self)  # type: ignore[attr-defined]

    def acos(self) -> Any:  # noqa: E501
        """y = arccos x, NaN outside [−1, 1]; y' = −1/√(1 − x²)"""
        return self.builder.op("acos", self)  # type: ignore[attr-defined]

    def acosh(self) -> Any:  # noqa: E501
        """y = ln(x + √(x² − 1)), NaN below 1; y' = 1/√(x² − 1)"""
        return self.builder.op("acosh", self)  # type: ignore[attr-defined]

    def act_with_grad(self, act: str) -> Any:  # noqa: E501
        """y = act(x) and act'(x), with one exponential for both"""
        return self.builder.op("act_with_grad", self, act=act)  # type: ignore[attr-defined]

    def adagrad_rows(self, other: Operand, b: Operand, c: Operand, d: Operand, /, eps: float) -> Any:  # noqa: E501
        """sum' = sum + g², p' = p − lr·g/(√sum' + eps) for the rows of p that an index names, from (p, g, indices, sum, lr): g holds a gradient row for each index, and rows of equal indices are added up first"""
        return self.builder.op("adagrad_rows", self, other, b, c, d, eps=eps)  # type: ignore[attr-defined]

    def adam(self, *operands: Operand, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool) -> Any:  # noqa: E501
        """m' = β₁m + (1 − β₁)g, v' = β₂v + (1 − β₂)g², p' = p − lr/(1 − β₁ᵗ)·m'/(√v'/√(1 − β₂ᵗ) + eps); weight_decay·p joins g, or p shrinks by lr·weight_decay first if decoupled; from (p, g, m, v) of each param, lr, t; one more scalar operand multiplies g"""
        return self.builder.op("adam", self, *operands, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, decoupled=decoupled)  # type: ignore[attr-defined]

    def adam_rows(self, other: Operand, b: Operand, c: Operand, d: Operand, e: Operand, f: Operand, /, beta1: float, beta2: float, eps: float, weight_decay: float) -> Any:  # noqa: E501
        """m' = m + (1 − β₁)(g − m), v' = v + (1 − β₂)(g² − v), p' = p·(1 − lr·weight_decay) − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m'/(√v' + eps) for the rows of p that an index names, from (p, g, indices, m, v, lr, t): g holds a gradient row for each index, and rows of equal indices are added up first"""
        return self.builder.op("adam_rows", self, other, b, c, d, e, f, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)  # type: ignore[attr-defined]

    def adaptive_avg_pool1d(self, output: Shape) -> Var:  # noqa: E501
        """The mean of each of `output` windows along each axis of x [N, C, L]."""
        return self._call("adaptive_avg_pool1d", (output,))  # type: ignore[attr-defined, no-any-return]

    def adaptive_avg_pool2d(self, output: Shape) -> Var:  # noqa: E501
        """The mean of each of `output` windows along each axis of x [N, C, H, W]."""
        return self._call("adaptive_avg_pool2d", (output,))  # type: ignore[attr-defined, no-any-return]

    def adaptive_avg_pool3d(self, output: Shape) -> Var:  # noqa: E501
        """The mean of each of `output` windows along each axis of x [N, C, D, H, W]."""
        return self._call("adaptive_avg_pool3d", (output,))  # type: ignore[attr-defined, no-any-return]

    def adaptive_max_pool1d(self, output: Shape) -> Var:  # noqa: E501
        """The largest element of each of `output` windows along each axis of x [N, C, L]."""
        return self._call("adaptive_max_pool1d", (output,))  # type: ignore[attr-defined, no-any-return]

    def adaptive_max_pool2d(self, output: Shape) -> Var:  # noqa: E501
        """The largest element of each of `output` windows along each axis of x [N, C, H, W]."""
        return self._call("adaptive_max_pool2d", (output,))  # type: ignore[attr-defined, no-any-return]

    def adaptive_max_pool3d(self, output: Shape) -> Var:  # noqa: E501
        """The largest element of each of `output` windows along each axis of x [N, C, D, H, W]."""
        return self._call("adaptive_max_pool3d", (output,))  # type: ignore[attr-defined, no-any-return]

    def add(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a + b"""
        return self.builder.op("add", self, other)  # type: ignore[attr-defined]

    def all(self, axis: Axes = None) -> Var:  # noqa: E501
        """Whether all elements over axes are true."""
        return self._call("all", (axis,))  # type: ignore[attr-defined, no-any-return]

    def amax(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """The largest element over axes, or over all."""
        return self._call("amax", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def amin(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """The smallest element over axes, or over all."""
        return self._call("amin", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def and_(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a ∧ b"""
        return self.builder.op("and", self, other)  # type: ignore[attr-defined]

    def angle(self) -> Var:  # noqa: E501
        """The angle of complex numbers."""
        return self._call("angle", ())  # type: ignore[attr-defined, no-any-return]

    def any(self, axis: Axes = None) -> Var:  # noqa: E501
        """Whether any element over axes is true."""
        return self._call("any", (axis,))  # type: ignore[attr-defined, no-any-return]

    def arg_max(self, axis: int = -1, dtype: DTypeLike = "i64") -> Var:  # noqa: E501
        """The position of the largest element along an axis."""
        return self._call("arg_max", (axis, dtype))  # type: ignore[attr-defined, no-any-return]

    def arg_min(self, axis: int = -1, dtype: DTypeLike = "i64") -> Var:  # noqa: E501
        """The position of the smallest element along an axis."""
        return self._call("arg_min", (axis, dtype))  # type: ignore[attr-defined, no-any-return]

    def arg_sort(self, axis: int = -1, descending: bool = False) -> Var:  # noqa: E501
        """The positions of the sorted elements."""
        return self._call("arg_sort", (axis, descending))  # type: ignore[attr-defined, no-any-return]

    def asin(self) -> Any:  # noqa: E501
        """y = arcsin x, NaN outside [−1, 1]; y' = 1/√(1 − x²)"""
        return self.builder.op("asin", self)  # type: ignore[attr-defined]

    def asinh(self) -> Any:  # noqa: E501
        """y = ln(x + √(x² + 1)); y' = 1/√(x² + 1)"""
        return self.builder.op("asinh", self)  # type: ignore[attr-defined]

    def atan(self) -> Any:  # noqa: E501
        """y = arctan x"""
        return self.builder.op("atan", self)  # type: ignore[attr-defined]

    def atan2(self, other: Operand, /) -> Any:  # noqa: E501
        """y = the angle of the point (b, a) in (−π, π], with C's signs at zeros; the derivatives at (0, 0) are 0"""
        return self.builder.op("atan2", self, other)  # type: ignore[attr-defined]

    def atanh(self) -> Any:  # noqa: E501
        """y = ½ ln((1 + x)/(1 − x)), ±∞ at ±1, NaN beyond; y' = 1/(1 − x²)"""
        return self.builder.op("atanh", self)  # type: ignore[attr-defined]

    def attention(self, *operands: Operand, layout: str, heads: int, kv_heads: int, mask: str, window: int, ahead: int, top_left: bool, scale: float, softcap: float, padding: bool, bias: bool, dropout: float, stream: int) -> Any:  # noqa: E501
        """y = dropout(softmax(s))·v with s = softcap(scale·q·kᵀ) + bias over the keys that a query sees, 0 if it sees none; also lse = ln Σ eˢ; from (q, k, v[, padding][, bias][, key])"""
        return self.builder.op("attention", self, *operands, layout=layout, heads=heads, kv_heads=kv_heads, mask=mask, window=window, ahead=ahead, top_left=top_left, scale=scale, softcap=softcap, padding=padding, bias=bias, dropout=dropout, stream=stream)  # type: ignore[attr-defined]

    def attention_backward(self, *operands: Operand, layout: str, heads: int, kv_heads: int, mask: str, window: int, ahead: int, top_left: bool, scale: float, softcap: float, padding: bool, bias: bool, dropout: float, stream: int, dlse: bool) -> Any:  # noqa: E501
        """dq, dk, dv and, with a bias, dbias of attention, from (dy, q, k, v, y, lse[, dlse][, padding][, bias][, key])"""
        return self.builder.op("attention_backward", self, *operands, layout=layout, heads=heads, kv_heads=kv_heads, mask=mask, window=window, ahead=ahead, top_left=top_left, scale=scale, softcap=softcap, padding=padding, bias=bias, dropout=dropout, stream=stream, dlse=dlse)  # type: ignore[attr-defined]

    def attention_block(self, *operands: Operand, heads: int, causal: bool, padding: bool, bias: bool, rope: bool) -> Any:  # noqa: E501
        """y = attention(q, k, v)·out_w + out_b with q, k, v the thirds of x·qkv_w + qkv_b, q and k rotated if `rope`, from (x, qkv_w, out_w[, mask][, qkv_b, out_b][, cos, sin])"""
        return self.builder.op("attention_block", self, *operands, heads=heads, causal=causal, padding=padding, bias=bias, rope=rope)  # type: ignore[attr-defined]

    def attention_packed(self, *operands: Operand, layout: str, heads: int, kv_heads: int, mask: str, window: int, ahead: int, top_left: bool, scale: float, softcap: float, padding: bool, bias: bool, dropout: float, stream: int) -> Any:  # noqa: E501
        """attention of the parts q, k, v of packed rows, from (qkv[, padding][, bias][, key])"""
        return self.builder.op("attention_packed", self, *operands, layout=layout, heads=heads, kv_heads=kv_heads, mask=mask, window=window, ahead=ahead, top_left=top_left, scale=scale, softcap=softcap, padding=padding, bias=bias, dropout=dropout, stream=stream)  # type: ignore[attr-defined]

    def attention_packed_backward(self, *operands: Operand, layout: str, heads: int, kv_heads: int, mask: str, window: int, ahead: int, top_left: bool, scale: float, softcap: float, padding: bool, bias: bool, dropout: float, stream: int, dlse: bool) -> Any:  # noqa: E501
        """the gradient of attention_packed in the packed rows, from (dy, qkv, y, lse[, dlse][, padding][, key])"""
        return self.builder.op("attention_packed_backward", self, *operands, layout=layout, heads=heads, kv_heads=kv_heads, mask=mask, window=window, ahead=ahead, top_left=top_left, scale=scale, softcap=softcap, padding=padding, bias=bias, dropout=dropout, stream=stream, dlse=dlse)  # type: ignore[attr-defined]

    def avg_pool1d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
        """The mean of each window."""
        return self._call("avg_pool1d", (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[attr-defined, no-any-return]

    def avg_pool2d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
        """The mean of each window."""
        return self._call("avg_pool2d", (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[attr-defined, no-any-return]

    def avg_pool2d_backward(self, in_hw: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], count_include_pad: bool) -> Any:  # noqa: E501
        """dx[..] = Σ dy / n over the windows that contain the element; the transpose of avg_pool2d"""
        return self.builder.op("avg_pool2d_backward", self, in_hw=in_hw, kernel=kernel, stride=stride, pad=pad, count_include_pad=count_include_pad)  # type: ignore[attr-defined]

    def avg_pool3d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
        """The mean of each window."""
        return self._call("avg_pool3d", (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[attr-defined, no-any-return]

    def batch_norm(self, other: Operand, b: Operand, /, eps: float) -> Any:  # noqa: E501
        """y = γ(x − mean)/√(var + eps) + β with the mean and the biased variance of each channel over all other axes; also both statistics"""
        return self.builder.op("batch_norm", self, other, b, eps=eps)  # type: ignore[attr-defined]

    def batch_norm_backward(self, other: Operand, b: Operand, c: Operand, d: Operand, /) -> Any:  # noqa: E501
        """dx = γ·rstd(dy − mean(dy) − x̂·mean(x̂⊙dy)) with the means over each channel, dγ = Σ dy⊙x̂, dβ = Σ dy, from (dy, x, γ, mean, rstd), statistics [C]; x̂ = (d − mean(d))·rstd, d = x − mean"""
        return self.builder.op("batch_norm_backward", self, other, b, c, d)  # type: ignore[attr-defined]

    def batch_norm_inference(self, other: Operand, b: Operand, c: Operand, d: Operand, /, axis: int, eps: float) -> Any:  # noqa: E501
        """y = γ(x − mean)/√(var + eps) + β with an element of γ, β, mean and var for each position along `axis`; dx = γ·dy/√(var + eps), dγ = Σ dy(x − mean)/√(var + eps), dβ = Σ dy; mean and var have their exact gradients, too"""
        return self.builder.op("batch_norm_inference", self, other, b, c, d, axis=axis, eps=eps)  # type: ignore[attr-defined]

    def bce(self, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
        """The binary cross entropy of probabilities."""
        return self._call("bce", (target, reduction))  # type: ignore[attr-defined, no-any-return]

    def bce_with_logits(self, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
        """The binary cross entropy of logits."""
        return self._call("bce_with_logits", (target, reduction))  # type: ignore[attr-defined, no-any-return]

    def bernoulli(self) -> Var:  # noqa: E501
        """1 with the probability that is the element, else 0."""
        return self._call("bernoulli", ())  # type: ignore[attr-defined, no-any-return]

    def bitwise_and(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a ∧ b, bit by bit"""
        return self.builder.op("bitwise_and", self, other)  # type: ignore[attr-defined]

    def bitwise_left_shift(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a·2ᵇ without the bits that leave the type; 0 if b is negative or not below the bits of the type"""
        return self.builder.op("bitwise_left_shift", self, other)  # type: ignore[attr-defined]

    def bitwise_not(self) -> Any:  # noqa: E501
        """y = ¬a, bit by bit: −1 − a"""
        return self.builder.op("bitwise_not", self)  # type: ignore[attr-defined]

    def bitwise_or(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a ∨ b, bit by bit"""
        return self.builder.op("bitwise_or", self, other)  # type: ignore[attr-defined]

    def bitwise_right_shift(self, other: Operand, /) -> Any:  # noqa: E501
        """y = ⌊a/2ᵇ⌋; if b is negative or not below the bits of the type, 0 for a ≥ 0 and −1 for a < 0"""
        return self.builder.op("bitwise_right_shift", self, other)  # type: ignore[attr-defined]

    def bitwise_xor(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a ⊕ b, bit by bit"""
        return self.builder.op("bitwise_xor", self, other)  # type: ignore[attr-defined]

    def broadcast(self, shape: Shape) -> Var:  # noqa: E501
        """Elements repeated up to a shape, as in NumPy."""
        return self._call("broadcast", (shape,))  # type: ignore[attr-defined, no-any-return]

    def cast(self, dtype: DTypeLike) -> Var:  # noqa: E501
        """The elements as another type."""
        return self._call("cast", (dtype,))  # type: ignore[attr-defined, no-any-return]

    def categorical(self, axis: int = -1, dtype: DTypeLike = "i32") -> Var:  # noqa: E501
        """A class drawn by logits along an axis."""
        return self._call("categorical", (axis, dtype))  # type: ignore[attr-defined, no-any-return]

    def ceil(self) -> Any:  # noqa: E501
        """y = ⌈x⌉"""
        return self.builder.op("ceil", self)  # type: ignore[attr-defined]

    def celu(self, alpha: float = 1.0) -> Var:  # noqa: E501
        """max(0, x) + min(0, alpha·(e^(x/alpha) − 1))."""
        return self._call("celu", (alpha,))  # type: ignore[attr-defined, no-any-return]

    def checkpoint(self) -> Any:  # noqa: E501
        """y = x; under a memory budget, values between two checkpoints may be recomputed"""
        return self.builder.op("checkpoint", self)  # type: ignore[attr-defined]

    def cholesky(self) -> Var:  # noqa: E501
        """The lower Cholesky factor."""
        return self._call("cholesky", ())  # type: ignore[attr-defined, no-any-return]

    def chunk(self, parts: int, axis: int) -> tuple[Var, ...]:  # noqa: E501
        """Equal parts along an axis."""
        return self._call("chunk", (parts, axis))  # type: ignore[attr-defined, no-any-return]

    def clamp(self, lo: float, hi: float) -> Var:  # noqa: E501
        """max(lo, min(x, hi))."""
        return self._call("clamp", (lo, hi))  # type: ignore[attr-defined, no-any-return]

    def coalesce(self, other: Operand, /, size: int) -> Any:  # noqa: E501
        """updates with equal indices (each below `size`) added up: the first of them holds the sum, the others are 0"""
        return self.builder.op("coalesce", self, other, size=size)  # type: ignore[attr-defined]

    def col2im(self, in_hw: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int]) -> Any:  # noqa: E501
        """planes of in_hw with each column added at the elements that im2col reads: the transpose of im2col; torch's fold"""
        return self.builder.op("col2im", self, in_hw=in_hw, kernel=kernel, stride=stride, pad=pad, dilation=dilation)  # type: ignore[attr-defined]

    def complex(self, other: Operand, /) -> Any:  # noqa: E501
        """z = re + i·im"""
        return self.builder.op("complex", self, other)  # type: ignore[attr-defined]

    def concat(self, others: Var | Sequence[Var], axis: int) -> Var:  # noqa: E501
        """Values one after another along an axis."""
        return self._call("concat", (others, axis))  # type: ignore[attr-defined, no-any-return]

    def conj(self) -> Var:  # noqa: E501
        """The complex conjugate."""
        return self._call("conj", ())  # type: ignore[attr-defined, no-any-return]

    def conv1d(self, w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The convolution of x [N, C, L] with w [O, C/groups, k]."""
        return self._call("conv1d", (w, stride, padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def conv2d(self, w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The convolution of x [N, C, H, W] with w [O, C/groups, kh, kw]."""
        return self._call("conv2d", (w, stride, padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def conv2d_bias_act(self, other: Operand, b: Operand, /, stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], groups: int, act: str) -> Any:  # noqa: E501
        """y = act(conv2d(x, w) + bias), one number of the bias for each output channel"""
        return self.builder.op("conv2d_bias_act", self, other, b, stride=stride, pad=pad, dilation=dilation, groups=groups, act=act)  # type: ignore[attr-defined]

    def conv2d_input_grad(self, other: Operand, /, in_hw: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], groups: int) -> Any:  # noqa: E501
        """the adjoint of conv2d in x: dx of shape [N, C, in_hw] from dy and w"""
        return self.builder.op("conv2d_input_grad", self, other, in_hw=in_hw, stride=stride, pad=pad, dilation=dilation, groups=groups)  # type: ignore[attr-defined]

    def conv2d_weight_grad(self, other: Operand, /, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], groups: int) -> Any:  # noqa: E501
        """the adjoint of conv2d in w: dw of shape [O, C/groups, kernel] from x and dy"""
        return self.builder.op("conv2d_weight_grad", self, other, kernel=kernel, stride=stride, pad=pad, dilation=dilation, groups=groups)  # type: ignore[attr-defined]

    def conv3d(self, w: Var, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The convolution of x [N, C, D, H, W] with w [O, C/groups, kd, kh, kw]."""
        return self._call("conv3d", (w, stride, padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def conv_transpose1d(self, w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The transposed convolution of x [N, C, L] with w [C, O/groups, k]."""
        return self._call("conv_transpose1d", (w, stride, padding, output_padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def conv_transpose2d(self, w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The transposed convolution of x [N, C, H, W] with w [C, O/groups, kh, kw]."""
        return self._call("conv_transpose2d", (w, stride, padding, output_padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def conv_transpose3d(self, w: Var, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1) -> Var:  # noqa: E501
        """The transposed convolution of x [N, C, D, H, W] with w [C, O/groups, kd, kh, kw]."""
        return self._call("conv_transpose3d", (w, stride, padding, output_padding, dilation, groups))  # type: ignore[attr-defined, no-any-return]

    def copysign(self, other: Operand, /) -> Any:  # noqa: E501
        """y = |a| with the sign of b, that of −0 and NaN too; ∂a = ±1, 0 at a = 0; ∂b = 0"""
        return self.builder.op("copysign", self, other)  # type: ignore[attr-defined]

    def cos(self) -> Any:  # noqa: E501
        """y = cos x"""
        return self.builder.op("cos", self)  # type: ignore[attr-defined]

    def cosh(self) -> Any:  # noqa: E501
        """y = ½(eˣ + e⁻ˣ)"""
        return self.builder.op("cosh", self)  # type: ignore[attr-defined]

    def cosine_similarity(self, y: Var, axis: int = 1, eps: float = 1e-8) -> Var:  # noqa: E501
        """The cosine of the angle along an axis."""
        return self._call("cosine_similarity", (y, axis, eps))  # type: ignore[attr-defined, no-any-return]

    def count_nonzero(self, axis: Axes = None) -> Var:  # noqa: E501
        """The number of elements over axes that are not 0."""
        return self._call("count_nonzero", (axis,))  # type: ignore[attr-defined, no-any-return]

    def cross_entropy(self, labels: Var, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean", weight: Var | None = None) -> Var:  # noqa: E501
        """The cross entropy of logits and labels, or probabilities."""
        return self._call("cross_entropy", (labels, ignore_index, label_smoothing, reduction, weight))  # type: ignore[attr-defined, no-any-return]

    def cross_entropy_gradient(self, other: Operand, /, ignore_index: int, label_smoothing: float, weight: float) -> Any:  # noqa: E501
        """loss and lse of softmax_cross_entropy, and the gradient of weight·Σ loss in the logits"""
        return self.builder.op("cross_entropy_gradient", self, other, ignore_index=ignore_index, label_smoothing=label_smoothing, weight=weight)  # type: ignore[attr-defined]

    def cum_arg_max(self, axis: int, smallest: bool) -> Any:  # noqa: E501
        """position (i32) of the largest (or, if `smallest`, smallest) element so far along `axis`: the last of equals, the last NaN once there is one"""
        return self.builder.op("cum_arg_max", self, axis=axis, smallest=smallest)  # type: ignore[attr-defined]

    def cummax(self, axis: int) -> tuple[Var, Var]:  # noqa: E501
        """The running maximum and its positions."""
        return self._call("cummax", (axis,))  # type: ignore[attr-defined, no-any-return]

    def cummin(self, axis: int) -> tuple[Var, Var]:  # noqa: E501
        """The running minimum and its positions."""
        return self._call("cummin", (axis,))  # type: ignore[attr-defined, no-any-return]

    def cumprod(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Var:  # noqa: E501
        """The running product along an axis."""
        return self._call("cumprod", (axis, exclusive, reverse))  # type: ignore[attr-defined, no-any-return]

    def cumsum(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Var:  # noqa: E501
        """The running sum along an axis."""
        return self._call("cumsum", (axis, exclusive, reverse))  # type: ignore[attr-defined, no-any-return]

    def depthwise_conv1d_causal(self, other: Operand, b: Operand, /) -> Any:  # noqa: E501
        """y[b,t,c] = Σₖ w[c,0,0,k]·z[b,t+k,c], z = (left pad, x) joined along time, from (x[B,S,C], w[C,1,1,K], pad[B,K−1,C])"""
        return self.builder.op("depthwise_conv1d_causal", self, other, b)  # type: ignore[attr-defined]

    def dequant(self, *operands: Operand, scheme: str, block: int, k: int) -> Any:  # noqa: E501
        """w[p, j] = (code[p, j] − zero[p/block, j])·scale[p/block, j], from (codes, scales[, zeros]) or, for nvfp4, (codes, codes of scales, a number that multiplies all scales); the derivative with respect to a code is its scale, to packed codes 0"""
        return self.builder.op("dequant", self, *operands, scheme=scheme, block=block, k=k)  # type: ignore[attr-defined]

    def dequant_matmul(self, *operands: Operand, scheme: str, block: int, k: int, transposed: bool) -> Any:  # noqa: E501
        """y = x·w, or x·wᵀ if `transposed`, from x[.., k] (or x[.., n]) and the operands of `dequant`, whose result w[k, n] is decoded part by part and never stored"""
        return self.builder.op("dequant_matmul", self, *operands, scheme=scheme, block=block, k=k, transposed=transposed)  # type: ignore[attr-defined]

    def dequantize(self, *operands: Operand, axis: int | None = None) -> Any:  # noqa: E501
        """y = s·(q − z), with scale s and zero point z (0 without one); the derivative of y with respect to s·(q − z) is 1"""
        return self.builder.op("dequantize", self, *operands, axis=axis)  # type: ignore[attr-defined]

    def det(self) -> Var:  # noqa: E501
        """The determinant of matrices."""
        return self._call("det", ())  # type: ignore[attr-defined, no-any-return]

    def diag_embed(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Var:  # noqa: E501
        """Matrices whose diagonal is the last axis; other elements are 0."""
        return self._call("diag_embed", (offset, axis1, axis2))  # type: ignore[attr-defined, no-any-return]

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Var:  # noqa: E501
        """The diagonal of two axes, as the last axis."""
        return self._call("diagonal", (offset, axis1, axis2))  # type: ignore[attr-defined, no-any-return]

    def digamma(self) -> Any:  # noqa: E501
        """y = ψ(x) = Γ'(x)/Γ(x), ∓∞ at ±0, NaN at −1, −2 …; y' = ψ⁽¹⁾(x)"""
        return self.builder.op("digamma", self)  # type: ignore[attr-defined]

    def div(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a/b; integers truncate, and division of an integer by 0 is an error of the step"""
        return self.builder.op("div", self, other)  # type: ignore[attr-defined]

    def dot_general(self, other: Operand, /, batch_a: Sequence[int], batch_b: Sequence[int], contract_a: Sequence[int], contract_b: Sequence[int]) -> Any:  # noqa: E501
        """XLA's product: batch axes, then free axes of a, then free axes of b; contracted axes are summed"""
        return self.builder.op("dot_general", self, other, batch_a=batch_a, batch_b=batch_b, contract_a=contract_a, contract_b=contract_b)  # type: ignore[attr-defined]

    def dropout(self, p: float = 0.5) -> Var:  # noqa: E501
        """Elements dropped with probability p while training, the others scaled."""
        return self._call("dropout", (p,))  # type: ignore[attr-defined, no-any-return]

    def eigh(self) -> tuple[Var, Var]:  # noqa: E501
        """Eigenvalues and eigenvectors of symmetric matrices."""
        return self._call("eigh", ())  # type: ignore[attr-defined, no-any-return]

    def elu(self, alpha: float = 1.0) -> Var:  # noqa: E501
        """x, and alpha·(eˣ − 1) where x < 0."""
        return self._call("elu", (alpha,))  # type: ignore[attr-defined, no-any-return]

    def embedding(self, indices: Var, padding: int | None = None) -> Var:  # noqa: E501
        """Rows of this table, by their indices; row `padding` gets no gradient."""
        return self._call("embedding", (indices, padding))  # type: ignore[attr-defined, no-any-return]

    def eq(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a = b)"""
        return self.builder.op("eq", self, other)  # type: ignore[attr-defined]

    def equal(self, other: Operand) -> Var:  # noqa: E501
        """Whether a = b, as a bool."""
        return self._call("equal", (other,))  # type: ignore[attr-defined, no-any-return]

    def erf(self) -> Any:  # noqa: E501
        """y = 2/√π ∫₀ˣ e^(−t²) dt"""
        return self.builder.op("erf", self)  # type: ignore[attr-defined]

    def erfc(self) -> Any:  # noqa: E501
        """y = 1 − erf x, accurate for large x; y' = −2/√π e^(−x²)"""
        return self.builder.op("erfc", self)  # type: ignore[attr-defined]

    def erfcinv(self) -> Any:  # noqa: E501
        """the y with 1 − erf y = x, ∞ at 0, −∞ at 2, NaN beyond; y' = −½√π e^(y²)"""
        return self.builder.op("erfcinv", self)  # type: ignore[attr-defined]

    def erfinv(self) -> Any:  # noqa: E501
        """the y with erf y = x, ±∞ at ±1, NaN beyond; y' = ½√π e^(y²)"""
        return self.builder.op("erfinv", self)  # type: ignore[attr-defined]

    def exp(self) -> Any:  # noqa: E501
        """y = eˣ"""
        return self.builder.op("exp", self)  # type: ignore[attr-defined]

    def exp2(self) -> Any:  # noqa: E501
        """y = 2ˣ; y' = y·ln 2"""
        return self.builder.op("exp2", self)  # type: ignore[attr-defined]

    def expm1(self) -> Any:  # noqa: E501
        """y = eˣ − 1"""
        return self.builder.op("expm1", self)  # type: ignore[attr-defined]

    def fake_quantize(self, *operands: Operand, lo: int, hi: int, ste: str, axis: int | None = None) -> Any:  # noqa: E501
        """y = (clamp(round(x·(1/s)) + z, lo, hi) − z)·s, halves to even, with scale s and zero point z (0 without one); the derivative with respect to x is `ste`, to s it is 0"""
        return self.builder.op("fake_quantize", self, *operands, lo=lo, hi=hi, ste=ste, axis=axis)  # type: ignore[attr-defined]

    def fft(self, n: int | None = None, axis: int = -1, norm: str = "backward") -> Var:  # noqa: E501
        """The Fourier transform along an axis."""
        return self._call("fft", (n, axis, norm))  # type: ignore[attr-defined, no-any-return]

    def flatten(self, first: int = 0, last: int = -1) -> Var:  # noqa: E501
        """Axes `first` to `last` as one."""
        return self._call("flatten", (first, last))  # type: ignore[attr-defined, no-any-return]

    def flip(self, axis: Axes = None) -> Var:  # noqa: E501
        """The elements in reverse order along axes."""
        return self._call("flip", (axis,))  # type: ignore[attr-defined, no-any-return]

    def floor(self) -> Any:  # noqa: E501
        """y = ⌊x⌋"""
        return self.builder.op("floor", self)  # type: ignore[attr-defined]

    def floor_divide(self, other: Operand, /) -> Any:  # noqa: E501
        """y = ⌊a/b⌋; an integer b = 0 is an error of the step"""
        return self.builder.op("floor_divide", self, other)  # type: ignore[attr-defined]

    def flush_subnormals(self) -> Any:  # noqa: E501
        """y = x, and +0 where |x| is below the smallest normal number of the type; y' = 1"""
        return self.builder.op("flush_subnormals", self)  # type: ignore[attr-defined]

    def fmax(self, other: Operand, /) -> Any:  # noqa: E501
        """y = max(a, b), the other one if one is NaN; a tie shares the gradient evenly"""
        return self.builder.op("fmax", self, other)  # type: ignore[attr-defined]

    def fmin(self, other: Operand, /) -> Any:  # noqa: E501
        """y = min(a, b), the other one if one is NaN; a tie shares the gradient evenly"""
        return self.builder.op("fmin", self, other)  # type: ignore[attr-defined]

    def fmod(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a − trunc(a/b)·b, with the sign of a; ∂a = 1, ∂b = −trunc(a/b); an integer b = 0 is an error of the step"""
        return self.builder.op("fmod", self, other)  # type: ignore[attr-defined]

    def full_like(self, value: float) -> Var:  # noqa: E501
        """A fill of this type."""
        return self._call("full_like", (value,))  # type: ignore[attr-defined, no-any-return]

    def gated_delta_net(self, *operands: Operand, state: bool) -> Any:  # noqa: E501
        """T = exp(g_t)·S_(t−1), S_t = T + k_t·(β_t·(v_t − Tᵀk_t))ᵀ, o_t = S_tᵀq_t/√N; o and the last S, from (q, k, v, g, β[, S_0]): q, k [B,S,H,N], v, o [B,S,H,M], g, β [B,S,H], S [B,H,N,M], at first 0 without S_0; g = −∞ forgets"""
        return self.builder.op("gated_delta_net", self, *operands, state=state)  # type: ignore[attr-defined]

    def gated_delta_net_backward(self, *operands: Operand, state: bool, last: bool) -> Any:  # noqa: E501
        """dq, dk, dv, dg, dβ[, dS_0] of gated_delta_net, from (do[, dlast], q, k, v, g, β[, S_0]), dlast the gradient of the last S"""
        return self.builder.op("gated_delta_net_backward", self, *operands, state=state, last=last)  # type: ignore[attr-defined]

    def gather(self, indices: Var, axis: int = 0) -> Var:  # noqa: E501
        """Slices along an axis, by their indices."""
        return self._call("gather", (indices, axis))  # type: ignore[attr-defined, no-any-return]

    def gather_nd(self, indices: Var) -> Var:  # noqa: E501
        """Elements by their coordinates."""
        return self._call("gather_nd", (indices,))  # type: ignore[attr-defined, no-any-return]

    def gaussian_nll_loss(self, target: Var, variance: Var, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Var:  # noqa: E501
        """The negative log-likelihood of normal distributions."""
        return self._call("gaussian_nll_loss", (target, variance, full, eps, reduction))  # type: ignore[attr-defined, no-any-return]

    def ge(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a ≥ b)"""
        return self.builder.op("ge", self, other)  # type: ignore[attr-defined]

    def gelu(self) -> Any:  # noqa: E501
        """y = ½x(1 + erf(x/√2)); y' = Φ(x) + x·φ(x)"""
        return self.builder.op("gelu", self)  # type: ignore[attr-defined]

    def gelu_grad(self) -> Any:  # noqa: E501
        """y = Φ(x) + x·φ(x), the derivative of gelu; y' = φ(x)(2 − x²)"""
        return self.builder.op("gelu_grad", self)  # type: ignore[attr-defined]

    def gelu_tanh(self) -> Any:  # noqa: E501
        """y = ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³)"""
        return self.builder.op("gelu_tanh", self)  # type: ignore[attr-defined]

    def gelu_tanh_grad(self) -> Any:  # noqa: E501
        """y = σ + xσ(1 − σ)v', the derivative of gelu_tanh: σ = 1/(1 + e⁻ᵛ), v = √(8/π)(x + 0.044715x³); y' = σ(1 − σ)(2v' + xv'' + xv'²(1 − 2σ))"""
        return self.builder.op("gelu_tanh_grad", self)  # type: ignore[attr-defined]

    def gguf_dequant(self, block_type: str, dims: Sequence[int]) -> Any:  # noqa: E501
        """the elements of blocks of `block_type` as f32 of shape `dims`, whose last axis is whole blocks"""
        return self.builder.op("gguf_dequant", self, block_type=block_type, dims=dims)  # type: ignore[attr-defined]

    def gguf_dequant_experts(self, block_type: str, experts: int, n: int, k: int) -> Any:  # noqa: E501
        """the elements of blocks of `block_type` that hold D [experts, n, k] row by row, as f32 of shape [experts, k, n]: each matrix transposed, as `grouped_matmul` reads it"""
        return self.builder.op("gguf_dequant_experts", self, block_type=block_type, experts=experts, n=n, k=k)  # type: ignore[attr-defined]

    def gguf_grouped_matmul(self, other: Operand, b: Operand, /, block_type: str, groups: int, n: int, k: int, back: bool, by_size: bool) -> Any:  # noqa: E501
        """yᵢ = xᵢ·D[gᵢ]ᵀ for the group gᵢ of each row i, where the blocks hold D [groups, n, k] row by row; yᵢ = xᵢ·D[gᵢ] if `back`; groups and `by_size` as those of `grouped_matmul`; D never exists as numbers. Few rows of f32 are multiplied by codes, as in `gguf_matmul`"""
        return self.builder.op("gguf_grouped_matmul", self, other, b, block_type=block_type, groups=groups, n=n, k=k, back=back, by_size=by_size)  # type: ignore[attr-defined]

    def gguf_matmul(self, other: Operand, /, block_type: str, n: int, k: int, back: bool) -> Any:  # noqa: E501
        """y = x·Dᵀ along the last axis of x, where the blocks hold D [n, k] row by row; y = x·D if `back`; D never exists as numbers. Up to 4 rows of f32 are multiplied by codes, scale·Σ code·x − min·Σ x, whose rounding differs from that of x·Dᵀ"""
        return self.builder.op("gguf_matmul", self, other, block_type=block_type, n=n, k=k, back=back)  # type: ignore[attr-defined]

    def grid_sample(self, grid: Var, mode: str = "linear", padding: str = "zeros", align_corners: bool = False) -> Var:  # noqa: E501
        """Images [N, C, H, W] read at places [N, H, W, 2], or volumes [N, C, D, H, W] at [N, D, H, W, 3], from −1 to 1."""
        return self._call("grid_sample", (grid, mode, padding, align_corners))  # type: ignore[attr-defined, no-any-return]

    def group_norm(self, groups: int, gamma: Var, beta: Var, eps: float = 1e-5) -> Var:  # noqa: E501
        """Group norm with a gain and a shift."""
        return self._call("group_norm", (groups, gamma, beta, eps))  # type: ignore[attr-defined, no-any-return]

    def group_norm_backward(self, other: Operand, b: Operand, c: Operand, d: Operand, /) -> Any:  # noqa: E501
        """dx = rstd(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)) with the means over each group, dγ = Σ dy⊙x̂, dβ = Σ dy, from (dy, x, γ, mean, rstd), statistics [N, groups]; x̂ = (d − mean(d))·rstd, d = x − mean"""
        return self.builder.op("group_norm_backward", self, other, b, c, d)  # type: ignore[attr-defined]

    def grouped_matmul(self, other: Operand, b: Operand, /, tw: bool, by_size: bool) -> Any:  # noqa: E501
        """yᵢ = xᵢ·w[gᵢ], or xᵢ·w[gᵢ]ᵀ if `tw`, for the group gᵢ of each row i; if `by_size`, the third operand is the number of rows of each group, which are adjacent and in the order of the groups"""
        return self.builder.op("grouped_matmul", self, other, b, tw=tw, by_size=by_size)  # type: ignore[attr-defined]

    def grouped_outer(self, other: Operand, b: Operand, /, groups: int, by_size: bool) -> Any:  # noqa: E501
        """y[e] = Σ xᵢᵀ·gᵢ over the rows i of group e, an exact 0 for a group without rows; groups as those of `grouped_matmul`"""
        return self.builder.op("grouped_outer", self, other, b, groups=groups, by_size=by_size)  # type: ignore[attr-defined]

    def gru_of(self, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]:  # noqa: E501
        """`gru` on given weights, in the order of `rnn_of`."""
        return self._call("gru_of", (weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths))  # type: ignore[attr-defined, no-any-return]

    def gt(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a > b)"""
        return self.builder.op("gt", self, other)  # type: ignore[attr-defined]

    def hardshrink(self, limit: float = 0.5) -> Var:  # noqa: E501
        """x, and 0 where |x| ≤ limit."""
        return self._call("hardshrink", (limit,))  # type: ignore[attr-defined, no-any-return]

    def hardsigmoid(self) -> Var:  # noqa: E501
        """min(1, max(0, x/6 + 1/2))."""
        return self._call("hardsigmoid", ())  # type: ignore[attr-defined, no-any-return]

    def hardswish(self) -> Var:  # noqa: E501
        """x·hardsigmoid(x)."""
        return self._call("hardswish", ())  # type: ignore[attr-defined, no-any-return]

    def hardtanh(self) -> Var:  # noqa: E501
        """x between −1 and 1."""
        return self._call("hardtanh", ())  # type: ignore[attr-defined, no-any-return]

    def histogram(self, other: Operand, b: Operand, /, bins: int) -> Any:  # noqa: E501
        """how many elements of x fall into each of `bins` equal parts of low..=high"""
        return self.builder.op("histogram", self, other, b, bins=bins)  # type: ignore[attr-defined]

    def huber_loss(self, target: Var, delta: float = 1.0, reduction: str = "mean") -> Var:  # noqa: E501
        """Huber's loss."""
        return self._call("huber_loss", (target, delta, reduction))  # type: ignore[attr-defined, no-any-return]

    def hypot(self, other: Operand, /) -> Any:  # noqa: E501
        """y = √(a² + b²) without overflow; the derivatives at (0, 0) are 0"""
        return self.builder.op("hypot", self, other)  # type: ignore[attr-defined]

    def ifft(self, n: int | None = None, axis: int = -1, norm: str = "backward") -> Var:  # noqa: E501
        """The inverse Fourier transform along an axis."""
        return self._call("ifft", (n, axis, norm))  # type: ignore[attr-defined, no-any-return]

    def im2col(self, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int]) -> Any:  # noqa: E501
        """y[n, (c·kh + k)·kw + l, i·Wo + j] = x[n, c, i·s − p + k·d, …], 0 in the padding; torch's unfold"""
        return self.builder.op("im2col", self, kernel=kernel, stride=stride, pad=pad, dilation=dilation)  # type: ignore[attr-defined]

    def imag(self) -> Any:  # noqa: E501
        """y = Im z"""
        return self.builder.op("imag", self)  # type: ignore[attr-defined]

    def instance_norm(self, eps: float = 1e-5) -> Var:  # noqa: E501
        """Normalisation of each channel of each sample."""
        return self._call("instance_norm", (eps,))  # type: ignore[attr-defined, no-any-return]

    def int_matmul(self, other: Operand, /, ta: bool, tb: bool) -> Any:  # noqa: E501
        """y[s, i, j] = Σₖ a[s, i, k]·b[s, k, j], with either operand's last two axes exchanged first; i8 and u8 give i32; sums wrap"""
        return self.builder.op("int_matmul", self, other, ta=ta, tb=tb)  # type: ignore[attr-defined]

    def interpolate(self, size: Shape, mode: str = "nearest") -> Var:  # noqa: E501
        """Images of another size."""
        return self._call("interpolate", (size, mode))  # type: ignore[attr-defined, no-any-return]

    def inverse(self) -> Var:  # noqa: E501
        """The inverse of matrices."""
        return self._call("inverse", ())  # type: ignore[attr-defined, no-any-return]

    def irfft(self, n: int | None = None, axis: int = -1, norm: str = "backward") -> Var:  # noqa: E501
        """The inverse of `rfft`."""
        return self._call("irfft", (n, axis, norm))  # type: ignore[attr-defined, no-any-return]

    def isfinite(self) -> Any:  # noqa: E501
        """y = (|x| < ∞), which is false for NaN"""
        return self.builder.op("isfinite", self)  # type: ignore[attr-defined]

    def isinf(self) -> Any:  # noqa: E501
        """y = (|x| = ∞)"""
        return self.builder.op("isinf", self)  # type: ignore[attr-defined]

    def isnan(self) -> Any:  # noqa: E501
        """y = (x ≠ x), which holds for NaN alone"""
        return self.builder.op("isnan", self)  # type: ignore[attr-defined]

    def l1_loss(self, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
        """|x − target|."""
        return self._call("l1_loss", (target, reduction))  # type: ignore[attr-defined, no-any-return]

    def layer_norm(self, gamma: Var, beta: Var, eps: float = 1e-5) -> Var:  # noqa: E501
        """Layer norm with a gain and a shift."""
        return self._call("layer_norm", (gamma, beta, eps))  # type: ignore[attr-defined, no-any-return]

    def layer_norm_backward(self, other: Operand, b: Operand, c: Operand, d: Operand, /) -> Any:  # noqa: E501
        """dx = rstd(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)), dγ = Σ dy⊙x̂, dβ = Σ dy, from (dy, x, γ, mean, rstd); x̂ = (d − mean(d))·rstd, d = x − mean"""
        return self.builder.op("layer_norm_backward", self, other, b, c, d)  # type: ignore[attr-defined]

    def le(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a ≤ b)"""
        return self.builder.op("le", self, other)  # type: ignore[attr-defined]

    def leaky_relu(self, slope: float = 0.01) -> Var:  # noqa: E501
        """x, times `slope` where x < 0."""
        return self._call("leaky_relu", (slope,))  # type: ignore[attr-defined, no-any-return]

    def lerp(self, end: Var, weight: Operand) -> Var:  # noqa: E501
        """x + weight·(end − x)."""
        return self._call("lerp", (end, weight))  # type: ignore[attr-defined, no-any-return]

    def lgamma(self) -> Any:  # noqa: E501
        """y = ln |Γ(x)|, ∞ at 0, −1, −2 …; y' = ψ(x)"""
        return self.builder.op("lgamma", self)  # type: ignore[attr-defined]

    def linear(self, *operands: Operand, act: str) -> Any:  # noqa: E501
        """y = act(x·w + bias), from (x, w[, bias]), w of shape [inputs, outputs]"""
        return self.builder.op("linear", self, *operands, act=act)  # type: ignore[attr-defined]

    def llama_decoder_block(self, *operands: Operand, heads: int, kv_heads: int, eps: float, causal: bool) -> Any:  # noqa: E501
        """Llama's layer: s = x + attention of rotated heads of rms_norm(x), y = s + swiglu_block(rms_norm(s)), from (x, ln1_g, ln1_b, q_w, k_w, v_w, o_w, ln2_g, ln2_b, gate_w, up_w, down_w, cos, sin[, mask])"""
        return self.builder.op("llama_decoder_block", self, *operands, heads=heads, kv_heads=kv_heads, eps=eps, causal=causal)  # type: ignore[attr-defined]

    def log(self) -> Any:  # noqa: E501
        """y = ln x"""
        return self.builder.op("log", self)  # type: ignore[attr-defined]

    def log10(self) -> Any:  # noqa: E501
        """y = log₁₀ x; y' = 1/(x·ln 10)"""
        return self.builder.op("log10", self)  # type: ignore[attr-defined]

    def log1p(self) -> Any:  # noqa: E501
        """y = ln(1 + x)"""
        return self.builder.op("log1p", self)  # type: ignore[attr-defined]

    def log2(self) -> Any:  # noqa: E501
        """y = log₂ x; y' = 1/(x·ln 2)"""
        return self.builder.op("log2", self)  # type: ignore[attr-defined]

    def log_mel(self, other: Operand, /, floor: float, range: float, over: str, layout: str) -> Any:  # noqa: E501
        """y = (max(L, m − range) + 4)/4, L = log₁₀ max(P·Fᵀ, floor), P = re² + im² of the spectrum, F the filters, m = max L `over` a frame or a clip; mel ≤ floor gets no gradient; of what L < m − range get, bins that tie for m take equal shares"""
        return self.builder.op("log_mel", self, other, floor=floor, range=range, over=over, layout=layout)  # type: ignore[attr-defined]

    def log_softmax(self, axis: int = -1) -> Var:  # noqa: E501
        """The logarithm of the softmax along an axis."""
        return self._call("log_softmax", (axis,))  # type: ignore[attr-defined, no-any-return]

    def log_softmax_backward(self, other: Operand, /, axis: int) -> Any:  # noqa: E501
        """g − e^y·Σ g along `axis`"""
        return self.builder.op("log_softmax_backward", self, other, axis=axis)  # type: ignore[attr-defined]

    def logaddexp(self, other: Operand, /) -> Any:  # noqa: E501
        """y = ln(eᵃ + eᵇ), as max(a, b) + ln(1 + e^(−|a − b|)); ∂a = σ(a − b), ∂b = σ(b − a), both 0 at a = b = −∞"""
        return self.builder.op("logaddexp", self, other)  # type: ignore[attr-defined]

    def logcumsumexp(self, axis: int) -> Var:  # noqa: E501
        """The logarithm of the running sum of exponentials along an axis."""
        return self._call("logcumsumexp", (axis,))  # type: ignore[attr-defined, no-any-return]

    def logical_and(self, other: Var) -> Var:  # noqa: E501
        """Logical and of two bools."""
        return self._call("logical_and", (other,))  # type: ignore[attr-defined, no-any-return]

    def logical_not(self) -> Var:  # noqa: E501
        """Logical not of a bool."""
        return self._call("logical_not", ())  # type: ignore[attr-defined, no-any-return]

    def logical_or(self, other: Var) -> Var:  # noqa: E501
        """Logical or of two bools."""
        return self._call("logical_or", (other,))  # type: ignore[attr-defined, no-any-return]

    def logit(self) -> Var:  # noqa: E501
        """ln(x/(1 − x))."""
        return self._call("logit", ())  # type: ignore[attr-defined, no-any-return]

    def logsigmoid(self) -> Var:  # noqa: E501
        """ln σ(x)."""
        return self._call("logsigmoid", ())  # type: ignore[attr-defined, no-any-return]

    def logsumexp(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """ln Σ eˣ over axes, or over all, without overflow."""
        return self._call("logsumexp", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def lora_matmul(self, *operands: Operand, scale: float, transposed: bool) -> Any:  # noqa: E501
        """y = x·w + bias + scale·(x·a)·b, from (x, w, a, b[, bias]), with wᵀ, aᵀ and bᵀ if `transposed`; also x·a, which the derivative of b reads"""
        return self.builder.op("lora_matmul", self, *operands, scale=scale, transposed=transposed)  # type: ignore[attr-defined]

    def lsq(self, other: Operand, /, lo: int, hi: int, factor: str, axis: int | None = None) -> Any:  # noqa: E501
        """y = clamp(round(x/s), lo, hi)·s, halves to even; x̄ = ȳ where lo ≤ x/s ≤ hi, else 0; s̄ = κ·Σ ψ(x/s)·ȳ with ψ(z) = round(z) − z in the range, lo or hi outside"""
        return self.builder.op("lsq", self, other, lo=lo, hi=hi, factor=factor, axis=axis)  # type: ignore[attr-defined]

    def lsq_backward(self, other: Operand, b: Operand, /, lo: int, hi: int, factor: str, axis: int | None = None) -> Any:  # noqa: E501
        """x̄ and s̄ of `lsq` from ȳ, x and s: x̄ = ȳ where lo ≤ x/s ≤ hi, else 0; s̄ = κ·Σ ψ(x/s)·ȳ"""
        return self.builder.op("lsq_backward", self, other, b, lo=lo, hi=hi, factor=factor, axis=axis)  # type: ignore[attr-defined]

    def lstm_of(self, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, c0: Var | None = None) -> tuple[Var, Var, Var]:  # noqa: E501
        """`lstm` on given weights, in the order of `rnn_of`."""
        return self._call("lstm_of", (weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths, c0))  # type: ignore[attr-defined, no-any-return]

    def lstsq(self, b: Var) -> Var:  # noqa: E501
        """The least-squares solution."""
        return self._call("lstsq", (b,))  # type: ignore[attr-defined, no-any-return]

    def lt(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a < b)"""
        return self.builder.op("lt", self, other)  # type: ignore[attr-defined]

    def lu(self) -> Any:  # noqa: E501
        """L·U = A[rows], packed: L below the diagonal (its own is 1), U from it on; rows (i32), and the sign of their permutation; the pivot is the first of the largest magnitudes; the factors of a singular matrix have a zero on the diagonal, and NaN as derivative"""
        return self.builder.op("lu", self)  # type: ignore[attr-defined]

    def lu_solve(self, other: Operand, b: Operand, /, transpose: bool, singular: str) -> Any:  # noqa: E501
        """X with A·X = B, or Aᵀ·X = B, from the factors and the rows that `lu` gives for A; batch axes broadcast; a zero or NaN on the diagonal of U is a fault, or NaN in X"""
        return self.builder.op("lu_solve", self, other, b, transpose=transpose, singular=singular)  # type: ignore[attr-defined]

    def masked_fill(self, mask: Var, value: float) -> Var:  # noqa: E501
        """`value` where `mask` is true."""
        return self._call("masked_fill", (mask, value))  # type: ignore[attr-defined, no-any-return]

    def matmul(self, other: Var, ta: bool = False, tb: bool = False) -> Var:  # noqa: E501
        """The matrix product; `ta` and `tb` transpose the last two axes of the operands."""
        return self._call("matmul", (other, ta, tb))  # type: ignore[attr-defined, no-any-return]

    def matmul_adam(self, *operands: Operand, ta: bool, tb: bool, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool) -> Any:  # noqa: E501
        """p', m', v' = adam(p, a·b, m, v, lr, t), from (a, b, p, m, v, lr, t): a step by the gradient a·b; one more scalar operand multiplies the gradient"""
        return self.builder.op("matmul_adam", self, *operands, ta=ta, tb=tb, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, decoupled=decoupled)  # type: ignore[attr-defined]

    def matmul_add(self, other: Operand, b: Operand, /, ta: bool, tb: bool) -> Any:  # noqa: E501
        """y = c + a·b, from (a, b, c); each element's sum begins with that of c"""
        return self.builder.op("matmul_add", self, other, b, ta=ta, tb=tb)  # type: ignore[attr-defined]

    def matmul_add_stack(self, other: Operand, b: Operand, /, ta: bool, tb: bool, reverse: bool) -> Any:  # noqa: E501
        """y = c + Σₜ a[t]·b[t], from (a, b, c); the sum of each element begins with c and goes through the stack from the first product to the last, or backwards with `reverse`"""
        return self.builder.op("matmul_add_stack", self, other, b, ta=ta, tb=tb, reverse=reverse)  # type: ignore[attr-defined]

    def matmul_bias_act(self, other: Operand, b: Operand, /, ta: bool, tb: bool, act: str) -> Any:  # noqa: E501
        """y = act(a·b + bias), the bias along the last axis"""
        return self.builder.op("matmul_bias_act", self, other, b, ta=ta, tb=tb, act=act)  # type: ignore[attr-defined]

    def matmul_dact(self, other: Operand, b: Operand, /, ta: bool, tb: bool, by: str) -> Any:  # noqa: E501
        """y = (a·b)·act'(x), from (a, b, r) with r = act(x): act' is 1 where r > 0 for relu, 1 − r² for tanh, r(1 − r) for sigmoid; `mul`: y = (a·b)·r; also the sum of y over all axes but the last"""
        return self.builder.op("matmul_dact", self, other, b, ta=ta, tb=tb, by=by)  # type: ignore[attr-defined]

    def matmul_sgd(self, *operands: Operand, ta: bool, tb: bool, weight_decay: float) -> Any:  # noqa: E501
        """p' = p − lr·(a·b + weight_decay·p), from (a, b, p, lr): a step of SGD by the gradient a·b; one more scalar operand multiplies the gradient"""
        return self.builder.op("matmul_sgd", self, *operands, ta=ta, tb=tb, weight_decay=weight_decay)  # type: ignore[attr-defined]

    def matmul_sgd_momentum(self, *operands: Operand, ta: bool, tb: bool, momentum: float, dampening: float, nesterov: bool, weight_decay: float) -> Any:  # noqa: E501
        """p', buf' = sgd_momentum(p, a·b, buf, lr, t), from (a, b, p, buf, lr, t): a step by the gradient a·b; one more scalar operand multiplies the gradient"""
        return self.builder.op("matmul_sgd_momentum", self, *operands, ta=ta, tb=tb, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=weight_decay)  # type: ignore[attr-defined]

    def matrix_function(self, function: str) -> Any:  # noqa: E501
        """Y = U·diag(f(w))·Uᵀ, w and U of (A + Aᵀ)/2 = U·diag(w)·Uᵀ; Ā = U·(Γ∘(Uᵀ·sym Ȳ·U))·Uᵀ with the divided differences Γᵢⱼ = (f(wᵢ) − f(wⱼ))/(wᵢ − wⱼ), f'(wᵢ) at equal values; for the roots a Sylvester equation"""
        return self.builder.op("matrix_function", self, function=function)  # type: ignore[attr-defined]

    def matrix_function_slope(self, other: Operand, /, function: str) -> Any:  # noqa: E501
        """U·(Γ∘(Uᵀ·sym E·U))·Uᵀ, the derivative in the direction E of f((A + Aᵀ)/2), which is U·diag(f(w))·Uᵀ, for exp and log; Γᵢⱼ = (f(wᵢ) − f(wⱼ))/(wᵢ − wⱼ), f'(wᵢ) at equal values"""
        return self.builder.op("matrix_function_slope", self, other, function=function)  # type: ignore[attr-defined]

    def max(self, other: Operand, /) -> Any:  # noqa: E501
        """y = max(a, b), NaN if either is; a tie shares the gradient evenly"""
        return self.builder.op("max", self, other)  # type: ignore[attr-defined]

    def max_pool1d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The largest element of each window."""
        return self._call("max_pool1d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def max_pool1d_with_indices(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
        """The largest element of each window, and its position in its plane."""
        return self._call("max_pool1d_with_indices", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def max_pool2d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The largest element of each window."""
        return self._call("max_pool2d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def max_pool2d_backward(self, other: Operand, /, in_hw: Sequence[int]) -> Any:  # noqa: E501
        """dx[n, c, index[n, c, i, j]] += dy[n, c, i, j] on planes of in_hw, nothing for the index −1; the transpose of max_pool2d_gather"""
        return self.builder.op("max_pool2d_backward", self, other, in_hw=in_hw)  # type: ignore[attr-defined]

    def max_pool2d_gather(self, other: Operand, /) -> Any:  # noqa: E501
        """y[n, c, i, j] = x[n, c, index[n, c, i, j]] in each plane of x, 0 for the index −1"""
        return self.builder.op("max_pool2d_gather", self, other)  # type: ignore[attr-defined]

    def max_pool2d_with_indices(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
        """The largest element of each window, and its position in its plane."""
        return self._call("max_pool2d_with_indices", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def max_pool3d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The largest element of each window."""
        return self._call("max_pool3d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def max_pool3d_with_indices(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
        """The largest element of each window, and its position in its plane."""
        return self._call("max_pool3d_with_indices", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def maximum(self, other: Operand) -> Var:  # noqa: E501
        """The larger of both, which broadcast."""
        return self._call("maximum", (other,))  # type: ignore[attr-defined, no-any-return]

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """The mean over axes, or over all."""
        return self._call("mean", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def min(self, other: Operand, /) -> Any:  # noqa: E501
        """y = min(a, b), NaN if either is; a tie shares the gradient evenly"""
        return self.builder.op("min", self, other)  # type: ignore[attr-defined]

    def min_pool1d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The smallest element of each window of x [N, C, L]; NaN if the window has one. Padding never wins."""
        return self._call("min_pool1d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def min_pool2d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The smallest element of each window of x [N, C, H, W]; NaN if the window has one. Padding never wins."""
        return self._call("min_pool2d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def min_pool3d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
        """The smallest element of each window of x [N, C, D, H, W]; NaN if the window has one. Padding never wins."""
        return self._call("min_pool3d", (kernel, stride, padding, ceil_mode, dilation))  # type: ignore[attr-defined, no-any-return]

    def minimum(self, other: Operand) -> Var:  # noqa: E501
        """The smaller of both, which broadcast."""
        return self._call("minimum", (other,))  # type: ignore[attr-defined, no-any-return]

    def mish(self) -> Var:  # noqa: E501
        """x·tanh(softplus(x))."""
        return self._call("mish", ())  # type: ignore[attr-defined, no-any-return]

    def movedim(self, source: Axes, to: Axes) -> Var:  # noqa: E501
        """Axes moved to other places."""
        return self._call("movedim", (source, to))  # type: ignore[attr-defined, no-any-return]

    def mse(self, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
        """The squared error."""
        return self._call("mse", (target, reduction))  # type: ignore[attr-defined, no-any-return]

    def mse_loss(self, other: Operand, /, reduction: str) -> Any:  # noqa: E501
        """y = (a − b)², each, averaged or summed"""
        return self.builder.op("mse_loss", self, other, reduction=reduction)  # type: ignore[attr-defined]

    def mul(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a·b"""
        return self.builder.op("mul", self, other)  # type: ignore[attr-defined]

    def nan_to_num(self, nan: float = 0.0, high: float | None = None, low: float | None = None) -> Var:  # noqa: E501
        """NaN and infinities replaced by numbers."""
        return self._call("nan_to_num", (nan, high, low))  # type: ignore[attr-defined, no-any-return]

    def narrow(self, axis: int, start: int, length: int) -> Var:  # noqa: E501
        """`length` elements along an axis, from `start` on."""
        return self._call("narrow", (axis, start, length))  # type: ignore[attr-defined, no-any-return]

    def ne(self, other: Operand, /) -> Any:  # noqa: E501
        """y = (a ≠ b)"""
        return self.builder.op("ne", self, other)  # type: ignore[attr-defined]

    def neg(self) -> Any:  # noqa: E501
        """y = −x"""
        return self.builder.op("neg", self)  # type: ignore[attr-defined]

    def nextafter(self, other: Operand, /) -> Any:  # noqa: E501
        """y = the next number of the type after a towards b; b where they are equal"""
        return self.builder.op("nextafter", self, other)  # type: ignore[attr-defined]

    def norm(self, p: float = 2.0, axis: Axes = None) -> Var:  # noqa: E501
        """The p-norm over axes, or over all."""
        return self._call("norm", (p, axis))  # type: ignore[attr-defined, no-any-return]

    def not_(self) -> Any:  # noqa: E501
        """y = ¬a"""
        return self.builder.op("not", self)  # type: ignore[attr-defined]

    def not_equal(self, other: Operand) -> Var:  # noqa: E501
        """Whether a ≠ b, as a bool."""
        return self._call("not_equal", (other,))  # type: ignore[attr-defined, no-any-return]

    def one_hot(self, depth: int, dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """1 at each index, 0 elsewhere, along a new last axis."""
        return self._call("one_hot", (depth, dtype))  # type: ignore[attr-defined, no-any-return]

    def optimization_barrier(self, apart: int | None = None) -> Any:  # noqa: E501
        """y = x; passes treat y as another value than x, so a computation that is repeated from y is not merged with the original"""
        return self.builder.op("optimization_barrier", self, apart=apart)  # type: ignore[attr-defined]

    def or_(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a ∨ b"""
        return self.builder.op("or", self, other)  # type: ignore[attr-defined]

    def outer(self, other: Var) -> Var:  # noqa: E501
        """The outer product of two vectors."""
        return self._call("outer", (other,))  # type: ignore[attr-defined, no-any-return]

    def pad(self, low: Shape, high: Shape, value: float = 0.0) -> Var:  # noqa: E501
        """`low[i]` elements before and `high[i]` after each axis i."""
        return self._call("pad", (low, high, value))  # type: ignore[attr-defined, no-any-return]

    def pad_with(self, low: Shape, high: Shape, mode: str) -> Var:  # noqa: E501
        """As `pad`, with elements of the value itself: `reflect`, `replicate` or `circular`."""
        return self._call("pad_with", (low, high, mode))  # type: ignore[attr-defined, no-any-return]

    def pixel_shuffle(self, r: int) -> Var:  # noqa: E501
        """Channels to pixels, by a factor."""
        return self._call("pixel_shuffle", (r,))  # type: ignore[attr-defined, no-any-return]

    def pixel_unshuffle(self, r: int) -> Var:  # noqa: E501
        """Pixels to channels, by a factor."""
        return self._call("pixel_unshuffle", (r,))  # type: ignore[attr-defined, no-any-return]

    def polar(self) -> Any:  # noqa: E501
        """A = Q·H for m ≥ n: Q with orthonormal columns, H = √(AᵀA); Ā = Q·(Z + H̄) + (1 − QQᵀ)·Q̄·H⁻¹, where H·Z + Z·H = K − Kᵀ and K = QᵀQ̄ − H̄·H; right at equal singular values; where Q is not unique, NaN"""
        return self.builder.op("polar", self)  # type: ignore[attr-defined]

    def polygamma(self, order: int) -> Any:  # noqa: E501
        """y = ψ⁽ⁿ⁾(x) with n = order, the n-th derivative of digamma; y' = ψ⁽ⁿ⁺¹⁾(x)"""
        return self.builder.op("polygamma", self, order=order)  # type: ignore[attr-defined]

    def positive_scale(self) -> Any:  # noqa: E501
        """y = x; an element that is no normal number above 0 ends the step, so that 1/y is finite"""
        return self.builder.op("positive_scale", self)  # type: ignore[attr-defined]

    def pow(self, other: Operand, /) -> Any:  # noqa: E501
        """y = aᵇ, as C's pow; integers wrap, and an exponent of an integer below 0 is an error of the step"""
        return self.builder.op("pow", self, other)  # type: ignore[attr-defined]

    def prelu(self, slope: Var) -> Var:  # noqa: E501
        """x, times a slope where x < 0."""
        return self._call("prelu", (slope,))  # type: ignore[attr-defined, no-any-return]

    def prod(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """The product over axes, or over all."""
        return self._call("prod", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def q_conv2d(self, *operands: Operand, stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], groups: int, x_zp: int, w_zp: int, out_zp: int, s_x: float, s_w: float, s_out: float, to: DTypeLike, zeros: bool, scales: bool, ste: str) -> Any:  # noqa: E501
        """as q_matmul, with the sums of conv2d over x − x_zp and w − w_zp (x NCHW, w [O, C/groups, kh, kw], bias, zeros and scales [O]); places beyond the edge count as x_zp, so they contribute 0"""
        return self.builder.op("q_conv2d", self, *operands, stride=stride, pad=pad, dilation=dilation, groups=groups, x_zp=x_zp, w_zp=w_zp, out_zp=out_zp, s_x=s_x, s_w=s_w, s_out=s_out, to=to, zeros=zeros, scales=scales, ste=ste)  # type: ignore[attr-defined]

    def q_matmul(self, *operands: Operand, x_zp: int, w_zp: int, out_zp: int, s_x: float, s_w: float, s_out: float, to: DTypeLike, zeros: bool, scales: bool, ste: str) -> Any:  # noqa: E501
        """s = bias + Σₖ (x[.., k] − x_zp)·(w[k, j] − w_zp), exactly, from (x, w[, bias][, zeros][, scales]); y = clamp(round(s·s_x·s_w/s_out) + out_zp, −128, 127), halves to even, or s as i32, which wraps, or s·s_x·s_w as f32; a scale that is not above 0 and finite ends the step; with zeros w_zp[j] is that of column j, with scales s_w[j]; the derivative is that of the real numbers s_x·(x − x_zp), s_w·(w − w_zp), s_x·s_w·bias, s_out·(y − out_zp), 0 where y is cut off with ste=masked, and that of the codes with ste=codes; zeros and scales have none"""
        return self.builder.op("q_matmul", self, *operands, x_zp=x_zp, w_zp=w_zp, out_zp=out_zp, s_x=s_x, s_w=s_w, s_out=s_out, to=to, zeros=zeros, scales=scales, ste=ste)  # type: ignore[attr-defined]

    def qr(self) -> tuple[Var, Var]:  # noqa: E501
        """The QR factors."""
        return self._call("qr", ())  # type: ignore[attr-defined, no-any-return]

    def quantize(self, *operands: Operand, to: DTypeLike, lo: int, hi: int, ste: str, axis: int | None = None) -> Any:  # noqa: E501
        """q = clamp(round(x·(1/s)) + z, lo, hi), halves to even, NaN to z, with scale s and zero point z (0 without one); the derivative of s·(q − z) with respect to x is 1, and with ste=clip 0 where q is cut off"""
        return self.builder.op("quantize", self, *operands, to=to, lo=lo, hi=hi, ste=ste, axis=axis)  # type: ignore[attr-defined]

    def ravel_index(self, sizes: Sequence[int]) -> Any:  # noqa: E501
        """the positions (i64), in row-major order, of the elements of a tensor with axes of `sizes` whose coordinates are along the last axis of x"""
        return self.builder.op("ravel_index", self, sizes=sizes)  # type: ignore[attr-defined]

    def real(self) -> Any:  # noqa: E501
        """y = Re z"""
        return self.builder.op("real", self)  # type: ignore[attr-defined]

    def recip(self) -> Any:  # noqa: E501
        """y = 1/x"""
        return self.builder.op("recip", self)  # type: ignore[attr-defined]

    def reduce_max(self, axes: Sequence[int], keep: bool) -> Any:  # noqa: E501
        """y = max x over `axes`, NaN if any is; ties share the gradient evenly"""
        return self.builder.op("reduce_max", self, axes=axes, keep=keep)  # type: ignore[attr-defined]

    def reduce_mean(self, axes: Sequence[int], keep: bool) -> Any:  # noqa: E501
        """y = Σ x / n over `axes`; NaN for n = 0"""
        return self.builder.op("reduce_mean", self, axes=axes, keep=keep)  # type: ignore[attr-defined]

    def reduce_min(self, axes: Sequence[int], keep: bool) -> Any:  # noqa: E501
        """y = min x over `axes`, NaN if any is; ties share the gradient evenly"""
        return self.builder.op("reduce_min", self, axes=axes, keep=keep)  # type: ignore[attr-defined]

    def reduce_prod(self, axes: Sequence[int], keep: bool) -> Any:  # noqa: E501
        """y = Π x over `axes`; empty products are 1; x̄ᵢ = ȳ·Π_{j≠i} xⱼ, without division"""
        return self.builder.op("reduce_prod", self, axes=axes, keep=keep)  # type: ignore[attr-defined]

    def reduce_sum(self, axes: Sequence[int], keep: bool) -> Any:  # noqa: E501
        """y = Σ x over `axes`; empty sums are 0"""
        return self.builder.op("reduce_sum", self, axes=axes, keep=keep)  # type: ignore[attr-defined]

    def relu(self) -> Any:  # noqa: E501
        """y = max(x, 0); y'(0) = 0"""
        return self.builder.op("relu", self)  # type: ignore[attr-defined]

    def relu6(self) -> Var:  # noqa: E501
        """x between 0 and 6."""
        return self._call("relu6", ())  # type: ignore[attr-defined, no-any-return]

    def remainder(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a − ⌊a/b⌋·b, with the sign of b; ∂a = 1, ∂b = −⌊a/b⌋; an integer b = 0 is an error of the step"""
        return self.builder.op("remainder", self, other)  # type: ignore[attr-defined]

    def repeat_interleave(self, times: int, axis: int) -> Var:  # noqa: E501
        """Each element repeated along an axis."""
        return self._call("repeat_interleave", (times, axis))  # type: ignore[attr-defined, no-any-return]

    def reshape(self, shape: Shape) -> Var:  # noqa: E501
        """The same elements with another shape. One size may be -1: it is computed."""
        return self._call("reshape", (shape,))  # type: ignore[attr-defined, no-any-return]

    def residual_layer_norm(self, *operands: Operand, eps: float) -> Any:  # noqa: E501
        """y = layer_norm of s = (x + bias) + res, from (x, res[, bias], γ, β); also s, mean and rstd"""
        return self.builder.op("residual_layer_norm", self, *operands, eps=eps)  # type: ignore[attr-defined]

    def residual_rms_norm(self, *operands: Operand, eps: float) -> Any:  # noqa: E501
        """y = rms_norm of s = (x + bias) + res, from (x, res[, bias], γ, β); also s and rstd"""
        return self.builder.op("residual_rms_norm", self, *operands, eps=eps)  # type: ignore[attr-defined]

    def rfft(self, n: int | None = None, axis: int = -1, norm: str = "backward") -> Var:  # noqa: E501
        """The Fourier transform of real numbers: half a spectrum."""
        return self._call("rfft", (n, axis, norm))  # type: ignore[attr-defined, no-any-return]

    def rms_norm(self, gamma: Var, beta: Var, eps: float = 1e-5) -> Var:  # noqa: E501
        """RMS norm with a gain and a shift."""
        return self._call("rms_norm", (gamma, beta, eps))  # type: ignore[attr-defined, no-any-return]

    def rms_norm_backward(self, other: Operand, b: Operand, c: Operand, /) -> Any:  # noqa: E501
        """dx = r(γdy − x·r²·mean(x⊙γdy)), dγ = Σ dy⊙x·r, dβ = Σ dy, from (dy, x, γ, r)"""
        return self.builder.op("rms_norm_backward", self, other, b, c)  # type: ignore[attr-defined]

    def rng_fold(self, other: Operand, /) -> Any:  # noqa: E501
        """a key of the same step whose seed is made from the key's seed and a number"""
        return self.builder.op("rng_fold", self, other)  # type: ignore[attr-defined]

    def rng_int(self, stream: int, low: int, high: int, dtype: DTypeLike, shape: Sequence[int]) -> Any:  # noqa: E501
        """whole numbers from low to high − 1, equally likely to 2⁻⁶⁴, of stream `stream` under the key"""
        return self.builder.op("rng_int", self, stream=stream, low=low, high=high, dtype=dtype, shape=shape)  # type: ignore[attr-defined]

    def rng_next(self) -> Any:  # noqa: E501
        """the key of the next step: its upper two words, a counter, plus 1"""
        return self.builder.op("rng_next", self)  # type: ignore[attr-defined]

    def rng_normal(self, stream: int, dtype: DTypeLike, shape: Sequence[int]) -> Any:  # noqa: E501
        """standard normal (Box–Muller), of stream `stream` under the key"""
        return self.builder.op("rng_normal", self, stream=stream, dtype=dtype, shape=shape)  # type: ignore[attr-defined]

    def rng_uniform(self, stream: int, dtype: DTypeLike, shape: Sequence[int]) -> Any:  # noqa: E501
        """uniform in [0, 1), of stream `stream` under the key"""
        return self.builder.op("rng_uniform", self, stream=stream, dtype=dtype, shape=shape)  # type: ignore[attr-defined]

    def rnn_of(self, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, nonlinearity: str = "tanh") -> tuple[Var, Var]:  # noqa: E501
        """`rnn` on given weights: for each layer and direction w_ih, w_hh, b_ih, b_hh."""
        return self._call("rnn_of", (weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths, nonlinearity))  # type: ignore[attr-defined, no-any-return]

    def roll(self, shift: int, axis: int) -> Var:  # noqa: E501
        """Elements shifted along an axis, around its end."""
        return self._call("roll", (shift, axis))  # type: ignore[attr-defined, no-any-return]

    def root_sum_squares(self, *operands: Operand) -> Any:  # noqa: E501
        """√s in f64, from (s, x, …) with s = Σ x² over all elements of the tensors x, …; where s overflowed or underflowed in its type, √Σ x² again with scaled terms"""
        return self.builder.op("root_sum_squares", self, *operands)  # type: ignore[attr-defined]

    def rope(self, other: Operand, b: Operand, /, layout: str, heads: int, pairing: str, inverse: bool) -> Any:  # noqa: E501
        """each pair (a, b) of a head of x becomes (a·cos − b·sin, b·cos + a·sin) of its position, with −sin if `inverse`; elements beyond 2 × the tables' last axis pass through"""
        return self.builder.op("rope", self, other, b, layout=layout, heads=heads, pairing=pairing, inverse=inverse)  # type: ignore[attr-defined]

    def round(self) -> Any:  # noqa: E501
        """y = the nearest integer, halves to even"""
        return self.builder.op("round", self)  # type: ignore[attr-defined]

    def rsqrt(self) -> Any:  # noqa: E501
        """y = 1/√x"""
        return self.builder.op("rsqrt", self)  # type: ignore[attr-defined]

    def sample(self, other: Operand, /, stream: int, temperature: float, top_k: int, top_p: float) -> Any:  # noqa: E501
        """a token (i32) for each row of the last axis, of stream `stream` under the key: of the logits divided by `temperature`, the `top_k` largest (0: all), of these the fewest whose softmax reaches `top_p`; one uniform number chooses among them by their softmax; the largest if `temperature` is 0; ties go to the smaller index"""
        return self.builder.op("sample", self, other, stream=stream, temperature=temperature, top_k=top_k, top_p=top_p)  # type: ignore[attr-defined]

    def scatter(self, other: Operand, b: Operand, /, axis: int, mode: str, own: bool) -> Any:  # noqa: E501
        """x with the updates set, added, multiplied in, or joined by max or min at the indices along `axis`: slices (as gather takes them), or, if `own`, single elements (as take_along_axis does)"""
        return self.builder.op("scatter", self, other, b, axis=axis, mode=mode, own=own)  # type: ignore[attr-defined]

    def scatter_add(self, other: Operand, /, axis: int, size: int) -> Any:  # noqa: E501
        """zeros of `size` along `axis`, with the update slices added at the indices"""
        return self.builder.op("scatter_add", self, other, axis=axis, size=size)  # type: ignore[attr-defined]

    def scatter_along_axis(self, other: Operand, /, axis: int, size: int) -> Any:  # noqa: E501
        """zeros of `size` along `axis`, with update[.., i, ..] added at index[.., i, ..]"""
        return self.builder.op("scatter_along_axis", self, other, axis=axis, size=size)  # type: ignore[attr-defined]

    def scatter_nd(self, indices: Var, updates: Var, mode: str = "set") -> Var:  # noqa: E501
        """This with updates at coordinates: set, or joined by `add`, `mul`, `max` or `min`."""
        return self._call("scatter_nd", (indices, updates, mode))  # type: ignore[attr-defined, no-any-return]

    def select(self, a: Operand, b: Operand) -> Var:  # noqa: E501
        """`a` where this bool is true, `b` elsewhere; one of them may be a number."""
        return self._call("select", (a, b))  # type: ignore[attr-defined, no-any-return]

    def selective_scan(self, *operands: Operand, d: bool, h0: bool) -> Any:  # noqa: E501
        """h_t = exp(Δ_t·A)∘h_(t−1) + Δ_t·B_t·x_t, y_t = Σₙ C_t·h_t + D∘x_t; y and the last h, from (x, Δ, A, B, C[, D][, h_0]): x, Δ [B,S,H], A [H,N], B, C [B,S,N], D [H], h_0 [B,H,N], else 0; A = −∞ has the decay 0 for Δ > 0, and 1 for Δ = 0"""
        return self.builder.op("selective_scan", self, *operands, d=d, h0=h0)  # type: ignore[attr-defined]

    def selective_scan_backward(self, *operands: Operand, d: bool, h0: bool, last: bool) -> Any:  # noqa: E501
        """dx, dΔ [B,S,H], dA [B,H,N], dB, dC [B,S,N][, dD [B,H]][, dh_0 [B,H,N]] of selective_scan, from (dy[, dlast], x, Δ, A, B, C[, D][, h_0]), dlast the gradient of the last h"""
        return self.builder.op("selective_scan_backward", self, *operands, d=d, h0=h0, last=last)  # type: ignore[attr-defined]

    def selective_scan_keep(self, *operands: Operand, d: bool, h0: bool, every: int) -> Any:  # noqa: E501
        """selective_scan, and the h before every `every`-th step: [B,⌈S/every⌉,H,N]"""
        return self.builder.op("selective_scan_keep", self, *operands, d=d, h0=h0, every=every)  # type: ignore[attr-defined]

    def selective_scan_kept_backward(self, *operands: Operand, d: bool, h0: bool, last: bool, every: int) -> Any:  # noqa: E501
        """the results of selective_scan_backward, from its operands and then the kept states; h_0 is not read"""
        return self.builder.op("selective_scan_kept_backward", self, *operands, d=d, h0=h0, last=last, every=every)  # type: ignore[attr-defined]

    def selu(self) -> Var:  # noqa: E501
        """The scaled exponential linear unit."""
        return self._call("selu", ())  # type: ignore[attr-defined, no-any-return]

    def sgd(self, *operands: Operand, weight_decay: float) -> Any:  # noqa: E501
        """p' = p − lr·(g + weight_decay·p), from (p, g) of each param, lr; one more scalar operand multiplies g"""
        return self.builder.op("sgd", self, *operands, weight_decay=weight_decay)  # type: ignore[attr-defined]

    def sgd_momentum(self, *operands: Operand, momentum: float, dampening: float, nesterov: bool, weight_decay: float) -> Any:  # noqa: E501
        """d = g + weight_decay·p; buf' = d if t = 1, momentum·buf + (1 − dampening)·d else; p' = p − lr·buf' (nesterov: p − lr·(d + momentum·buf')), from (p, g, buf) of each param, lr, t; one more scalar operand multiplies g"""
        return self.builder.op("sgd_momentum", self, *operands, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=weight_decay)  # type: ignore[attr-defined]

    def sgd_rows(self, other: Operand, b: Operand, c: Operand, /) -> Any:  # noqa: E501
        """p' = p − lr·g for the rows of p that an index names, from (p, g, indices, lr): g holds a gradient row for each index, and rows of equal indices are added up first"""
        return self.builder.op("sgd_rows", self, other, b, c)  # type: ignore[attr-defined]

    def shared_linear_pair(self, other: Operand, b: Operand, /) -> Any:  # noqa: E501
        """x·w1 and x·w2"""
        return self.builder.op("shared_linear_pair", self, other, b)  # type: ignore[attr-defined]

    def sigmoid(self) -> Any:  # noqa: E501
        """y = 1/(1 + e⁻ˣ)"""
        return self.builder.op("sigmoid", self)  # type: ignore[attr-defined]

    def sign(self) -> Any:  # noqa: E501
        """y = −1, 0 or 1 (±0 and NaN stay)"""
        return self.builder.op("sign", self)  # type: ignore[attr-defined]

    def silu(self) -> Any:  # noqa: E501
        """y = x·σ(x); y' = σ(1 + x(1 − σ))"""
        return self.builder.op("silu", self)  # type: ignore[attr-defined]

    def silu_grad(self) -> Any:  # noqa: E501
        """y = σ(1 + x(1 − σ)), the derivative of silu; y' = σ(1 − σ)(2 + x(1 − 2σ))"""
        return self.builder.op("silu_grad", self)  # type: ignore[attr-defined]

    def sin(self) -> Any:  # noqa: E501
        """y = sin x"""
        return self.builder.op("sin", self)  # type: ignore[attr-defined]

    def sinc(self) -> Var:  # noqa: E501
        """sin(πx)/(πx)."""
        return self._call("sinc", ())  # type: ignore[attr-defined, no-any-return]

    def sinh(self) -> Any:  # noqa: E501
        """y = ½(eˣ − e⁻ˣ)"""
        return self.builder.op("sinh", self)  # type: ignore[attr-defined]

    def slice(self, starts: Shape, limits: Shape, steps: Shape | None = None) -> Var:  # noqa: E501
        """Elements starts[i]..limits[i] along each axis i, in steps of steps[i]."""
        return self._call("slice", (starts, limits, steps))  # type: ignore[attr-defined, no-any-return]

    def sliding_window(self, axis: int, size: int, step: int = 1) -> Var:  # noqa: E501
        """Windows along an axis, in steps of `step`; their elements are a new last axis."""
        return self._call("sliding_window", (axis, size, step))  # type: ignore[attr-defined, no-any-return]

    def slogdet(self) -> tuple[Var, Var]:  # noqa: E501
        """The sign and the logarithm of the absolute determinant."""
        return self._call("slogdet", ())  # type: ignore[attr-defined, no-any-return]

    def smooth_l1_loss(self, target: Var, beta: float = 1.0, reduction: str = "mean") -> Var:  # noqa: E501
        """The smooth L1 loss."""
        return self._call("smooth_l1_loss", (target, beta, reduction))  # type: ignore[attr-defined, no-any-return]

    def softmax(self, axis: int = -1) -> Var:  # noqa: E501
        """The softmax along an axis."""
        return self._call("softmax", (axis,))  # type: ignore[attr-defined, no-any-return]

    def softmax_backward(self, other: Operand, /, axis: int) -> Any:  # noqa: E501
        """y⊙(g − Σ y⊙g) along `axis`"""
        return self.builder.op("softmax_backward", self, other, axis=axis)  # type: ignore[attr-defined]

    def softmax_cross_entropy(self, other: Operand, /, ignore_index: int, label_smoothing: float) -> Any:  # noqa: E501
        """loss = −Σ target·ln softmax(x) for each row, target = (1 − ε)·onehot(label) + ε/C, 0 where label = ignore_index; lse = ln Σ eˣ"""
        return self.builder.op("softmax_cross_entropy", self, other, ignore_index=ignore_index, label_smoothing=label_smoothing)  # type: ignore[attr-defined]

    def softmax_cross_entropy_backward(self, other: Operand, b: Operand, c: Operand, /, ignore_index: int, label_smoothing: float) -> Any:  # noqa: E501
        """dx = (e^(x − lse) − target)·dloss, with the target of softmax_cross_entropy; 0 in ignored rows"""
        return self.builder.op("softmax_cross_entropy_backward", self, other, b, c, ignore_index=ignore_index, label_smoothing=label_smoothing)  # type: ignore[attr-defined]

    def softmin(self, axis: int = -1) -> Var:  # noqa: E501
        """softmax(−x)."""
        return self._call("softmin", (axis,))  # type: ignore[attr-defined, no-any-return]

    def softplus(self) -> Any:  # noqa: E501
        """y = ln(1 + eˣ); y' = σ(x) = 1 − e⁻ʸ"""
        return self.builder.op("softplus", self)  # type: ignore[attr-defined]

    def softshrink(self, limit: float = 0.5) -> Var:  # noqa: E501
        """x moved towards 0 by `limit`."""
        return self._call("softshrink", (limit,))  # type: ignore[attr-defined, no-any-return]

    def softsign(self) -> Var:  # noqa: E501
        """x/(1 + |x|)."""
        return self._call("softsign", ())  # type: ignore[attr-defined, no-any-return]

    def solve(self, b: Var) -> Var:  # noqa: E501
        """The solution x of a·x = b."""
        return self._call("solve", (b,))  # type: ignore[attr-defined, no-any-return]

    def sort(self, axis: int = -1, descending: bool = False) -> tuple[Var, Var]:  # noqa: E501
        """The sorted elements and their positions."""
        return self._call("sort", (axis, descending))  # type: ignore[attr-defined, no-any-return]

    def spectral_quotient(self, other: Operand, /, by: str) -> Any:  # noqa: E501
        """yᵢⱼ = xᵢⱼ/(wⱼ − wᵢ), 0 for i = j; or xᵢⱼ/(wᵢ + wⱼ), or xᵢⱼ/wⱼ. Where |divisor| ≤ 16·ε·max|w|: 0 if |xᵢⱼ| ≤ 16·ε·√n·max|x|, else NaN"""
        return self.builder.op("spectral_quotient", self, other, by=by)  # type: ignore[attr-defined]

    def splat_prepare(self, other: Operand, b: Operand, c: Operand, d: Operand, e: Operand, /, width: int, height: int, tile: int, radius_scale: float, alpha_cutoff: float, transmittance: float, gamma: float, background: Sequence[float], near: float, far: float, max_list: int, max_steps: int, truncate: bool) -> Any:  # noqa: E501
        """what rays need of each splat, from the operands of splat_render: 16 numbers (the matrix that maps its ellipsoid to the unit ball, that matrix times camera − centre, opacity, colour), the first column, the one behind the last, the first row, the one behind the last that it may touch, and the positions of the splats, nearest first"""
        return self.builder.op("splat_prepare", self, other, b, c, d, e, width=width, height=height, tile=tile, radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, transmittance=transmittance, gamma=gamma, background=background, near=near, far=far, max_list=max_list, max_steps=max_steps, truncate=truncate)  # type: ignore[attr-defined]

    def splat_rasterize(self, other: Operand, b: Operand, c: Operand, /, width: int, height: int, tile: int, radius_scale: float, alpha_cutoff: float, transmittance: float, gamma: float, background: Sequence[float], near: float, far: float, max_list: int, max_steps: int, truncate: bool) -> Any:  # noqa: E501
        """the results of splat_render, from those of splat_prepare and the view"""
        return self.builder.op("splat_rasterize", self, other, b, c, width=width, height=height, tile=tile, radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, transmittance=transmittance, gamma=gamma, background=background, near=near, far=far, max_list=max_list, max_steps=max_steps, truncate=truncate)  # type: ignore[attr-defined]

    def splat_render(self, other: Operand, b: Operand, c: Operand, d: Operand, e: Operand, /, width: int, height: int, tile: int, radius_scale: float, alpha_cutoff: float, transmittance: float, gamma: float, background: Sequence[float], near: float, far: float, max_list: int, max_steps: int, truncate: bool) -> Any:  # noqa: E501
        """the image [height, width, 4] of Gaussian splats, and how much of the light from behind passes them, T [height, width]; front to back, colour += T·α·c and T *= 1 − α with α = opacity·exp(−½ρ²), ρ the distance of the ray from the centre in units of the axes exp(log-scale)·radius_scale; a pixel is (max(0, colour + T·background)^gamma, 1 − T); from (positions [N,3], log-scales [N,3], quaternions wxyz [N,4], opacities [N], colours [N,3] or harmonics [N,K,3], view [4,3]: camera, right, up, forward); the ray of pixel (i, j) is (j + ½ − width/2)·right + (height/2 − i − ½)·up + forward; nearest centres first, ties by index; left out are α < alpha_cutoff, depths outside near..far, and what stands behind T < transmittance; more than max_list splats of a tile or max_steps of a pixel are a fault, or with truncate are left out"""
        return self.builder.op("splat_render", self, other, b, c, d, e, width=width, height=height, tile=tile, radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, transmittance=transmittance, gamma=gamma, background=background, near=near, far=far, max_list=max_list, max_steps=max_steps, truncate=truncate)  # type: ignore[attr-defined]

    def splat_render_backward(self, other: Operand, b: Operand, c: Operand, d: Operand, e: Operand, f: Operand, /, width: int, height: int, tile: int, radius_scale: float, alpha_cutoff: float, transmittance: float, gamma: float, background: Sequence[float], near: float, far: float, max_list: int, max_steps: int, truncate: bool) -> Any:  # noqa: E501
        """the gradients of positions, log-scales, quaternions, opacities, colours and view of splat_render, from (the cotangent of the image, the six operands); 0 for clamped opacities and colours; order, cutoffs and depth limits are constants"""
        return self.builder.op("splat_render_backward", self, other, b, c, d, e, f, width=width, height=height, tile=tile, radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, transmittance=transmittance, gamma=gamma, background=background, near=near, far=far, max_list=max_list, max_steps=max_steps, truncate=truncate)  # type: ignore[attr-defined]

    def splat_render_tangent(self, other: Operand, b: Operand, c: Operand, d: Operand, e: Operand, f: Operand, g: Operand, h: Operand, i: Operand, j: Operand, k: Operand, /, width: int, height: int, tile: int, radius_scale: float, alpha_cutoff: float, transmittance: float, gamma: float, background: Sequence[float], near: float, far: float, max_list: int, max_steps: int, truncate: bool) -> Any:  # noqa: E501
        """the tangents of both results of splat_render, from (the six operands, a tangent of each); order, cutoffs and depth limits are constants"""
        return self.builder.op("splat_render_tangent", self, other, b, c, d, e, f, g, h, i, j, k, width=width, height=height, tile=tile, radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, transmittance=transmittance, gamma=gamma, background=background, near=near, far=far, max_list=max_list, max_steps=max_steps, truncate=truncate)  # type: ignore[attr-defined]

    def split(self, sizes: Shape, axis: int) -> tuple[Var, ...]:  # noqa: E501
        """Parts of these sizes along an axis."""
        return self._call("split", (sizes, axis))  # type: ignore[attr-defined, no-any-return]

    def sqrt(self) -> Any:  # noqa: E501
        """y = √x"""
        return self.builder.op("sqrt", self)  # type: ignore[attr-defined]

    def square(self) -> Var:  # noqa: E501
        """x²."""
        return self._call("square", ())  # type: ignore[attr-defined, no-any-return]

    def squared_error_gradient(self, other: Operand, /, mean: bool, weight: float) -> Any:  # noqa: E501
        """y = Σ (a − b)² or its mean, and weight·(a − b) + weight·(a − b)"""
        return self.builder.op("squared_error_gradient", self, other, mean=mean, weight=weight)  # type: ignore[attr-defined]

    def squeeze(self, axis: Axes) -> Var:  # noqa: E501
        """Without axes of size 1."""
        return self._call("squeeze", (axis,))  # type: ignore[attr-defined, no-any-return]

    def stack(self, others: Var | Sequence[Var], axis: int) -> Var:  # noqa: E501
        """Values along a new axis."""
        return self._call("stack", (others, axis))  # type: ignore[attr-defined, no-any-return]

    def std(self, axis: Axes = None, correction: int = 1, keepdims: bool = False) -> Var:  # noqa: E501
        """The standard deviation over axes, or over all."""
        return self._call("std", (axis, correction, keepdims))  # type: ignore[attr-defined, no-any-return]

    def stop_gradient(self) -> Any:  # noqa: E501
        """y = x, with a zero derivative"""
        return self.builder.op("stop_gradient", self)  # type: ignore[attr-defined]

    def sub(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a − b"""
        return self.builder.op("sub", self, other)  # type: ignore[attr-defined]

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Var:  # noqa: E501
        """The sum over axes, or over all."""
        return self._call("sum", (axis, keepdims))  # type: ignore[attr-defined, no-any-return]

    def sum_pool1d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var:  # noqa: E501
        """The sum of each window of x [N, C, L]."""
        return self._call("sum_pool1d", (kernel, stride, padding, ceil_mode))  # type: ignore[attr-defined, no-any-return]

    def sum_pool2d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var:  # noqa: E501
        """The sum of each window of x [N, C, H, W]."""
        return self._call("sum_pool2d", (kernel, stride, padding, ceil_mode))  # type: ignore[attr-defined, no-any-return]

    def sum_pool2d_backward(self, in_hw: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]) -> Any:  # noqa: E501
        """dx[..] = Σ dy over the windows that contain the element; the transpose of sum_pool2d"""
        return self.builder.op("sum_pool2d_backward", self, in_hw=in_hw, kernel=kernel, stride=stride, pad=pad)  # type: ignore[attr-defined]

    def sum_pool3d(self, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False) -> Var:  # noqa: E501
        """The sum of each window of x [N, C, D, H, W]."""
        return self._call("sum_pool3d", (kernel, stride, padding, ceil_mode))  # type: ignore[attr-defined, no-any-return]

    def sum_squares(self, mean: bool) -> Any:  # noqa: E501
        """y = Σ x² over all elements, or their mean; an empty sum is 0"""
        return self.builder.op("sum_squares", self, mean=mean)  # type: ignore[attr-defined]

    def svd(self) -> tuple[Var, Var, Var]:  # noqa: E501
        """Singular values and vectors."""
        return self._call("svd", ())  # type: ignore[attr-defined, no-any-return]

    def swiglu(self, gate_first: bool, to: DTypeLike) -> Any:  # noqa: E501
        """y = silu(gate)·value in type `to`; the last axis of x is value, then gate, or gate, then value if `gate_first`"""
        return self.builder.op("swiglu", self, gate_first=gate_first, to=to)  # type: ignore[attr-defined]

    def swiglu_block(self, other: Operand, b: Operand, c: Operand, /) -> Any:  # noqa: E501
        """y = (silu(x·gate)·(x·up))·down, from (x, up, gate, down)"""
        return self.builder.op("swiglu_block", self, other, b, c)  # type: ignore[attr-defined]

    def sylvester(self, other: Operand, /, right: bool) -> Any:  # noqa: E501
        """X with H·X + X·H = K, or X·H = K if `right`, for the symmetric part of H; where two eigenvalues of H add to 0, or one is 0, X is NaN unless K has no part there; K̄ = X for X̄, H̄ = −sym(Xᵀ·K̄ + K̄·Xᵀ), or −sym(Xᵀ·K̄)"""
        return self.builder.op("sylvester", self, other, right=right)  # type: ignore[attr-defined]

    def t(self) -> Var:  # noqa: E501
        """The last two axes exchanged."""
        return self._call("t", ())  # type: ignore[attr-defined, no-any-return]

    def take_along_axis(self, indices: Var, axis: int) -> Var:  # noqa: E501
        """Elements along an axis, by their indices."""
        return self._call("take_along_axis", (indices, axis))  # type: ignore[attr-defined, no-any-return]

    def tan(self) -> Any:  # noqa: E501
        """y = tan x"""
        return self.builder.op("tan", self)  # type: ignore[attr-defined]

    def tanh(self) -> Any:  # noqa: E501
        """y = tanh x"""
        return self.builder.op("tanh", self)  # type: ignore[attr-defined]

    def tanh_parts(self, other: Operand, /) -> Any:  # noqa: E501
        """y = tanh(a + ib) and d = 1 − y²; results Re y, Im y, Re d, Im d; y' = d, d' = −2·y·d"""
        return self.builder.op("tanh_parts", self, other)  # type: ignore[attr-defined]

    def tanhshrink(self) -> Var:  # noqa: E501
        """x − tanh x."""
        return self._call("tanhshrink", ())  # type: ignore[attr-defined, no-any-return]

    def threshold(self, at: float, value: float) -> Var:  # noqa: E501
        """x where it is above `at`, else `value`."""
        return self._call("threshold", (at, value))  # type: ignore[attr-defined, no-any-return]

    def tile(self, times: Shape) -> Var:  # noqa: E501
        """The value repeated along each axis."""
        return self._call("tile", (times,))  # type: ignore[attr-defined, no-any-return]

    def top_k(self, k: int, axis: int = -1) -> tuple[Var, Var]:  # noqa: E501
        """The largest elements and their positions."""
        return self._call("top_k", (k, axis))  # type: ignore[attr-defined, no-any-return]

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Var:  # noqa: E501
        """The sum of a diagonal."""
        return self._call("trace", (offset, axis1, axis2))  # type: ignore[attr-defined, no-any-return]

    def transformer_layer(self, *operands: Operand, heads: int, act: str, eps1: float, eps2: float, bias: bool) -> Any:  # noqa: E501
        """BERT's layer, h = norm(attention_block(x) + x), y = norm(fc2(act(fc1 h)) + h), from (x, qkv_w, qkv_b, out_w, out_b, ln1_g, ln1_b, fc1_w, fc1_b, fc2_w, fc2_b, ln2_g, ln2_b, mask), or without the operands ending in b if not `bias`"""
        return self.builder.op("transformer_layer", self, *operands, heads=heads, act=act, eps1=eps1, eps2=eps2, bias=bias)  # type: ignore[attr-defined]

    def transpose(self, perm: Axes = None) -> Var:  # noqa: E501
        """Axis i of the result is axis perm[i]; without `perm`, the last two axes are exchanged."""
        return self._call("transpose", (perm,))  # type: ignore[attr-defined, no-any-return]

    def triangular_solve(self, other: Operand, /, upper: bool, transpose: bool, unit: bool, singular: str) -> Any:  # noqa: E501
        """X with T·X = B, or Tᵀ·X = B, for the triangle T of A; batch axes broadcast; a zero or NaN on the diagonal is a fault, or NaN in X; B̄ = T⁻ᵀX̄, Ā = the triangle of −B̄Xᵀ"""
        return self.builder.op("triangular_solve", self, other, upper=upper, transpose=transpose, unit=unit, singular=singular)  # type: ignore[attr-defined]

    def tril(self, k: int = 0) -> Var:  # noqa: E501
        """The lower triangle of matrices."""
        return self._call("tril", (k,))  # type: ignore[attr-defined, no-any-return]

    def triu(self, k: int = 0) -> Var:  # noqa: E501
        """The upper triangle of matrices."""
        return self._call("triu", (k,))  # type: ignore[attr-defined, no-any-return]

    def trunc(self) -> Any:  # noqa: E501
        """y = x rounded toward 0"""
        return self.builder.op("trunc", self)  # type: ignore[attr-defined]

    def unflatten(self, axis: int, sizes: Shape) -> Var:  # noqa: E501
        """One axis as several. One size may be -1: it is computed."""
        return self._call("unflatten", (axis, sizes))  # type: ignore[attr-defined, no-any-return]

    def unsqueeze(self, axis: int) -> Var:  # noqa: E501
        """A new axis of size 1."""
        return self._call("unsqueeze", (axis,))  # type: ignore[attr-defined, no-any-return]

    def upsample(self, scale: int, mode: str = "nearest") -> Var:  # noqa: E501
        """Images larger by a factor."""
        return self._call("upsample", (scale, mode))  # type: ignore[attr-defined, no-any-return]

    def var(self, axis: Axes = None, correction: int = 1, keepdims: bool = False) -> Var:  # noqa: E501
        """The variance over axes, or over all, divided by n − correction."""
        return self._call("var", (axis, correction, keepdims))  # type: ignore[attr-defined, no-any-return]

    def xlogy(self, other: Operand, /) -> Any:  # noqa: E501
        """y = a·ln b, 0 where a = 0 (unless b is NaN); ∂a = ln b, ∂b = a/b, both 0 where a = 0 and b ≤ 0"""
        return self.builder.op("xlogy", self, other)  # type: ignore[attr-defined]


class BuilderOps:
    """The methods of `Build` that follow from the tables."""

    def buffer(self, name: str, shape: Shape, init: InitLike = "zeros", dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """A state that belongs to a layer: files of weights hold it."""
        return self._call("buffer", (name, shape, init, dtype))  # type: ignore[attr-defined, no-any-return]

    def cond(self, pred: Var, then: Callable[[], Vars], otherwise: Callable[[], Vars]) -> tuple[Var, ...]:  # noqa: E501
        """The results of `then` if `pred` is true, else those of `otherwise`; only that branch runs."""
        return self._call("cond", (pred, then, otherwise))  # type: ignore[attr-defined, no-any-return]

    def custom_fn(self, name: str, args: Vars, body: Callable[..., Vars], vjp: Callable[..., Any] | None = None, jvp: Callable[..., Any] | None = None) -> tuple[Var, ...]:  # noqa: E501
        """A function with derivatives of its own. `vjp(args, results, cotangents)` gives a cotangent of each argument, or None for zero; `jvp(args, results, tangents)` gives a tangent of each result."""
        return self._call("custom_fn", (name, args, body, vjp, jvp))  # type: ignore[attr-defined, no-any-return]

    def einsum(self, equation: str, *operands: Var) -> Var:  # noqa: E501
        """The Einstein sum, as `bij,bjk->bik`."""
        return self._call("einsum", (equation, operands))  # type: ignore[attr-defined, no-any-return]

    def fori(self, n: Var, bound: int, carries: Vars, body: Callable[..., Vars]) -> tuple[Var, ...]:  # noqa: E501
        """Runs `carries = body(i, *carries)` n times; `n` is known when the step runs."""
        return self._call("fori", (n, bound, carries, body))  # type: ignore[attr-defined, no-any-return]

    def full(self, value: float, shape: Shape = (), dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """A fill."""
        return self._call("full", (value, shape, dtype))  # type: ignore[attr-defined, no-any-return]

    def input(self, name: str, shape: Shape, dtype: DTypeLike = "f32", default: float | None = None) -> Var:  # noqa: E501
        """A value that the caller writes before each step; until then, `default`."""
        return self._call("input", (name, shape, dtype, default))  # type: ignore[attr-defined, no-any-return]

    def iota(self, axis: int, shape: Shape, dtype: DTypeLike = "i32") -> Var:  # noqa: E501
        """The position along an axis."""
        return self._call("iota", (axis, shape, dtype))  # type: ignore[attr-defined, no-any-return]

    def normal(self, shape: Shape, dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """Numbers from the standard normal distribution."""
        return self._call("normal", (shape, dtype))  # type: ignore[attr-defined, no-any-return]

    def param(self, name: str, shape: Shape, init: InitLike = "zeros", dtype: DTypeLike = "f32", frozen: bool = False) -> Var:  # noqa: E501
        """A value that training changes."""
        return self._call("param", (name, shape, init, dtype, frozen))  # type: ignore[attr-defined, no-any-return]

    def permutation(self, n: int) -> Var:  # noqa: E501
        """The numbers 0 … n − 1 in random order."""
        return self._call("permutation", (n,))  # type: ignore[attr-defined, no-any-return]

    def randint(self, shape: Shape, low: int, high: int, dtype: DTypeLike = "i32") -> Var:  # noqa: E501
        """Integers from `low` to `high − 1`."""
        return self._call("randint", (shape, low, high, dtype))  # type: ignore[attr-defined, no-any-return]

    def scan(self, carries: Vars, xs: Vars, body: Callable[..., Vars], length: int | None = None, reverse: bool = False) -> tuple[Var, ...]:  # noqa: E501
        """A loop over the first axis of `xs`: `body(*carries, *slices)` gives the next carries, then one slice of each stacked result. Gives the last carries, then the stacked results."""
        return self._call("scan", (carries, xs, body, length, reverse))  # type: ignore[attr-defined, no-any-return]

    def state(self, name: str, shape: Shape, init: InitLike = "zeros", dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """A value that persists from step to step and changes by `update` only."""
        return self._call("state", (name, shape, init, dtype))  # type: ignore[attr-defined, no-any-return]

    def switch(self, index: Var, branches: Sequence[Callable[[], Vars]]) -> tuple[Var, ...]:  # noqa: E501
        """The results of branch number `index`; only that branch runs."""
        return self._call("switch", (index, branches))  # type: ignore[attr-defined, no-any-return]

    def uniform(self, shape: Shape, dtype: DTypeLike = "f32") -> Var:  # noqa: E501
        """Uniform numbers in [0, 1), new ones in each step."""
        return self._call("uniform", (shape, dtype))  # type: ignore[attr-defined, no-any-return]

    def vmap(self, xs: Vars, f: Callable[..., Vars]) -> tuple[Var, ...]:  # noqa: E501
        """`f` of each slice of the first axis of `xs`, stacked."""
        return self._call("vmap", (xs, f))  # type: ignore[attr-defined, no-any-return]

    def while_loop(self, carries: Vars, bound: int, go_on: Callable[..., Var], body: Callable[..., Vars]) -> tuple[Var, ...]:  # noqa: E501
        """Runs `carries = body(*carries)` while `go_on(*carries)`. If that still holds after `bound` iterations, the step fails. Gives the last carries, then the number of iterations."""
        return self._call("while_loop", (carries, bound, go_on, body))  # type: ignore[attr-defined, no-any-return]
