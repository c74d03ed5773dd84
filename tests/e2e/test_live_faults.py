"""Memory that runs out and a connection that breaks, at any moment of a question to the daemon: the answer, or a sentence. What is
asked of a recording is in tests/tools/test_faults.py, which has the loop."""
import os
import sys

import tracesmith
from tracesmith import BUILD, run

TOOLS = os.path.join(BUILD, "tests", "tools")
sys.argv[1:1] = [os.path.join(TOOLS, "libfaulty.so"), os.path.join(BUILD, "tsctl"), os.path.join(TOOLS, "faulty_store")]
sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "tools"))
os.environ.setdefault("TS_FAULTS_SHARE", "0.2")  # there are few
faults = __import__("test_faults")


class Live(tracesmith.Case):
    def test_each_fault_of_a_client(self):
        process, _ = run("counts")
        self.daemon.wait_ended(process.pid)
        os.environ["TRACESMITH_SOCKET"] = self.daemon.socket
        loop = faults.Faults("test_a_recording")
        loop.setUp()
        self.addCleanup(loop.doCleanups)
        for command in (["query", "apis", "--pid", process.pid, "--json"], ["query", "launches", "--pid", process.pid],
                        ["query", "processes", "--pid", process.pid, "--csv"], ["query", "list"],
                        ["sql", f"SELECT fn, sum(calls) FROM rollup JOIN process p ON p.id = process WHERE p.pid = {process.pid} GROUP BY fn"],
                        ["view", "--pid", process.pid, "--since", "1h", "--json"]):
            with self.subTest(command=command):
                loop.try_command([str(word) for word in command])


if __name__ == "__main__":
    tracesmith.main()
