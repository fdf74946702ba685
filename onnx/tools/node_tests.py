"""Writes the node tests of the installed `onnx` package as folders that the example `node_tests` reads, and the page
`docs/onnx-coverage.md` from its verdicts.

    python onnx/tools/node_tests.py write DIR
    cargo run --release --example node_tests -- DIR > verdicts.tsv
    python onnx/tools/node_tests.py page verdicts.tsv docs/onnx-coverage.md
    python onnx/tools/node_tests.py check verdicts.tsv docs/onnx-coverage.md

`ort DIR` runs models in such folders with onnxruntime and compares its results within 1e-5: those that the example
`write_models` writes, for instance.
"""

import collections
import pathlib
import sys
import warnings


def write(folder):
    """One folder for each test: the model, its operands and its results."""
    import numpy as np
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.loader import load_model_tests

    warnings.simplefilter("ignore")
    for test in load_model_tests(kind="node"):
        into = pathlib.Path(folder) / test.name
        into.mkdir(parents=True, exist_ok=True)
        (into / "model.onnx").write_bytes(test.model.SerializeToString())
        inputs, outputs = test.data_sets[0]
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(tensors):
                if isinstance(value, (np.ndarray, np.generic)):
                    value = numpy_helper.from_array(np.asarray(value))
                if isinstance(value, TensorProto):
                    (into / f"{kind}_{i}.pb").write_bytes(value.SerializeToString())


def ort(folder):
    """onnxruntime on each model of a folder."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, numpy_helper

    def tensor(path):
        proto = TensorProto()
        proto.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(proto)

    for test in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir()):
        session = onnxruntime.InferenceSession((test / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"])
        feeds = {x.name: tensor(test / f"input_{i}.pb") for i, x in enumerate(session.get_inputs())}
        for i, got in enumerate(session.run(None, feeds)):
            want = tensor(test / f"output_{i}.pb")
            worst = float(np.abs(got - want).max() / np.abs(want).max())
            print(f"{test.name}: output {i} {list(want.shape)} differs by {worst:.1e} of its largest element")
            if got.shape != want.shape or not worst <= 1e-5:
                sys.exit(1)


def verdicts(path):
    """Of each test: its name, its verdict, the op at fault, and why."""
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    return [(row + ["", "", ""])[:4] for row in rows]


def text(rows):
    """The page."""
    import onnx

    count = collections.Counter(verdict for _, verdict, _, _ in rows)
    refused = collections.defaultdict(list)
    for name, verdict, op, why in rows:
        if verdict == "refused":
            refused[op, why].append(name.removeprefix("test_"))
    lines = [
        "# ONNX coverage",
        "",
        f"The node tests of the package `onnx` {onnx.__version__}, as `onnx/tools/node_tests.py` runs them: each model is",
        "read, compiled and run, and its results are compared with the expected ones within 1e-3 of their size",
        "(`bf16`: 2⁻⁶, as the package has it). Inputs that shapes depend on are given as values. Of models that draw random",
        "numbers, dtypes and shapes are compared.",
        "",
        "| verdict | tests |",
        "|---|---|",
        *(f"| {verdict} | {count[verdict]} |" for verdict in ("pass", "refused", "wrong")),
        f"| all | {len(rows)} |",
        "",
        "## What is refused",
        "",
        "The error names the op, the opset of the model, and the node.",
        "",
        "| op, opset | why | tests |",
        "|---|---|---|",
    ]
    lines += [f"| {op} | {why.replace('|', chr(92) + '|')} | {len(names)} |" for (op, why), names in sorted(refused.items())]
    wrong = [(name, why) for name, verdict, _, why in rows if verdict == "wrong"]
    if wrong:
        lines += ["", "## What is wrong", "", "| test | why |", "|---|---|", *(f"| {n} | {w} |" for n, w in wrong)]
    return "\n".join(lines) + "\n"


def main(arguments):
    match arguments:
        case ["write", folder]:
            write(folder)
        case ["ort", folder]:
            ort(folder)
        case ["page", path, page]:
            pathlib.Path(page).write_text(text(verdicts(path)), encoding="utf-8")
        case ["check", path, page]:
            rows = verdicts(path)
            bad = [f"{name}: {why}" for name, verdict, _, why in rows if verdict == "wrong"]
            passed = sum(verdict == "pass" for _, verdict, _, _ in rows)
            if bad or passed < 1500:
                sys.exit("\n".join([*bad, f"{passed} of {len(rows)} tests pass"]))
            if pathlib.Path(page).read_text(encoding="utf-8") != text(rows):
                sys.exit(f"{page} is not what the tests give: write it with `page`")
            print(f"{passed} of {len(rows)} tests pass, none is wrong")
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
