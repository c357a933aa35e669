// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues. The queue is on host b, the senders are on host a. */
#include "mrverbs.h"

#include <errno.h>
#include <rdma/metaroce-abi.h>
#include <stdio.h>
#include <string.h>

#define LEN	9000U		/* a few packets */

enum {
	WR = 0xa1,
	WR_NEXT = 0xa2,
	RECV = 0x100,		/* and up */
};

static struct ibv_srq *srq_new(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (!srq && (errno == EOPNOTSUPP || errno == ENOSYS))
		SKIP("no shared receive queues");
	CHECK(srq, "ibv_create_srq(%u, %u): %m", wr, sge);
	CHECK(init.attr.max_wr >= wr && init.attr.max_sge >= sge, "SRQ smaller than asked for");
	return srq;
}

static int srq_post(struct ibv_srq *srq, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
	};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int srq_modify(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, mask);
}

static struct ibv_srq_attr srq_query(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	OK(ibv_query_srq(srq, &attr));
	return attr;
}

static void send_one(struct end *end, uint64_t wr_id, struct buf *src, uint32_t len)
{
	OK(post_send(end, IBV_WR_SEND, wr_id, src->p, len, src->mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
}

static void sizes(struct env *env, const struct test *test)
{
	const struct ibv_device_attr *max = &env->b.attr;
	struct ibv_srq_init_attr init;
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;
	struct pair pair;

	(void)test;
	CHECK(max->max_srq > 0 && max->max_srq_wr > 0 && max->max_srq_sge > 0,
	      "the device says that it has none");
	srq = srq_new(env->b.pd, max->max_srq_wr, max->max_srq_sge);
	attr = srq_query(srq);
	CHECK((int)attr.max_wr >= max->max_srq_wr, "max_wr is %u", attr.max_wr);
	CHECK((int)attr.max_sge >= max->max_srq_sge, "max_sge is %u", attr.max_sge);
	CHECK_EQ(attr.srq_limit, 0, "srq_limit");
	OK(ibv_destroy_srq(srq));

#define BAD_INIT(wr, sge, limit) do {						\
		init = (struct ibv_srq_init_attr){ .attr = { wr, sge, limit } };	\
		REFUSED_PTR(ibv_create_srq(env->b.pd, &init), EINVAL);		\
	} while (0)
	BAD_INIT(0, 1, 0);
	BAD_INIT(max->max_srq_wr + 1, 1, 0);
	BAD_INIT(UINT32_MAX, 1, 0);
	BAD_INIT(1, max->max_srq_sge + 1, 0);
	BAD_INIT(16, 1, 17);

	srq = srq_new(env->b.pd, 16, 2);
	pair_new(&pair, env, OPTS(.srq = srq));
	CHECK_EQ(pair.b.cap.max_recv_wr, 0, "max_recv_wr of a QP with an SRQ");
	/* In use; and its QPs have no receive queue of their own. */
	REFUSED(ibv_destroy_srq(srq), EBUSY);
	REFUSED(post_recv(&pair.b, RECV, NULL, 0, 0), EINVAL);
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* Many queue pairs take from one queue; nothing is lost, swapped or used twice. */
static void traffic(struct env *env, const struct test *test)
{
	enum { MAX_QPS = 16, DEPTH = 8, SRQ = 64 };
	int qps = test->arg[0], per_qp = 64, i, done = 0, total = qps * per_qp;
	struct { int posted, completed, received; } qp[MAX_QPS] = {};
	struct opts opts = *OPTS(.depth = DEPTH, .cqe = 512, .min_rnr_timer = 1);
	struct pair pairs[MAX_QPS];
	uint8_t busy[SRQ] = {};
	struct buf src, dst;
	struct ibv_wc wc;
	long long stop = now_ms() + 2LL * WAIT_MS;

	/* A short queue that runs dry all the time, or a long one. */
	int held = test->arg[1];

	opts.srq = srq_new(env->b.pd, SRQ, 1);
	buf_new(&src, &env->a, MAX_QPS * DEPTH * LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, SRQ * LEN, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < qps; i++)
		pair_new(&pairs[i], env, &opts);
	for (i = 0; i < held; i++) {
		OK(srq_post(opts.srq, i, dst.p + i * LEN, LEN, dst.mr->lkey));
		busy[i] = 1;
	}
	while (done < total) {
		CHECK(now_ms() < stop, "only %d of %d messages have come", done, total);
		for (i = 0; i < qps; i++) {
			while (qp[i].posted < per_qp && qp[i].posted - qp[i].completed < DEPTH) {
				int slot = i * DEPTH + qp[i].posted % DEPTH;
				uint32_t len = 1 + (qp[i].posted * 997 + i * 131) % LEN;

				fill(src.p + slot * LEN, len, i * 1000 + qp[i].posted);
				OK(post_send(&pairs[i].a, IBV_WR_SEND_WITH_IMM, qp[i].posted,
					     src.p + slot * LEN, len, src.mr->lkey, NULL, 0,
					     IBV_SEND_SIGNALED));
				qp[i].posted++;
			}
			while (ibv_poll_cq(pairs[i].a.scq.cq, 1, &wc) == 1) {
				CHECK(wc.status == IBV_WC_SUCCESS, "send: \"%s\"",
				      ibv_wc_status_str(wc.status));
				CHECK_EQ(wc.wr_id, qp[i].completed, "wr_id of the send");
				qp[i].completed++;
			}
			while (ibv_poll_cq(pairs[i].b.rcq.cq, 1, &wc) == 1) {
				int n = qp[i].received++;
				uint32_t len = 1 + (n * 997 + i * 131) % LEN;

				CHECK(wc.status == IBV_WC_SUCCESS, "receive: \"%s\"",
				      ibv_wc_status_str(wc.status));
				CHECK_EQ(wc.qp_num, pairs[i].b.qp->qp_num, "qp_num");
				CHECK(wc.wr_id < SRQ && busy[wc.wr_id],
				      "receive %lld was not posted", (long long)wc.wr_id);
				CHECK_EQ(wc.byte_len, len, "byte_len");
				check(dst.p + wc.wr_id * LEN, len, i * 1000 + n, "message");
				memset(dst.p + wc.wr_id * LEN, 0, LEN);
				OK(srq_post(opts.srq, wc.wr_id, dst.p + wc.wr_id * LEN, LEN,
					    dst.mr->lkey));
				done++;
			}
		}
	}
	for (i = 0; i < qps; i++)
		pair_free(&pairs[i]);
	OK(ibv_destroy_srq(opts.srq));
	buf_free(&src);
	buf_free(&dst);
}

static void overflow(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	uint32_t n = srq_query(srq).max_wr, i;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS(.srq = srq));
	for (i = 0; i < n; i++)
		OK(srq_post(srq, RECV + i, NULL, 0, 0));
	REFUSED(srq_post(srq, RECV + n, NULL, 0, 0), ENOMEM);
	/* Each that is consumed makes room for one, for as long as it goes on. */
	for (i = 0; i < 3 * n; i++) {
		OK(post_send(&pair.a, IBV_WR_SEND, i, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, RECV + i, IBV_WC_SUCCESS);
		OK(srq_post(srq, RECV + n + i, NULL, 0, 0));
		REFUSED(srq_post(srq, RECV + n, NULL, 0, 0), ENOMEM);
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

static void bad_requests(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 2);
	struct ibv_sge sge[32] = {};
	struct ibv_recv_wr *bad = NULL, wr[2] = {
		{ .wr_id = RECV, .next = &wr[1] },
		{ .wr_id = RECV + 1, .sg_list = sge, .num_sge = 17 },
	};
	struct pair pair;

	(void)test;
	REFUSED(ibv_post_srq_recv(srq, wr, &bad), EINVAL);
	CHECK(bad == &wr[1], "bad_wr is not the bad one");
	/* The first was posted. */
	pair_new(&pair, env, OPTS(.srq = srq));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
	REFUSED(srq_modify(srq, 0, 17, IBV_SRQ_LIMIT), EINVAL);
	REFUSED(srq_modify(srq, 0, 0, IBV_SRQ_MAX_WR), EINVAL);
	REFUSED(srq_modify(srq, env->b.attr.max_srq_wr + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
	REFUSED(srq_modify(srq, 16, 0, 1 << 5), EINVAL);
	CHECK_EQ(srq_query(srq).srq_limit, 0, "srq_limit");
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
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
	struct ibv_async_event event;
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
	CHECK(async_event_wait(&env->b, WAIT_MS, &event), "no event");
	CHECK_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED, "event");
	CHECK(event.element.qp == bad.b.qp, "event of another QP");
	ibv_ack_async_event(&event);
	send_one(&good.a, WR, &src, LEN);
	cq_expect(&good.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&good.b.rcq, RECV + 1, IBV_WC_SUCCESS);
	check(dst.p + LEN, LEN, 6, "the other's message");
	cq_expect_empty(&bad.b.rcq, "of the failed QP");
	pair_free(&bad);
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

static void no_event(struct host *host, const char *when)
{
	struct ibv_async_event event;

	if (!async_event_wait(host, 50, &event))
		return;
	FAIL("event \"%s\" %s", ibv_event_type_str(event.event_type), when);
}

static void expect_event(struct host *host, struct ibv_srq *srq, enum ibv_event_type type)
{
	struct ibv_async_event event;

	CHECK(async_event_wait(host, WAIT_MS, &event), "no event");
	CHECK_EQ(event.event_type, type, "event");
	CHECK(event.element.srq == srq, "event of another SRQ");
	ibv_ack_async_event(&event);
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
		for (i = 0; i < 3; i++) {
			OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
			cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
			cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
		}
		no_event(&env->b, "with as many receives as the limit");
		for (i = 0; i < 3; i++) {
			OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
			cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
			cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
		}
		expect_event(&env->b, srq, IBV_EVENT_SRQ_LIMIT_REACHED);
		no_event(&env->b, "after the event");
		CHECK_EQ(srq_query(srq).srq_limit, 0, "srq_limit after the event");
		for (i = 0; i < 6; i++)
			OK(srq_post(srq, RECV, NULL, 0, 0));
	}
	/* Taken back. */
	OK(srq_modify(srq, 0, 7, IBV_SRQ_LIMIT));
	OK(srq_modify(srq, 0, 0, IBV_SRQ_LIMIT));
	for (i = 0; i < 5; i++) {
		OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
	}
	no_event(&env->b, "without a limit");
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* A queue pair in the error state takes no more, says so, and leaves the rest. */
static void last_wqe(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct ibv_async_event event;
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
	CHECK(async_event_wait(&env->b, WAIT_MS, &event), "no event");
	CHECK_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED, "event");
	CHECK(event.element.qp == bad.b.qp, "event of another QP");
	ibv_ack_async_event(&event);
	end_error(&bad.b);
	no_event(&env->b, "a second time");
	cq_expect_empty(&bad.b.rcq, "of the QP in the error state");
	send_one(&good.a, WR, &src, LEN);
	cq_expect(&good.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&good.b.rcq, RECV, IBV_WC_SUCCESS);
	check(dst.p, LEN, 8, "the other's message");
	pair_free(&bad);
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* What is posted moves along, in order; work goes on in the new ring. */
static void resize(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 3);
	uint32_t next_recv = 0, next_post = 0, to[] = { 64, 1024, 16, 32, 16384, 8 }, i, n;
	struct buf src, dst;
	struct pair pair;

	(void)test;
	if (!(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	pair_new(&pair, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < ARRAY_SIZE(to); i++) {
		/* In the middle of the ring, with 8 posted. */
		for (n = 0; n < 11; n++) {
			while (next_post < next_recv + 8) {
				OK(srq_post(srq, RECV + next_post, dst.p, LEN, dst.mr->lkey));
				next_post++;
			}
			fill(src.p, LEN, next_recv);
			send_one(&pair.a, WR, &src, LEN);
			cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
			cq_expect(&pair.b.rcq, RECV + next_recv, IBV_WC_SUCCESS);
			check(dst.p, LEN, next_recv, "message");
			next_recv++;
		}
		OK(srq_post(srq, RECV + next_post++, dst.p, LEN, dst.mr->lkey));
		REFUSED(srq_modify(srq, 4, 0, IBV_SRQ_MAX_WR), EINVAL);
		OK(srq_modify(srq, to[i], 0, IBV_SRQ_MAX_WR));
		CHECK(srq_query(srq).max_wr >= to[i], "max_wr is %u, should be %u",
		      srq_query(srq).max_wr, to[i]);
	}
	/* The last size is filled to the brim. */
	n = srq_query(srq).max_wr;
	while (next_post < next_recv + n) {
		OK(srq_post(srq, RECV + next_post, dst.p, LEN, dst.mr->lkey));
		next_post++;
	}
	REFUSED(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey), ENOMEM);
	while (next_recv < next_post) {
		send_one(&pair.a, WR, &src, LEN);
		cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, RECV + next_recv, IBV_WC_SUCCESS);
		next_recv++;
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* A long queue, which is taken from while it moves. */
static void resize_long(struct env *env, const struct test *test)
{
	enum { N = 2000, SENDS = 100 };
	struct ibv_srq *srq = srq_new(env->b.pd, N, 1);
	struct pair pair;
	int i, j;

	(void)test;
	if (!(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	pair_new(&pair, env, OPTS(.depth = SENDS, .srq = srq));
	for (i = 0; i < N; i++)
		OK(srq_post(srq, RECV + i, NULL, 0, 0));
	for (i = 0; i < N; i += SENDS) {
		for (j = 0; j < SENDS; j++)
			OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
		OK(srq_modify(srq, i / SENDS % 2 ? N : 2 * N, 0, IBV_SRQ_MAX_WR));
		for (j = 0; j < SENDS; j++) {
			cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
			cq_expect(&pair.b.rcq, RECV + i + j, IBV_WC_SUCCESS);
		}
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* The new ring cannot be mapped: whoever posts is told so. */
static void resize_unmapped(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);

	(void)test;
	if (!is_metaroce() || !(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	OK(srq_post(srq, RECV, NULL, 0, 0));
	no_more_mappings();
	CHECK(srq_modify(srq, 16384, 0, IBV_SRQ_MAX_WR), "resized without memory for it");
	REFUSED(srq_post(srq, RECV, NULL, 0, 0), EIO);
	OK(ibv_destroy_srq(srq));
}

/* The memory of receives belongs to the queue's domain, not the queue pair's. */
static void domains(struct env *env, const struct test *test)
{
	struct host second = env->b;
	struct buf src, mine, others;
	struct ibv_srq *srq;
	struct pair pair;

	(void)test;
	second.pd = ibv_alloc_pd(env->b.ctx);
	CHECK(second.pd, "ibv_alloc_pd: %m");
	srq = srq_new(second.pd, 16, 1);
	pair_new(&pair, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&mine, &second, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&others, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 12);
	OK(srq_post(srq, RECV, mine.p, LEN, mine.mr->lkey));
	OK(srq_post(srq, RECV + 1, others.p, LEN, others.mr->lkey));
	send_one(&pair.a, WR, &src, LEN);
	cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
	check(mine.p, LEN, 12, "message");
	send_one(&pair.a, WR, &src, LEN);
	cq_expect(&pair.b.rcq, RECV + 1, IBV_WC_LOC_PROT_ERR);
	cq_expect(&pair.a.scq, WR, IBV_WC_REM_OP_ERR);
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&mine);
	buf_free(&others);
	OK(ibv_dealloc_pd(second.pd));
}

/* All that consumes a receive takes it from the queue, in the order of the messages. */
static void kinds(struct env *env, const struct test *test)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
	};
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct buf src, dst;
	struct pair pair;
	uint32_t i, recv = RECV;

	(void)test;
	pair_new(&pair, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, ACCESS_ALL);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		OK(srq_post(srq, RECV + i, dst.p, LEN, dst.mr->lkey));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		OK(post_send(&pair.a, ops[i], WR, src.p, LEN, src.mr->lkey, dst.p, dst.mr->rkey,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
		if (op_receives(ops[i]))
			cq_expect(&pair.b.rcq, recv++, IBV_WC_SUCCESS);
	}
	cq_expect_empty(&pair.b.rcq, "after all");
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* The queue pair goes in the middle of its messages; the queue serves the others. */
static void qp_goes(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 256, 1);
	struct buf src, dst;
	struct pair pair, good;
	int round, i;

	(void)test;
	pair_new(&good, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (round = 0; round < 10; round++) {
		pair_new(&pair, env, OPTS(.srq = srq));
		for (i = 0; i < 16; i++)
			OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
		for (i = 0; i < 16; i++)
			send_one(&pair.a, WR, &src, LEN);
		pair_free(&pair);
		OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
		send_one(&good.a, WR, &src, LEN);
		cq_expect(&good.a.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&good.b.rcq, RECV, IBV_WC_SUCCESS);
	}
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* A wild index in the shared ring: the queue is broken and says so, its QPs end as they use it. */
static void wild_index(struct env *env, const struct test *test)
{
	const uint64_t mark = 0x5a9d00d5a9d00dULL;
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct metaroce_ring_hdr *hdr = NULL;
	struct ibv_async_event event;
	bool srq_told = false, qp_told = false, last_told = false;
	struct pair pair;
	char line[512];
	FILE *f;

	(void)test;
	if (!is_metaroce())
		SKIP("knows the rings of metaroce only");
	pair_new(&pair, env, OPTS(.srq = srq));
	OK(srq_post(srq, mark, NULL, 0, 0));
	f = fopen("/proc/self/maps", "r");
	CHECK(f, "/proc/self/maps: %m");
	while (!hdr && fgets(line, sizeof(line), f)) {
		unsigned long start, end, p;

		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		p = start + METAROCE_RING_HDR_SIZE;
		if (!memcmp((void *)p, &mark, sizeof(mark)))
			hdr = (struct metaroce_ring_hdr *)start;
	}
	fclose(f);
	CHECK(hdr, "no ring of the SRQ in the mappings");
	__atomic_store_n(&hdr->producer, (uint32_t)test->arg[0], __ATOMIC_SEQ_CST);
	OK(post_send(&pair.a, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	end_expect_error(&pair.b);
	while (!srq_told || !qp_told || !last_told) {
		CHECK(async_event_wait(&env->b, WAIT_MS, &event), "SRQ_ERR %d, QP_FATAL %d, LAST_WQE %d",
		      srq_told, qp_told, last_told);
		srq_told |= event.event_type == IBV_EVENT_SRQ_ERR && event.element.srq == srq;
		qp_told |= event.event_type == IBV_EVENT_QP_FATAL &&
			   event.element.qp == pair.b.qp;
		last_told |= event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
		ibv_ack_async_event(&event);
	}
	REFUSED(srq_modify(srq, 64, 0, IBV_SRQ_MAX_WR), EINVAL);
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	env_check_works(env);
}

void tests_srq(void)
{
	TEST("srq", sizes, "sizes and use");
	TEST("srq", bad_requests, "bad requests");
	TEST("srq", overflow, "full");
	test_add("srq", traffic, 0, 1, 32, "1 QP");
	test_add("srq", traffic, 0, 1, 1, "1 QP, 1 receive at a time");
	test_add("srq", traffic, 0, 4, 64, "4 QPs");
	test_add("srq", traffic, 0, 16, 64, "16 QPs");
	test_add("srq", traffic, 0, 4, 3, "4 QPs, 3 receives at a time");
	TEST("srq", kinds, "all that consumes a receive");
	test_add("srq", not_ready, 0, 1, 0, "late receive");
	test_add("srq", not_ready, 0, 0, 0, "no receive");
	TEST("srq", too_long, "message too long");
	TEST("srq", limit, "limit");
	TEST("srq", last_wqe, "QP in the error state");
	TEST("srq", resize, "resize");
	TEST("srq", resize_long, "resize of a long queue");
	TEST("srq", resize_unmapped, "resize that cannot be mapped");
	TEST("srq", domains, "domains");
	TEST("srq", qp_goes, "QPs go in the middle");
	test_add("srq", wild_index, 0, 0x80000000L, 0, "wild index");
	test_add("srq", wild_index, 0, 17, 0, "index one too far");
}
