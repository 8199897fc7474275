"""First paint of the viewer: a run of 5,000 trials, and a trajectory of 160,000 tokens (conversation and token view).

    python -m benchmarks.viewer [--trials 5000] [--tokens 160000] [--rounds 5]

Each round is a fresh page of a headless Chromium, which knows nothing of the one before; the first meets a viewer that
nobody has asked anything yet (it has begun to read its first run, as it does when a person opens the browser). The time
runs from asking for the address to the frame in which rows, messages or tokens stand; "again" are the later rounds.
Beside each stands an empty page, opened just before it, which is what this machine takes at that moment for any page;
the processor time of the viewer and of the page's main thread; and how many questions for data it took.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "envkit" / "view"))

#: Resolves in the frame after the one in which the element is there.
PAINTED = """async (selector) => {
  await new Promise((done) => {
    const look = () => document.querySelector(selector) && (watch.disconnect(), done(), true);
    const watch = new MutationObserver(look);
    if (!look()) watch.observe(document, { childList: true, subtree: true });
  });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now();
}"""


#: How many questions for data were answered before the paint.
ASKED = """(painted) => performance.getEntriesByType('resource')
  .filter((one) => one.name.includes('/api/') && one.responseEnd <= painted).length"""


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    import make_run
    from playwright.sync_api import sync_playwright
    from served import chromium, served

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=160_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envkit-viewer-") as scratch, sync_playwright() as playwright:
        many, long = Path(scratch, "many"), Path(scratch, "long")
        begun = time.perf_counter()
        make_run.write_run(many, trials=args.trials, tasks=max(1, args.trials // 20), attempts=False)
        make_run.write_run(long, trials=3, tasks=3)
        trial = make_run.write_long_trial(long, args.tokens)
        print(f"made in {time.perf_counter() - begun:.1f} s", flush=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])

        def empty_page() -> float:
            page = browser.new_page()
            page.goto("data:text/html,<p>x</p>")
            painted: float = page.evaluate(PAINTED, "p")
            page.close()
            return painted / 1000

        empty_page()
        views = (
            (f"list of {args.trials:,} trials", many, "#/runs/many", ".trow .c-task a", 1.0),
            (
                f"conversation of {args.tokens:,} tokens",
                long,
                f"#/runs/long/trials/{trial}/conversation",
                ".msg .text",
                1.5,
            ),
            (f"token view of {args.tokens:,} tokens", long, f"#/runs/long/trials/{trial}/tokens", ".tok", 1.5),
        )
        late = 0
        for name, run, hash, selector, wanted in views:
            with served(run) as address:
                rounds = []
                for _ in range(args.rounds):
                    empty = empty_page()
                    page = browser.new_page(viewport={"width": 1440, "height": 900})
                    session = page.context.new_cdp_session(page)
                    session.send("Performance.enable", {"timeDomain": "threadTicks"})
                    before_s = cpu_s(address.pid)
                    page.goto(address + hash, wait_until="commit")
                    painted = page.evaluate(PAINTED, selector)
                    viewer_s = cpu_s(address.pid) - before_s
                    measured = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
                    asked = page.evaluate(ASKED, painted)
                    rounds.append((painted / 1000, empty, viewer_s, measured["TaskDuration"], asked))
                    page.close()
            first, again = rounds[0], rounds[1:] or rounds
            late += first[0] >= wanted
            print(
                f"{name:<36} {first[0]:6.3f} s at first, then {' '.join(f'{one[0]:.3f}' for one in again)} "
                f"(wanted {wanted:g} s: {'yes' if first[0] < wanted else 'NO'})\n"
                f"{'':<36} {statistics.median(one[0] / one[1] for one in rounds):6.1f} empty pages of "
                f"{statistics.median(one[1] for one in rounds):.3f} s; processor: viewer {first[2]:.2f} s at first, "
                f"{statistics.median(one[2] for one in again):.2f} s then, page "
                f"{statistics.median(one[3] for one in rounds):.2f} s; {max(one[4] for one in rounds)} questions",
                flush=True,
            )
        browser.close()
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
