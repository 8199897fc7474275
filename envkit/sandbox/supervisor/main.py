"""The supervisor itself: requests in, responses out.

Started as `python3 -I -S <bundle> FD [OUT]` with one end of a socket pair, or with a pipe to read from and one to write
to. The first request is `setup`, sent before any
agent process exists; after that the agent is everywhere around us, and nothing that it can touch is trusted: not the
environment, not the working directory, not the signals we get. The host's end closing is the order to die.
"""

# ruff: noqa: SIM105 - contextlib takes longer to import than the whole supervisor

from __future__ import annotations

import fcntl
import gc
import os
import resource
import sys
import time

from envkit.sandbox.supervisor import child, loop, pack, tree, unpack, wire
from envkit.sandbox.supervisor.jobs import Capture, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import ModuleType
    from typing import Any
else:
    import _signal as signal  # `signal` itself imports enum, which takes longer than all the rest

_RECEIVE = 1 << 18
#: Of a function called inside: what the host is asked to hold at once.
_MAX_RESULT = 1 << 26


#: The answer where nothing could be forked: as a command that could not be started, or as a function that was killed.
_NO_PROCESS = {
    "fail": 126,
    "reason": "no process is left to be had (the sandbox's limit of processes is reached)",
    "leader": -int(signal.SIGKILL),
    "killed": True,
    "timed_out": False,
    "dropped": [],
}


class Supervisor:
    """One connection to the host, the jobs on it, and the children that run them."""

    def __init__(self, connection: int, out: int = -1) -> None:
        self.loop = loop.Loop()
        self.jobs: dict[int, Job] = {}
        self.children: dict[int, Job] = {}
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._connection = connection
        self._target = connection if out < 0 else out
        self._reader = wire.FrameReader()
        self._out: list[bytes] = []
        self._writing = False
        self._confinement = child.Confinement()
        self._env: dict[str, str] = {}
        self.given_env: dict[str, str] = {}
        self._heard_s = time.monotonic()
        self._cwd = "/"
        self._root = ""
        self._modules: dict[str, ModuleType] = {}
        self._kill_all: list[tuple[int, int]] = []
        os.set_blocking(connection, False)
        os.set_blocking(self._target, False)
        self.loop.watch(connection, loop.READ, self._ready)
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_r, False)
        os.set_blocking(wake_w, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        self._wake = wake_r
        self.loop.watch(wake_r, loop.READ, self._woken)

    # -- the connection

    def send(self, data: bytes) -> None:
        self._out.append(data)
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        while self._out:
            joined = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            try:
                sent = os.write(self._target, joined)
            except BlockingIOError:
                sent = 0
            except OSError:
                os._exit(0)
            self._out = [joined[sent:]] if sent < len(joined) else []
            if sent < len(joined):
                if not self._writing:
                    self._writing = True
                    both = loop.READ if self._target == self._connection else 0
                    self.loop.watch(self._target, both | loop.WRITE, self._ready)
                return
        if self._writing:
            self._writing = False
            if self._target == self._connection:
                self.loop.watch(self._connection, loop.READ, self._ready)
            else:
                self.loop.forget(self._target)

    def _ready(self, events: int) -> None:
        if self._writing:  # also where all that is told of a pipe is that it broke: writing says so
            self._flush()
        if events & ~loop.WRITE:
            try:
                data = os.read(self._connection, _RECEIVE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._end()
            self._heard_s = time.monotonic()
            for kind, stream, payload in self._reader.feed(data):
                self._frame(kind, stream, payload)

    def _end(self) -> None:
        """The host is gone or said goodbye. As PID 1 our end is everybody's; elsewhere we see to that ourselves."""
        if os.getpid() != 1:
            for _ in range(50):
                self.kill_everything()
                if not self._reap():
                    break
        os._exit(0)

    def _frame(self, kind: int, stream: int, payload: bytes) -> None:
        if kind == wire.REQUEST:
            self._request(stream, wire.decode(payload))
            return
        job = self.jobs.get(stream)
        if job is None:
            return  # it has ended meanwhile
        if kind == wire.DATA and job.input is not None:
            job.input.add(payload)
        elif kind == wire.EOF and job.input is not None:
            job.input.end()
        elif kind == wire.CREDIT:
            job.outputs[0].add_credit(wire.credit_size(payload))
        elif kind == wire.CREDIT_ERR and len(job.outputs) > 1:
            job.outputs[1].add_credit(wire.credit_size(payload))
        elif kind == wire.CANCEL:
            job.kill()

    def _respond(self, stream: int, value: dict[str, Any]) -> None:
        self.send(wire.frame(wire.RESPONSE, stream, wire.encode(value)))

    def _request(self, stream: int, request: dict[str, Any]) -> None:
        try:
            handler = getattr(self, "_op_" + request["op"])
            handler(stream, request)
        except BlockingIOError:  # fork: where we share the agent's process limit, the agent has used it up
            self._respond(stream, _NO_PROCESS)
        except Exception as error:  # noqa: BLE001 - the capture point: answered, not fatal
            self._respond(stream, {"error": type(error).__name__, "message": str(error), "trace": child._trace(error)})

    # -- children

    def _woken(self, events: int) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        self._reap()

    def _reap(self) -> bool:
        """Collects what has ended. Returns whether children are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            job = self.children.pop(pid, None)
            if job is not None:
                job.reaped(status)

    def kill_everything(self) -> None:
        """SIGKILL to every process inside but this one, in one call where we are PID 1."""
        if os.getpid() == 1:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        elif self._confinement.user is not None and self._kill_user():
            pass
        else:
            for pid in tree.below({os.getpid()}, tree.processes()):
                tree.send(pid, signal.SIGKILL)

    def _kill_user(self) -> bool:
        """SIGKILL to all that is the agent's, in one call that nothing can fork away from, sent as the agent itself."""
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            try:
                self._confinement.become()
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return True

    def _step_kill_all(self) -> None:
        self.kill_everything()
        if self._reap():
            self.loop.after(0.002, self._step_kill_all)
            return
        waiting, self._kill_all = self._kill_all, []
        for stream, count in waiting:
            self._respond(stream, {"ok": True, "killed": count})

    # -- operations

    def _op_setup(self, stream: int, request: dict[str, Any]) -> None:
        """Limits and environment of everything that follows; the supervisor moves into its own cgroups."""
        for fd in request["own_cgroup_fds"]:
            os.write(fd, b"0")
            os.close(fd)
        cgroup_fds = tuple(request["agent_cgroup_fds"])
        for fd in cgroup_fds:
            os.set_inheritable(fd, False)
        rlimits = tuple((getattr(resource, name), size) for name, size in request["rlimits"].items())
        user = request.get("user")
        self._confinement = child.Confinement(
            cgroup_fds, rlimits, request["oom_score"], None if user is None else (user[0], user[1])
        )
        self._env = request["env"]
        if "defaults" in request:  # the image's own environment lies between our defaults and what is fixed
            self._env = {**request["defaults"], **self.given_env, **self._env}
        if request.get("silence_s"):
            self._listen(request["silence_s"])
        os.environ.update(self._env)  # for functions; nothing of ours reads it
        self._cwd = request["cwd"]
        self._root = request.get("root", "")
        try:
            os.makedirs(self._cwd, exist_ok=True)
        except OSError:
            pass  # a command says it better
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._respond(stream, {"ok": True, "version": wire.VERSION, "python": ".".join(map(str, sys.version_info[:3]))})

    def _listen(self, silence_s: float) -> None:
        """Ends everything once the host was not heard for so long: here no connection's end tells that it is gone."""
        left_s = self._heard_s + silence_s - time.monotonic()
        if left_s <= 0:
            self._end()
        self.loop.after(left_s, lambda: self._listen(silence_s))

    def _op_ping(self, stream: int, request: dict[str, Any]) -> None:
        self._respond(stream, {"ok": True, "jobs": len(self.jobs), "children": len(self.children)})

    def _op_exec(self, stream: int, request: dict[str, Any]) -> None:
        tail = request["keep"] == "tail"
        captures = Capture(request["cap"], tail), Capture(request["cap"], tail)
        self._command(stream, request, captures, merge=request["merge"], timeout_s=request["timeout_s"])

    def _op_spawn(self, stream: int, request: dict[str, Any]) -> None:
        self._command(stream, request, (None, None), announce=True)

    def _command(self, stream: int, request: dict[str, Any], captures: Any, **options: Any) -> None:
        env = dict(self._env)
        env.update(request["env"])
        cwd = request["cwd"] or self._cwd
        self.jobs[stream] = Job(
            self,
            stream,
            lambda i, o, e, s: child.lead(self._confinement, i, o, e, s, request["argv"], env, cwd),
            stdin=request["stdin"],
            captures=captures,
            **options,
        )

    def _op_load(self, stream: int, request: dict[str, Any]) -> None:
        """Loads a harness's module into this interpreter. Trusted code; what it does at call time runs in a child."""
        module = type(sys)(request["name"])
        code = compile(request["source"], "<inside {}>".format(request["name"]), "exec", dont_inherit=True)
        sys.modules[request["name"]] = module
        exec(code, module.__dict__)
        self._modules[request["key"]] = module
        gc.collect()
        gc.freeze()
        self._respond(stream, {"ok": True})

    def _op_call(self, stream: int, request: dict[str, Any]) -> None:
        function = getattr(self._modules[request["key"]], request["function"])

        def run(stdin: int, stdout: int) -> dict[str, Any]:
            try:
                os.chdir(self._cwd)
            except OSError:
                pass  # the agent may have closed its working directory to itself; what is called resolves paths anyway
            raw = wire.encode(function(**request["arguments"]))
            if len(raw) > _MAX_RESULT:
                raise ValueError(f"the result has {len(raw)} bytes; at most {_MAX_RESULT} can be given back")
            view = memoryview(raw)
            while view:
                view = view[os.write(stdout, view) :]
            return {"ok": True}

        self._work(stream, request, run)

    def _op_upload(self, stream: int, request: dict[str, Any]) -> None:
        self._work(stream, request, lambda stdin, stdout: unpack.unpack(stdin, request["to"]), stdin=True)

    def _op_snapshot(self, stream: int, request: dict[str, Any]) -> None:
        self._work(
            stream, request, lambda stdin, stdout: pack.pack(stdout, request["paths"], request["most"], self._root)
        )

    def _op_download(self, stream: int, request: dict[str, Any]) -> None:
        self._work(stream, request, lambda stdin, stdout: pack.fetch(stdout, request["path"], request["most"]))

    def _work(self, stream: int, request: dict[str, Any], function: Any, stdin: bool = False) -> None:
        self.jobs[stream] = Job(
            self,
            stream,
            lambda i, o, e, s: child.work(self._confinement, i, o, e, s, function),
            stdin=stdin,
            stderr=False,
            timeout_s=request["timeout_s"],
        )

    def _op_kill_all(self, stream: int, request: dict[str, Any]) -> None:
        me = os.getpid()
        table = tree.processes()
        count = sum(table[pid][1] for pid in tree.below({me}, table) if pid not in self.children)
        self._kill_all.append((stream, count))
        if len(self._kill_all) == 1:
            self._step_kill_all()


def main() -> None:
    """Takes the descriptors' numbers from the command line and serves until the host's end closes."""
    fd = int(sys.argv[1])
    out = int(sys.argv[2]) if len(sys.argv) > 2 else -1
    if out >= 0:  # standard streams: what is forked needs their places
        fd, out = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(out, fcntl.F_DUPFD_CLOEXEC, 3)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
    child.hide()
    if os.getpid() != 1:
        child.adopt_orphans()
    # Python handles SIGINT unless told otherwise, and what PID 1 handles can be sent to it from inside.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(fd, False)
    os.chdir("/")
    given = dict(os.environ)
    os.environ.clear()
    supervisor = Supervisor(fd, out)
    supervisor.given_env = given
    gc.disable()
    gc.collect()
    gc.freeze()
    supervisor.loop.run()
