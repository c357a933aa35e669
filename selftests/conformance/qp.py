# SPDX-License-Identifier: GPL-2.0
"""The real thing: a queue pair of the device that is tested, by pyverbs."""

import os
import select
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# Longest wait for what should happen at once; no test measures it.
PATIENCE = float(os.environ.get("PATIENCE", "60"))
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
MTU = {256: e.IBV_MTU_256, 1024: e.IBV_MTU_1024, 4096: e.IBV_MTU_4096}


class Device:
    def __init__(self, name, gid_index):
        self.ctx = Context(name=name)
        self.gid_index = gid_index
        self.gid = bytes.fromhex(
            self.ctx.query_gid(1, gid_index).gid.replace(":", ""))
        self.pd = PD(self.ctx)


class QueuePair:
    """A queue pair with a region of memory, connected to a peer: in RTS, or only in RTR."""

    def __init__(self, device, peer_gid, peer_qp, *, sq_psn, rq_psn, mtu=256, depth=64,
                 length=1 << 20, access=ACCESS, retry_cnt=7, rnr_retry=7, rnr_timer=12,
                 sends=True):
        self.device = device
        self.sq_psn, self.rq_psn = sq_psn, rq_psn
        self.mr = MR(device.pd, length, access)
        self.mr.write(bytes(length), length)
        self.cq = CQ(device.ctx, 4 * depth)
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap,
                          sq_sig_all=1)
        self.qp = QP(device.pd, init)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = access
        self.qp.to_init(attr)
        text = peer_gid.hex()
        gid = GID(":".join(text[i:i + 4] for i in range(0, 32, 4)))
        route = GlobalRoute(dgid=gid, sgid_index=device.gid_index, hop_limit=64)
        attr.ah_attr = AHAttr(is_global=1, port_num=1, gr=route)
        attr.path_mtu = MTU[mtu]
        attr.dest_qp_num = peer_qp
        attr.rq_psn = rq_psn
        attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer = rnr_timer
        self.qp.to_rtr(attr)
        if not sends:
            return
        attr.sq_psn = sq_psn
        attr.max_rd_atomic = 4
        # 4.3 s eight times: no machine is so slow as to make it give up.
        attr.timeout = 20
        attr.retry_cnt = retry_cnt
        attr.rnr_retry = rnr_retry
        self.qp.to_rts(attr)

    number = property(lambda self: self.qp.qp_num)
    rkey = property(lambda self: self.mr.rkey)
    address = property(lambda self: self.mr.buf)

    def read(self, offset, length):
        return self.mr.read(length, offset)

    def write(self, offset, data):
        self.mr.write(data, len(data), offset)

    def recv(self, wr_id, offset, length):
        sge = SGE(self.address + offset, length, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[sge]))

    def send(self, wr_id, offset, length, opcode=e.IBV_WR_SEND, remote=None, rkey=0, imm=0):
        sge = SGE(self.address + offset, length, self.mr.lkey)
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[sge], imm_data=imm)
        if remote is not None:
            wr.set_wr_rdma(rkey, remote)
        self.qp.post_send(wr)

    def atomic(self, wr_id, offset, opcode, remote, rkey, compare_add, swap=0):
        sge = SGE(self.address + offset, 8, self.mr.lkey)
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[sge])
        wr.set_wr_atomic(rkey, remote, compare_add, swap)
        self.qp.post_send(wr)

    def completion(self, peer=None, patience=None):
        """The next completion, None if there is none in time. A peer, if given, is kept
        going meanwhile."""
        end = time.monotonic() + (PATIENCE if patience is None else patience)
        while True:
            n, wcs = self.cq.poll()
            if n:
                return wcs[0]
            if time.monotonic() > end:
                return None
            if peer is None:
                select.select([], [], [], 0.002)
            else:
                peer.serve(0.002)

    def in_error(self):
        attr, _ = self.qp.query(e.IBV_QP_STATE)
        return attr.qp_state == e.IBV_QPS_ERR

    def close(self):
        self.qp.close()
        self.cq.close()
        self.mr.close()
