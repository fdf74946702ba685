"""What torch and Hugging Face's transformers make of given sounds, in f64: the fixture of `tests/ops/audio.rs`.

    python tests/torch/audio.py     writes tests/torch/audio.safetensors (torch, scipy, transformers, librosa, safetensors)

For each case: its inputs, its output y, and the gradients of the sum of y's elements times 1, 2, 3 …; of a complex y,
of its pairs of numbers. Where scipy or librosa has the same function, the script checks that it agrees.
"""

import pathlib

import librosa
import numpy as np
import scipy.signal
import torch
from safetensors.torch import save_file
from transformers.audio_utils import mel_filter_bank

WINDOWS = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window}


def rand(*shape):
    return torch.randn(shape, requires_grad=True)


def window(name, n):
    if name == "rectangular":
        return torch.ones(n)
    w = WINDOWS[name](n, periodic=True)
    np.testing.assert_allclose(w, scipy.signal.get_window(name, n), atol=1e-14)
    return w


def stft(n_fft, hop, name="hann", win=None, center=True, pad_mode="reflect"):
    w = window(name, win or n_fft)

    def f(x):
        z = torch.stft(x, n_fft, hop, win or n_fft, w, center, pad_mode, return_complex=True)
        border = {"reflect": "even", "constant": "zeros"}.get(pad_mode) if center else None
        if win is None and (border or not center):
            _, _, theirs = scipy.signal.stft(x.detach().numpy(), 1.0, w.numpy(), n_fft, n_fft - hop, boundary=border,
                                             padded=False)
            np.testing.assert_allclose(z.detach(), theirs * w.sum().item(), atol=1e-12)
        return torch.view_as_real(z)

    return f


def istft(n_fft, hop, name="hann", win=None, center=True, length=None):
    w = window(name, win or n_fft)

    def f(pairs):
        z = torch.view_as_complex(pairs)
        x = torch.istft(z, n_fft, hop, win or n_fft, w, center, length=length)
        if win is None:
            _, theirs = scipy.signal.istft(z.detach().numpy() / w.sum().item(), 1.0, w.numpy(), n_fft, n_fft - hop,
                                           boundary=center)
            n = min(x.shape[-1], theirs.shape[-1])
            np.testing.assert_allclose(x.detach()[..., :n], theirs[..., :n], atol=1e-12)
        return x

    return f


def log_mel(floor, span, over, layout):
    """By plain formulas; torch has no such function."""

    def f(x, filters):
        bins = filters.shape[1]
        if layout == "complex":
            power = x[..., :bins, :].square().sum(-1)
        else:
            re, im = x.chunk(2, -1)
            power = (re.square() + im.square())[..., :bins]
        mel = power @ filters.T
        logs = torch.where(mel > floor, mel, floor).log10()
        most = logs.amax((-2, -1) if over == "clip" else -1, keepdim=True)
        return (torch.where(logs >= most - span, logs, most - span) + 4) / 4

    return f


def mel(n_mels, n_fft, rate, fmin, fmax, scale, norm):
    norm = "slaney" if norm else None
    # transformers takes rate // 2 for half the rate, and places the last bin there: so the rate and n_fft are even.
    y = mel_filter_bank(n_fft // 2 + 1, n_mels, fmin, fmax, rate, norm, scale).T
    theirs = librosa.filters.mel(sr=rate, n_fft=n_fft, n_mels=n_mels, fmin=fmin, fmax=fmax, htk=scale == "htk",
                                 norm=norm, dtype=np.float64)
    np.testing.assert_allclose(y, theirs, rtol=1e-9, atol=1e-15)
    return torch.from_numpy(np.ascontiguousarray(y))


def filters_with_gaps(n_mels, bins):
    """Triangles, one of them far weaker and one of zeros."""
    f = torch.rand(n_mels, bins)
    f[1] *= 1e-5
    f[2] = 0.0
    return f.requires_grad_()


def main():
    torch.manual_seed(31)
    torch.set_default_dtype(torch.float64)
    cases = {
        "stft_hann": (stft(16, 4), rand(2, 50)),
        "stft_hamming": (stft(12, 5, "hamming", center=False), rand(40)),
        "stft_blackman": (stft(10, 3, "blackman", pad_mode="constant"), rand(2, 23)),
        "stft_odd": (stft(9, 2, "hann", 6, pad_mode="replicate"), rand(20)),
        "stft_circular": (stft(8, 8, "rectangular", pad_mode="circular"), rand(3, 16)),
        "stft_plain": (stft(8, 4, "hann", center=False), rand(2, 30)),
        "istft_hann": (istft(16, 4), rand(2, 9, 6, 2)),
        "istft_length": (istft(16, 5, "hamming", length=29), rand(9, 6, 2)),
        "istft_odd": (istft(9, 2, "blackman", 7), rand(1, 5, 8, 2)),
        "istft_plain": (istft(8, 3, "hamming", center=False), rand(2, 5, 4, 2)),
        "log_mel_frame": (log_mel(1e-10, 8.0, "frame", "complex"), rand(2, 3, 9, 2), filters_with_gaps(5, 9)),
        "log_mel_clip": (log_mel(1e-10, 8.0, "clip", "complex"), rand(2, 3, 9, 2), filters_with_gaps(5, 9)),
        "log_mel_cut": (log_mel(1.5, 0.25, "clip", "block"), rand(2, 4, 16), filters_with_gaps(6, 5)),
        "log_mel_floor": (log_mel(1.5, 3.0, "clip", "block"), rand(2, 4, 16), filters_with_gaps(6, 5)),
        "log_mel_range": (log_mel(1e-10, 3.0, "frame", "block"), rand(4, 10), filters_with_gaps(6, 5)),
        "log_mel_row": (log_mel(1e-10, 0.0, "frame", "complex"), rand(5, 2), filters_with_gaps(4, 5)),
    }
    out = {}
    for name, (f, *inputs) in cases.items():
        y = f(*inputs)
        loss = (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum()
        out[f"{name}.y"] = y
        for key, x, d in zip("ab", inputs, torch.autograd.grad(loss, inputs)):
            out[f"{name}.{key}"] = x
            out[f"{name}.grad.{key}"] = d
    out["mel_whisper.y"] = mel(80, 400, 16000, 0.0, 8000.0, "slaney", True)[::8]
    out["mel_htk.y"] = mel(13, 128, 8000, 100.0, 3800.0, "htk", False)
    out["mel_htk_area.y"] = mel(9, 64, 22050, 0.0, 11025.0, "htk", True)
    out["mel_peaks.y"] = mel(12, 128, 16000, 20.0, 7600.0, "slaney", False)
    out = {k: v.detach().contiguous().clone() for k, v in out.items()}
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


main()
