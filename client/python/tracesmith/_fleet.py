"""A fleet: what many hosts have shipped to a ClickHouse. A tsctl is run for each question, as the queries and what they
need to know of servers are in it; libtracesmith-client speaks to a daemon and has none of that."""
from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

from ._answer import Answer, Column
from ._asker import given_text, number
from ._errors import BadRequest, Error, Unavailable
from ._moment import Duration, Moment, duration_ns, moment_ns, utc
from ._recording import find_tsctl, said

_RANK_MAX = 2 ** 31 - 1
_COUNT_MAX = 2 ** 63 - 1
_EXIT_USAGE = 2
_KINDS = {bool: "integer", int: "integer", float: "real"}


def _kind(values: List[Any]) -> str:
    """Of a column that nobody has described."""
    kinds = {_KINDS.get(type(value), "text") for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else "real" if kinds == {"integer", "real"} else "text"


class Fleet:
    """Asks the server of a fleet: see fleet()."""

    def __init__(self, url: Optional[str], password_file: Any, tsctl: Optional[str]) -> None:
        self._program = find_tsctl(tsctl)
        self._server: List[str] = []
        self.url = url or os.environ.get("TRACESMITH_FLEET_URL")
        if url is not None:
            self._server.append(f"--url={given_text(url, 'url')}")
        if password_file is not None:
            self._server.append(f"--password-file={os.fsdecode(password_file)}")
        #: of each query
        self._columns: Dict[str, List[Column]] = {}
        for row in self.queries():
            described = (column.split(" ") for column in row["columns"].split(", "))
            self._columns[row["query"]] = [Column(name, "integer" if kind == "id" else kind) for name, kind in described]

    def _run(self, *arguments: str) -> bytes:
        command = [self._program, "fleet", *arguments]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  env=dict(os.environ, TZ="UTC0"))
        except OSError as error:
            raise Unavailable(f"Cannot run '{self._program}': {error.strerror}") from None
        except ValueError:
            raise BadRequest("A text has a NUL") from None
        if done.returncode:
            sentences = said(done.stderr)
            kind = BadRequest if done.returncode == _EXIT_USAGE else Error
            raise kind(sentences[-1] if sentences else f"tsctl ended with exit status {done.returncode}")
        return done.stdout

    def _answer(self, name: str, columns: Optional[List[Column]], arguments: List[str], what: str) -> Answer:
        # Two columns may have one name, so rows are pairs.
        told = dict(json.loads(self._run(*arguments, "--json", "--", what), object_pairs_hook=lambda pairs: pairs))
        rows: List[List[Tuple[str, Any]]] = told["rows"]
        answer = Answer(name, 0)
        answer.values = [tuple(value for _, value in row) for row in rows]
        answer.truncated = told.get("truncated", False)
        if columns is None and rows:
            columns = [Column(column, _kind([row[place] for row in answer.values]))
                       for place, (column, _) in enumerate(rows[0])]
        answer.columns = columns or []
        return answer

    def query(self, query: str, *, job: Optional[str] = None, host: Optional[str] = None, rank: Optional[int] = None,
              since: Optional[Moment] = None, until: Optional[Moment] = None, limit: Optional[int] = None,
              timeout: Optional[Duration] = None, all: bool = False) -> Answer:  # pylint: disable=redefined-builtin
        """Runs one of the queries that queries() lists. The arguments are the options of 'tsctl fleet query'; which of
        them a query takes is in its row there. A time in an answer is in nanoseconds since 1970."""
        arguments, now = ["query", *self._server], time.time_ns()
        for name, text in (("job", job), ("host", host)):
            if text is not None:
                arguments.append(f"--{name}={given_text(text, name)}")
        if rank is not None:
            arguments.append(f"--rank={number(rank, 'rank', _RANK_MAX)}")
        for name, moment in (("since", since), ("until", until)):
            if moment is not None:
                arguments.append(f"--{name}={utc(moment_ns(moment, name, now, 0))}")
        if all:
            arguments.append("--all")
        return self._answer(query, self._columns.get(given_text(query, "query")),
                            arguments + self._bounds(limit, timeout), query)

    def queries(self) -> Answer:
        """All queries, with what each takes, and its columns."""
        columns = [Column(name, "text") for name in ("query", "options", "text", "columns")]
        return self._answer("list", columns, ["query"], "list")

    def sql(self, text: str, *, limit: Optional[int] = None, timeout: Optional[Duration] = None) -> Answer:
        """Runs one statement that reads: docs/fleet.md has the tables. An answer without rows has no columns."""
        if not given_text(text, "text").strip(" \t\r\n;"):
            raise BadRequest("Missing statement: sql('SELECT ...')")
        return self._answer("sql", None, ["sql", *self._server, *self._bounds(limit, timeout)], text)

    @staticmethod
    def _bounds(limit: Optional[int], timeout: Optional[Duration]) -> List[str]:
        bounds = []
        if limit is not None:
            bounds.append(f"--limit={number(limit, 'limit', _COUNT_MAX)}")
        if timeout is not None:
            bounds.append(f"--timeout={max(duration_ns(timeout, 'timeout'), 1)}ns")
        return bounds

    def __repr__(self) -> str:
        return f"<tracesmith.Fleet of {self.url!r}>"
