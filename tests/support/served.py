"""A collector as a process of its own, for tests and benchmarks."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class Server:
    """`sketchlearn serve` on a folder; the port stays the same when it is started again.

    `options` are further ones of the command; `first` is Python that the process runs before it, for shorter limits.
    """

    def __init__(self, folder, database=None, port=0, options=(), first=""):
        self.folder, self.database, self.port, self.process = Path(folder), database, port, None
        self.options, self.first = [str(option) for option in options], first
        self.said, self.scheme = [], "http"

    def start(self):
        """Starts it, and waits until it answers."""
        options = [*self.options, *([] if self.database is None else ["--database", self.database])]
        program = (
            ["-c", f"{self.first}; from sketchlearn.cli import main; main()"] if self.first else ["-m", "sketchlearn"]
        )
        command = [sys.executable, *program, "serve", str(self.folder), "--port", str(self.port), *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"collecting at (https?)://\S+:(\d+)", line):
                self.scheme, self.port = found[1], int(found[2])
                break
        else:
            raise RuntimeError("".join(self.said))
        self.listener = threading.Thread(target=self._listen, args=(self.process.stderr,), daemon=True)
        self.listener.start()
        return self

    def _listen(self, stream):
        with stream:
            self.said.extend(stream)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def token(self):
        return (self.folder / "admin.token").read_text().strip()

    def kill(self):
        """Kills it with -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.listener.join(10)

    def stop(self):
        """Ends it as a person would."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
            self.listener.join(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def memory(self):
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def cpu_seconds(self):
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_error):
        self.stop()


class Cluster:
    """A PostgreSQL server of its own, in a temporary folder, reached by a socket there."""

    def __init__(self):
        if not POSTGRESQL:
            raise RuntimeError("PostgreSQL is not installed")
        self.folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.binaries = POSTGRESQL[-1]
        self.prefix = []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            self.prefix = ["runuser", "-u", "postgres", "--"]
        self._run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "postgres", "-E", "UTF8")
        options = f"-k {self.folder} -c listen_addresses= -c max_connections=50"
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    @property
    def url(self):
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def _run(self, name, *arguments):
        command = [*self.prefix, str(self.binaries / name), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
