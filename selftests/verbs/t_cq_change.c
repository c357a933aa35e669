// SPDX-License-Identifier: GPL-2.0
/* Completion queues that change: their size, and when they raise events. */
#include "mrverbs.h"

#include <errno.h>
#include <string.h>

/* n empty messages from a to b, numbered from *next. */
static void send_some(struct pair *pair, uint64_t *next, int n)
{
	uint64_t first = *next;
	int i;

	for (i = 0; i < n; i++)
		OK(post_recv(&pair->b, first + i, NULL, 0, 0));
	for (i = 0; i < n; i++)
		OK(post_send(&pair->a, IBV_WR_SEND, first + i, NULL, 0, 0, NULL, 0,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < n; i++)
		cq_expect(&pair->a.scq, first + i, IBV_WC_SUCCESS);
	*next += n;
}

/* What was not polled moves along, in order. */
static void resize(struct env *env, const struct test *test)
{
	static const int sizes[] = { 64, 16, 1000, 8, 100000, 32 };
	uint64_t next = 0, polled = 0;
	struct pair pair;
	size_t i;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = 16));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		/* In the middle of the ring, with 5 completions left. */
		send_some(&pair, &next, 8);
		while (polled < next - 5)
			cq_expect(&pair.b.rcq, polled++, IBV_WC_SUCCESS);
		REFUSED(ibv_resize_cq(pair.b.rcq.cq, 0), EINVAL);
		REFUSED(ibv_resize_cq(pair.b.rcq.cq, 2), EINVAL);
		REFUSED(ibv_resize_cq(pair.b.rcq.cq, env->b.attr.max_cqe + 1), EINVAL);
		OK(ibv_resize_cq(pair.b.rcq.cq, sizes[i]));
		CHECK(pair.b.rcq.cq->cqe >= sizes[i], "cqe is %d, should be %d",
		      pair.b.rcq.cq->cqe, sizes[i]);
		send_some(&pair, &next, 3);
		while (polled < next)
			cq_expect(&pair.b.rcq, polled++, IBV_WC_SUCCESS);
		cq_expect_empty(&pair.b.rcq, "after all were polled");
	}
	pair_free(&pair);
}

/* While completions come in. */
static void resize_busy(struct env *env, const struct test *test)
{
	enum { N = 400 };
	struct pair pair;
	struct ibv_wc wc;
	int posted = 0, got = 0, size = 64;
	long long stop = now_ms() + WAIT_MS;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = 32, .cqe = 64));
	while (got < N) {
		CHECK(now_ms() < stop, "only %d of %d completions", got, N);
		while (posted < N && posted - got < 16) {
			OK(post_recv(&pair.b, posted, NULL, 0, 0));
			OK(post_send(&pair.a, IBV_WR_SEND, posted, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
			posted++;
		}
		size = size == 64 ? 256 : 64;
		OK(ibv_resize_cq(pair.b.rcq.cq, size));
		while (ibv_poll_cq(pair.b.rcq.cq, 1, &wc) == 1) {
			CHECK(wc.status == IBV_WC_SUCCESS, "completion \"%s\"",
			      ibv_wc_status_str(wc.status));
			CHECK_EQ(wc.wr_id, got, "wr_id");
			got++;
		}
		while (ibv_poll_cq(pair.a.scq.cq, 1, &wc) == 1)
			CHECK(wc.status == IBV_WC_SUCCESS, "send \"%s\"",
			      ibv_wc_status_str(wc.status));
	}
	pair_free(&pair);
}

/* A long queue, which more comes into while it moves. */
static void resize_long(struct env *env, const struct test *test)
{
	enum { N = 4000, DEPTH = 200 };
	struct pair pair;
	struct ibv_wc wc;
	int i, j;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = DEPTH, .cqe = N));
	for (i = 0; i < N; i += DEPTH) {
		for (j = i; j < i + DEPTH; j++) {
			OK(post_recv(&pair.b, j, NULL, 0, 0));
			OK(post_send(&pair.a, IBV_WR_SEND, j, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
		}
		OK(ibv_resize_cq(pair.b.rcq.cq, i / DEPTH % 2 ? N : 2 * N));
		for (j = i; j < i + DEPTH; j++)
			cq_expect(&pair.a.scq, j, IBV_WC_SUCCESS);
	}
	for (i = 0; i < N; i++) {
		CHECK(ibv_poll_cq(pair.b.rcq.cq, 1, &wc) == 1, "%d of %d completions", i, N);
		CHECK_EQ(wc.wr_id, i, "wr_id");
	}
	cq_expect_empty(&pair.b.rcq, "after all were polled");
	pair_free(&pair);
}

/* The new ring cannot be mapped: whoever polls is told so. */
static void resize_unmapped(struct env *env, const struct test *test)
{
	struct ibv_wc wc;
	struct cq cq;

	(void)test;
	cq_new(&cq, &env->a, 16);
	CHECK_EQ(ibv_poll_cq(cq.cq, 1, &wc), 0, "completions");
	no_more_mappings();
	CHECK(ibv_resize_cq(cq.cq, 100000), "resized without memory for it");
	CHECK(ibv_poll_cq(cq.cq, 1, &wc) < 0, "polled a ring that is no longer used");
	cq_free(&cq);
}

static int moderate(struct cq *cq, int count, int period)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { count, period },
	};

	return ibv_modify_cq(cq->cq, &attr);
}

static void drain(struct pair *pair)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(pair->b.rcq.cq, 1, &wc) == 1)
		;
}

/* One event for several completions; none is forgotten. */
static void moderation(struct env *env, const struct test *test)
{
	uint64_t next = 0;
	struct pair pair;
	int ret;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = 32));
	/* The longest period there is, 65 ms, is too short to tell that there is no event. */
	ret = moderate(&pair.b.rcq, 4, 60000);
	if (ret == EOPNOTSUPP || ret == ENOSYS)
		SKIP("no moderation");
	OK(ret);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	send_some(&pair, &next, 4);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event after the count");
	cq_event_take(&pair.b.rcq);
	drain(&pair);
	/* Fewer than the count: after the period. */
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	send_some(&pair, &next, 1);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event after the period");
	cq_event_take(&pair.b.rcq);
	drain(&pair);
	/* Not armed: no event, whatever comes. */
	send_some(&pair, &next, 8);
	CHECK(!cq_event_pending(&pair.b.rcq, 200), "event of a CQ that is not armed");
	drain(&pair);
	/* What is held back comes when moderation ends. */
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	send_some(&pair, &next, 1);
	OK(moderate(&pair.b.rcq, 0, 0));
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event after the end of moderation");
	cq_event_take(&pair.b.rcq);
	drain(&pair);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	send_some(&pair, &next, 1);
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no event without moderation");
	cq_event_take(&pair.b.rcq);
	/* It goes while an event is held back. */
	drain(&pair);
	OK(moderate(&pair.b.rcq, 100, 65535));
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 0));
	send_some(&pair, &next, 1);
	pair_free(&pair);
}

void tests_cq_change(void)
{
	TEST("cq", resize, "resize");
	TEST("cq", resize_busy, "resize while completions come");
	TEST("cq", resize_long, "resize of a long queue");
	TEST("cq", resize_unmapped, "resize that cannot be mapped");
	TEST("cq", moderation, "moderation");
}
