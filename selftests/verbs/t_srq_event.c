// SPDX-License-Identifier: GPL-2.0
/* Queues that run dry, and what is told of it and of their queue pairs. */
#include "srq.h"

#include <string.h>

static void no_event(struct host *host, const char *when)
{
	struct ibv_async_event event;

	if (!async_event_wait(host, 50, &event))
		return;
	FAIL("event \"%s\" %s", ibv_event_type_str(event.event_type), when);
}

/* No receive: the sender waits, or gives up, as with a receive queue. */
static void not_ready(struct env *env, const struct test *test)
{
	bool late = test->arg[0];
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct buf src, dst;
	struct pair pair;

	pair_new(&pair, env, OPTS(.srq = srq, .rnr_retry = late ? 7 : 2, .min_rnr_timer = 8));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 4);
	send_one(&pair.a, WR, &src, LEN);
	if (late) {
		sleep_ms(100);
		cq_expect_empty(&pair.a.scq, "before the receive");
		OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
		cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
		check(dst.p, LEN, 4, "late message");
	} else {
		cq_expect(&pair.a.scq, WR, IBV_WC_RNR_RETRY_EXC_ERR);
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* One queue pair's failure takes its receive, and none of the others'. */
static void too_long(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct pair bad, good;
	struct buf src, dst;

	(void)test;
	pair_new(&bad, env, OPTS(.srq = srq));
	pair_new(&good, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 6);
	OK(srq_post(srq, RECV, dst.p, 10, dst.mr->lkey));
	OK(srq_post(srq, RECV + 1, dst.p + LEN, LEN, dst.mr->lkey));
	send_one(&bad.a, WR, &src, 11);
	cq_expect(&bad.a.scq, WR, IBV_WC_REM_INV_REQ_ERR);
	cq_expect(&bad.b.rcq, RECV, IBV_WC_LOC_LEN_ERR);
	end_expect_error(&bad.b);
	async_event_expect(&env->b, IBV_EVENT_QP_LAST_WQE_REACHED, bad.b.qp);
	deliver(&good, RECV + 1, &src, LEN);
	check(dst.p + LEN, LEN, 6, "the other's message");
	cq_expect_empty(&bad.b.rcq, "of the failed QP");
	pair_free(&bad);
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* The limit raises one event, when there are fewer receives than that. */
static void limit(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 32, 1);
	struct pair pair;
	int i, round;

	(void)test;
	pair_new(&pair, env, OPTS(.srq = srq));
	for (i = 0; i < 10; i++)
		OK(srq_post(srq, RECV, NULL, 0, 0));
	for (round = 0; round < 3; round++) {
		OK(srq_modify(srq, 0, 7, IBV_SRQ_LIMIT));
		CHECK_EQ(srq_query(srq).srq_limit, 7, "srq_limit");
		for (i = 0; i < 3; i++)
			deliver(&pair, RECV, NULL, 0);
		no_event(&env->b, "with as many receives as the limit");
		for (i = 0; i < 3; i++)
			deliver(&pair, RECV, NULL, 0);
		async_event_expect(&env->b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
		no_event(&env->b, "after the event");
		CHECK_EQ(srq_query(srq).srq_limit, 0, "srq_limit after the event");
		for (i = 0; i < 6; i++)
			OK(srq_post(srq, RECV, NULL, 0, 0));
	}
	/* Taken back. */
	OK(srq_modify(srq, 0, 7, IBV_SRQ_LIMIT));
	OK(srq_modify(srq, 0, 0, IBV_SRQ_LIMIT));
	for (i = 0; i < 5; i++)
		deliver(&pair, RECV, NULL, 0);
	no_event(&env->b, "without a limit");
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* A queue pair in the error state takes no more, says so, and leaves the rest. */
static void last_wqe(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct pair bad, good;
	struct buf src, dst;

	(void)test;
	pair_new(&bad, env, OPTS(.srq = srq));
	pair_new(&good, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 8);
	OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
	end_error(&bad.b);
	async_event_expect(&env->b, IBV_EVENT_QP_LAST_WQE_REACHED, bad.b.qp);
	end_error(&bad.b);
	no_event(&env->b, "a second time");
	cq_expect_empty(&bad.b.rcq, "of the QP in the error state");
	deliver(&good, RECV, &src, LEN);
	check(dst.p, LEN, 8, "the other's message");
	pair_free(&bad);
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

void tests_srq_event(void)
{
	test_add("srq", not_ready, 0, 1, 0, "late receive");
	test_add("srq", not_ready, 0, 0, 0, "no receive");
	TEST("srq", too_long, "message too long");
	TEST("srq", limit, "limit");
	TEST("srq", last_wqe, "QP in the error state");
}
