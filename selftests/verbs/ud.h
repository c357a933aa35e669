/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of datagram queue pairs share. */
#ifndef UD_H
#define UD_H

#include "mrverbs.h"

#define GRH	40
#define QKEY	0x11111111
#define MTU	4096

/* A datagram QP with its queues, a buffer, and a handle for the other host. */
struct ud {
	struct host *host;
	struct cq scq, rcq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct buf buf;
	struct ibv_srq *srq;	/* where it receives from, if not NULL */
	int depth;
};

struct ud_pair {
	struct ud a, b;
};

struct ibv_ah_attr ud_ah_attr(struct host *from, struct host *to);
/* A queue pair in RESET, on the completion queues there are. */
struct ibv_qp *ud_qp(struct ud *ud);
void ud_new(struct ud *ud, struct host *host, struct host *peer);
void ud_new_with(struct ud *ud, struct host *host, struct host *peer,
		 struct ibv_srq *srq, int depth);
void ud_free(struct ud *ud);
void ud_pair_new(struct ud_pair *pair, struct env *env);
void ud_pair_free(struct ud_pair *pair);

void ud_state(struct ud *ud, enum ibv_qp_state state);
void ud_expect_state(struct ud *ud, enum ibv_qp_state state);
void ud_init(struct ud *ud);
void ud_rts(struct ud *ud);

/* A receive to "len" bytes at "at" in the buffer; GRH of them are not the message's. */
int ud_recv(struct ud *ud, uint64_t wr_id, size_t at, uint32_t len);
void srq_recv(struct ud *ud, uint64_t wr_id, size_t at, uint32_t len);
struct ibv_send_wr ud_wr(struct ud *from, struct ud *to, uint64_t wr_id,
			 struct ibv_sge *sge);
/* Posts a send of the "len" bytes at the start of the buffer. */
void ud_send(struct ud *from, struct ud *to, uint64_t wr_id, uint32_t len);
/* The next completion is of a receive that has this message. */
void expect_message(struct ud *from, struct ud *to, uint64_t wr_id, size_t at,
		    uint32_t len, uint64_t seed);
/* A message from one to the other arrives. */
void check_message(struct ud *from, struct ud *to, uint64_t wr_id, uint32_t len);
/* What stands in front of a message, as RoCE v2 has it. */
void check_grh(const uint8_t *p, struct ud *from, struct ud *to, int traffic_class);

/* Packets that have come to the host of a queue pair. */
unsigned long long ud_arrived(struct ud *ud);

#endif /* UD_H */
