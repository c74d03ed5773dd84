"""phases.py SAMPLES PHASES: compares what a running program printed (lines of time and value) in the
phases in which something was on with those in which nothing was. PHASES has lines of name, begin and
end (CLOCK_MONOTONIC seconds). Prints, for each name, the samples, the median and the ratio to 'off'.
"""
import statistics
import sys

samples = [tuple(map(float, line.split())) for line in open(sys.argv[1]) if line.strip()]
phases = [line.split() for line in open(sys.argv[2]) if line.strip()]
values = {}
rounds = {}
for name, begin, end in phases:
    inside = [value for time, value in samples if float(begin) <= time < float(end)]
    values.setdefault(name, []).extend(inside)
    if inside:
        rounds.setdefault(name, []).append(statistics.median(inside))
base = statistics.median(values["off"])
print(f"{'':24} {'samples':>8} {'median':>10} {'p90':>10} {'ratio':>7}  medians of the rounds")
for name, found in values.items():
    if not found:
        print(f"{name:24} {0:8}")
        continue
    median = statistics.median(found)
    p90 = sorted(found)[int(len(found) * 0.9)]
    each = " ".join(f"{value:.3f}" for value in rounds[name])
    print(f"{name:24} {len(found):8} {median:10.4f} {p90:10.4f} {median / base:7.3f}  {each}")
