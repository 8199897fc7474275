"""First paint of the viewer: a run of 5,000 trials, and a trajectory of 160,000 tokens (conversation and token view).

    python -m benchmarks.viewer [--trials 5000] [--tokens 160000] [--rounds 5]

Each round is a fresh page of a headless Chromium, which knows nothing of the one before; the first meets a viewer that
has read nothing yet. The time runs from asking for the address to the frame in which rows, messages or tokens stand.
"Again" are the later rounds' median.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "envkit" / "view"))

#: Resolves in the frame after the one in which the element is there.
PAINTED = """async (selector) => {
  while (!document.querySelector(selector)) await new Promise((done) => setTimeout(done, 2));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now();
}"""


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
        # What starting a page costs at all on this machine, now.
        blank = []
        for _ in range(args.rounds):
            page = browser.new_page()
            page.goto("data:text/html,<p>x</p>")
            blank.append(page.evaluate(PAINTED, "p"))
            page.close()
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
        print(f"{'an empty page':<38} {statistics.median(blank) / 1000:6.3f} s", flush=True)
        for name, run, hash, selector, wanted in views:
            with served(run) as address:
                times = []
                for _ in range(args.rounds):
                    page = browser.new_page(viewport={"width": 1440, "height": 900})
                    page.goto(address + hash, wait_until="commit")
                    times.append(page.evaluate(PAINTED, selector) / 1000)
                    drawn = page.evaluate("document.querySelectorAll('.vrow').length")
                    page.close()
            first, again = times[0], statistics.median(times[1:]) if len(times) > 1 else times[0]
            print(
                f"{name:<38} {first:6.3f} s at first, {again:6.3f} s again  "
                f"(wanted {wanted:g} s: {'yes' if first < wanted else 'NO'}; {drawn} rows exist)",
                flush=True,
            )
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
