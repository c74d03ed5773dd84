"""The flame graph of make_trace in a browser: zoom, search, keys, and names that look like script.

test_flame.py MAKE_TRACE; 77: there is no Chromium here.
A copy of the graph gets a script that acts as a user would and writes down what it sees.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MAKE_TRACE = None
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
GEMM = "void gemm<float, 128>(float const*, float*)"
USER = """<script><![CDATA[
(function () {
  var seen = [], frames = Array.from(document.querySelectorAll('#frames > g'));
  function name(g) { return g.querySelector('title').textContent.split('\\n')[0]; }
  function of(text) { return frames.find(function (g) { return name(g) === text; }); }
  function note(what) {
    var shown = frames.filter(function (g) { return !g.classList.contains('hidden'); });
    seen.push({what: what, shown: shown.map(name), hash: location.hash,
      found: frames.filter(function (g) { return g.classList.contains('found'); }).map(name),
      text: document.getElementById('found').textContent,
      details: document.getElementById('details').textContent,
      widest: shown.filter(function (g) {
        return +g.querySelector('rect').getAttribute('width') > innerWidth - 20; }).map(name)});
  }
  function on(g, type) { g.querySelector('rect').dispatchEvent(new MouseEvent(type, {bubbles: true})); }
  function key(text) { window.dispatchEvent(new KeyboardEvent('keydown', {key: text, cancelable: true})); }
  function type(text) {
    var input = document.querySelector('#search input');
    input.value = text;
    input.dispatchEvent(new Event('input'));
  }
  note('begin');
  on(of('[no stack]'), 'mouseover'); note('hover');
  on(of('[no stack]'), 'click'); note('click');
  key('Escape'); note('escape');
  key('/'); seen.push({what: 'slash', focused: document.activeElement === document.querySelector('#search input')});
  type('^memcpy|gemm<'); note('search');
  type('('); note('wrong');
  type('nothing is called so'); note('nothing');
  key('Escape'); note('end');
  document.documentElement.setAttribute('data-seen', JSON.stringify(seen));
}());
]]></script></svg>"""


def browse(path, suffix=""):
    with tempfile.TemporaryDirectory() as profile:
        run = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,600",
             f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom",
             f"file://{path}{suffix}"], capture_output=True, text=True, check=True, timeout=120)
    return run.stdout


class Flame(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "flame.svg")
        subprocess.run([MAKE_TRACE, "svg", cls.path], check=True)
        with open(cls.path) as file:
            graph = file.read()
        driven = os.path.join(cls.folder.name, "driven.svg")
        with open(driven, "w") as file:
            file.write(graph.replace("</svg>", USER))
        seen = re.search(r'data-seen="([^"]*)"', browse(driven))
        cls.seen = {row["what"]: row for row in json.loads(html.unescape(seen.group(1)))}

    def test_at_first_everything_is_there(self):
        begin = self.seen["begin"]
        self.assertIn("train (4242)", begin["shown"])
        self.assertEqual(begin["shown"].count(GEMM), 2)
        self.assertEqual(begin["widest"], ["all", "train (4242)"])
        self.assertEqual(begin["found"], [])

    def test_the_mouse_shows_time_share_and_count(self):
        self.assertEqual(self.seen["hover"]["details"],
                         "[no stack]  no stack \u00b7 36.5 \u00b5s \u00b7 46.50 % \u00b7 33 \u00d7")

    def test_a_click_zooms_and_escape_shows_all_again(self):
        self.assertEqual(sorted(self.seen["click"]["shown"]),
                         sorted(["all", "train (4242)", "[no stack]", GEMM, "graph", "memset",
                                 "unknown kernel"]))
        self.assertEqual(self.seen["click"]["widest"], ["all", "train (4242)", "[no stack]"])
        self.assertRegex(self.seen["click"]["hash"], "^#zoom=[0-9]+$")
        self.assertEqual(self.seen["escape"]["shown"], self.seen["begin"]["shown"])

    def test_a_search_marks_what_it_finds_and_says_its_share(self):
        self.assertTrue(self.seen["slash"]["focused"])
        self.assertEqual(sorted(self.seen["search"]["found"]), ["memcpy HtoD", GEMM, GEMM])
        self.assertEqual(self.seen["search"]["text"],
                         f"found in {100 * (10 + 56) / 78.5:.2f}\u00a0% of the time")
        self.assertEqual(self.seen["wrong"]["text"], "not a regular expression")
        self.assertEqual(self.seen["nothing"]["text"], "not found")
        self.assertEqual(self.seen["end"]["found"], [])

    def test_an_address_brings_zoom_and_search_back(self):
        page = browse(self.path, "#zoom=2&search=gemm%3C")
        self.assertEqual(len(re.findall(r'<g class="[^"]*\bfound\b', page)), 2)
        self.assertGreater(len(re.findall(r'<g class="[^"]*\bhidden\b', page)), 0)


if __name__ == "__main__":
    MAKE_TRACE = sys.argv.pop(1)
    if not BROWSER:
        print("skipped: no Chromium")
        sys.exit(77)
    unittest.main()
