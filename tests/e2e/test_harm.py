"""First do no harm: awkward programs (harm/, harm_list.py) behave under each way of tracing as they do alone: the same output,
exit status, descriptors, threads and mappings, and no more memory than docs/harm.md says. A refusal changes nothing.

For people: test_harm.py --table [--only NAME,NAME] [--modes run,attach] prints what became of each. TS_HARM=all tries every
program in every mode; otherwise each in those that it is most about. A ! marks what docs/harm.md does not have.
"""
import argparse
import concurrent.futures
import os
import shutil
import sys
import tempfile
import unittest

import harm_list
import harms
import tracesmith
from harms import MODES

GROUPS = ("probes", "run", "attach", "detach"), ("light", "undo-light", "run-light"), ("inside",)
USER = os.environ.get("TS_HARM_USER", "")
TOGETHER = 24  # programs beside one daemon that starts and stops
AT_ONCE = int(os.environ.get("TS_HARM_JOBS", "6"))


class Daemon(tracesmith.Daemon):
    """As the unit runs it, or as root with TS_HARM_USER=root."""

    def __init__(self, settings):
        super().__init__(settings, directory=tempfile.mkdtemp(prefix="tracesmith-harm-"), as_root=USER == "root")
        os.chmod(self.directory, 0o755)  # programs of other users connect to inject.sock
        self.start()

    def run_command(self):
        return [os.path.join(tracesmith.BUILD, "tsctl"), "--socket", self.socket, "run"]

    def ctl(self, *arguments):
        result = super().ctl(*arguments)
        return result if arguments[0] == "status" else (result.code, result.out, result.err)


def settings_of(mode):
    return "ring_size = 16MiB\n" + ("[probe]\nlight = exact\n" if mode == "inside" else "")


def setup():
    folder = os.path.dirname(tracesmith.library())
    environment = {**os.environ, "LD_LIBRARY_PATH": folder, "FAKE_CUDA_TIME_SCALE": "1", "FAKE_CUDA_MEMORY_MIB": "256",
                   "FAKE_CUDA_DEVICES": "1"}
    return harms.Setup(tracesmith.preloadable(os.path.join(tracesmith.BUILD, "tests", "e2e")), tracesmith.library(), environment)


def trials(programs, mode, daemon=None, alone=None):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda program: harms.Trial(setup(), program, mode, daemon, alone and alone[program]).run(), programs))


def wait_untouched():
    tracesmith.wait_for("the probes of an earlier daemon to go", lambda: harms.untouched(tracesmith.library()), 300)


def started_meanwhile(programs, alone):
    """The daemon starts and stops while they run."""
    found = []
    for at in range(0, len(programs), TOGETHER):
        some = programs[at:at + TOGETHER]
        meeting = harms.Meeting(len(some))
        wait_untouched()
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            waits = [pool.submit(harms.Trial(setup(), program, "start", None, alone[program], meeting).run) for program in some]
            meeting.wait(harms.MIDDLE)
            daemon = Daemon(settings_of("start"))
            meeting.go(harms.MIDDLE)
            meeting.wait(harms.LATE)
            code = daemon.close()
            meeting.go(harms.LATE)
            found += [wait.result() for wait in waits]
        if code:
            raise AssertionError(f"the daemon ended with {code}")
    return found


def wanted(program, modes, everything):
    return [mode for mode in modes if mode in program.modes and (everything or mode in program.often)]


def verdicts(programs, modes, everything):
    wait_untouched()
    alone = dict(zip(programs, trials(programs, "alone")))
    found, log = [], ""
    mine = [program for program in programs if "start" in wanted(program, modes, everything)]
    found += [harms.Verdict(alone[trial.program], trial) for trial in started_meanwhile(mine, alone)]
    for group in GROUPS:
        group = [mode for mode in group if mode in modes]
        if not any(wanted(program, group, everything) for program in programs):
            continue
        daemon = Daemon(settings_of(group[0]))
        try:
            for mode in group:
                mine = [program for program in programs if mode in wanted(program, modes, everything)]
                found += [harms.Verdict(alone[trial.program], trial) for trial in trials(mine, mode, daemon, alone)]
        finally:
            log += daemon.log()
            code = daemon.close()
        if code:
            raise AssertionError(f"the daemon ended with {code}:\n{log}")
    return found


class Harm(unittest.TestCase):
    def test_programs_are_as_they_are_alone(self):
        everything = os.environ.get("TS_HARM") == "all"
        found = verdicts(harm_list.PROGRAMS, MODES, everything)
        print(harms.table(found, MODES), file=sys.stderr)
        bad = [f"{verdict.program.name} × {verdict.mode}: {why}" for verdict in found for why in verdict.unexpected]
        self.assertEqual(bad, [], "\n".join(["hurt, and docs/harm.md does not say so:", *bad]))


def print_table():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--times", action="store_true", help="what each has more than alone, and its time: medians of the rounds")
    parser.add_argument("--longer", type=int, default=1, help="how many times the usual work, so that times can be compared")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else []
    programs = [program for program in harm_list.PROGRAMS if not names or program.name in names]
    modes, bad, all_found = arguments.modes.split(","), 0, []
    os.environ["HARM_LONGER"] = str(arguments.longer)
    for _ in range(arguments.rounds):
        found = verdicts(programs, modes, True)
        print(harms.table(found, modes), flush=True)
        all_found += found
        bad += sum(bool(verdict.unexpected) for verdict in found)
    print(harms.counts(all_found))
    if arguments.times:
        print(harms.times(all_found))
    return 1 if bad else 0


if __name__ == "__main__":
    if "--table" in sys.argv:
        sys.exit(print_table())
    tracesmith.main()
