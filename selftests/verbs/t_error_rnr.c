// SPDX-License-Identifier: GPL-2.0
/* Messages that find no receive: given up, or delivered late. */
#include "error.h"

#include <string.h>

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

void tests_error_rnr(void)
{
	test_add("error", rnr_exceeded, 0, 0, 0, "RNR retry exceeded, rnr_retry 0");
	test_add("error", rnr_exceeded, 0, 3, 0, "RNR retry exceeded, rnr_retry 3");
	test_add("error", rnr_recovers, 0, IBV_WR_SEND, 0, "late receives, send");
	test_add("error", rnr_recovers, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0,
		 "late receives, write_imm");
	TEST("error", rnr_mixed, "late receive amid writes and reads");
}
