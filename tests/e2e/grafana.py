"""Grafana's dashboards on ClickHouse: what a panel's statement becomes before the server gets it.

The macros are those of Grafana's data source plugin (grafana-clickhouse-datasource 4): conditionalAll is replaced in the browser, then
the variables, and the others by the plugin's program on Grafana's host."""
import json
import os
import re

from tracesmith import SOURCE

NAMES = "clickhouse-fleet", "clickhouse-job"
ALL = "$__all"
FORMATS = {"singlequote": lambda values: ",".join("'" + value.replace("'", "\\'") + "'" for value in values), "csv": ",".join}


def load(name):
    with open(os.path.join(SOURCE, f"systemd/grafana/{name}.json")) as file:
        return json.load(file)


def closing(text, at):
    """Where the parenthesis ends that opens at `at`."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return end
    raise AssertionError(f"no end: {text[at:]}")


def conditions(text, variables):
    """A condition on a variable that has not everything, or 1=1."""
    macro = "$__conditionalAll"
    while macro in text:
        at = text.index(macro)
        end = closing(text, at + len(macro))
        condition, variable = text[at + len(macro) + 1:end].rsplit(",", 1)
        text = text[:at] + ("1=1" if variables[variable.strip()[1:]] == [ALL] else condition) + text[end + 1:]
    return text


def statement(text, variables, since, until, interval=60):
    """`variables`: lists of texts; times are Unix seconds."""
    text = conditions(text, variables)
    text = re.sub(r"\$\{(\w+):(\w+)\}", lambda part: FORMATS[part[2]](variables[part[1]]), text)
    text = re.sub(r"\$__timeFilter\((\w+)\)", lambda part: f"{part[1]} >= toDateTime({since}) AND {part[1]} <= toDateTime({until})", text)
    text = re.sub(r"\$__(fromTime|toTime|interval_s)\b",
                  lambda part: str(interval) if part[1] == "interval_s" else f"toDateTime({since if part[1] == 'fromTime' else until})", text)
    assert "$" not in text, text
    return text
