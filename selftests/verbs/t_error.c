// SPDX-License-Identifier: GPL-2.0
/* Every failure ends in the status that the specification gives it. */
#include "mrverbs.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	WR = 0x51,
	WR_NEXT = 0x52,
	RECV = 0x61,
	RECV_NEXT = 0x62,
};

/*
 * The requester has failed with status: the QP is in the error state, what was
 * posted behind the failed request is flushed.
 */
static void requester_failed(struct end *end, enum ibv_wc_status status)
{
	cq_expect(&end->scq, WR, status);
	cq_expect(&end->scq, WR_NEXT, IBV_WC_WR_FLUSH_ERR);
	end_expect_error(end);
	cq_expect_empty(&end->scq, "after the flush");
	cq_expect_empty(&end->rcq, "after the flush");
}

static void post_next(struct end *end)
{
	OK(post_send(end, IBV_WR_SEND, WR_NEXT, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
}

/* A failing one-sided request, with a second one behind it. */
static void fails(struct pair *pair, enum ibv_wr_opcode op, const void *p, uint32_t len,
		  uint32_t lkey, const void *remote, uint32_t rkey, enum ibv_wc_status status)
{
	OK(post_send(&pair->a, op, WR, p, len, lkey, remote, rkey, IBV_SEND_SIGNALED));
	post_next(&pair->a);
	requester_failed(&pair->a, status);
}

static void no_trace(struct env *env, struct buf *dst)
{
	check_byte(dst->p, dst->len, 0, "memory that the request had no right to");
	buf_check_guards(dst, "memory that the request had no right to");
	env_check_works(env);
}

enum remote_case {
	BAD_RKEY, RKEY_ZERO, BELOW, ABOVE, WRAPS, NO_RIGHT, STALE, OTHER_PD,
};

static void remote_access(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	bool is_read = op == IBV_WR_RDMA_READ;
	const uint32_t len = 10000, page = sysconf(_SC_PAGESIZE);
	struct buf src, dst, other;
	uint8_t *behind = NULL;
	struct host second;
	struct pair pair;
	void *remote;
	uint32_t rkey;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len + 2 * page, test->arg[1] != NO_RIGHT ? ACCESS_ALL :
		is_read ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE :
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	fill(src.p, len, 3);
	remote = dst.p;
	rkey = dst.mr->rkey;
	switch ((enum remote_case)test->arg[1]) {
	case BAD_RKEY:
		rkey ^= 0x5aa5f00d;
		break;
	case RKEY_ZERO:
		rkey = 0;
		break;
	case BELOW:
		remote = dst.map - 1;
		break;
	case ABOVE:
		/* The last page is not of the region, the rest of the write is in it. */
		OK(ibv_dereg_mr(dst.mr));
		dst.mr = ibv_reg_mr(env->b.pd, dst.map, dst.map_len - page, ACCESS_ALL);
		CHECK(dst.mr, "ibv_reg_mr: %m");
		rkey = dst.mr->rkey;
		behind = dst.map + dst.map_len - page;
		remote = behind - len + 1;
		break;
	case WRAPS:
		remote = (void *)(UINTPTR_MAX - len / 2);
		break;
	case NO_RIGHT:
		break;
	case STALE:
		/* The same memory again: index reused, key not. */
		OK(ibv_dereg_mr(dst.mr));
		dst.mr = ibv_reg_mr(env->b.pd, dst.map, dst.map_len, ACCESS_ALL);
		CHECK(dst.mr, "ibv_reg_mr: %m");
		CHECK(dst.mr->rkey != rkey, "a new region has the rkey of the old one");
		break;
	case OTHER_PD:
		second = env->b;
		second.pd = ibv_alloc_pd(env->b.ctx);
		CHECK(second.pd, "ibv_alloc_pd: %m");
		buf_new(&other, &second, len, ACCESS_ALL);
		memset(other.p, 0, len);
		remote = other.p;
		rkey = other.mr->rkey;
		break;
	}
	memset(dst.p, 0, dst.len);
	if (behind)
		memset(behind, 0, page);
	OK(post_recv(&pair.b, RECV, NULL, 0, 0));
	fails(&pair, op, src.p, len, src.mr->lkey, remote, rkey, IBV_WC_REM_ACCESS_ERR);
	if (is_read)
		check(src.p, len, 3, "destination of the refused read");
	/* The responder's QP is in the error state as well. */
	end_expect_error(&pair.b);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_WR_FLUSH_ERR);
	if (test->arg[1] == OTHER_PD)
		no_trace(env, &other);
	/*
	 * Packets place themselves: those in front of the one that oversteps may
	 * have come and been good.
	 */
	if (behind) {
		check_byte(behind, page, 0, "memory behind the region");
		env_check_works(env);
		return;
	}
	no_trace(env, &dst);
}

/* The QP itself was not opened for remote writes (or reads). */
static void qp_access(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	struct buf src, dst;
	struct pair pair;
	struct ibv_wc wc;

	pair_new(&pair, env, OPTS(.qp_access = op == IBV_WR_RDMA_READ ?
				  IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ));
	buf_new(&src, &env->a, 1000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 1000, ACCESS_ALL);
	memset(dst.p, 0, 1000);
	memset(src.p, 1, 1000);
	OK(post_recv(&pair.b, RECV, NULL, 0, 0));
	OK(post_send(&pair.a, op, WR, src.p, 1000, src.mr->lkey, dst.p, dst.mr->rkey,
		     IBV_SEND_SIGNALED));
	/* The specification: invalid request. Some adapters: access error. */
	CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion");
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR,
	      "completion \"%s\"", ibv_wc_status_str(wc.status));
	end_expect_error(&pair.a);
	end_expect_error(&pair.b);
	check_byte(src.p, 1000, 1, "local buffer");
	no_trace(env, &dst);
}

/* A send larger than the receive: both ends learn it. */
static void send_too_long(struct env *env, const struct test *test)
{
	uint32_t room = test->arg[0], len = test->arg[1];
	struct buf src, dst;
	struct pair pair;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, room, ACCESS_ALL);
	OK(post_recv(&pair.b, RECV, dst.p, room, dst.mr->lkey));
	OK(post_recv(&pair.b, RECV_NEXT, dst.p, room, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_REM_INV_REQ_ERR);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_LOC_LEN_ERR);
	cq_expect(&pair.b.rcq, RECV_NEXT, IBV_WC_WR_FLUSH_ERR);
	end_expect_error(&pair.b);
	buf_check_guards(&dst, "receive buffer");
	env_check_works(env);
}

enum local_case {
	L_BAD_LKEY, L_BELOW, L_ABOVE, L_OTHER_PD, L_STALE, L_SECOND_SGE,
};

static void local_protection(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	const uint32_t len = 5000;
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .sg_list = sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct buf src, dst;
	struct host second;
	struct ibv_mr *mr;
	struct pair pair;

	pair_new(&pair, env, OPTS(.sge = 2));
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 2 * len, ACCESS_ALL);
	fill(src.p, len, 8);
	memset(dst.p, 0, 2 * len);
	sge[0] = (struct ibv_sge){ (uintptr_t)src.p, len, src.mr->lkey };
	switch ((enum local_case)test->arg[1]) {
	case L_BAD_LKEY:
		sge[0].lkey ^= 0x00aa5500;
		break;
	case L_BELOW:
		sge[0].addr = (uintptr_t)src.map - 1;
		break;
	case L_ABOVE:
		sge[0].addr = (uintptr_t)src.map + src.map_len - len + 1;
		break;
	case L_OTHER_PD:
		second = env->a;
		second.pd = ibv_alloc_pd(env->a.ctx);
		CHECK(second.pd, "ibv_alloc_pd: %m");
		mr = ibv_reg_mr(second.pd, src.map, src.map_len, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr, "ibv_reg_mr: %m");
		sge[0].lkey = mr->lkey;
		break;
	case L_STALE:
		OK(ibv_dereg_mr(src.mr));
		break;
	case L_SECOND_SGE:
		sge[1] = (struct ibv_sge){ (uintptr_t)src.p, len, src.mr->lkey ^ 0x00aa5500 };
		wr.num_sge = 2;
		break;
	}
	if (op_receives(op))
		OK(post_recv(&pair.b, RECV, dst.p, 2 * len, dst.mr->lkey));
	wr.wr.rdma.remote_addr = (uintptr_t)dst.p;
	wr.wr.rdma.rkey = dst.mr->rkey;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_LOC_PROT_ERR);
	if (test->arg[1] != L_SECOND_SGE)
		check_byte(dst.p, dst.len, 0, "destination");
	buf_check_guards(&dst, "destination");
	env_check_works(env);
}

/* Reading into memory that is registered for reading only. */
static void read_into_readonly(struct env *env, const struct test *test)
{
	struct buf local, remote;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&local, &env->a, 9000, 0);
	buf_new(&remote, &env->b, 9000, ACCESS_ALL);
	memset(local.p, 0, 9000);
	memset(remote.p, 7, 9000);
	fails(&pair, IBV_WR_RDMA_READ, local.p, 9000, local.mr->lkey, remote.p,
	      remote.mr->rkey, IBV_WC_LOC_PROT_ERR);
	no_trace(env, &local);
}

/* The receive's own buffer is bad: its owner sees it, the sender too. */
static void receive_protection(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;
	uint32_t lkey;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 6000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 6000, test->arg[0] ? 0 : IBV_ACCESS_LOCAL_WRITE);
	memset(src.p, 1, 6000);
	memset(dst.p, 0, 6000);
	lkey = test->arg[0] ? dst.mr->lkey : dst.mr->lkey ^ 0x00aa5500;
	OK(post_recv(&pair.b, RECV, dst.p, 6000, lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, 6000, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_REM_OP_ERR);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_LOC_PROT_ERR);
	end_expect_error(&pair.b);
	no_trace(env, &dst);
}

/* No receive, and no patience. */
static void rnr_exceeded(struct env *env, const struct test *test)
{
	struct pair pair, other;

	/* The second pair shares the connection and must not notice. */
	pair_new(&pair, env, OPTS(.rnr_retry = test->arg[0], .min_rnr_timer = 1));
	pair_new(&other, env, OPTS());
	OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_check_works(&other);
	/* Not the responder's fault: its QP is as it was. */
	CHECK_EQ(end_state(&pair.b), IBV_QPS_RTS, "state of the responder");
	pair_free(&other);
	pair_free(&pair);
}

/* The receives come late: every message arrives, once, in order. */
static void rnr_recovers(struct env *env, const struct test *test)
{
	enum { N = 12 };
	const uint32_t len = 50000;
	enum ibv_wr_opcode op = test->arg[0];
	struct buf src, dst;
	struct pair pair, other;
	int i;

	pair_new(&pair, env, OPTS(.rnr_retry = 7, .min_rnr_timer = 6));
	pair_new(&other, env, OPTS());
	buf_new(&src, &env->a, len * N, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len * N, ACCESS_ALL);
	fill(src.p, len * N, 13);
	for (i = 0; i < N; i++)
		OK(post_send(&pair.a, op, i, src.p + i * len, len, src.mr->lkey,
			     dst.p + i * len, dst.mr->rkey, IBV_SEND_SIGNALED));
	sleep_ms(100);
	cq_expect_empty(&pair.a.scq, "before any receive was posted");
	pair_check_works(&other);
	for (i = 0; i < N; i++) {
		struct ibv_wc wc;

		if (op == IBV_WR_SEND)
			OK(post_recv(&pair.b, 100 + i, dst.p + i * len, len, dst.mr->lkey));
		else
			OK(post_recv(&pair.b, 100 + i, NULL, 0, 0));
		wc = cq_expect(&pair.b.rcq, 100 + i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, len, "byte_len");
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		if (i % 4 == 1)
			sleep_ms(30);
	}
	cq_expect_empty(&pair.b.rcq, "after the last message");
	check(dst.p, len * N, 13, "late receives");
	pair_check_works(&pair);
	pair_free(&other);
	pair_free(&pair);
	buf_free(&src);
	buf_free(&dst);
}

/* Receives that come late behind writes and reads of the same queue. */
static void rnr_mixed(struct env *env, const struct test *test)
{
	const uint32_t len = 30000;
	struct buf src, dst, back;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS(.rnr_retry = 7, .min_rnr_timer = 6));
	buf_new(&src, &env->a, 3 * len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&back, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 3 * len, ACCESS_ALL);
	fill(src.p, 3 * len, 17);
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 0, src.p, len, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	OK(post_send(&pair.a, IBV_WR_SEND, 1, src.p + len, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 2, src.p + 2 * len, len, src.mr->lkey,
		     dst.p + 2 * len, dst.mr->rkey, IBV_SEND_SIGNALED));
	OK(post_send(&pair.a, IBV_WR_RDMA_READ, 3, back.p, len, back.mr->lkey,
		     dst.p + 2 * len, dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, 0, IBV_WC_SUCCESS);
	sleep_ms(60);
	cq_expect_empty(&pair.a.scq, "before the receive was posted");
	OK(post_recv(&pair.b, 101, dst.p + len, len, dst.mr->lkey));
	cq_expect(&pair.b.rcq, 101, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, 3, IBV_WC_SUCCESS);
	check(dst.p, 3 * len, 17, "data");
	CHECK(!memcmp(back.p, src.p + 2 * len, len), "the read saw other data than written");
	pair_free(&pair);
	buf_free(&src);
	buf_free(&back);
	buf_free(&dst);
}

enum dead_case {
	NO_SUCH_QP, PEER_NOT_READY, PEER_DESTROYED, PEER_IN_ERROR, PEER_RESET,
};

/* Nobody answers: the requester gives up within the time that it was given. */
static void dead_peer(struct env *env, const struct test *test)
{
	/* 2^10 * 4.096 us = 4 ms, 2 retries. */
	const struct opts *opts = OPTS(.timeout = 10, .retry_cnt = 2);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct buf src, dst;
	struct pair pair, other;

	pair_new(&other, env, OPTS());
	end_new(&pair.a, &env->a, opts);
	end_new(&pair.b, &env->b, opts);
	buf_new(&src, &env->a, 20000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 20000, ACCESS_ALL);
	switch ((enum dead_case)test->arg[0]) {
	case NO_SUCH_QP:
		end_init(&pair.a, opts);
		end_rtr_to(&pair.a, &env->b.gid, 0xfedcba, 1, opts);
		end_rts(&pair.a, opts);
		break;
	case PEER_NOT_READY:
		end_init(&pair.a, opts);
		end_init(&pair.b, opts);
		end_rtr_to(&pair.a, &env->b.gid, pair.b.qp->qp_num, pair.b.psn, opts);
		end_rts(&pair.a, opts);
		break;
	case PEER_DESTROYED:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		end_free(&pair.b);
		break;
	case PEER_IN_ERROR:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		end_error(&pair.b);
		break;
	case PEER_RESET:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
		break;
	}
	fails(&pair, test->arg[1], src.p, 20000, src.mr->lkey, dst.p, dst.mr->rkey,
	      IBV_WC_RETRY_EXC_ERR);
	pair_check_works(&other);
	env_check_works(env);
}

/* A peer address that exists on no host. */
static void unreachable(struct env *env, const struct test *test)
{
	const struct opts *opts = OPTS(.timeout = 10, .retry_cnt = 2);
	union ibv_gid gid = env->b.gid;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 5,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr.is_global = 1,
		.ah_attr.port_num = 1,
	};
	struct end end;
	int ret;

	(void)test;
	gid.raw[15] = 199;
	end_new(&end, &env->a, opts);
	end_init(&end, opts);
	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = env->a.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	ret = ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER);
	if (ret) {
		/* Address resolution may notice it first. */
		CHECK(ret == ETIMEDOUT || ret == EHOSTUNREACH || ret == ENETUNREACH,
		      "modify to RTR: %d (%s)", ret, strerror(ret));
		end_free(&end);
		return;
	}
	end_rts(&end, opts);
	OK(post_send(&end, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	post_next(&end);
	requester_failed(&end, IBV_WC_RETRY_EXC_ERR);
	end_free(&end);
}

/* Everything outstanding is flushed, in order, at both queues. */
static void flush(struct env *env, const struct test *test)
{
	enum { N = 20 };
	const uint32_t len = 100000;
	struct buf src, dst;
	struct pair pair;
	struct ibv_wc wc;
	bool flushed = false;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = N + 4));
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	for (i = 0; i < N; i++)
		OK(post_recv(&pair.a, 100 + i, src.p, len, src.mr->lkey));
	for (i = 0; i < N; i++)
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i, src.p, len, src.mr->lkey, dst.p,
			     dst.mr->rkey, i == 0 || i == N - 1 ? IBV_SEND_SIGNALED :
			     0));
	end_error(&pair.a);
	/* What completed before may be good; a failed one completes always. */
	for (i = 0;;) {
		CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion after %d", i);
		CHECK((int)wc.wr_id >= i, "completion of %d after %d", (int)wc.wr_id, i - 1);
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR ||
		      (wc.status == IBV_WC_SUCCESS && !flushed),
		      "completion of %d \"%s\"", (int)wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(!flushed || (int)wc.wr_id == i, "no completion of %d", i);
		flushed |= wc.status == IBV_WC_WR_FLUSH_ERR;
		i = wc.wr_id + 1;
		if (i == N)
			break;
	}
	for (i = 0; i < N; i++)
		cq_expect(&pair.a.rcq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	cq_expect_empty(&pair.a.scq, "after the flush");
	cq_expect_empty(&pair.a.rcq, "after the flush");
	env_check_works(env);
}

/* What is posted to a QP in the error state is flushed as well. */
static void posted_in_error(struct env *env, const struct test *test)
{
	struct pair pair;
	int i;

	pair_new(&pair, env, OPTS());
	end_error(&pair.a);
	for (i = 0; i < 10; i++) {
		if (test->arg[0]) {
			OK(post_recv(&pair.a, i, NULL, 0, 0));
			cq_expect(&pair.a.rcq, i, IBV_WC_WR_FLUSH_ERR);
		} else {
			/* Unsignalled or not: a request that failed completes. */
			OK(post_send(&pair.a, IBV_WR_SEND, i, NULL, 0, 0, NULL, 0,
				     i % 2 ? IBV_SEND_SIGNALED : 0));
			cq_expect(&pair.a.scq, i, IBV_WC_WR_FLUSH_ERR);
		}
	}
	pair_free(&pair);
}

/* From the error state over RESET to a working connection. */
static void reuse_after_error(struct env *env, const struct test *test)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS());
	for (i = 0; i < 3; i++) {
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, WR, pair.a.qp, 100, 0xbadbad, NULL,
			     0, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, WR, IBV_WC_LOC_PROT_ERR);
		end_expect_error(&pair.a);
		OK(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE));
		OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
		pair_connect(&pair, OPTS());
		pair_check_works(&pair);
	}
	pair_free(&pair);
}

/* The QP goes while everything is under way; the other QPs go on. */
static void destroy_busy(struct env *env, const struct test *test)
{
	const uint32_t len = 200000;
	struct pair pair, other;
	struct buf src, dst;
	int i, j;

	pair_new(&other, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	for (i = 0; i < 8; i++) {
		pair_new(&pair, env, OPTS(.timeout = 10));
		for (j = 0; j < 8; j++) {
			OK(post_recv(&pair.b, j, dst.p, len, dst.mr->lkey));
			OK(post_recv(&pair.a, j, src.p, len, src.mr->lkey));
		}
		for (j = 0; j < 16; j++)
			OK(post_send(&pair.a, (enum ibv_wr_opcode[]){
				     IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
				     IBV_WR_RDMA_WRITE }[j % 4], j, src.p, len, src.mr->lkey,
				     dst.p, dst.mr->rkey, IBV_SEND_SIGNALED));
		if (i & 1)
			sleep_ms(i);
		if (test->arg[0]) {
			end_free(&pair.b);
			end_free(&pair.a);
		} else {
			end_free(&pair.a);
			end_free(&pair.b);
		}
	}
	pair_check_works(&other);
	pair_free(&other);
	buf_free(&src);
	buf_free(&dst);
}

/* The memory of a transfer is deregistered under it. */
static void dereg_busy(struct env *env, const struct test *test)
{
	const uint32_t len = 1 << 20;
	struct buf src, dst, again;
	struct pair pair;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	int i;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	buf_new(&again, &env->b, len, ACCESS_ALL);
	memset(again.p, 0, len);
	for (i = 0; i < 8; i++)
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i, src.p, len, src.mr->lkey, dst.p,
			     dst.mr->rkey, IBV_SEND_SIGNALED));
	mr = test->arg[0] ? src.mr : dst.mr;
	OK(ibv_dereg_mr(mr));
	munmap(test->arg[0] ? src.map : dst.map, src.map_len);
	for (i = 0; i < 8; i++) {
		CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion of %d", i);
		CHECK_EQ(wc.wr_id, i, "wr_id");
		if (wc.status != IBV_WC_SUCCESS)
			break;
	}
	/* All may have been quick enough; if not, this is the only reason. */
	if (i < 8)
		CHECK(wc.status == (test->arg[0] ? IBV_WC_LOC_PROT_ERR :
				    IBV_WC_REM_ACCESS_ERR),
		      "completion \"%s\"", ibv_wc_status_str(wc.status));
	for (i++; i < 8; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_WR_FLUSH_ERR);
	check_byte(again.p, len, 0, "other memory");
	env_check_works(env);
}

void tests_error(void)
{
	static const struct {
		enum remote_case id;
		const char *name;
	} remote[] = {
		{ BAD_RKEY, "bad rkey" }, { RKEY_ZERO, "rkey 0" },
		{ BELOW, "one byte below the region" }, { ABOVE, "one byte above the region" },
		{ WRAPS, "range that wraps" }, { NO_RIGHT, "region without the right" },
		{ STALE, "rkey of a former region" }, { OTHER_PD, "region of another PD" },
	};
	static const struct {
		enum local_case id;
		const char *name;
	} local[] = {
		{ L_BAD_LKEY, "bad lkey" }, { L_BELOW, "one byte below the region" },
		{ L_ABOVE, "one byte above the region" }, { L_OTHER_PD, "region of another PD" },
		{ L_STALE, "lkey of a former region" }, { L_SECOND_SGE, "bad second piece" },
	};
	static const enum ibv_wr_opcode one_sided[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	};
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	static const char * const dead[] = { "no such QP", "QP never ready", "QP destroyed",
					     "QP in error", "QP reset" };
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(one_sided); i++)
		for (j = 0; j < ARRAY_SIZE(remote); j++)
			test_add("error", remote_access, 0, one_sided[i], remote[j].id,
				 "remote access, %s: %s", op_name(one_sided[i]),
				 remote[j].name);
	for (i = 0; i < ARRAY_SIZE(one_sided); i++)
		test_add("error", qp_access, 0, one_sided[i], 0,
			 "remote access, %s: QP without the right", op_name(one_sided[i]));
	test_add("error", send_too_long, 0, 100, 101, "send of 101 bytes into 100");
	test_add("error", send_too_long, 0, 4096, 4097, "send of 4097 bytes into 4096");
	test_add("error", send_too_long, 0, 10000, 200000, "send of 200000 bytes into 10000");
	test_add("error", send_too_long, 0, 199999, 200000,
		 "send of 200000 bytes into 199999");
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (j = 0; j < ARRAY_SIZE(local); j++)
			test_add("error", local_protection, 0, ops[i], local[j].id,
				 "local protection, %s: %s", op_name(ops[i]), local[j].name);
	TEST("error", read_into_readonly, "local protection, read: region without write");
	test_add("error", receive_protection, 0, 0, 0, "receive with a bad lkey");
	test_add("error", receive_protection, 0, 1, 0, "receive into a region without write");
	test_add("error", rnr_exceeded, 0, 0, 0, "RNR retry exceeded, rnr_retry 0");
	test_add("error", rnr_exceeded, 0, 3, 0, "RNR retry exceeded, rnr_retry 3");
	test_add("error", rnr_recovers, 0, IBV_WR_SEND, 0, "late receives, send");
	test_add("error", rnr_recovers, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0,
		 "late receives, write_imm");
	TEST("error", rnr_mixed, "late receive amid writes and reads");
	for (i = 0; i < ARRAY_SIZE(dead); i++)
		for (j = 0; j < ARRAY_SIZE(ops); j++)
			test_add("error", dead_peer, 0, i, ops[j], "dead peer, %s: %s",
				 op_name(ops[j]), dead[i]);
	TEST("error", unreachable, "peer address that nobody has");
	TEST("error", flush, "flush of everything outstanding");
	test_add("error", posted_in_error, 0, 0, 0, "requests posted in the error state");
	test_add("error", posted_in_error, 0, 1, 0, "receives posted in the error state");
	TEST("error", reuse_after_error, "QP reused after an error");
	test_add("error", destroy_busy, 0, 0, 0, "busy QP destroyed, requester first");
	test_add("error", destroy_busy, 0, 1, 0, "busy QP destroyed, responder first");
	test_add("error", dereg_busy, 0, 0, 0, "target region deregistered in mid-transfer");
	test_add("error", dereg_busy, 0, 1, 0, "source region deregistered in mid-transfer");
}
