// SPDX-License-Identifier: GPL-2.0
/* Completion queues: notification, overrun, limits. */
#include "mrverbs.h"

#include <errno.h>
#include <string.h>

static void ping(struct pair *pair, uint64_t id, int flags)
{
	OK(post_recv(&pair->b, id, NULL, 0, 0));
	OK(post_send(&pair->a, IBV_WR_SEND, id, NULL, 0, 0, NULL, 0,
		     IBV_SEND_SIGNALED | flags));
	cq_expect(&pair->a.scq, id, IBV_WC_SUCCESS);
}

/* Polls without arming. */
static void poll_one(struct cq *cq, uint64_t id)
{
	long long stop = now_ms() + WAIT_MS;
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq->cq, 1, &wc)) {
		CHECK(now_ms() < stop, "no completion of %d", (int)id);
		sleep_ms(1);
	}
	CHECK_EQ(wc.wr_id, id, "wr_id");
	CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
}

static void notify(struct env *env, const struct test *test)
{
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	ping(&pair, 1, 0);
	poll_one(&pair.b.rcq, 1);
	CHECK(!cq_event_pending(&pair.b.rcq, 0), "an event that nobody asked for");

	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	ping(&pair, 2, 0);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 2);

	/* One request, one event. */
	ping(&pair, 3, 0);
	poll_one(&pair.b.rcq, 3);
	CHECK(!cq_event_pending(&pair.b.rcq, 0), "a second event for one request");
	pair_free(&pair);
}

static void solicited(struct env *env, const struct test *test)
{
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	ping(&pair, 1, 0);
	poll_one(&pair.b.rcq, 1);
	sleep_ms(20);
	CHECK(!cq_event_pending(&pair.b.rcq, 0), "event of a completion that was not solicited");
	ping(&pair, 2, IBV_SEND_SOLICITED);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event of a solicited completion");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 2);

	/* A request for any completion is the stronger one. */
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	ping(&pair, 3, 0);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 3);
	pair_free(&pair);
}

/*
 * Who asks for an event only after having found the queue empty, and does not look
 * again, misses nothing that came in between. (UCX does so. What an event has told
 * of raises no other.)
 */
static void late_request(struct env *env, const struct test *test)
{
	struct pair pair;

	(void)test;
	if (!is_metaroce())
		SKIP("about metaroce only");
	pair_new(&pair, env, OPTS());
	ping(&pair, 1, 0);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	CHECK(!cq_event_pending(&pair.b.rcq, 20), "event of a completion that was not solicited");
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event of what is there");
	cq_event_take(&pair.b.rcq);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	CHECK(!cq_event_pending(&pair.b.rcq, 20), "a second event of one completion");
	poll_one(&pair.b.rcq, 1);
	ping(&pair, 2, 0);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 2);

	ping(&pair, 3, IBV_SEND_SOLICITED);
	ping(&pair, 4, 0);
	poll_one(&pair.b.rcq, 3);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	CHECK(!cq_event_pending(&pair.b.rcq, 20), "event of a solicited completion that is gone");
	poll_one(&pair.b.rcq, 4);
	ping(&pair, 5, IBV_SEND_SOLICITED);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event of a solicited completion");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 5);
	ping(&pair, 6, IBV_SEND_SOLICITED);
	ping(&pair, 7, 0);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event of a solicited one before");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 6);
	poll_one(&pair.b.rcq, 7);
	pair_free(&pair);
}

/* A write with immediate may be solicited as well. */
static void solicited_imm(struct env *env, const struct test *test)
{
	struct pair pair;
	struct buf dst;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&dst, &env->b, 100, ACCESS_ALL);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	OK(post_recv(&pair.b, 1, NULL, 0, 0));
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, NULL, 0, 0, dst.p, dst.mr->rkey,
		     IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event");
	cq_event_take(&pair.b.rcq);
	poll_one(&pair.b.rcq, 1);
	buf_free(&dst);
	pair_free(&pair);
}

/* An error completion counts as solicited. */
static void solicited_error(struct env *env, const struct test *test)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)test;
	pair_new(&pair, env, OPTS());
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	OK(post_recv(&pair.b, 1, NULL, 0, 0));
	end_error(&pair.b);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event of a flushed receive");
	cq_event_take(&pair.b.rcq);
	CHECK(ibv_poll_cq(pair.b.rcq.cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	      "no flushed receive");
	pair_free(&pair);
}

/* More completions than the queue holds: an event tells it, nothing else suffers. */
static void overrun(struct env *env, const struct test *test)
{
	struct pair pair, other;
	struct cq small, kept;
	struct ibv_wc wc;
	int i, n;

	pair_new(&other, env, OPTS());
	memset(&pair, 0, sizeof(pair));
	end_new(&pair.b, &env->b, OPTS(.depth = 256));
	/* The QP of a, over a CQ that is far too small for it. */
	pair.a.host = &env->a;
	cq_new(&small, &env->a, 4);
	cq_new(&kept, &env->a, 300);
	pair.a.scq = test->arg[0] ? kept : small;
	pair.a.rcq = test->arg[0] ? small : kept;
	{
		struct ibv_qp_init_attr init = end_init_attr(&pair.a, OPTS(.depth = 256));

		pair.a.qp = ibv_create_qp(env->a.pd, &init);
		CHECK(pair.a.qp, "ibv_create_qp: %m");
	}
	pair_connect(&pair, OPTS());
	n = small.cq->cqe + 4;
	CHECK(n <= 256, "the smallest CQ has %d entries", small.cq->cqe);
	for (i = 0; i < n; i++) {
		if (!test->arg[0]) {
			OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
			continue;
		}
		OK(post_recv(&pair.a, i, NULL, 0, 0));
		OK(post_send(&pair.b, IBV_WR_SEND, i, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	}
	async_event_expect(&env->a, IBV_EVENT_CQ_ERR, small.cq);
	/* Whatever the queue still gives: no more than it holds, no garbage. */
	for (i = 0; i <= small.cq->cqe; i++) {
		if (ibv_poll_cq(small.cq, 1, &wc) <= 0)
			break;
		CHECK_EQ(wc.wr_id, i, "wr_id");
	}
	CHECK(i <= small.cq->cqe, "%d completions in a queue of %d", i, small.cq->cqe);
	pair_check_works(&other);
	OK(ibv_destroy_qp(pair.a.qp));
	cq_free(&small);
	cq_free(&kept);
	end_free(&pair.b);
	pair_free(&other);
}

static void limits(struct env *env, const struct test *test)
{
	struct ibv_cq *cq;

	(void)test;
	REFUSED_PTR(ibv_create_cq(env->a.ctx, 0, NULL, NULL, 0), EINVAL);
	REFUSED_PTR(ibv_create_cq(env->a.ctx, -1, NULL, NULL, 0), EINVAL);
	REFUSED_PTR(ibv_create_cq(env->a.ctx, env->a.attr.max_cqe + 1, NULL, NULL, 0), EINVAL);
	REFUSED_PTR(ibv_create_cq(env->a.ctx, 16, NULL, NULL,
				  env->a.ctx->num_comp_vectors), EINVAL);
	cq = ibv_create_cq(env->a.ctx, env->a.attr.max_cqe, NULL, NULL, 0);
	CHECK(cq, "a CQ of max_cqe entries: %m");
	OK(ibv_destroy_cq(cq));
	cq = ibv_create_cq(env->a.ctx, 1, NULL, NULL, 0);
	CHECK(cq, "a CQ of one entry: %m");
	OK(ibv_destroy_cq(cq));
}

/* One CQ for both queues of both... of many QPs: each completion names its QP. */
static void shared(struct env *env, const struct test *test)
{
	enum { N = 8 };
	struct ibv_qp_init_attr init;
	struct pair pairs[N];
	int seen[N][2] = { 0 };
	struct cq cq;
	int i, j;

	(void)test;
	cq_new(&cq, &env->a, 200);
	for (i = 0; i < N; i++) {
		end_new(&pairs[i].b, &env->b, OPTS());
		memset(&pairs[i].a, 0, sizeof(pairs[i].a));
		pairs[i].a.host = &env->a;
		pairs[i].a.scq = pairs[i].a.rcq = cq;
		init = end_init_attr(&pairs[i].a, OPTS());
		pairs[i].a.qp = ibv_create_qp(env->a.pd, &init);
		CHECK(pairs[i].a.qp, "ibv_create_qp: %m");
		pair_connect(&pairs[i], OPTS());
	}
	for (j = 0; j < 10; j++)
		for (i = 0; i < N; i++) {
			OK(post_recv(&pairs[i].a, j, NULL, 0, 0));
			OK(post_send(&pairs[i].b, IBV_WR_SEND, j, NULL, 0, 0, NULL, 0, 0));
			OK(post_send(&pairs[i].a, IBV_WR_RDMA_WRITE, 100 + j, NULL, 0, 0,
				     NULL, 0, IBV_SEND_SIGNALED));
		}
	for (j = 0; j < N * 20; j++) {
		struct ibv_wc wc;
		int dir;

		CHECK(cq_wait(&cq, &wc, WAIT_MS), "completion %d of %d is missing", j, N * 20);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
		for (i = 0; i < N && pairs[i].a.qp->qp_num != wc.qp_num; i++)
			;
		CHECK(i < N, "completion of QP %u, which is none of ours", wc.qp_num);
		dir = wc.wr_id < 100;
		CHECK_EQ(wc.wr_id % 100, seen[i][dir], "completion of one queue");
		seen[i][dir]++;
	}
	cq_expect_empty(&cq, "after all");
	for (i = 0; i < N; i++) {
		OK(ibv_destroy_qp(pairs[i].a.qp));
		end_free(&pairs[i].b);
	}
	cq_free(&cq);
}

/* The completions of a destroyed QP do not disturb those of another. */
static void qp_gone(struct env *env, const struct test *test)
{
	struct ibv_qp_init_attr init;
	struct pair one, two;
	struct ibv_wc wc;
	struct cq cq;
	int i;

	(void)test;
	cq_new(&cq, &env->a, 200);
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
	for (i = 0; i < 2; i++) {
		struct pair *pair = i ? &two : &one;

		end_new(&pair->b, &env->b, OPTS());
		pair->a.host = &env->a;
		pair->a.scq = pair->a.rcq = cq;
		init = end_init_attr(&pair->a, OPTS());
		pair->a.qp = ibv_create_qp(env->a.pd, &init);
		CHECK(pair->a.qp, "ibv_create_qp: %m");
		pair_connect(pair, OPTS());
	}
	for (i = 0; i < 10; i++) {
		OK(post_send(&one.a, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, NULL, 0,
			     IBV_SEND_SIGNALED));
		OK(post_send(&two.a, IBV_WR_RDMA_WRITE, 100 + i, NULL, 0, 0, NULL, 0,
			     IBV_SEND_SIGNALED));
	}
	OK(ibv_destroy_qp(one.a.qp));
	for (i = 0; i < 10;) {
		CHECK(cq_wait(&cq, &wc, WAIT_MS), "no completion of %d", 100 + i);
		if (wc.wr_id < 100)
			continue;
		CHECK_EQ(wc.wr_id, 100 + i, "wr_id");
		CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
		i++;
	}
	OK(ibv_destroy_qp(two.a.qp));
	cq_free(&cq);
	end_free(&one.b);
	end_free(&two.b);
}

/* A CQ can be polled for several completions at once, round and round. */
static void wrap_around(struct env *env, const struct test *test)
{
	enum { BATCH = 7 };
	struct ibv_wc wc[BATCH * 2];
	struct pair pair;
	int i, j, got;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = 8, .cqe = 8));
	for (i = 0; i < 60; i++) {
		for (j = 0; j < BATCH; j++)
			OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i * BATCH + j, NULL, 0, 0,
				     NULL, 0, IBV_SEND_SIGNALED));
		for (got = 0; got < BATCH;) {
			CHECK(cq_wait(&pair.a.scq, wc, WAIT_MS), "no completion");
			j = ibv_poll_cq(pair.a.scq.cq, BATCH * 2 - 1, wc + 1);
			CHECK(j >= 0 && got + j < BATCH, "ibv_poll_cq: %d", j);
			for (j++; j > 0; j--, got++) {
				int k = got;

				CHECK_EQ(wc[0].status, IBV_WC_SUCCESS, "status");
				CHECK_EQ(wc[0].wr_id, i * BATCH + k, "wr_id");
				memmove(wc, wc + 1, sizeof(wc) - sizeof(wc[0]));
			}
		}
	}
	pair_free(&pair);
}

void tests_cq(void)
{
	TEST("cq", notify, "notification");
	TEST("cq", late_request, "notification, asked for late");
	TEST("cq", solicited, "solicited notification, send");
	TEST("cq", solicited_imm, "solicited notification, write_imm");
	TEST("cq", solicited_error, "solicited notification, error");
	test_add("cq", overrun, 0, 0, 0, "overrun by sends");
	test_add("cq", overrun, 0, 1, 0, "overrun by receives");
	TEST("cq", limits, "limits of create_cq");
	TEST("cq", shared, "one CQ of many QPs");
	TEST("cq", qp_gone, "completions of a QP that is gone");
	TEST("cq", wrap_around, "the ring wraps");
}
