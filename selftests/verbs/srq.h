/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of shared receive queues share. The queue is on host b, the senders on a. */
#ifndef SRQ_H
#define SRQ_H

#include "mrverbs.h"

#define LEN	9000U		/* a few packets */

enum {
	WR = 0xa1,
	WR_NEXT = 0xa2,
	RECV = 0x100,		/* and up */
};

/* Skips the test if the device has none. */
struct ibv_srq *srq_new(struct ibv_pd *pd, uint32_t wr, uint32_t sge);
int srq_post(struct ibv_srq *srq, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey);
int srq_modify(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit, int mask);
struct ibv_srq_attr srq_query(struct ibv_srq *srq);
/* Sends so many bytes of "src", or nothing if there is none. */
void send_one(struct end *end, uint64_t wr_id, struct buf *src, uint32_t len);
/* Sends it, which takes the receive with this wr_id. */
void deliver(struct pair *pair, uint64_t recv, struct buf *src, uint32_t len);

#endif /* SRQ_H */
