#!/usr/bin/python3
"""The man pages are well-formed and list every command, option, query and setting; so do the pages of
docs/, and their links lead somewhere; completion completes."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tree

BUILD = Path(os.environ["TS_BUILD"])
COMPLETION = tree.ROOT / "docs/completion"
PAGES = ["tsctl.1", "tracesmithd.8", "tracesmithd.conf.5", "tracesmith-ship.8", "libtracesmith-client.3"]
ENVIRONMENT = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
               "TRACESMITH_SOCKET": "/nonexistent", "TERM": "dumb"}


def output(*command, **options):
    return subprocess.run([str(word) for word in command], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
                          **options).stdout


def verbs():
    return re.findall(r"^  ([a-z]+) ", output("tsctl", "help"), re.MULTILINE)


def queries():
    """In the order of the list."""
    embed = (tree.ROOT / "core/store/query/embed.cmake").read_text()
    return re.search(r"^set\(listed\n([^)]*)\)", embed, re.MULTILINE)[1].split()


def columns():
    """Of each table of core/store/row.c, in order."""
    place = {"OWN_KEY": 0, "OWN": 0, "GIVEN": 0, "FIELD": 1, "SECOND_OF": 1, "FIELD_AS": 3}
    text = (tree.ROOT / "core/store/row.c").read_text()
    return {table: [arguments.split(",")[place[macro]].strip()
                    for macro, arguments in re.findall(rf"\b({'|'.join(place)})\(([^()]*)\)", body)]
            for table, body in re.findall(r"row_column (\w+)_columns\[\] = \{(.*?)^\};", text,
                                          re.MULTILINE | re.DOTALL)}


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

    def test_every_metric(self):
        families = (tree.ROOT / "client/serve/family.h").read_text()
        names = re.findall(r"X\(\w+, (?:COUNTER|GAUGE|HISTOGRAM), \w+, \"(\w+)\"", families)
        listed = (tree.ROOT / "docs/operating.md").read_text()
        self.assertIn("launches", names)
        for name in names:
            self.assertRegex(listed, rf"\btracesmith_{name}(_total|_bytes|_seconds|_ratio|\b)")

    def test_every_option_of_tracesmithd(self):
        listed = re.findall(r"^ +(?:-., )?--([a-z-]+)", output("tracesmithd", "--help"),
                            re.MULTILINE)
        self.assertEqual(page_options("tracesmithd.8"), set(listed))

    def test_every_option_and_setting_of_tracesmith_ship(self):
        listed = re.findall(r"^ +(?:-., )?--([a-z-]+)", output("tracesmith-ship", "--help"), re.MULTILINE)
        self.assertEqual(page_options("tracesmith-ship.8"), set(listed))
        text = (BUILD / "docs/tracesmith-ship.8").read_text()
        settings = re.findall(r"^#([a-z_]+) =", output("tracesmith-ship", "--print-config"), re.MULTILINE)
        self.assertGreater(len(settings), 8)
        for setting in settings:
            self.assertRegex(text, rf"(?m)^\.It (Cm \w+ , )?Cm {setting}\b")

    def test_every_function_of_the_library(self):
        exported = re.findall(r"^\t\t(tracesmith_\w+);", (tree.ROOT / "client/library/client.map").read_text(), re.MULTILINE)
        declared = re.findall(r"^\w[^;{}()]*?\b(tracesmith_\w+)\(", (tree.ROOT / "client/library/client.h").read_text(),
                              re.MULTILINE)
        page = re.findall(r"^\.Fo (tracesmith_\w+)", (BUILD / "docs/libtracesmith-client.3").read_text(), re.MULTILINE)
        self.assertGreater(len(exported), 20)
        self.assertEqual(sorted(exported), sorted(declared))
        self.assertEqual(sorted(exported), sorted(page))
        bound = re.findall(r"pub fn (tracesmith_\w+)", (tree.ROOT / "client/rust/src/ffi.rs").read_text())
        self.assertEqual(sorted(exported), sorted(bound))

    def test_the_crate_has_the_version(self):
        manifest = (tree.ROOT / "client/rust/Cargo.toml").read_text()
        self.assertIn(f'\nversion = "{output(tree.ROOT / "scripts/version").strip()}"\n', manifest)

    def test_every_query(self):
        self.assertIn("leaks", queries())
        text = (BUILD / "docs/tsctl.1").read_text().partition("daemon's queries:\n")[2]
        listed = re.findall(r"^\.Cm ([a-z-]+)", text.partition("\n.Li")[0], re.MULTILINE)
        self.assertEqual(listed, queries())

    def test_every_setting(self):
        text = (BUILD / "docs/tracesmithd.conf.5").read_text()
        settings = re.findall(r"^#([a-z_]+) =", output("tracesmithd", "--print-config"),
                              re.MULTILINE)
        self.assertGreater(len(settings), 10)
        for setting in settings:
            self.assertIn(f"\n.It Cm {setting}\n", text)


class Pages(unittest.TestCase):
    """README.md and docs/*.md."""

    PATHS = [tree.ROOT / "README.md", *sorted((tree.ROOT / "docs").glob("*.md"))]

    @staticmethod
    def prose(page):
        return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)

    def anchors(self, page):
        """The headings, as GitHub names them."""
        headings = re.findall(r"^#+ +(.+)$", self.prose(page), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def test_links_lead_somewhere(self):
        links = [(page, link) for page in self.PATHS
                 for link in re.findall(r"\]\(([^)\s]+)\)", self.prose(page))]
        self.assertGreater(len(links), 20)
        for page, link in links:
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            with self.subTest(page=page.name, link=link):
                if not re.match(r"https?://", link):
                    self.assertTrue(target.exists())
                    self.assertTrue(not anchor or anchor in self.anchors(target))

    def test_settings_are_those_of_the_program(self):
        pasted = re.search(r"^```ini\n(.*?)^```$", (tree.ROOT / "docs/operating.md").read_text(),
                           re.MULTILINE | re.DOTALL)
        self.assertEqual(pasted[1], output("tracesmithd", "--print-config"))

    def test_every_query_has_a_row_and_a_heading(self):
        page = tree.ROOT / "docs/queries.md"
        self.assertEqual([name for name in queries() if name not in self.anchors(page)], [])
        rows = re.findall(r"^\| ([a-z-]+) \|", self.prose(page).partition("\n## ")[0], re.MULTILINE)
        self.assertEqual([row for row in rows if row != "query"], queries())


    def test_every_loss_reason_says_what_it_counts(self):
        header = (tree.ROOT / "core/model/loss_row.h").read_text().partition("#define LOSS_REASONS")[2]
        reasons = re.findall(r'X\(\d+, \w+, (\w+), (\w+), \w+,\s*"\w+",\s*"([a-z-]+)"', header.partition("\nenum")[0])
        wanted = {name: counts.lower() + (", warns" if alarm == "ALARM" else "") for counts, alarm, name in reasons}
        self.assertGreater(len(wanted), 30)
        text = (tree.ROOT / "docs/queries.md").read_text().partition("\n## loss\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| ([a-z-]+) \| ([a-z, ]+) \|", text, re.MULTILINE)
        self.assertEqual({name: counts for name, counts in rows if name != "reason"}, wanted)

    def test_tables_have_the_columns_of_the_store(self):
        page = (tree.ROOT / "docs/tables.md").read_text()
        told = {name: text for names, text in re.findall(r"^\| ([a-z_, ]+) \| (.+) \|$", page, re.MULTILINE)
                for name in names.split(", ")}
        told["chunk"] = re.search(r"^## chunk\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)[1]
        tables = columns()
        self.assertGreater(len(tables), 20)
        for table, names in tables.items():
            text = re.sub(r"\([^()]*\)", "", re.sub(r"\]\([^()]*\)", "]", told[table]))
            with self.subTest(table=table):
                self.assertEqual([name for name in names if not re.search(rf"\b{name}\b", text)], [])
                self.assertEqual(set(re.findall(r"\b[a-z]+_[a-z_]+\b", text)) - set(names) - set(tables), set())


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Puts a tsctl first in the PATH that has an answer without a daemon: its columns."""
        cls.folder = tempfile.TemporaryDirectory()
        program = Path(cls.folder.name) / "tsctl"
        program.write_text(f'''#!/bin/sh
            case "$*" in
            "query apis --csv --limit 1") echo pid,column_apis ;;
            "ps --csv --limit 1") echo pid,column_ps ;;
            *) exec {shlex.quote(str(BUILD))}/tsctl "$@" ;;
            esac''')
        program.chmod(0o755)
        cls.path = ENVIRONMENT["PATH"]
        ENVIRONMENT["PATH"] = f"{cls.folder.name}:{cls.path}"

    @classmethod
    def tearDownClass(cls):
        ENVIRONMENT["PATH"] = cls.path
        cls.folder.cleanup()

    def bash(self, *words):
        """What bash offers for the last of the words."""
        line = f"""source {shlex.quote(str(COMPLETION))}/tsctl.bash
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _tsctl; printf '%s\\n' "${{COMPREPLY[@]}}" """
        return output("bash", "-c", line, "bash", "tsctl", *words).split()

    def fish(self, line):
        listed = output("fish", "--no-config", "-c",
                        f"source {shlex.quote(str(COMPLETION))}/tsctl.fish; complete -C '{line}'")
        return [offer.split("\t")[0] for offer in listed.splitlines()]

    def test_bash(self):
        self.assertEqual(self.bash("stat"), ["status"])
        self.assertEqual(self.bash("--socket", "/x", "stat"), ["status"])
        self.assertEqual(self.bash("help", "ex"), ["export"])
        self.assertEqual(self.bash("query", "l"), ["list"])
        self.assertEqual(self.bash("export", "--pe"), ["--perfetto"])
        self.assertEqual(set(self.bash("")), {*verbs(), "--socket"})
        self.assertEqual(self.bash("attach", "--wa"), ["--wait"])
        self.assertEqual(self.bash("run", "--stacks", "s"), ["sampled"])
        self.assertIn("root", self.bash("ps", "--user", "roo"))
        self.assertEqual(self.bash("query", "apis", "--sort", "col"), ["column_apis"])
        self.assertEqual(self.bash("ps", "--sort", "col"), ["column_ps"])
        self.assertEqual(self.bash("run", "--records", "k"), ["kernels"])
        self.assertEqual(self.bash("run", "--b"), ["--budget"])
        self.assertIn("printenv", self.bash("record", "-o", "x.sbt", "--", "printen"))
        self.assertEqual(self.bash("replay", "--copy"), ["--copy-bandwidth"])
        for words in ["run", "printen"], ["run", "--stacks", "all", "--", "printen"]:
            self.assertIn("printenv", self.bash(*words))
        self.assertIn("/etc/passwd", self.bash("run", "ls", "/etc/passw"))
        self.assertEqual(self.bash("run", "ls", "--b"), [])
        self.assertEqual({word.removeprefix("--") for word in self.bash("query", "--")},
                         options(output("tsctl", "help", "query").split("\n\n")[1]))

    def test_fish(self):
        self.assertEqual(self.fish("tsctl stat"), ["status"])
        self.assertEqual(self.fish("tsctl help ex"), ["export"])
        self.assertEqual(self.fish("tsctl query li"), ["list"])
        self.assertEqual(self.fish("tsctl attach --wa"), ["--wait"])
        self.assertEqual(self.fish("tsctl run --stacks s"), ["sampled"])
        self.assertIn("root", self.fish("tsctl ps --user roo"))
        self.assertEqual(self.fish("tsctl query apis --sort col"), ["column_apis"])
        self.assertEqual(self.fish("tsctl ps --sort col"), ["column_ps"])
        self.assertEqual(self.fish("tsctl run --records k"), ["kernels"])
        self.assertIn("printenv", self.fish("tsctl run --stacks all printen"))
        self.assertIn("/etc/passwd", self.fish("tsctl run -- ls /etc/passw"))
        self.assertIn("printenv", self.fish("tsctl record -o x.sbt printen"))
        self.assertEqual(self.fish("tsctl export --pe"), ["--perfetto"])
        self.assertEqual(self.fish("tsctl replay --speed m"), ["max"])
        self.assertNotIn("list", self.fish("tsctl query apis -p "))
        for words in "export -o", "export --output", "query apis -f", "replay --file":
            self.assertIn("/etc/passwd", self.fish(f"tsctl {words} /etc/passw"))

    def test_zsh_offers_the_same(self):
        """compadd and _describe are replaced by functions that print what they are given."""
        script = f"""
            compadd() {{ shift; print -l -- $@ }}
            _describe() {{ print -l -- ${{${{(P)2}}%%:*}} }}
            _normal() {{ print -l -- normal $CURRENT $words }}
            words=("$@") CURRENT=$# PREFIX=${{@[-1]}}
            tsctl_complete() {{ {(COMPLETION / '_tsctl').read_text()} }}
            tsctl_complete"""
        offer = lambda *words: output("zsh", "-f", "-c", script, "zsh", "tsctl", *words).split()
        self.assertEqual(offer("st"), verbs())
        self.assertEqual(offer("query", ""), ["list"])
        self.assertIn("--perfetto", offer("export", "--"))
        self.assertIn("--wait", offer("attach", "--"))
        self.assertIn("--budget", offer("run", "--"))
        self.assertIn("--scale", offer("replay", "--"))
        self.assertEqual(offer("record", "-o", "x.sbt", "l"), ["normal", "1", "l"])
        self.assertIn("kernels", offer("run", "--records", ""))
        self.assertEqual(offer("query", "apis", "--sort", ""), ["pid", "column_apis"])
        self.assertEqual(offer("ps", "--sort", ""), ["pid", "column_ps"])
        self.assertEqual(offer("run", "--stacks", ""), ["none", "sampled", "all"])
        self.assertEqual(offer("run", "--stacks", "all", "ls", "--b"), ["normal", "2", "ls", "--b"])
        self.assertEqual(offer("run", "--", "l"), ["normal", "1", "l"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
