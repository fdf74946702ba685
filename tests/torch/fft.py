"""What NumPy and SciPy make of given numbers by Fourier transforms, in f64, and torch's gradients: the fixture of
`tests/ops/fft.rs`.

    python tests/torch/fft.py     writes tests/torch/fft.safetensors (torch, numpy, scipy, safetensors)

For each case: its inputs, its output y, and the gradients of the sum of y's elements times 1, 2, 3 …. Complex numbers
are pairs. The output is NumPy's or SciPy's; the script checks that torch's is the same.
"""

import pathlib

import numpy as np
import scipy.signal
import torch
from safetensors.torch import save_file


def rand(*shape):
    return torch.randn(shape, requires_grad=True)


def pairs(z):
    return torch.view_as_real(z) if z.is_complex() else z


def numpys(name, complex_input, *args, **kwargs):
    """The function of this name in numpy.fft and torch.fft; torch calls an axis dim, and a size s as NumPy does."""

    def f(x):
        z = torch.view_as_complex(x) if complex_input else x
        theirs = {{"axis": "dim", "axes": "dim"}.get(k, k): v for k, v in kwargs.items()}
        y = getattr(torch.fft, name)(z, *args, **theirs)
        want = getattr(np.fft, name)(z.detach().numpy(), *args, **kwargs)
        np.testing.assert_allclose(y.detach(), want, atol=1e-12)
        return pairs(y), pairs(torch.from_numpy(np.ascontiguousarray(want)))

    return f


def convolution(mode):
    def f(x, k):
        n = x.shape[-1] + k.shape[-1] - 1
        y = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(k, n), n)
        start, length = {"full": (0, n), "same": ((k.shape[-1] - 1) // 2, x.shape[-1]),
                         "valid": (k.shape[-1] - 1, n - 2 * (k.shape[-1] - 1))}[mode]
        want = scipy.signal.fftconvolve(x.detach().numpy(), k.detach().numpy(), mode, axes=-1)
        np.testing.assert_allclose(y[..., start:start + length].detach(), want, atol=1e-12)
        return y[..., start:start + length], torch.from_numpy(want)

    return f


def psd(rate):
    def f(x):
        n = x.shape[-1]
        twice = torch.full((n // 2 + 1,), 2.0)
        twice[0] = 1.0
        if n % 2 == 0:
            twice[-1] = 1.0
        y = torch.fft.rfft(x).abs().square() * twice / (rate * n)
        _, want = scipy.signal.periodogram(x.detach().numpy(), rate, detrend=False)
        np.testing.assert_allclose(y.detach(), want, atol=1e-12)
        return y, torch.from_numpy(want)

    return f


def main():
    torch.manual_seed(32)
    torch.set_default_dtype(torch.float64)
    cases = {
        "fft_prime": (numpys("fft", True), rand(2, 37, 2)),
        "fft_ortho": (numpys("fft", True, norm="ortho"), rand(45, 2)),
        "fft_pad": (numpys("fft", True, 32, axis=0, norm="forward"), rand(21, 2, 2)),
        "ifft_crop": (numpys("ifft", True, 12), rand(3, 20, 2)),
        "ifft_forward": (numpys("ifft", True, axis=0, norm="forward"), rand(14, 2, 2)),
        "rfft_odd": (numpys("rfft", False), rand(2, 27)),
        "rfft_even": (numpys("rfft", False, axis=0, norm="ortho"), rand(30, 2)),
        "irfft_odd": (numpys("irfft", True, 25), rand(2, 13, 2)),
        "irfft_even": (numpys("irfft", True, norm="forward"), rand(17, 2)),
        "fft2": (numpys("fft2", True), rand(6, 10, 2)),
        "ifft2": (numpys("ifft2", True, norm="ortho"), rand(5, 8, 2)),
        "rfft2": (numpys("rfft2", False), rand(2, 6, 7)),
        "irfft2": (numpys("irfft2", True, norm="ortho"), rand(6, 5, 2)),
        "fftn": (numpys("fftn", True, axes=(0, 2)), rand(4, 3, 5, 2)),
        "ifftn": (numpys("ifftn", True, axes=(0, 1, 2)), rand(4, 3, 5, 2)),
        "rfftn": (numpys("rfftn", False, axes=(0, 1, 2), norm="forward"), rand(4, 3, 6)),
        "irfftn": (numpys("irfftn", True, axes=(0, 1, 2)), rand(4, 3, 4, 2)),
        "fftshift": (numpys("fftshift", False), rand(5, 4)),
        "ifftshift": (numpys("ifftshift", False), rand(5, 4)),
        "conv_full": (convolution("full"), rand(3, 19), rand(3, 6)),
        "conv_same": (convolution("same"), rand(19), rand(6)),
        "conv_valid": (convolution("valid"), rand(2, 19), rand(2, 5)),
        "psd_even": (psd(50.0), rand(2, 24)),
        "psd_odd": (psd(8.0), rand(15)),
    }
    frequencies = {"fftfreq": np.fft.fftfreq(9, 0.25), "rfftfreq": np.fft.rfftfreq(10, 3.0)}
    out = {f"{name}.y": torch.from_numpy(y) for name, y in frequencies.items()}
    for name, (f, *inputs) in cases.items():
        y, want = f(*inputs)
        loss = (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum()
        out[f"{name}.y"] = want
        for key, x, d in zip("ab", inputs, torch.autograd.grad(loss, inputs)):
            out[f"{name}.{key}"] = x
            out[f"{name}.grad.{key}"] = d
    out = {k: v.detach().contiguous().clone() for k, v in out.items()}
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


main()
