"""What the package `gguf` makes of blocks of random bytes, and a file that it writes: the fixtures of `tests/gguf`.

    python tests/torch/gguf_blocks.py          writes gguf_blocks.txt, gguf_types.txt, q8_0.txt and package.gguf
                                               beside it (gguf, numpy)
    python tests/torch/gguf_blocks.py FILE     prints each tensor of a GGUF file: name, type, shape, digest of its numbers

`encoded.txt` is what the second prints of `encoded.gguf`, a file of blocks from the encoders of `arenagrad::train::gguf`.

A line of `gguf_types.txt` has a type's name, its number, and elements and bytes of a block; a line of `q8_0.txt` has the
bytes of a block, in hex, that the package makes of a row of `rows`.

A line of `gguf_blocks.txt` has a type and the digest of the numbers of each of 50 blocks: FNV-1a, 64 bits, of the bytes
of the `f32`s. The bytes of blocks come from `blocks`; scales of half precision have the second bit cleared, so that they
are finite. The package does not decode Q8_K.
"""

import pathlib
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
BLOCKS = 50
# The upper byte of each scale.
SCALES = {
    "Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1], "Q2_K": [81, 83], "Q3_K": [109],
    "Q4_K": [1, 3], "Q5_K": [1, 3], "Q6_K": [209], "IQ4_NL": [1], "TQ1_0": [53], "TQ2_0": [65],
    "MXFP4": [],
}  # fmt: skip


def noise(name, size):
    state = int.from_bytes(name.encode(), "little")
    out = np.empty(size, np.uint8)
    for i in range(size):
        state = (state * 0x5851F42D4C957F2D + 0x14057B7EF767814F) % 2**64
        out[i] = state >> 56
    return out


def blocks(name, size):
    out = noise(name, BLOCKS * size).reshape(BLOCKS, size)
    for at in SCALES[name]:
        out[:, at] &= 0xBF
    return out


def digest(numbers):
    hash = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(numbers, "<f4").tobytes():
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return f"{hash:016x}"


def write_digests():
    lines = []
    for name in SCALES:
        kind = gguf.GGMLQuantizationType[name]
        numbers = gguf.quants.dequantize(blocks(name, gguf.GGML_QUANT_SIZES[kind][1]), kind)
        lines.append(" ".join([name] + [digest(row) for row in numbers]))
    (HERE / "gguf_blocks.txt").write_text("\n".join(lines) + "\n")


def rows():
    """80 rows of 32 numbers: of bytes as `blocks` makes them, with scales of 2^-30 to 2^9; rows of small integers, whose
    largest is 127, and their halves, which lie between two codes; zeros."""
    bits = np.frombuffer(noise("Q8_0", 4 * 32 * 64), "<u4").reshape(64, 32)
    usual = (bits >> 8).astype(np.float32) / np.float32(2**23) - np.float32(1)
    usual *= np.float32(2.0) ** (np.arange(64) % 40 - 30).astype(np.float32)[:, None]
    whole = np.frombuffer(noise("ties", 32 * 15), np.int8).reshape(15, 32).astype(np.float32)
    whole = np.clip(whole, -127, 127)
    whole[:, 5] = 127
    whole /= np.array([1, 2, 127], np.float32)[np.arange(15) % 3][:, None]
    whole[:, 6:9] = whole[:, 5:6] * np.array([0.5, 1.5, 2.5], np.float32) / np.float32(127)
    return np.concatenate([usual, whole, np.zeros((1, 32), np.float32)])


def write_q8_0():
    made = gguf.quants.quantize(rows(), gguf.GGMLQuantizationType.Q8_0)
    (HERE / "q8_0.txt").write_text("".join(row.tobytes().hex() + "\n" for row in made))


def write_types():
    sizes = [(t.name, t.value, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType]
    (HERE / "gguf_types.txt").write_text("".join(f"{name} {id} {n} {size}\n" for name, id, n, size in sizes))


def write_file():
    w = gguf.GGUFWriter(str(HERE / "package.gguf"), "toy")
    w.add_uint8("test.u8", 200)
    w.add_int8("test.i8", -3)
    w.add_uint16("test.u16", 60000)
    w.add_int16("test.i16", -300)
    w.add_int32("test.i32", -70000)
    w.add_float32("test.f32", 0.5)
    w.add_bool("test.bool", True)
    w.add_uint64("test.u64", 2**40)
    w.add_int64("test.i64", -(2**40))
    w.add_float64("test.f64", 0.1)
    w.add_array("test.texts", ["a", "", "ü"])
    w.add_array("test.numbers", [1, 2, 3])
    w.add_string("test.text", "two words")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    w.add_tensor("plain", x)
    w.add_tensor("half", x.astype(np.float16))
    w.add_tensor("whole", np.arange(5, dtype=np.int32))
    q8 = gguf.quants.quantize(np.sin(np.arange(2 * 64, dtype=np.float32)).reshape(2, 64), gguf.GGMLQuantizationType.Q8_0)
    w.add_tensor("q8", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    q4 = blocks("Q4_K", 144)[:4].reshape(2, 288)
    w.add_tensor("q4", q4, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def show(path):
    for t in gguf.GGUFReader(path).tensors:
        shape = [int(n) for n in reversed(t.shape)]
        try:
            print(t.name, t.tensor_type.name, shape, digest(gguf.quants.dequantize(t.data, t.tensor_type)))
        except NotImplementedError:
            print(t.name, t.tensor_type.name, shape)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        write_digests()
        write_types()
        write_q8_0()
        write_file()
