#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Collective operations of MPI, with every result checked. Usage: mpi.py ROUNDS [FILE]

Rank 0 makes FILE when a third of the rounds is done.
"""
import array
import sys

from mpi4py import MPI

rounds = int(sys.argv[1])
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def check(what, got, want):
    """Ends all ranks if a result is wrong."""
    if got != want:
        print(f"rank {rank}: {what} is wrong", flush=True)
        comm.Abort(1)


for turn in range(rounds):
    if turn == rounds // 3 and rank == 0 and len(sys.argv) > 2:
        open(sys.argv[2], "w").close()
    for n in (1, 100, 5000, 40000):
        mine = array.array("q", (rank * 7 + i + turn for i in range(n)))
        ranks = size * (size - 1) // 2

        total = array.array("q", bytes(8 * n))
        comm.Allreduce(mine, total, op=MPI.SUM)
        check("allreduce", total,
              array.array("q", (ranks * 7 + size * (i + turn) for i in range(n))))

        out = array.array("q", (rank * 1000003 + to * 1009 + i + turn
                                for to in range(size) for i in range(n)))
        got = array.array("q", bytes(8 * n * size))
        comm.Alltoall(out, got)
        check("alltoall", got, array.array("q", (
            source * 1000003 + rank * 1009 + i + turn
            for source in range(size) for i in range(n))))

        root = turn % size
        data = array.array("q", (root * 7 + i + turn for i in range(n)))
        copy = data if rank == root else array.array("q", bytes(8 * n))
        comm.Bcast(copy, root=root)
        check("bcast", copy, data)
comm.Barrier()
print(f"rank {rank} of {size} on {MPI.Get_processor_name()}: {rounds} rounds", flush=True)
