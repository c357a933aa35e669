/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of single operations share. */
#ifndef DATA_H
#define DATA_H

#include "mrverbs.h"

#define WR_ID		0x5e4d
#define RECV_ID		0x4ec5
#define UNTOUCHED	0xa5

static const enum ibv_wr_opcode ops[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
};

#endif /* DATA_H */
