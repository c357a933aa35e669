// SPDX-License-Identifier: GPL-2.0
/* Memory that a work request itself names wrongly, or too little of it. */
#include "error.h"

#include <string.h>

/* A send larger than the receive: both ends learn it. */
static void send_too_long(struct env *env, const struct test *test)
{
	uint32_t room = test->arg[0], len = test->arg[1];
	struct buf src, dst;
	struct pair pair;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, room, ACCESS_ALL);
	OK(post_recv(&pair.b, RECV, dst.p, room, dst.mr->lkey));
	OK(post_recv(&pair.b, RECV_NEXT, dst.p, room, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_REM_INV_REQ_ERR);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_LOC_LEN_ERR);
	cq_expect(&pair.b.rcq, RECV_NEXT, IBV_WC_WR_FLUSH_ERR);
	end_expect_error(&pair.b);
	buf_check_guards(&dst, "receive buffer");
	env_check_works(env);
}

enum local_case {
	L_BAD_LKEY, L_BELOW, L_ABOVE, L_OTHER_PD, L_STALE, L_SECOND_SGE,
};

static void local_protection(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	const uint32_t len = 5000;
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .sg_list = sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct buf src, dst;
	struct host second;
	struct ibv_mr *mr;
	struct pair pair;

	pair_new(&pair, env, OPTS(.sge = 2));
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 2 * len, ACCESS_ALL);
	fill(src.p, len, 8);
	memset(dst.p, 0, 2 * len);
	sge[0] = (struct ibv_sge){ (uintptr_t)src.p, len, src.mr->lkey };
	switch ((enum local_case)test->arg[1]) {
	case L_BAD_LKEY:
		sge[0].lkey ^= 0x00aa5500;
		break;
	case L_BELOW:
		sge[0].addr = (uintptr_t)src.map - 1;
		break;
	case L_ABOVE:
		sge[0].addr = (uintptr_t)src.map + src.map_len - len + 1;
		break;
	case L_OTHER_PD:
		second = env->a;
		second.pd = ibv_alloc_pd(env->a.ctx);
		CHECK(second.pd, "ibv_alloc_pd: %m");
		mr = ibv_reg_mr(second.pd, src.map, src.map_len, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr, "ibv_reg_mr: %m");
		sge[0].lkey = mr->lkey;
		break;
	case L_STALE:
		OK(ibv_dereg_mr(src.mr));
		break;
	case L_SECOND_SGE:
		sge[1] = (struct ibv_sge){ (uintptr_t)src.p, len, src.mr->lkey ^ 0x00aa5500 };
		wr.num_sge = 2;
		break;
	}
	if (op_receives(op))
		OK(post_recv(&pair.b, RECV, dst.p, 2 * len, dst.mr->lkey));
	wr.wr.rdma.remote_addr = (uintptr_t)dst.p;
	wr.wr.rdma.rkey = dst.mr->rkey;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_LOC_PROT_ERR);
	if (test->arg[1] != L_SECOND_SGE)
		check_byte(dst.p, dst.len, 0, "destination");
	buf_check_guards(&dst, "destination");
	env_check_works(env);
}

/* Reading into memory that is registered for reading only. */
static void read_into_readonly(struct env *env, const struct test *test)
{
	struct buf local, remote;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&local, &env->a, 9000, 0);
	buf_new(&remote, &env->b, 9000, ACCESS_ALL);
	memset(local.p, 0, 9000);
	memset(remote.p, 7, 9000);
	request_fails(&pair, IBV_WR_RDMA_READ, local.p, 9000, local.mr->lkey, remote.p,
		      remote.mr->rkey, IBV_WC_LOC_PROT_ERR);
	no_trace(env, &local);
}

/* The receive's own buffer is bad: its owner sees it, the sender too. */
static void receive_protection(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;
	uint32_t lkey;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 6000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 6000, test->arg[0] ? 0 : IBV_ACCESS_LOCAL_WRITE);
	memset(src.p, 1, 6000);
	memset(dst.p, 0, 6000);
	lkey = test->arg[0] ? dst.mr->lkey : dst.mr->lkey ^ 0x00aa5500;
	OK(post_recv(&pair.b, RECV, dst.p, 6000, lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, 6000, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	post_next(&pair.a);
	requester_failed(&pair.a, IBV_WC_REM_OP_ERR);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_LOC_PROT_ERR);
	end_expect_error(&pair.b);
	no_trace(env, &dst);
}

void tests_error_local(void)
{
	static const struct {
		enum local_case id;
		const char *name;
	} local[] = {
		{ L_BAD_LKEY, "bad lkey" }, { L_BELOW, "one byte below the region" },
		{ L_ABOVE, "one byte above the region" }, { L_OTHER_PD, "region of another PD" },
		{ L_STALE, "lkey of a former region" }, { L_SECOND_SGE, "bad second piece" },
	};
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	size_t i, j;

	test_add("error", send_too_long, 0, 100, 101, "send of 101 bytes into 100");
	test_add("error", send_too_long, 0, 4096, 4097, "send of 4097 bytes into 4096");
	test_add("error", send_too_long, 0, 10000, 200000, "send of 200000 bytes into 10000");
	test_add("error", send_too_long, 0, 199999, 200000,
		 "send of 200000 bytes into 199999");
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (j = 0; j < ARRAY_SIZE(local); j++)
			test_add("error", local_protection, 0, ops[i], local[j].id,
				 "local protection, %s: %s", op_name(ops[i]), local[j].name);
	TEST("error", read_into_readonly, "local protection, read: region without write");
	test_add("error", receive_protection, 0, 0, 0, "receive with a bad lkey");
	test_add("error", receive_protection, 0, 1, 0, "receive into a region without write");
}
