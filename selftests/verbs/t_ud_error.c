// SPDX-License-Identifier: GPL-2.0
/* Work requests that fail at their own end, and the states of a datagram queue pair. */
#include "ud.h"

#include <errno.h>
#include <string.h>

/* The send queue fails, receiving goes on, and the QP can be brought back. */
static void send_fails(struct ud_pair *pair, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_send_wr *bad;

	OK(ibv_post_send(pair->a.qp, wr, &bad));
	cq_expect(&pair->a.scq, wr->wr_id, status);
	ud_expect_state(&pair->a, IBV_QPS_SQE);
	check_message(&pair->b, &pair->a, 50, 60);
	ud_send(&pair->a, &pair->b, 51, 10);
	cq_expect(&pair->a.scq, 51, IBV_WC_WR_FLUSH_ERR);
	OK(ibv_modify_qp(pair->a.qp, &attr, IBV_QP_STATE));
	check_message(&pair->a, &pair->b, 52, 60);
}

static void test_too_long(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, MTU + 1, pair.a.buf.mr->lkey };
	wr = ud_wr(&pair.a, &pair.b, 1, &sge);
	send_fails(&pair, &wr, IBV_WC_LOC_LEN_ERR);
	ud_pair_free(&pair);
}

static void test_send_protection(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, 10, pair.b.buf.mr->lkey + 0x1234500 };
	wr = ud_wr(&pair.a, &pair.b, 1, &sge);
	send_fails(&pair, &wr, IBV_WC_LOC_PROT_ERR);
	ud_pair_free(&pair);
}

static void test_foreign_handle(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ud_ah_attr(&env->a, &env->b);
	struct ud_pair pair;
	struct ibv_send_wr wr;
	struct ibv_pd *pd;
	struct ibv_ah *ah;

	(void)test;
	ud_pair_new(&pair, env);
	pd = ibv_alloc_pd(env->a.ctx);
	CHECK(pd, "ibv_alloc_pd: %m");
	ah = ibv_create_ah(pd, &attr);
	CHECK(ah, "ibv_create_ah: %m");
	wr = ud_wr(&pair.a, &pair.b, 1, NULL);
	wr.wr.ud.ah = ah;
	send_fails(&pair, &wr, IBV_WC_LOC_QP_OP_ERR);
	OK(ibv_destroy_ah(ah));
	OK(ibv_dealloc_pd(pd));
	ud_pair_free(&pair);
}

/* What the provider keeps of a handle is not what the kernel believes. */
static void test_forged_handle(struct env *env, const struct test *test)
{
	struct {
		struct ibv_ah ah;
		uint32_t number;
	} forged;
	static const uint32_t numbers[] = { 1, 1000, 0x1ffff, 0x20000, 0x7fffffff, 0xffffffff };
	struct ud_pair pair;
	struct ibv_send_wr wr;
	size_t i;

	(void)test;
	if (!is_metaroce())
		SKIP("knows the handles of metaroce only");
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		forged.ah = *pair.a.ah;
		forged.number = numbers[i] + (numbers[i] == 1 ? 50 : 0);
		wr = ud_wr(&pair.a, &pair.b, 1, NULL);
		wr.wr.ud.ah = &forged.ah;
		send_fails(&pair, &wr, IBV_WC_LOC_QP_OP_ERR);
	}
	ud_pair_free(&pair);
}

static void test_receive_protection(struct env *env, const struct test *test)
{
	struct ibv_recv_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.b.buf.p, 100, pair.b.buf.mr->lkey + 0x1234500 };
	wr = (struct ibv_recv_wr){ .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	OK(ibv_post_recv(pair.b.qp, &wr, &bad));
	OK(ud_recv(&pair.b, 2, 0, 100));
	ud_send(&pair.a, &pair.b, 3, 10);
	cq_expect(&pair.a.scq, 3, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	cq_expect(&pair.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	ud_expect_state(&pair.b, IBV_QPS_ERR);
	ud_pair_free(&pair);
}

static void test_wrong_operation(struct env *env, const struct test *test)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV,
		IBV_WR_LOCAL_INV,
	};
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	size_t i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		wr = ud_wr(&pair.a, &pair.b, 1, NULL);
		wr.opcode = ops[i];
		REFUSED(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	}
	wr = ud_wr(&pair.a, &pair.b, 1, NULL);
	wr.wr.ud.ah = NULL;
	REFUSED(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	check_message(&pair.a, &pair.b, 2, 60);
	ud_pair_free(&pair);
}

static void test_states(struct env *env, const struct test *test)
{
	struct ibv_qp_attr attr = { 0 };
	struct ibv_qp_init_attr init;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS, "state");
	CHECK_EQ(attr.qkey, QKEY, "Q_Key");
	CHECK_EQ(init.qp_type, IBV_QPT_UD, "type");

	/* All that is posted is flushed, and what is posted then, too. */
	OK(ud_recv(&pair.b, 1, 0, 100));
	OK(ud_recv(&pair.b, 2, 0, 100));
	ud_state(&pair.b, IBV_QPS_ERR);
	cq_expect(&pair.b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	cq_expect(&pair.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	OK(ud_recv(&pair.b, 3, 0, 100));
	cq_expect(&pair.b.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	ud_send(&pair.b, &pair.a, 4, 10);
	cq_expect(&pair.b.scq, 4, IBV_WC_WR_FLUSH_ERR);

	/* From the beginning; receives may be posted in INIT, and taken in RTR. */
	ud_state(&pair.b, IBV_QPS_RESET);
	ud_init(&pair.b);
	OK(ud_recv(&pair.b, 5, 0, 100));
	ud_state(&pair.b, IBV_QPS_RTR);
	fill(pair.a.buf.p, 60, 8);
	ud_send(&pair.a, &pair.b, 6, 60);
	cq_expect(&pair.a.scq, 6, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 5, 0, 60, 8);
	ud_rts(&pair.b);
	check_message(&pair.b, &pair.a, 7, 70);

	/* A drained queue sends nothing until it goes on. */
	ud_state(&pair.a, IBV_QPS_SQD);
	fill(pair.a.buf.p, 60, 9);
	OK(ud_recv(&pair.b, 8, 0, 100));
	ud_send(&pair.a, &pair.b, 9, 60);
	cq_expect_empty(&pair.a.scq, "while drained");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	OK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE));
	cq_expect(&pair.a.scq, 9, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 8, 0, 60, 9);

	attr.qp_state = IBV_QPS_INIT;
	REFUSED(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
	ud_pair_free(&pair);
}

void tests_ud_error(void)
{
	TEST("ud", test_too_long, "longer than the MTU");
	TEST("ud", test_send_protection, "send without access");
	TEST("ud", test_foreign_handle, "address handle of another domain");
	TEST("ud", test_forged_handle, "forged address handle");
	TEST("ud", test_receive_protection, "receive without access");
	TEST("ud", test_wrong_operation, "operations of other services");
	TEST("ud", test_states, "states");
}
