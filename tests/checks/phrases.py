#!/usr/bin/python3
"""Keeps phrases that are not plain English out of documents, messages and comments. docs/glossary.md has
the words to use. Usage: phrases.py [PATH...]: checks these, by default the whole tree."""

import re
import sys

import tree

# Each phrase, and what to write instead.
PHRASES = [
    (r"\b(the|its|their|each|from) begin\b", "start"),
    (r"[a-z,] (begins|began|begun|beginning)\b(?!\s*[-,=;()\[>*/+&|?:])", "start, started"),
    (r"\bso long\b(?! as)", "for this long, this long ago"),
    (r"\bshall\b", "a question or an imperative"),
    (r"' is no \w", "Invalid ...; 'x' is not a ..."),
    (r"(?<![Tt]here )\bis no [A-Z]{2,}", "Invalid ..."),
    (r"\bmeans nothing\b", "... matches nothing, ... has no effect"),
    (r"\bNor (have|has|is|are|can|do|does)\b", "a sentence of its own"),
    (r"\b(is|are|be|been|being)( not)? collected from\b", "recorded"),
    (r"\bgo(es)? before\b", "overrides, takes precedence"),
    (r"\bwhat (is|was) told\b", "what is reported"),
    (r"\b(tells|told|tell) (of|whether)\b", "reports, says, shows"),
    (r"\bgone without a word\b", "lost without a trace"),
    (r"\b(was|were|is) not looking\b", "while the daemon was not tracing"),
    (r"\b(daemon|tracesmithd) (looked|was looking)\b", "before the daemon started"),
    (r"\b(it|thread|process|program)s? st(ood|ands?) still\b", "paused, stopped"),
    (r"\bmakes? no sense\b", "is invalid"),
    (r"\bmend(ed|s)?\b", "fix, correct"),
    (r"\ba (line|row|object) an? [a-z]+\b", "one line per ..."),
    (r"\bdatabase lies\b", "database directory"),
    (r"\bha(s|ve) to be\b", "must be"),
    (r"\b(is|are) there already\b", "already exists"),
    (r"\bwho (writes|wrote|reads|calls|called|asks|asked)\b.{0,20}\b(it|file|library)\b",
     "the writer, the caller"),
]

# Licences, data, and the home of the phrases.
EXCEPT = ("LICENSE", "tests/data/", "tests/checks/phrases.py")

FOUND = ("from the begin of it", "record so\n * long", 'say("is collected "\n\t"from already")',
         "'5' is no SHARE", "# It goes\n# before the settings", "Nor have 61 other processes")
NOT_FOUND = ("as long as it runs", "so long as it runs", "begin(file)", "for (begin = 0;", "begin = end")


def flattened(text):
    """The text with blanks for the line ends inside comments and strings; its offsets stay."""
    def blanks(gap):
        return " " * len(gap[0])
    text = re.sub(r'"[ \t]*\\?\n[ \t]*"', blanks, text)
    return re.sub(r"[ \t]*\n[ \t]*(\*(?!/)|#|//|--)?[ \t]*", blanks, text)


def stumbles(text):
    """(line, phrase, what to write) for each phrase in the text."""
    flat = flattened(text)
    for pattern, instead in PHRASES:
        for found in re.finditer(re.sub(r"(?<!here) ", " +", pattern), flat):
            yield text.count("\n", 0, found.start()) + 1, re.sub(" +", " ", found[0]), instead


def check_itself():
    for text in FOUND:
        if not list(stumbles(text)):
            yield f"phrases.py does not find '{text}'"
    for text in NOT_FOUND:
        if list(stumbles(text)):
            yield f"phrases.py finds something in '{text}'"


def main():
    wanted = tuple(sys.argv[1:]) or ("",)
    names = [name for name in tree.files("")
             if name.startswith(wanted) and not name.startswith(EXCEPT)]
    findings = list(check_itself())
    for name in names:
        data = (tree.ROOT / name).read_bytes()
        if b"\0" not in data:
            findings += [f"{name}:{line}: '{phrase}': write {instead}"
                         for line, phrase, instead in stumbles(data.decode(errors="replace"))]
    tree.finish("phrases", len(names), findings)


main()
