#!/usr/bin/python3
"""The man pages are well-formed and tell every verb, option and setting; completion completes."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import tree

BUILD = Path(os.environ["TS_BUILD"])
COMPLETION = tree.ROOT / "docs/completion"
PAGES = ["tsctl.1", "tracesmithd.8", "tracesmithd.conf.5"]
ENVIRONMENT = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
               "TRACESMITH_SOCKET": "/nonexistent", "TERM": "dumb"}


def output(*command, **options):
    return subprocess.run([str(word) for word in command], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
                          **options).stdout


def verbs():
    return re.findall(r"^  ([a-z]+) ", output("tsctl", "help"), re.MULTILINE)


def options(text):
    return set(re.findall(r"--([a-z-]+)", text))


def page_options(name):
    text = (BUILD / "docs" / name).read_text()
    return set(re.findall(r"^\.It (?:Fl . , )?Fl -([a-z-]+)", text, re.MULTILINE))


class ManPages(unittest.TestCase):
    def test_well_formed(self):
        for page in PAGES:
            lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", BUILD / "docs" / page],
                                  stdout=subprocess.PIPE, text=True, check=False)
            self.assertEqual(lint.stdout, "")

    def test_every_verb_and_option_of_tsctl(self):
        text = (BUILD / "docs/tsctl.1").read_text()
        self.assertIn("query", verbs())
        for verb in verbs():
            self.assertRegex(text, rf"(?m)^\.It Cm {verb}\b")
        wanted = set().union(*(options(output("tsctl", "help", verb).split("\n\n")[1])
                               for verb in verbs()))
        self.assertEqual(page_options("tsctl.1"), wanted)

    def test_every_option_of_tracesmithd(self):
        listed = re.findall(r"^ +(?:-., )?--([a-z-]+)", output("tracesmithd", "--help"),
                            re.MULTILINE)
        self.assertEqual(page_options("tracesmithd.8"), set(listed))

    def test_every_setting(self):
        text = (BUILD / "docs/tracesmithd.conf.5").read_text()
        settings = re.findall(r"^#([a-z_]+) =", output("tracesmithd", "--print-config"),
                              re.MULTILINE)
        self.assertGreater(len(settings), 10)
        for setting in settings:
            self.assertIn(f"\n.It Cm {setting}\n", text)


class Completion(unittest.TestCase):
    def bash(self, *words):
        """What bash offers for the last of the words."""
        line = f"""source {COMPLETION}/tsctl.bash
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _tsctl; printf '%s\\n' "${{COMPREPLY[@]}}" """
        return output("bash", "-c", line, "bash", "tsctl", *words).split()

    def fish(self, line):
        listed = output("fish", "--no-config", "-c",
                        f"source {COMPLETION}/tsctl.fish; complete -C '{line}'")
        return [offer.split("\t")[0] for offer in listed.splitlines()]

    def test_bash(self):
        self.assertEqual(self.bash("st"), ["status"])
        self.assertEqual(self.bash("--socket", "/x", "st"), ["status"])
        self.assertEqual(self.bash("help", "ex"), ["export"])
        self.assertEqual(self.bash("query", "l"), ["list"])
        self.assertEqual(self.bash("export", "--pe"), ["--perfetto"])
        self.assertEqual(set(self.bash("")), {*verbs(), "--socket"})
        self.assertEqual({word.removeprefix("--") for word in self.bash("query", "--")},
                         options(output("tsctl", "help", "query").split("\n\n")[1]))

    def test_fish(self):
        self.assertEqual(self.fish("tsctl st"), ["status"])
        self.assertEqual(self.fish("tsctl help ex"), ["export"])
        self.assertEqual(self.fish("tsctl query li"), ["list"])
        self.assertEqual(self.fish("tsctl export --pe"), ["--perfetto"])

    def test_zsh_offers_the_same(self):
        """compadd and _describe are replaced by functions that print what they are given."""
        script = f"""
            compadd() {{ shift; print -l -- $@ }}
            _describe() {{ print -l -- ${{${{(P)2}}%%:*}} }}
            words=("$@") CURRENT=$# PREFIX=${{@[-1]}}
            tsctl_complete() {{ {(COMPLETION / '_tsctl').read_text()} }}
            tsctl_complete"""
        offer = lambda *words: output("zsh", "-f", "-c", script, "zsh", "tsctl", *words).split()
        self.assertEqual(offer("st"), verbs())
        self.assertEqual(offer("query", ""), ["list"])
        self.assertIn("--perfetto", offer("export", "--"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
