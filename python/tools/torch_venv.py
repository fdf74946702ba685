#!/usr/bin/env python3
"""Makes a virtual environment with torch for CPUs: `torch_venv.py DIR [PACKAGE...]`.

The wheel of torch on PyPI is built for CUDA and asks for some 3 GB of libraries, which a CPU never calls. This installs
torch without them, and writes empty libraries of their names in their place, so that it loads. It needs `gcc` and
`readelf`. PACKAGEs, such as torchvision, are installed without their dependencies.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from pathlib import Path

# What torch imports on a CPU.
NEEDS = "filelock fsspec jinja2 networkx numpy sympy typing_extensions setuptools".split()
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux")
# Libraries whose symbols carry no version: how their symbols begin.
PREFIXES = {"nccl": "nccl", "cusparseLt": "cusparseLt", "cufile": "cuFile", "libcuda.so": "cu[A-Z]"}


def readelf(option: str, library: Path) -> str:
    """What `readelf` says of a library."""
    return subprocess.run(["readelf", option, "-W", str(library)], capture_output=True, text=True, check=True).stdout


class Symbols:
    """The symbols that torch's libraries define and want."""

    def __init__(self, libraries: list[Path]) -> None:
        self.needed: set[str] = set()
        self.versioned: dict[str, set[tuple[str, str]]] = defaultdict(set)
        plain: set[tuple[str, str]] = set()
        defined: set[str] = set()
        for library in libraries:
            self.needed.update(re.findall(r"Shared library: \[(.*?)\]", readelf("-d", library)))
            for fields in map(str.split, readelf("--dyn-syms", library).splitlines()):
                if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                    continue
                kind, section, symbol = fields[3], fields[6], fields[7]
                name, _, version = symbol.partition("@")
                if section != "UND":
                    defined.add(name)
                elif version:
                    self.versioned[version.lstrip("@")].add((name, kind))
                else:
                    plain.add((name, kind))
        self.plain = {(name, kind) for name, kind in plain if name not in defined}

    def of(self, library: str) -> tuple[str | None, set[tuple[str, str]]]:
        """The version and the symbols that are wanted of a library."""
        version = library if library in self.versioned else "NVSHMEM" if "nvshmem" in library else None
        if version is not None:
            return version, self.versioned.get(version, set())
        begins = [start for word, start in PREFIXES.items() if word in library]
        return None, {x for x in self.plain for start in begins if re.match(start, x[0])}


def write_stub(library: str, symbols: Symbols, folder: Path) -> None:
    """Writes a library in which every function fails and every object is empty."""
    version, wanted = symbols.of(library)
    lines = []
    for name, kind in sorted(wanted):
        if kind == "OBJECT":
            lines.append(f"char {name}[4096];")
        elif name.startswith("__cuda"):  # called while torch loads
            lines.append(f"void *{name}(void) {{ return 0; }}")
        else:
            lines.append(f"int {name}(void) {{ return 100; }}")
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text("\n".join(lines) + "\n")
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}"]
        if version is not None:
            script.write_text(f"{version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={script}")
        subprocess.run([*command, "-o", str(folder / library), str(source)], check=True)


def main() -> None:
    """Makes the environment."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root, packages = Path(sys.argv[1]), sys.argv[2:]
    venv.create(root, with_pip=True)
    python = str(root / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *NEEDS], check=True)
    subprocess.run([*install, "--no-deps", "torch", *packages], check=True)
    find = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = Path(subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip())
    own = site / "torch" / "lib"
    if any(own.glob("libtorch_cuda*")):
        symbols = Symbols([x for x in own.iterdir() if x.name.startswith(("libtorch", "libc10_cuda", "libcaffe2"))])
        folder = site / "nvidia" / "cu13" / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        for library in sorted(symbols.needed):
            if not (own / library).exists() and not SYSTEM.match(library):
                write_stub(library, symbols, folder)
    subprocess.run([python, "-c", "import torch; print('torch', torch.__version__, torch.ones(2).sum().item())"], check=True)


main()
