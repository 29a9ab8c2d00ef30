"""A kernel for other people's notebooks, locked up: `Kernel` runs cells, one after the other.

Only the kernel is locked up; nbgrader, its gradebook and the sources of the sets stay outside. bubblewrap gives it a
system it can only read, a folder of its own in memory, no network (not even this machine's), no other processes, and no
file of the book but the library. It talks to us through sockets in a folder of its own, in messages of bounded size. A
watchdog stops it when it takes too much memory, starts too many processes or writes too much, and everything it
started dies with it.
"""

import contextlib
import os
import queue
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat
import psutil
import zmq
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

LIBRARY = Path(__file__).resolve().parent.parent / "lib"
MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What one submission may take."""

    start: float = 90.0  # seconds until the kernel answers
    cell: float = 45.0  # seconds per cell
    memory: int = 2 * 1024 * MIB  # resident bytes of all its processes together
    processes: int = 24  # its processes (bubblewrap's own among them)
    disk: int = 64 * MIB  # its folder in memory; as much again as shared memory
    output: int = 256 * 1024  # characters of output kept per notebook


LIMITS = Limits()


class NoSandbox(Exception):
    """This machine cannot lock a kernel up; the message says what is missing."""


@dataclass
class Ran:
    """What a cell did: its outputs, and why it was stopped (``""`` if it was not)."""

    outputs: list[nbformat.NotebookNode] = field(default_factory=list)
    stopped: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.stopped) or any(output.output_type == "error" for output in self.outputs)


def locked(command: list[str], folder: Path, limits: Limits) -> list[str]:
    """`command` inside bubblewrap; `folder` holds ``kernel.json`` (read only) and ``sockets`` (written)."""
    system = [path for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64") if os.path.lexists(path)]
    arguments = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
    arguments += ["--die-with-parent", "--new-session", "--hostname", "sandbox"]
    for path in system:
        same = ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
        arguments += same
    for path in ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/fonts"):
        arguments += ["--ro-bind-try", path, path]
    size = ["--size", str(limits.disk)]
    arguments += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    arguments += [*size, "--tmpfs", "/tmp", "--dir", "/tmp/home"]
    for path in _python():
        if not any(Path(path).is_relative_to(top) for top in system):
            arguments += ["--ro-bind", path, path]
    arguments += ["--ro-bind", str(folder / "kernel.json"), str(folder / "kernel.json")]
    arguments += ["--bind", str(folder / "sockets"), str(folder / "sockets")]
    arguments += ["--remount-ro", "/", "--chdir", "/tmp/home"]
    bounds = [f"--as={4 * limits.memory}", f"--data={limits.memory}", f"--fsize={limits.disk}", "--core=0"]
    bounds += ["--nofile=512", "--nproc=512", "--cpu=600"]
    return [_tool("bwrap"), *arguments, "--", _tool("prlimit"), *bounds, "--", *command]


def _python() -> list[str]:
    """The folders that this Python and the book's library live in, outermost only."""
    named = {
        sys.prefix,
        sys.base_prefix,
        str(LIBRARY),
        *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")),
    }
    found = sorted({os.path.realpath(path) for path in named} | {os.path.abspath(path) for path in named})
    return [path for path in found if not any(path != top and Path(path).is_relative_to(top) for top in found)]


def _tool(name: str) -> str:
    found = shutil.which(name, path=os.defpath + os.pathsep + os.environ.get("PATH", ""))
    if found is None:
        raise NoSandbox(f"{name} is missing")
    return found


@cache
def require() -> None:
    """Raise NoSandbox unless a locked-up Python starts here."""
    advice = (
        "Linux with bubblewrap 0.8 or newer is needed: apt install bubblewrap, dnf install bubblewrap. macOS and "
        "Windows have none; use a Linux machine, a virtual one or WSL 2."
    )
    if not sys.platform.startswith("linux"):
        raise NoSandbox(f"there is no sandbox on {sys.platform}. {advice}")
    with tempfile.TemporaryDirectory(prefix="al-") as name:
        folder = Path(name)
        (folder / "sockets").mkdir()
        (folder / "kernel.json").write_text("{}", encoding="utf8")
        try:
            command = locked([sys.executable, "-c", "print(6 * 7)"], folder, LIMITS)
            tried = subprocess.run(command, env=_environment(""), capture_output=True, text=True, timeout=60)
        except NoSandbox as error:
            raise NoSandbox(f"{error}. {advice}") from None
        except subprocess.TimeoutExpired:
            raise NoSandbox(f"bubblewrap did not answer within a minute. {advice}") from None
    if tried.returncode or tried.stdout.strip() != "42":
        said = (tried.stderr.strip() or "nothing").splitlines()[-1]
        raise NoSandbox(
            f"bubblewrap cannot start Python here; it says: {said}. {advice} Where user namespaces are forbidden "
            "(Ubuntu 24.04: AppArmor; containers), allow them for bwrap: sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0, or run outside the container."
        )


def _environment(student: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp/home",
        "USER": "student",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "MPLCONFIGDIR": "/tmp/home",
        "IPYTHONDIR": "/tmp/home/ipython",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ATTNLEDGER_STUDENT": student,
    }


class Kernel:
    """A Python kernel that runs cells for `student`: locked up, or with ``trust=True`` as this user.

    Use it as a context manager. `run` never raises for what a cell does.
    """

    def __init__(self, student: str, *, trust: bool = False, limits: Limits | None = None):
        self.student, self.trust, self.limits = student, trust, limits or LIMITS
        self.killed, self.kept, self.patience = "", 0, 2.0

    def __enter__(self) -> "Kernel":
        self.folder = Path(tempfile.mkdtemp(prefix="al-"))  # short: a socket's path has 107 characters at most
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        if client := getattr(self, "client", None):
            client.stop_channels()
        if context := getattr(self, "context", None):
            context.destroy(linger=0)
        if process := getattr(self, "process", None):
            self._kill("the grading is over")
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        sockets, connection = self.folder / "sockets", self.folder / "kernel.json"
        sockets.mkdir()
        local = {"transport": "ipc", "ip": str(sockets / "k")} if os.name != "nt" else {}
        write_connection_file(str(connection), key=secrets.token_hex(32).encode(), **local)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection)]
        command += ["--HistoryManager.enabled=False", "--IPKernelApp.log_level=ERROR"]
        environment = _environment(self.student)
        if self.trust:
            environment = os.environ | {"ATTNLEDGER_STUDENT": self.student, "OMP_NUM_THREADS": "1"}
        else:
            command = locked(command, self.folder, self.limits)
        with open(self.folder / "log", "wb") as log:
            self.process = psutil.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        threading.Thread(target=self._watch, daemon=True).start()
        self.context = zmq.Context()
        self.context.setsockopt(zmq.MAXMSGSIZE, 4 * MIB)  # a larger message ends the connection
        self.context.setsockopt(zmq.RCVHWM, 200)
        self.client = BlockingKernelClient(connection_file=str(connection), context=self.context)
        self.client.load_connection_file()
        self.client.start_channels(hb=False)
        self._await()

    def _await(self) -> None:
        """Wait until the kernel answers and its outputs arrive."""
        deadline = time.monotonic() + self.limits.start
        while time.monotonic() < deadline and not self.killed:
            with contextlib.suppress(queue.Empty):
                self.client.kernel_info()
                self.client.get_shell_msg(timeout=1)
                while self.client.get_iopub_msg(timeout=1):
                    if not self.client.iopub_channel.msg_ready():
                        return
        said = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        raise NoSandbox(f"the kernel did not start: {said[-1] if said else self.killed or 'no answer'}")

    def _watch(self) -> None:
        """Look at the processes five times a second and stop them all when they take too much."""
        while self.process.poll() is None and not self.killed:
            with contextlib.suppress(psutil.Error, OSError):
                family = [self.process, *self.process.children(recursive=True)]
                if len(family) > self.limits.processes:
                    self._kill("it started too many processes")
                elif sum(_resident(each) for each in family) > self.limits.memory:
                    self._kill("it took too much memory")
                elif _held(self.folder / "sockets") > MIB:
                    self._kill("it wrote into the folder of its sockets")
            time.sleep(0.2)
        if not self.killed:
            self.killed = "its process ended"

    def _kill(self, why: str) -> None:
        """End the process; inside bubblewrap all others die with it."""
        self.killed = self.killed or why
        with contextlib.suppress(psutil.Error, OSError):
            family = self.process.children(recursive=True) if self.trust else []
            self.process.kill()
            for each in family:
                with contextlib.suppress(psutil.Error):
                    each.kill()

    def run(self, source: str) -> Ran:
        """Run one cell, for at most `limits.cell` seconds."""
        if self.killed:
            return Ran(stopped=f"not run, for the kernel had been stopped: {self.killed}")
        ran, deadline = Ran(), time.monotonic() + self.limits.cell
        message = self.client.execute(source, allow_stdin=False, store_history=True)
        status, idle, interrupted = "", False, False
        while not (self.killed or (status and idle)):
            if not status and (status := self._status(message)):
                deadline = time.monotonic() + self.patience  # for what it printed
            elif time.monotonic() > deadline and status:
                self._append(ran, False, "[more output than is kept]\n")
                self.patience = 0.2  # a message too large has ended the connection: outputs are lost from here on
                break
            elif time.monotonic() > deadline and interrupted:
                self._kill(f"it could not be interrupted after {self.limits.cell:.0f} seconds")
            elif time.monotonic() > deadline:
                interrupted, deadline = True, time.monotonic() + 5
                self.client.control_channel.send(self.client.session.msg("interrupt_request", {}))
            said = self._said(self.client.get_iopub_msg, message)
            if said and said["msg_type"] == "status":
                idle = said["content"].get("execution_state") == "idle"
            elif said:
                self._keep(ran, said["msg_type"], said["content"])
        if self.killed or interrupted:
            ran.stopped = self.killed or f"still running after {self.limits.cell:.0f} seconds"
        elif status != "ok" and not ran.failed:
            ran.outputs.append(error("Error", "the cell failed and did not say how"))
        return ran

    def _status(self, message: str) -> str:
        """``"ok"`` or ``"error"`` once the cell is done."""
        ready = self.client.shell_channel.msg_ready()
        reply = self._said(self.client.get_shell_msg, message) if ready else None
        return str(reply["content"].get("status", "error")) if reply else ""

    def _said(self, get, message: str) -> dict | None:
        """The next message, if it belongs to the cell that was sent as `message`."""
        try:
            said = get(timeout=0.1)
            mine = said["parent_header"].get("msg_id") == message and isinstance(said["content"], dict)
            return said if mine else None
        except queue.Empty:
            return None
        except Exception:  # signed by no one, or not a message
            self._kill("its messages could not be read")
            return None

    def _keep(self, ran: Ran, kind: str, content: dict) -> None:
        """Add an output: streams, errors and what has a plain text; nothing that a browser would run."""
        if kind == "stream":
            self._append(ran, content.get("name") == "stderr", str(content.get("text", "")))
        elif kind in ("execute_result", "display_data"):
            data = content.get("data")
            text = data.get("text/plain") if isinstance(data, dict) else None
            self._append(ran, False, f"{text}\n" if isinstance(text, str) else "")
        elif kind == "error":
            name = re.sub(r"[^\w.]", "", str(content.get("ename", "Error")))[:60]
            ran.outputs.append(error(name, str(content.get("evalue", ""))[:2000]))

    def _append(self, ran: Ran, stderr: bool, text: str) -> None:
        room = max(0, self.limits.output - self.kept)
        text = text[:room] + "\n[more output than is kept]\n" * (len(text) > room > 0)
        self.kept += len(text)
        name = "stderr" if stderr else "stdout"
        last = ran.outputs[-1] if ran.outputs else None
        if last and last.output_type == "stream" and last.name == name:
            last.text += text
        elif text:
            ran.outputs.append(nbformat.v4.new_output("stream", name=name, text=text))


def error(name: str, value: str) -> nbformat.NotebookNode:
    """An error as a cell's output, without the lines of code it came from."""
    return nbformat.v4.new_output("error", ename=name, evalue=value, traceback=[f"{name}: {value}"])


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _held(folder: Path) -> int:
    """Bytes in a folder, a file counting as 64 KiB at least."""
    return sum(max(entry.stat(follow_symlinks=False).st_size, 64 * 1024) for entry in os.scandir(folder))
