"""Translate sentences that training never saw, beside their reference: python examples/demo.py RUN"""

import sys
from pathlib import Path

import weft

run = weft.load(sys.argv[1])
lines = Path(run.config.data.test).read_text(encoding="utf-8").splitlines()
pairs = [line.split("\t") for line in lines[:8]]

answers = run.predict([english for english, _ in pairs])

print("\nSentences that training never saw:\n")
for (english, french), answer in zip(pairs, answers, strict=True):
    print(f"  {english}\n  {'✓' if answer.text == french else '✗'} {answer.text}")
    if answer.text != french:
        print(f"    reference: {french}")

scores = run.report["test"]
print(f"\nTest BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}, {100 * scores['exact']:.1f}% exactly right.")
print(f"\nTry your own:       echo 'The small cat sleeps.' | .venv/bin/weft predict {sys.argv[1]}")
print("Train on your data: .venv/bin/weft train translate pairs.tsv")
