// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues in use: sizes, what is refused, and messages to many QPs. */
#include "srq.h"

#include <errno.h>
#include <string.h>

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
	deliver(&pair, RECV, NULL, 0);
	REFUSED(srq_modify(srq, 0, 17, IBV_SRQ_LIMIT), EINVAL);
	REFUSED(srq_modify(srq, 0, 0, IBV_SRQ_MAX_WR), EINVAL);
	REFUSED(srq_modify(srq, env->b.attr.max_srq_wr + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
	REFUSED(srq_modify(srq, 16, 0, 1 << 5), EINVAL);
	CHECK_EQ(srq_query(srq).srq_limit, 0, "srq_limit");
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
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
		deliver(&pair, RECV + i, NULL, 0);
		OK(srq_post(srq, RECV + n + i, NULL, 0, 0));
		REFUSED(srq_post(srq, RECV + n, NULL, 0, 0), ENOMEM);
	}
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

void tests_srq_use(void)
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
}
