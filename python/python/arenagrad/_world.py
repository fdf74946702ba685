"""The ranks of a run: how they start, and how one that fails ends all of them.

Invariant: no rank waits for one that has ended. An exception that leaves a function of `arenagrad.mpi`, or the program,
ends all ranks. A rank that exits meets the others at exit: one that is still to train sees there that it has left.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
from contextlib import contextmanager
from typing import Any, Iterator, Protocol

from ._errors import make

# What mpirun sets: the number of ranks.
_MPIRUN = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE")
# The number of this rank on its machine, as mpirun and torchrun set it.
_LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")
# Seconds that a rank whose failure is another's leaves that one to report it first.
_HEAD_START = 0.3


class Communicator(Protocol):
    """What ranks need of a communicator; mpi4py's has it. Buffers are arrays of bytes."""

    def Get_rank(self) -> int: ...
    def Get_size(self) -> int: ...
    def Alltoall(self, send: Any, receive: Any) -> None: ...
    def Allgather(self, send: Any, receive: Any) -> None: ...
    def Bcast(self, buffer: Any, root: int) -> None: ...
    def Barrier(self) -> None: ...
    def Abort(self, code: int) -> None: ...


class World:
    """The ranks that were started together: `rank` from 0, `size`, `local_rank` on this machine, and `comm`."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        local = next((os.environ[name] for name in _LOCAL if name in os.environ), None)
        self.local_rank = self.rank if local is None else int(local)
        self.ended = False

    def __repr__(self) -> str:
        return f"<arenagrad.mpi.World: rank {self.rank} of {self.size}>"

    def meet(self, stays: bool) -> list[int]:
        """Waits for all ranks. Gives those that leave."""
        all_of_them = bytearray(self.size)
        self.comm.Allgather(bytearray([stays]), all_of_them)
        return [rank for rank, there in enumerate(all_of_them) if not there]

    def begin(self) -> None:
        """Waits for all ranks to begin a run."""
        if self.size > 1:
            left = self.meet(True)
            if left:
                raise make("data", f"rank {left[0]} exited, and this rank begins a run")

    def abort(self, why: str) -> None:
        """Ends all ranks, for the reason `why`."""
        if self.ended:
            return
        self.ended = True
        line = " ".join(why.split())
        sys.stdout.flush()
        print(f"arenagrad: rank {self.rank} of {self.size} ended: {line}", file=sys.stderr, flush=True)
        self.comm.Abort(1)
        os._exit(1)

    def at_exit(self) -> None:
        """Meets the others; ends those that begin a run."""
        mpi = sys.modules.get("mpi4py.MPI")
        if self.ended or (mpi is not None and mpi.Is_finalized()):
            return
        try:
            left = self.meet(False)
        except Exception as e:
            self.abort(f"it exited, and cannot meet the other ranks: {e}")
        if len(left) < self.size:
            self.abort("it exited, and other ranks begin a run")

    def failed(self, error: BaseException) -> None:
        """Ends all ranks because of an exception."""
        if self.ended:
            return
        text = str(error)
        theirs = text.startswith("rank ") and not text.startswith(f"rank {self.rank}")
        if theirs or (self.rank > 0 and not text.startswith("rank ") and getattr(error, "kind", "") == "diverged"):
            time.sleep(_HEAD_START)
        traceback.print_exception(type(error), error, error.__traceback__)
        if isinstance(error, SystemExit):
            self.abort(f"it exited with {error.code!r} before the run was finished")
        self.abort(f"{type(error).__name__}: {text}")


class _Gloo:
    """The processes that torchrun has started: torch.distributed, over gloo."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as group

        self.torch = torch
        self.group = group
        if not group.is_initialized():
            group.init_process_group("gloo")
            atexit.register(self.leave)

    def leave(self) -> None:
        if self.group.is_initialized():
            self.group.destroy_process_group()

    def of(self, buffer: Any) -> Any:
        return self.torch.frombuffer(buffer, dtype=self.torch.uint8)

    def Get_rank(self) -> int:
        return int(self.group.get_rank())

    def Get_size(self) -> int:
        return int(self.group.get_world_size())

    def Alltoall(self, send: Any, receive: Any) -> None:
        self.group.all_to_all_single(self.of(receive), self.of(send))

    def Allgather(self, send: Any, receive: Any) -> None:
        self.group.all_gather_into_tensor(self.of(receive), self.of(send))

    def Bcast(self, buffer: Any, root: int) -> None:
        self.group.broadcast(self.of(buffer), root)

    def Barrier(self) -> None:
        self.group.barrier()

    def Abort(self, code: int) -> None:
        # torchrun ends the others.
        os._exit(code)


def _launched() -> Communicator:
    """The communicator of whatever has started this process."""
    by_mpirun = next((int(os.environ[name]) for name in _MPIRUN if name in os.environ), None)
    by_torchrun = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if by_mpirun is None and by_torchrun > 1:
        try:
            return _Gloo()
        except ImportError as e:
            raise make("usage", f"torchrun has started {by_torchrun} processes, which need torch to meet: {e}") from e
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as e:
        text = f'arenagrad.mpi needs mpi4py and an MPI: pip install "arenagrad[mpi]": {e}'
        raise make("usage", text) from e
    comm: Communicator = MPI.COMM_WORLD
    if by_mpirun is not None and by_mpirun != comm.Get_size():
        text = f"mpirun has started {by_mpirun} ranks, and mpi4py sees {comm.Get_size()}: it is of another MPI"
        raise make("usage", text)
    return comm


_world: World | None = None


def join() -> World:
    """The ranks of this run: those of `mpirun`, or of `torchrun`, whose variables RANK, WORLD_SIZE and LOCAL_RANK are read
    here alone. A process that neither has started is one rank of one.

    From here on an exception that ends the program ends all ranks, and an exit is noticed.
    """
    global _world
    if _world is None:
        _world = world = World(_launched())
        if world.size > 1:
            atexit.register(world.at_exit)
            sys.excepthook = lambda kind, error, trace: world.failed(error)
    return _world


@contextmanager
def ends_all() -> Iterator[None]:
    """An exception in here ends all ranks, if there are several."""
    try:
        yield
    except BaseException as error:
        if _world is not None and _world.size > 1:
            _world.failed(error)
        raise
