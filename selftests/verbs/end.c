// SPDX-License-Identifier: GPL-2.0
/* Queue pairs, alone and connected to each other. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <string.h>

static int mtu_bytes(enum ibv_mtu mtu)
{
	return 128 << mtu;
}

struct ibv_qp_init_attr end_init_attr(struct end *end, const struct opts *opts)
{
	bool shared = opts->srq && opts->srq->context == end->host->ctx;

	return (struct ibv_qp_init_attr) {
		.send_cq = end->scq.cq,
		.recv_cq = end->rcq.cq,
		.srq = shared ? opts->srq : NULL,
		.qp_type = opts->uc ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = opts->sig_all,
		.cap = {
			.max_send_wr = opts->depth,
			.max_recv_wr = shared ? 0 : opts->depth,
			.max_send_sge = opts->sge,
			.max_recv_sge = shared ? 0 : opts->sge,
			.max_inline_data = opts->max_inline,
		},
	};
}

void end_new(struct end *end, struct host *host, const struct opts *opts)
{
	struct ibv_qp_init_attr init;

	memset(end, 0, sizeof(*end));
	end->host = host;
	cq_new(&end->scq, host, opts->cqe ? opts->cqe : opts->depth + 8);
	cq_new(&end->rcq, host, opts->cqe ? opts->cqe : opts->depth + 8);
	init = end_init_attr(end, opts);
	end->qp = ibv_create_qp(host->pd, &init);
	CHECK(end->qp, "ibv_create_qp on %s (depth %d, %d sge, %d inline): %m", host->name,
	      opts->depth, opts->sge, opts->max_inline);
	end->cap = init.cap;
	CHECK((int)init.cap.max_send_wr >= opts->depth &&
	      (init.srq || (int)init.cap.max_recv_wr >= opts->depth) &&
	      (int)init.cap.max_send_sge >= opts->sge &&
	      (init.srq || (int)init.cap.max_recv_sge >= opts->sge) &&
	      (int)init.cap.max_inline_data >= opts->max_inline,
	      "QP smaller than asked for");
	end->psn = (uint32_t)random() & 0xffffff;
}

void end_init(struct end *end, const struct opts *opts)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = 1,
		.qp_access_flags = opts->qp_access,
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS));
}

void end_rtr_to(struct end *end, const union ibv_gid *gid, uint32_t qpn,
		uint32_t psn, const struct opts *opts)
{
	enum ibv_mtu mtu = opts->mtu ? (enum ibv_mtu)opts->mtu : end->host->port.active_mtu;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = opts->rd_atomic,
		.min_rnr_timer = opts->min_rnr_timer,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = *gid,
				.sgid_index = end->host->gid_index,
				.hop_limit = 64,
			},
		},
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 (opts->uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)));
	end->mtu = mtu_bytes(mtu);
}

void end_rts(struct end *end, const struct opts *opts)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = opts->timeout,
		.retry_cnt = opts->retry_cnt,
		.rnr_retry = opts->rnr_retry,
		.sq_psn = end->psn,
		.max_rd_atomic = opts->rd_atomic,
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			 (opts->uc ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)));
}

void end_error(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
}

enum ibv_qp_state end_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	OK(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void end_expect_error(struct end *end)
{
	long long stop = now_ms() + WAIT_MS;

	while (end_state(end) != IBV_QPS_ERR) {
		CHECK(now_ms() < stop, "QP is in state %d, should be in the error state",
		      end_state(end));
		sleep_ms(5);
	}
}

void end_free(struct end *end)
{
	OK(ibv_destroy_qp(end->qp));
	cq_free(&end->scq);
	cq_free(&end->rcq);
}

void pair_connect(struct pair *pair, const struct opts *opts)
{
	end_init(&pair->a, opts);
	end_init(&pair->b, opts);
	end_rtr_to(&pair->a, &pair->b.host->gid, pair->b.qp->qp_num, pair->b.psn, opts);
	end_rtr_to(&pair->b, &pair->a.host->gid, pair->a.qp->qp_num, pair->a.psn, opts);
	end_rts(&pair->a, opts);
	end_rts(&pair->b, opts);
}

void pair_new(struct pair *pair, struct env *env, const struct opts *opts)
{
	end_new(&pair->a, &env->a, opts);
	end_new(&pair->b, &env->b, opts);
	pair_connect(pair, opts);
}

void pair_free(struct pair *pair)
{
	end_free(&pair->a);
	end_free(&pair->b);
}

static void check_works_one_way(struct end *from, struct end *to)
{
	const size_t len = 3 * from->mtu + 17;
	struct buf src, dst;

	buf_new(&src, from->host, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, to->host, len, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, len, len);
	OK(post_recv(to, 0xc0de, dst.p, len, dst.mr->lkey));
	OK(post_send(from, IBV_WR_SEND, 0xc0d0, src.p, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&from->scq, 0xc0d0, IBV_WC_SUCCESS);
	cq_expect(&to->rcq, 0xc0de, IBV_WC_SUCCESS);
	check(dst.p, len, len, "data of the message after");
	buf_free(&src);
	buf_free(&dst);
}

void pair_check_works(struct pair *pair)
{
	check_works_one_way(&pair->a, &pair->b);
	check_works_one_way(&pair->b, &pair->a);
}

void env_check_works(struct env *env)
{
	struct pair pair;

	pair_new(&pair, env, OPTS());
	pair_check_works(&pair);
	pair_free(&pair);
}

int post_send(struct end *end, enum ibv_wr_opcode op, uint64_t wr_id,
	      const void *p, uint32_t len, uint32_t lkey,
	      const void *remote, uint32_t rkey, int flags)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = op,
		.send_flags = flags,
		.imm_data = htonl((uint32_t)wr_id ^ 0x1234abcd),
	};

	if (op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(end->qp, &wr, &bad);
}

int post_recv(struct end *end, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
	};

	return ibv_post_recv(end->qp, &wr, &bad);
}

const char *op_name(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
		return "write";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "write_imm";
	case IBV_WR_SEND:
		return "send";
	case IBV_WR_SEND_WITH_IMM:
		return "send_imm";
	case IBV_WR_SEND_WITH_INV:
		return "send_inv";
	case IBV_WR_RDMA_READ:
		return "read";
	default:
		return "?";
	}
}

bool op_receives(enum ibv_wr_opcode op)
{
	return op != IBV_WR_RDMA_WRITE && op != IBV_WR_RDMA_READ;
}
