"""The alerts for Prometheus: each comes where it should, and the metrics that they name are there."""
import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALERTS = os.path.join(ROOT, "systemd/grafana/alerts.yml")
STORIES = os.path.join(ROOT, "tests/data/alerts_test.yml")


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


class Alerts(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_they_are_rules(self):
        self.promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)

    def test_they_come_where_they_should(self):
        self.promtool("test", "rules", STORIES)
        stories = read(STORIES)
        for alert in re.findall(r"- alert: (\w+)", read(ALERTS)):
            self.assertIn(f'alertname="{alert}"', stories, "it is not in any story")

    def test_their_metrics_are_served(self):
        families = re.findall(r'X\(\w+, (?:COUNTER|GAUGE|HISTOGRAM), \w+, "(\w+)"', read("client/serve/family.h"))
        for name in set(re.findall(r"\btracesmith_(\w+)[{\[ ]", read(ALERTS))):
            self.assertIn(re.sub(r"(_bytes|_seconds|_ratio)?(_total)?$", "", name), families)

    def test_their_reasons_are_those_that_status_warns_of(self):
        reasons = set(re.findall(r'X\(\d+, \w+, (?:MISSING|NOTE), ALARM, \w+, "\w+", "([a-z-]+)"', read("core/model/loss_row.h")))
        named = set("|".join(re.findall(r'reason=~"([^"]+)"', read(ALERTS))).split("|"))
        self.assertEqual(named, reasons)


if __name__ == "__main__":
    if not shutil.which("promtool"):
        print("skipped: promtool is not installed", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
