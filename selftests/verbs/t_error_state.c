// SPDX-License-Identifier: GPL-2.0
/* The error state: what is flushed, what goes under way, and the way back. */
#include "error.h"

#include <string.h>
#include <sys/mman.h>

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

void tests_error_state(void)
{
	TEST("error", flush, "flush of everything outstanding");
	test_add("error", posted_in_error, 0, 0, 0, "requests posted in the error state");
	test_add("error", posted_in_error, 0, 1, 0, "receives posted in the error state");
	TEST("error", reuse_after_error, "QP reused after an error");
	test_add("error", destroy_busy, 0, 0, 0, "busy QP destroyed, requester first");
	test_add("error", destroy_busy, 0, 1, 0, "busy QP destroyed, responder first");
	test_add("error", dereg_busy, 0, 0, 0, "target region deregistered in mid-transfer");
	test_add("error", dereg_busy, 0, 1, 0, "source region deregistered in mid-transfer");
}
