"""What torch's convolutions, pools, columns, resizing and padding make of given numbers, in f64: the fixture of
`tests/ops/windows.rs`.

    python tests/torch/windows.py        writes tests/torch/windows.safetensors (torch, safetensors)

Inputs are cut from one long tensor `pool` of random numbers, the one after the other of a case; so only results are
stored: for each case its output y, and the gradients of the sum of y's squares weighed by `pool` (a plain sum of squares
does not tell a transposed result).
"""

import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

MAX3 = dict(kernel_size=(3, 2, 2), stride=(2, 3, 1), padding=(1, 1, 0), dilation=(1, 1, 2))


def cases():
    """name: (function, shapes of its operands)."""
    c = {
        "conv3d": (lambda x, w, b: F.conv3d(x, w, b, stride=(2, 1, 2), padding=(1, 0, 2), dilation=(1, 2, 1), groups=2),
                   [(2, 2, 4, 4, 3), (2, 1, 3, 2, 3), (2,)]),
        "conv3d_plain": (lambda x, w, b: F.conv3d(x, w, b), [(1, 2, 2, 3, 3), (2, 2, 2, 2, 2), (2,)]),
        "turned1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, padding=2, output_padding=2, groups=2),
                     [(2, 2, 4), (2, 2, 3), (4,)]),
        "turned1d_far": (lambda x, w, b: F.conv_transpose1d(x, w, b, stride=1, padding=1, output_padding=2, dilation=3),
                         [(1, 2, 4), (2, 2, 2), (2,)]),
        "turned3d": (lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(2, 1, 3), padding=(1, 0, 1),
                                                        output_padding=(1, 0, 2), dilation=(1, 2, 1), groups=2),
                     [(1, 2, 2, 3, 2), (2, 1, 3, 2, 2), (2,)]),
        "max1d": (lambda x: F.max_pool1d(x, 3, 2, 1, 2), [(2, 2, 9)]),
        "max1d_ceil": (lambda x: F.max_pool1d(x, 2, 3, 1, ceil_mode=True), [(1, 3, 7)]),
        "max2d_ceil": (lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 0), (1, 2), ceil_mode=True), [(1, 1, 6, 7)]),
        "max3d": (lambda x: F.max_pool3d(x, **MAX3), [(1, 1, 5, 4, 5)]),
        "max3d_ceil": (lambda x: F.max_pool3d(x, **MAX3, ceil_mode=True), [(1, 1, 6, 5, 4)]),
        "min2d": (lambda x: -F.max_pool2d(-x, 3, 2, 1), [(1, 1, 5, 6)]),
        "avg1d": (lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True), [(1, 2, 8)]),
        "avg1d_apart": (lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), [(1, 2, 8)]),
        "avg2d_ceil": (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), ceil_mode=True), [(1, 1, 6, 6)]),
        "avg2d_ceil_apart": (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), True, False), [(1, 1, 6, 6)]),
        "avg2d_wide": (lambda x: F.avg_pool2d(x, (5, 2), (4, 2), ceil_mode=True), [(1, 2, 3, 3)]),
        "avg2d_by": (lambda x: F.avg_pool2d(x, 2, 2, 1, divisor_override=3), [(1, 1, 5, 4)]),
        "avg3d": (lambda x: F.avg_pool3d(x, (2, 3, 2), (2, 2, 1), (1, 1, 0)), [(1, 1, 4, 5, 3)]),
        "avg3d_ceil": (lambda x: F.avg_pool3d(x, (2, 3, 2), (2, 2, 3), (1, 1, 0), True), [(1, 1, 3, 4, 4)]),
        "avg3d_apart": (lambda x: F.avg_pool3d(x, (2, 3, 2), (2, 2, 3), (1, 1, 1), True, False), [(1, 1, 3, 4, 4)]),
        "sum3d": (lambda x: F.avg_pool3d(x, 2, 2, 1, divisor_override=1), [(1, 1, 4, 3, 5)]),
        "most1d": (lambda x: F.adaptive_max_pool1d(x, 4), [(1, 2, 7)]),
        "most2d": (lambda x: F.adaptive_max_pool2d(x, (3, 5)), [(1, 1, 7, 4)]),
        "most3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), [(1, 1, 5, 4, 3)]),
        "mean1d": (lambda x: F.adaptive_avg_pool1d(x, 5), [(1, 2, 7)]),
        "mean2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [(1, 1, 7, 6)]),
        "mean2d_one": (lambda x: F.adaptive_avg_pool2d(x, 1), [(1, 3, 3, 4)]),
        "mean3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 5, 2)), [(1, 1, 3, 2, 3)]),
        "unfold": (lambda x: F.unfold(x, (2, 3), (2, 1), (1, 2), (1, 2)), [(1, 1, 4, 3)]),
        "fold": (lambda x: F.fold(x, (4, 3), (2, 3), (2, 1), (1, 2), (1, 2)), [(1, 6, 12)]),
        "nearest1d": (lambda x: F.interpolate(x, 7), [(1, 2, 5)]),
        "nearest2d": (lambda x: F.interpolate(x, (7, 3)), [(1, 1, 3, 5)]),
        "nearest2d_times": (lambda x: F.interpolate(x, scale_factor=2), [(1, 2, 3, 2)]),
        "exact2d": (lambda x: F.interpolate(x, (7, 3), mode="nearest-exact"), [(1, 1, 3, 5)]),
        "linear1d": (lambda x: F.interpolate(x, 7, mode="linear"), [(1, 2, 4)]),
        "bilinear": (lambda x: F.interpolate(x, (7, 3), mode="bilinear"), [(1, 1, 3, 5)]),
        "bilinear_aligned": (lambda x: F.interpolate(x, (6, 3), mode="bilinear", align_corners=True), [(1, 1, 4, 5)]),
        "bilinear_one": (lambda x: F.interpolate(x, (1, 4), mode="bilinear", align_corners=True), [(1, 2, 3, 3)]),
        "trilinear": (lambda x: F.interpolate(x, (3, 2, 5), mode="trilinear"), [(1, 1, 2, 3, 2)]),
    }
    for mode in ["constant", "reflect", "replicate", "circular"]:
        c[mode] = (lambda x, mode=mode: F.pad(x, (2, 1, 1, 2), mode), [(1, 1, 3, 4)])
    return c


def main():
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    pool = torch.randn(200).to(torch.float32).to(torch.float64)
    out = {"pool": pool.to(torch.float32)}
    for name, (f, shapes) in cases().items():
        at, inputs = 0, []
        for shape in shapes:
            n = torch.Size(shape).numel()
            inputs.append(pool[(torch.arange(n) + at) % 200].reshape(shape).clone().requires_grad_())
            at += n
        y = f(*inputs)
        weights = pool[(torch.arange(y.numel()) * 7 + 3) % 200].reshape(y.shape)
        (y * y * weights).sum().backward()
        out[name] = torch.cat([t.flatten() for t in [y.detach()] + [x.grad for x in inputs]])
    save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
