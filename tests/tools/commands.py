"""What tsctl does with a recording, F, for the tests that do all of it; OUT is a file that it may write."""

COMMANDS = [line.split() for line in """
info F
info F --json
view F
view F --tree
view F --lanes
view F --json
graph F --json
replay F
replay F --json
replay F --emulate
replay F --emulate --json -o OUT
replay F --streams 2
replay F --graph
export F --perfetto -o OUT
export F --chrome -o OUT
export F --folded -o OUT
export F --svg -o OUT
export F --pprof -o OUT
export F --csv -o OUT
query kernels --by-stack -f F
query leaks --min-age 1ns -f F
""".strip().splitlines()]
COMMANDS += [["sql", "-f", "F", *how, statement] for statement in (
    "SELECT * FROM op LEFT JOIN frame USING (stack)", "SELECT * FROM process p LEFT JOIN stream s ON s.process = p.id")
             for how in ([], ["--json"])]
