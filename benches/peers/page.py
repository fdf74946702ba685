"""Writes the tables and the charts of a page between its markers: `page.py RESULTS.json PAGE.md`."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "arenagrad", "svg.fonttype": "none", "font.size": 9})
import matplotlib.pyplot as plt

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
OWN = "arenagrad"
MEGA = 1 << 20


def number(x: float) -> str:
    """Three digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def mega(result: dict, key: str) -> str:
    """Bytes as MiB, where they are known."""
    return number(result[key] / MEGA) if result.get(key) is not None else "–"


def timed(results: dict) -> dict[str, dict]:
    """The peers with a time."""
    return {p: r for p, r in results.items() if p != OWN and "median_ms" in r and "error" not in r}


def best(results: dict) -> str | None:
    """The fastest peer."""
    peers = timed(results)
    return min(peers, key=lambda p: peers[p]["median_ms"], default=None)


def ratio(results: dict) -> float | None:
    """Our time over that of the fastest peer."""
    peer, own = best(results), results[OWN]
    return own["median_ms"] / results[peer]["median_ms"] if peer and "median_ms" in own else None


def threads_of(cells: dict) -> list[int]:
    """The numbers of threads."""
    return sorted({int(c.split()[1]) for c in cells})


def workloads_of(cells: dict) -> list[str]:
    """The workloads, in their order."""
    return list(dict.fromkeys(c.split()[0] for c in cells))


def summary(cells: dict, threads: int) -> list[str]:
    """The table of a number of threads."""
    rows = [
        "| workload | arenagrad ms | fastest peer ms | ratio | × floor | first step s | of the peer | memory MiB | of the peer |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in workloads_of(cells):
        results = cells.get(f"{workload} {threads}")
        if results is None or "median_ms" not in results[OWN]:
            continue
        own, peer, share = results[OWN], best(results), ratio(results)
        floor = number(1 / own["floor_share"]) if own.get("floor_share") else "–"
        beside = ["–", "–", "–", "–"]
        if peer:
            r = results[peer]
            mark = f"**{share:.2f}**" if share > 1 else f"{share:.2f}"
            beside = [f"{number(r['median_ms'])} ({peer})", mark, number(r["first_step_s"]), mega(r, "grown_bytes")]
        fields = [workload, number(own["median_ms"]), *beside[:2], floor]
        fields += [number(own["first_step_s"]), beside[2], mega(own, "grown_bytes"), beside[3]]
        rows.append(f"| {' | '.join(fields)} |")
    return rows


def details(cells: dict) -> list[str]:
    """The table of all cells."""
    rows = [
        "| workload | threads | engine | median ms | least ms | first step s | grown MiB | process MiB | losses |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, results in cells.items():
        workload, threads = name.split()
        for engine, r in results.items():
            if "error" in r:
                rows.append(f"| {workload} | {threads} | {engine} | {r['error']} | | | | | |")
                continue
            times = [number(r[k]) for k in ("median_ms", "least_ms", "first_step_s")]
            fields = [workload, threads, engine, *times, mega(r, "grown_bytes"), mega(r, "peak_bytes")]
            rows.append(f"| {' | '.join(fields)} | {r.get('gap', 0):.0e} |")
    return rows


def chart(cells: dict, path: pathlib.Path, title: str, value) -> None:
    """A chart of bars for each workload and number of threads; 1 is the peer's."""
    names, counts = workloads_of(cells), threads_of(cells)
    figure, axes = plt.subplots(figsize=(8, 3))
    width = 0.8 / len(counts)
    for k, threads in enumerate(counts):
        heights = [value(cells[f"{w} {threads}"]) if f"{w} {threads}" in cells else None for w in names]
        at = [i + (k - (len(counts) - 1) / 2) * width for i in range(len(names))]
        label = f"{threads} thread{'s' if threads > 1 else ''}"
        axes.bar(at, [h or 0 for h in heights], width, label=label, color=["#3b6ea5", "#e0a458", "#7a9e7e"][k % 3])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(names)), names)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def memory_ratio(results: dict) -> float | None:
    """Our memory over that of the peer with the least."""
    own = results[OWN].get("grown_bytes")
    peers = [r["grown_bytes"] for r in timed(results).values() if r.get("grown_bytes")]
    return own / min(peers) if own and peers else None


def behind(cells: dict) -> str:
    """A sentence that names the cells where a peer is faster."""
    lost = {c: r for c, r in ((c, ratio(results)) for c, results in cells.items()) if r is not None and r > 1}
    count = sum(ratio(results) is not None for results in cells.values())
    if not lost:
        return f"In all {count} cells arenagrad is the fastest."
    named = [f"{c.split()[0]} on {c.split()[1]} ({r:.2f}, {best(cells[c])})" for c, r in lost.items()]
    return f"arenagrad is the fastest in {count - len(lost)} of {count} cells. A peer is faster in: {', '.join(named)}."


def text(run: dict, page: pathlib.Path) -> list[str]:
    """What stands between the markers. Writes the charts beside the page."""
    cells = run["cells"]
    versions = sorted({r["version"] for results in cells.values() for r in results.values() if "version" in r})
    kind = "short run (`--quick`)" if run["quick"] else "full run"
    lines = [f"Measured on {run['machine']['cpu']}, arenagrad at {run['machine']['commit']}, {', '.join(versions)}; a {kind}."]
    lines += [f"Not had: {'; '.join(run['lacking'])}.", "", behind(cells), ""]
    charts = [
        ("time", "Time of a step over that of the fastest peer", ratio),
        ("memory", "Memory over that of the peer with the least", memory_ratio),
    ]
    for name, title, value in charts:
        chart(cells, page.parent / f"benchmarks-{name}.svg", title, value)
        lines += [f"![{title}](benchmarks-{name}.svg)", ""]
    for threads in threads_of(cells):
        lines += [f"### {threads} thread{'s' if threads > 1 else ''}", "", *summary(cells, threads), ""]
    return [*lines, "### All cells", "", *details(cells)]


def main() -> None:
    """Reads the results and replaces what is between the markers."""
    run, page = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
    old = page.read_text()
    before, after = old[: old.index(BEGIN)], old[old.index(END) :]
    page.write_text(before + BEGIN + "\n" + "\n".join(text(run, page)) + "\n" + after)


main()
