// SPDX-License-Identifier: GPL-2.0
/* Extended verbs: ibv_wr_*, ibv_cq_ex, parent and thread domains. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define LEN	9000U

static const uint64_t all_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
	IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

struct setup {
	struct pair pair;
	struct ibv_qp_ex *qpx;
	struct buf src, dst;
};

static void set_up(struct setup *s, struct env *env, uint64_t ops, struct ibv_pd *pd)
{
	const struct opts *opts = OPTS(.depth = 8, .sge = 2, .max_inline = 64,
				       .qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd ? pd : env->a.pd,
		.send_ops_flags = ops,
		.cap = { 8, 8, 2, 2, 64 },
	};

	/* End a again, with the extended verb. */
	end_new(&s->pair.a, &env->a, opts);
	end_new(&s->pair.b, &env->b, opts);
	OK(ibv_destroy_qp(s->pair.a.qp));
	attr.send_cq = s->pair.a.scq.cq;
	attr.recv_cq = s->pair.a.rcq.cq;
	s->pair.a.qp = ibv_create_qp_ex(env->a.ctx, &attr);
	if (!s->pair.a.qp && errno == EOPNOTSUPP)
		SKIP("no ibv_create_qp_ex");
	CHECK(s->pair.a.qp, "ibv_create_qp_ex: %m");
	s->qpx = ibv_qp_to_qp_ex(s->pair.a.qp);
	CHECK(s->qpx, "ibv_qp_to_qp_ex: %m");
	pair_connect(&s->pair, opts);
	buf_new(&s->src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&s->dst, &env->b, LEN, ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC);
	fill(s->src.p, LEN, 41);
	memset(s->dst.p, 0, LEN);
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	buf_free(&s->src);
	buf_free(&s->dst);
}

static void request(struct setup *s, uint64_t wr_id)
{
	s->qpx->wr_id = wr_id;
	s->qpx->wr_flags = IBV_SEND_SIGNALED;
}

static void wr_kinds(struct env *env, const struct test *test)
{
	struct ibv_data_buf bufs[2];
	struct ibv_sge list[2];
	struct setup s;
	struct ibv_wc wc;
	uint64_t word;

	(void)test;
	set_up(&s, env, all_ops, NULL);
	OK(post_recv(&s.pair.b, 1, s.dst.p, LEN, s.dst.mr->lkey));
	OK(post_recv(&s.pair.b, 2, s.dst.p, LEN, s.dst.mr->lkey));
	list[0] = (struct ibv_sge){ (uintptr_t)s.src.p, 5000, s.src.mr->lkey };
	list[1] = (struct ibv_sge){ (uintptr_t)s.src.p + 5000, LEN - 5000, s.src.mr->lkey };

	/* All in one batch, in order. */
	ibv_wr_start(s.qpx);
	request(&s, 1);
	ibv_wr_send(s.qpx);
	ibv_wr_set_sge_list(s.qpx, 2, list);
	request(&s, 2);
	ibv_wr_send_imm(s.qpx, 0x11223344);
	ibv_wr_set_inline_data(s.qpx, s.src.p, 30);
	request(&s, 3);
	ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, LEN);
	OK(ibv_wr_complete(s.qpx));
	cq_expect(&s.pair.a.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.scq, 2, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.scq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(cq_expect(&s.pair.b.rcq, 1, IBV_WC_SUCCESS).byte_len, LEN, "byte_len");
	wc = cq_expect(&s.pair.b.rcq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 30, "byte_len");
	CHECK_EQ(wc.imm_data, 0x11223344, "immediate");
	check(s.dst.p, LEN, 41, "written");

	/* The word at the end of the buffer, which atomics then change. */
	memset(s.dst.p, 0, 8);
	bufs[0] = (struct ibv_data_buf){ s.src.p, 10 };
	bufs[1] = (struct ibv_data_buf){ s.src.p + 10, 20 };
	ibv_wr_start(s.qpx);
	request(&s, 4);
	ibv_wr_atomic_fetch_add(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p, 5);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, 8);
	request(&s, 5);
	ibv_wr_atomic_cmp_swp(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p, 5, 99);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p + 8, 8);
	request(&s, 6);
	ibv_wr_rdma_read(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p + 16, 8);
	OK(ibv_wr_complete(s.qpx));
	cq_expect(&s.pair.a.scq, 4, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.scq, 5, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.scq, 6, IBV_WC_SUCCESS);
	memcpy(&word, s.src.p, 8);
	CHECK_EQ(word, 0, "found by the addition");
	memcpy(&word, s.src.p + 8, 8);
	CHECK_EQ(word, 5, "found by the swap");
	memcpy(&word, s.src.p + 16, 8);
	CHECK_EQ(word, 99, "read");

	fill(s.src.p, LEN, 43);
	OK(post_recv(&s.pair.b, 7, NULL, 0, 0));
	ibv_wr_start(s.qpx);
	request(&s, 7);
	ibv_wr_rdma_write_imm(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p, 1);
	ibv_wr_set_inline_data_list(s.qpx, 2, bufs);
	OK(ibv_wr_complete(s.qpx));
	cq_expect(&s.pair.a.scq, 7, IBV_WC_SUCCESS);
	cq_expect(&s.pair.b.rcq, 7, IBV_WC_SUCCESS);
	check(s.dst.p, 30, 43, "inline data in pieces");
	tear_down(&s);
}

/* A batch that is aborted or has an error leaves nothing behind. */
static void wr_errors(struct env *env, const struct test *test)
{
	struct setup s;
	int i, full;

	(void)test;
	set_up(&s, env, all_ops, NULL);
	ibv_wr_start(s.qpx);
	request(&s, 1);
	ibv_wr_send(s.qpx);
	ibv_wr_abort(s.qpx);

	ibv_wr_start(s.qpx);
	request(&s, 2);
	ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, LEN);
	request(&s, 3);
	ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_inline_data(s.qpx, s.src.p, 65);
	CHECK_EQ(ibv_wr_complete(s.qpx), EINVAL, "too much inline data");

	/* More than the queue holds: none of them. */
	ibv_wr_start(s.qpx);
	for (i = 0; i < 100; i++) {
		request(&s, i);
		ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
		ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, 100);
	}
	full = ibv_wr_complete(s.qpx);
	CHECK_EQ(full, ENOMEM, "more than the queue holds");
	sleep_ms(50);
	cq_expect_empty(&s.pair.a.scq, "after batches that were not posted");
	check_byte(s.dst.p, LEN, 0, "memory after batches that were not posted");

	ibv_wr_start(s.qpx);
	request(&s, 9);
	ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, LEN);
	OK(ibv_wr_complete(s.qpx));
	cq_expect(&s.pair.a.scq, 9, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 41, "written at last");
	/* The other way to post goes with it. */
	pair_check_works(&s.pair);
	tear_down(&s);
}

static void qp_unknown(struct env *env, const struct test *test)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = env->a.pd,
		.send_ops_flags = 1ULL << 40,
		.cap = { 8, 8, 1, 1, 0 },
	};
	struct cq cq;

	(void)test;
	cq_new(&cq, &env->a, 16);
	attr.send_cq = attr.recv_cq = cq.cq;
	REFUSED_PTR(ibv_create_qp_ex(env->a.ctx, &attr), EOPNOTSUPP);
	attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
	REFUSED_PTR(ibv_create_qp_ex(env->a.ctx, &attr), EOPNOTSUPP);
	attr.send_ops_flags = 0;
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	CHECK(!ibv_create_qp_ex(env->a.ctx, &attr), "unknown create flags");
	cq_free(&cq);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void cq_ex(struct env *env, const struct test *test)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = test->arg[0] ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
	};
	struct ibv_poll_cq_attr poll = {};
	const struct opts *opts = OPTS(.depth = 16);
	struct ibv_qp_init_attr init;
	uint64_t before, wall, last = 0;
	struct ibv_cq_ex *cqx;
	struct pair pair;
	int i, ret;

	cqx = ibv_create_cq_ex(env->b.ctx, &attr);
	if (!cqx && errno == EOPNOTSUPP)
		SKIP("no ibv_create_cq_ex");
	CHECK(cqx, "ibv_create_cq_ex: %m");
	end_new(&pair.a, &env->a, opts);
	end_new(&pair.b, &env->b, opts);
	OK(ibv_destroy_qp(pair.b.qp));
	init = end_init_attr(&pair.b, opts);
	init.recv_cq = ibv_cq_ex_to_cq(cqx);
	pair.b.qp = ibv_create_qp(env->b.pd, &init);
	CHECK(pair.b.qp, "ibv_create_qp: %m");
	pair_connect(&pair, opts);

	CHECK_EQ(ibv_start_poll(cqx, &poll), ENOENT, "polling an empty queue");
	before = now_ns(CLOCK_MONOTONIC);
	wall = now_ns(CLOCK_REALTIME);
	for (i = 0; i < 10; i++)
		OK(post_recv(&pair.b, 100 + i, NULL, 0, 0));
	for (i = 0; i < 10; i++)
		OK(post_send(&pair.a, IBV_WR_SEND_WITH_IMM, i, NULL, 0, 0, NULL, 0,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < 10; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	while ((ret = ibv_start_poll(cqx, &poll)) == ENOENT)
		sleep_ms(1);
	OK(ret);
	for (i = 0; i < 10; i++) {
		uint64_t ts = ibv_wc_read_completion_ts(cqx);
		uint64_t wts = ibv_wc_read_completion_wallclock_ns(cqx);

		CHECK_EQ(cqx->wr_id, 100 + i, "wr_id");
		CHECK_EQ(cqx->status, IBV_WC_SUCCESS, "status");
		CHECK_EQ(ibv_wc_read_opcode(cqx), IBV_WC_RECV, "opcode");
		CHECK_EQ(ibv_wc_read_qp_num(cqx), pair.b.qp->qp_num, "qp_num");
		CHECK_EQ(ibv_wc_read_src_qp(cqx), pair.a.qp->qp_num, "src_qp");
		CHECK_EQ(ibv_wc_read_byte_len(cqx), 0, "byte_len");
		CHECK_EQ(ibv_wc_read_wc_flags(cqx), IBV_WC_WITH_IMM, "wc_flags");
		CHECK_EQ(ibv_wc_read_imm_data(cqx), htonl((uint32_t)i ^ 0x1234abcd), "immediate");
		CHECK(ts >= before && ts >= last && ts <= now_ns(CLOCK_MONOTONIC),
		      "time stamp %llu", (unsigned long long)ts);
		CHECK(wts + 1000000 >= wall && wts <= now_ns(CLOCK_REALTIME) + 1000000,
		      "time of day %llu", (unsigned long long)wts);
		last = ts;
		if (i < 9)
			OK(ibv_next_poll(cqx));
	}
	CHECK_EQ(ibv_next_poll(cqx), ENOENT, "polling behind the last");
	ibv_end_poll(cqx);
	CHECK_EQ(ibv_start_poll(cqx, &poll), ENOENT, "polling an empty queue");
	OK(ibv_destroy_qp(pair.b.qp));
	OK(ibv_destroy_qp(pair.a.qp));
	OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cqx)));
	attr.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
	REFUSED_PTR(ibv_create_cq_ex(env->b.ctx, &attr), EOPNOTSUPP);
}

static void domains(struct env *env, const struct test *test)
{
	struct ibv_parent_domain_init_attr attr = { .pd = env->a.pd };
	struct ibv_td_init_attr td_attr = {};
	struct ibv_pd *plain, *threaded;
	struct ibv_td *td;
	struct setup s;
	struct ibv_mr *mr;

	(void)test;
	td = ibv_alloc_td(env->a.ctx, &td_attr);
	if (!td && (errno == EOPNOTSUPP || errno == ENOSYS))
		SKIP("no thread domains");
	CHECK(td, "ibv_alloc_td: %m");
	plain = ibv_alloc_parent_domain(env->a.ctx, &attr);
	CHECK(plain, "ibv_alloc_parent_domain: %m");
	attr.td = td;
	threaded = ibv_alloc_parent_domain(env->a.ctx, &attr);
	CHECK(threaded, "ibv_alloc_parent_domain: %m");
	REFUSED(ibv_dealloc_td(td), EBUSY);
	REFUSED(ibv_dealloc_pd(env->a.pd), EBUSY);
	/* A parent domain is its domain, for memory as for queue pairs. */
	mr = ibv_reg_mr(plain, &s, sizeof(s), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr: %m");
	OK(ibv_dereg_mr(mr));
	set_up(&s, env, all_ops, threaded);
	ibv_wr_start(s.qpx);
	request(&s, 1);
	ibv_wr_rdma_write(s.qpx, s.dst.mr->rkey, (uintptr_t)s.dst.p);
	ibv_wr_set_sge(s.qpx, s.src.mr->lkey, (uintptr_t)s.src.p, LEN);
	OK(ibv_wr_complete(s.qpx));
	cq_expect(&s.pair.a.scq, 1, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 41, "written");
	tear_down(&s);
	OK(ibv_dealloc_pd(threaded));
	OK(ibv_dealloc_td(td));
	OK(ibv_dealloc_pd(plain));
	attr = (struct ibv_parent_domain_init_attr){ .pd = NULL };
	REFUSED_PTR(ibv_alloc_parent_domain(env->a.ctx, &attr), EINVAL);
}

void tests_ex(void)
{
	TEST("ex", wr_kinds, "ibv_wr: operations");
	TEST("ex", wr_errors, "ibv_wr: abort and errors");
	TEST("ex", qp_unknown, "ibv_create_qp_ex: unknown wishes");
	test_add("ex", cq_ex, 0, 0, 0, "ibv_cq_ex");
	test_add("ex", cq_ex, 0, 1, 0, "ibv_cq_ex, single-threaded");
	TEST("ex", domains, "parent and thread domains");
}
