// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: their states, and the attributes that a state needs. */
#include "mrverbs.h"

#include <errno.h>
#include <string.h>

static const char * const state_names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
		  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
		  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

/* Attributes that are good for any transition between these two devices. */
static struct ibv_qp_attr good_attr(struct end *from, struct end *to, enum ibv_qp_state state)
{
	return (struct ibv_qp_attr) {
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = ACCESS_ALL,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.rq_psn = 0x123456,
		.sq_psn = 0x654321,
		.max_dest_rd_atomic = 3,
		.max_rd_atomic = 2,
		.min_rnr_timer = 11,
		.timeout = 13,
		.retry_cnt = 5,
		.rnr_retry = 6,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = to->host->gid,
				.sgid_index = from->host->gid_index,
				.hop_limit = 33,
				.traffic_class = 0,
			},
		},
	};
}

static int required_mask(enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return INIT_MASK;
	case IBV_QPS_RTR:
		return RTR_MASK;
	case IBV_QPS_RTS:
		return RTS_MASK;
	default:
		return IBV_QP_STATE;
	}
}

static int go(struct end *from, struct end *to, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = good_attr(from, to, state);

	return ibv_modify_qp(from->qp, &attr, mask);
}

static void bring_to(struct end *end, struct end *peer, enum ibv_qp_state state)
{
	enum ibv_qp_state s;

	OK(go(end, peer, IBV_QPS_RESET, IBV_QP_STATE));
	if (state == IBV_QPS_ERR) {
		OK(go(end, peer, IBV_QPS_INIT, INIT_MASK));
		OK(go(end, peer, IBV_QPS_ERR, IBV_QP_STATE));
		return;
	}
	for (s = IBV_QPS_INIT; s <= state && s <= IBV_QPS_RTS; s++)
		OK(go(end, peer, s, required_mask(s)));
	if (state == IBV_QPS_SQD)
		OK(go(end, peer, IBV_QPS_SQD, IBV_QP_STATE));
	CHECK_EQ(end_state(end), state, "state");
}

/* Each pair of states, with every attribute that the transition asks for. */
static void transition(struct env *env, const struct test *test)
{
	enum ibv_qp_state from = test->arg[0], to = test->arg[1];
	/* Linux has no way from RESET to ERR. */
	bool legal = to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET) ||
		     from == to - 1 ||
		     (from == to && (from == IBV_QPS_INIT || from == IBV_QPS_RTS ||
				     from == IBV_QPS_SQD)) ||
		     (from == IBV_QPS_SQD && to == IBV_QPS_RTS);
	int mask = from == to || from == IBV_QPS_SQD ? IBV_QP_STATE : required_mask(to);
	struct end a, b;
	int ret;

	end_new(&a, &env->a, OPTS());
	end_new(&b, &env->b, OPTS());
	bring_to(&a, &b, from);
	ret = go(&a, &b, to, mask);
	if (legal) {
		CHECK(!ret, "%s to %s: %d (%s)", state_names[from], state_names[to], ret,
		      strerror(ret));
		CHECK_EQ(end_state(&a), to, "state");
	} else {
		CHECK(ret == EINVAL, "%s to %s: %d, should be EINVAL", state_names[from],
		      state_names[to], ret);
		CHECK_EQ(end_state(&a), from, "state after the refusal");
	}
	end_free(&a);
	end_free(&b);
}

/* Each attribute that a transition needs, left out. */
static void missing_attr(struct env *env, const struct test *test)
{
	enum ibv_qp_state to = test->arg[0];
	int mask = required_mask(to), bit;
	struct end a, b;

	end_new(&a, &env->a, OPTS());
	end_new(&b, &env->b, OPTS());
	bring_to(&a, &b, to - 1);
	for (bit = 0; bit < 22; bit++) {
		int ret;

		if (!(mask & 1 << bit) || 1 << bit == IBV_QP_STATE)
			continue;
		ret = go(&a, &b, to, mask & ~(1 << bit));
		CHECK(ret == EINVAL, "%s without attribute %#x: %d, should be EINVAL",
		      state_names[to], 1 << bit, ret);
		CHECK_EQ(end_state(&a), to - 1, "state after the refusal");
	}
	/* And one that this transition does not take. */
	REFUSED(go(&a, &b, to, mask | IBV_QP_QKEY), EINVAL);
	OK(go(&a, &b, to, mask));
	end_free(&a);
	end_free(&b);
}

#define BAD(state, member, value, what) do {				\
		struct ibv_qp_attr attr_ = good_attr(&a, &b, state);	\
		int ret_;						\
		attr_.member = (value);					\
		ret_ = ibv_modify_qp(a.qp, &attr_, required_mask(state));\
		CHECK(ret_ == EINVAL, what ": %d, should be EINVAL", ret_);\
		CHECK_EQ(end_state(&a), (state) - 1, "state after " what);\
	} while (0)

static void bad_values(struct env *env, const struct test *test)
{
	struct end a, b;

	(void)test;
	end_new(&a, &env->a, OPTS());
	end_new(&b, &env->b, OPTS());
	BAD(IBV_QPS_INIT, port_num, 0, "port 0");
	BAD(IBV_QPS_INIT, port_num, env->a.attr.phys_port_cnt + 1, "port too high");
	BAD(IBV_QPS_INIT, pkey_index, env->a.port.pkey_tbl_len, "pkey index too high");
	OK(go(&a, &b, IBV_QPS_INIT, INIT_MASK));
	BAD(IBV_QPS_RTR, path_mtu, 0, "path MTU 0");
	BAD(IBV_QPS_RTR, path_mtu, 6, "path MTU 6");
	if (env->a.port.active_mtu < IBV_MTU_4096)
		BAD(IBV_QPS_RTR, path_mtu, env->a.port.active_mtu + 1,
		    "path MTU over the port's");
	BAD(IBV_QPS_RTR, ah_attr.grh.sgid_index, 255, "sgid index too high");
	BAD(IBV_QPS_RTR, ah_attr.is_global, 0, "no GRH");
	BAD(IBV_QPS_RTR, max_dest_rd_atomic, env->a.attr.max_qp_rd_atom + 1,
	    "max_dest_rd_atomic over the limit");
	OK(go(&a, &b, IBV_QPS_RTR, RTR_MASK));
	BAD(IBV_QPS_RTS, max_rd_atomic, env->a.attr.max_qp_init_rd_atom + 1,
	    "max_rd_atomic over the limit");
	BAD(IBV_QPS_RTS, timeout, 32, "timeout 32");
	BAD(IBV_QPS_RTS, retry_cnt, 8, "retry_cnt 8");
	BAD(IBV_QPS_RTS, rnr_retry, 8, "rnr_retry 8");
	OK(go(&a, &b, IBV_QPS_RTS, RTS_MASK));
	end_free(&a);
	end_free(&b);
}

/* cur_qp_state, where given, must be the state that the QP is in. */
static void current_state(struct env *env, const struct test *test)
{
	struct ibv_qp_attr attr;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	attr = good_attr(&pair.a, &pair.b, IBV_QPS_RTS);
	attr.cur_qp_state = IBV_QPS_SQD;
	CHECK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL,
	      "a wrong cur_qp_state was accepted");
	attr.cur_qp_state = IBV_QPS_RTS;
	OK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	pair_check_works(&pair);
	pair_free(&pair);
}

/* What was set is what a query tells. */
static void query(struct env *env, const struct test *test)
{
	struct ibv_qp_init_attr init, made;
	struct ibv_qp_attr attr, want;
	const int all = INIT_MASK | RTR_MASK | RTS_MASK | IBV_QP_CAP | IBV_QP_CUR_STATE;
	const struct opts *opts = OPTS(.depth = 20, .sge = 3, .max_inline = 32, .sig_all = 1);
	struct end a, b;

	(void)test;
	end_new(&a, &env->a, opts);
	end_new(&b, &env->b, opts);
	OK(ibv_query_qp(a.qp, &attr, all, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_RESET, "state of a new QP");
	want = good_attr(&a, &b, IBV_QPS_RTS);
	bring_to(&a, &b, IBV_QPS_RTS);
	OK(ibv_query_qp(a.qp, &attr, all, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS, "qp_state");
	CHECK_EQ(attr.port_num, 1, "port_num");
	CHECK_EQ(attr.qp_access_flags, want.qp_access_flags, "qp_access_flags");
	CHECK_EQ(attr.path_mtu, want.path_mtu, "path_mtu");
	CHECK_EQ(attr.dest_qp_num, want.dest_qp_num, "dest_qp_num");
	CHECK_EQ(attr.rq_psn, want.rq_psn, "rq_psn");
	CHECK_EQ(attr.sq_psn, want.sq_psn, "sq_psn");
	CHECK_EQ(attr.max_rd_atomic, want.max_rd_atomic, "max_rd_atomic");
	CHECK_EQ(attr.max_dest_rd_atomic, want.max_dest_rd_atomic, "max_dest_rd_atomic");
	CHECK_EQ(attr.min_rnr_timer, want.min_rnr_timer, "min_rnr_timer");
	CHECK_EQ(attr.timeout, want.timeout, "timeout");
	CHECK_EQ(attr.retry_cnt, want.retry_cnt, "retry_cnt");
	CHECK_EQ(attr.rnr_retry, want.rnr_retry, "rnr_retry");
	CHECK_EQ(attr.ah_attr.is_global, 1, "is_global");
	CHECK_EQ(attr.ah_attr.grh.sgid_index, want.ah_attr.grh.sgid_index, "sgid_index");
	CHECK(!memcmp(attr.ah_attr.grh.dgid.raw, want.ah_attr.grh.dgid.raw, 16), "dgid differs");
	CHECK_EQ(attr.cap.max_send_wr, a.cap.max_send_wr, "max_send_wr");
	CHECK_EQ(attr.cap.max_recv_wr, a.cap.max_recv_wr, "max_recv_wr");
	CHECK_EQ(attr.cap.max_send_sge, a.cap.max_send_sge, "max_send_sge");
	CHECK_EQ(attr.cap.max_recv_sge, a.cap.max_recv_sge, "max_recv_sge");
	CHECK_EQ(attr.cap.max_inline_data, a.cap.max_inline_data, "max_inline_data");
	made = end_init_attr(&a, opts);
	CHECK(init.send_cq == made.send_cq && init.recv_cq == made.recv_cq, "CQs differ");
	CHECK_EQ(init.sq_sig_all, 1, "sq_sig_all");
	CHECK_EQ(init.qp_type, IBV_QPT_RC, "qp_type");

	/* Attributes that may be changed in RTS. */
	want.min_rnr_timer = 7;
	want.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	OK(ibv_modify_qp(a.qp, &want, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER));
	OK(ibv_query_qp(a.qp, &attr, all, &init));
	CHECK_EQ(attr.min_rnr_timer, 7, "min_rnr_timer after the change");
	CHECK_EQ(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ, "qp_access_flags after the change");

	OK(go(&a, &b, IBV_QPS_RESET, IBV_QP_STATE));
	CHECK_EQ(end_state(&a), IBV_QPS_RESET, "state after reset");
	end_free(&a);
	end_free(&b);
}

static void post_in_wrong_state(struct env *env, const struct test *test)
{
	struct end a, b;

	(void)test;
	end_new(&a, &env->a, OPTS());
	end_new(&b, &env->b, OPTS());
	CHECK(post_recv(&a, 1, NULL, 0, 0), "receive posted in RESET");
	CHECK(post_send(&a, IBV_WR_SEND, 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED),
	      "send posted in RESET");
	bring_to(&a, &b, IBV_QPS_INIT);
	OK(post_recv(&a, 1, NULL, 0, 0));
	CHECK(post_send(&a, IBV_WR_SEND, 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED),
	      "send posted in INIT");
	OK(go(&a, &b, IBV_QPS_RTR, RTR_MASK));
	OK(post_recv(&a, 2, NULL, 0, 0));
	CHECK(post_send(&a, IBV_WR_SEND, 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED),
	      "send posted in RTR");
	OK(go(&a, &b, IBV_QPS_ERR, IBV_QP_STATE));
	cq_expect(&a.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	cq_expect(&a.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	cq_expect_empty(&a.scq, "after sends that were refused");
	end_free(&a);
	end_free(&b);
}

/* A reset forgets what was posted: nothing of it ever completes. */
static void reset_forgets(struct env *env, const struct test *test)
{
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = 8));
	for (i = 0; i < 8; i++) {
		OK(post_recv(&pair.a, i, NULL, 0, 0));
		OK(post_send(&pair.a, IBV_WR_SEND, i, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	}
	OK(go(&pair.a, &pair.b, IBV_QPS_RESET, IBV_QP_STATE));
	OK(go(&pair.b, &pair.a, IBV_QPS_RESET, IBV_QP_STATE));
	sleep_ms(50);
	cq_expect_empty(&pair.a.scq, "after the reset");
	cq_expect_empty(&pair.a.rcq, "after the reset");
	pair_connect(&pair, OPTS());
	for (i = 0; i < 20; i++)
		pair_check_works(&pair);
	pair_free(&pair);
}

/* SQD: what is posted waits, what is under way ends, an event tells it. */
static void drain(struct env *env, const struct test *test)
{
	const uint32_t len = 500000;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct buf src, dst;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	fill(src.p, len, 4);
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, src.p, len, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	OK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 2, src.p, 100, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	async_event_expect(&env->a, IBV_EVENT_SQ_DRAINED, pair.a.qp);
	/* The first may or may not have started before; it then ended. */
	sleep_ms(30);
	CHECK_EQ(end_state(&pair.a), IBV_QPS_SQD, "state");
	attr.qp_state = IBV_QPS_RTS;
	OK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE));
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
	check(dst.p, len, 4, "data");
	pair_check_works(&pair);
	pair_free(&pair);
	buf_free(&src);
	buf_free(&dst);
}

void tests_qp_state(void)
{
	static const enum ibv_qp_state from[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR,
	};
	static const enum ibv_qp_state to[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR,
	};
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(from); i++)
		for (j = 0; j < ARRAY_SIZE(to); j++)
			test_add("qp", transition, 0, from[i], to[j], "%s to %s",
				 state_names[from[i]], state_names[to[j]]);
	test_add("qp", missing_attr, 0, IBV_QPS_INIT, 0, "INIT, attributes missing");
	test_add("qp", missing_attr, 0, IBV_QPS_RTR, 0, "RTR, attributes missing");
	test_add("qp", missing_attr, 0, IBV_QPS_RTS, 0, "RTS, attributes missing");
	TEST("qp", bad_values, "attributes out of range");
	TEST("qp", current_state, "cur_qp_state");
	TEST("qp", query, "query_qp");
	TEST("qp", post_in_wrong_state, "posting in the wrong state");
	TEST("qp", reset_forgets, "a reset forgets what was posted");
	TEST("qp", drain, "SQD drains the send queue");
}
