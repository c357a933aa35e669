// SPDX-License-Identifier: GPL-2.0
/* Remote accesses without the right to it. */
#include "error.h"

#include <string.h>
#include <unistd.h>

enum remote_case {
	BAD_RKEY, RKEY_ZERO, BELOW, ABOVE, WRAPS, NO_RIGHT, STALE, OTHER_PD,
};

static void remote_access(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	bool is_read = op == IBV_WR_RDMA_READ;
	const uint32_t len = 10000, page = sysconf(_SC_PAGESIZE);
	struct buf src, dst, other;
	uint8_t *behind = NULL;
	struct host second;
	struct pair pair;
	void *remote;
	uint32_t rkey;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len + 2 * page, test->arg[1] != NO_RIGHT ? ACCESS_ALL :
		is_read ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE :
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	fill(src.p, len, 3);
	remote = dst.p;
	rkey = dst.mr->rkey;
	switch ((enum remote_case)test->arg[1]) {
	case BAD_RKEY:
		rkey ^= 0x5aa5f00d;
		break;
	case RKEY_ZERO:
		rkey = 0;
		break;
	case BELOW:
		remote = dst.map - 1;
		break;
	case ABOVE:
		/* The last page is not of the region, the rest of the write is in it. */
		OK(ibv_dereg_mr(dst.mr));
		dst.mr = ibv_reg_mr(env->b.pd, dst.map, dst.map_len - page, ACCESS_ALL);
		CHECK(dst.mr, "ibv_reg_mr: %m");
		rkey = dst.mr->rkey;
		behind = dst.map + dst.map_len - page;
		remote = behind - len + 1;
		break;
	case WRAPS:
		remote = (void *)(UINTPTR_MAX - len / 2);
		break;
	case NO_RIGHT:
		break;
	case STALE:
		/* The same memory again: index reused, key not. */
		OK(ibv_dereg_mr(dst.mr));
		dst.mr = ibv_reg_mr(env->b.pd, dst.map, dst.map_len, ACCESS_ALL);
		CHECK(dst.mr, "ibv_reg_mr: %m");
		CHECK(dst.mr->rkey != rkey, "a new region has the rkey of the old one");
		break;
	case OTHER_PD:
		second = env->b;
		second.pd = ibv_alloc_pd(env->b.ctx);
		CHECK(second.pd, "ibv_alloc_pd: %m");
		buf_new(&other, &second, len, ACCESS_ALL);
		memset(other.p, 0, len);
		remote = other.p;
		rkey = other.mr->rkey;
		break;
	}
	memset(dst.p, 0, dst.len);
	if (behind)
		memset(behind, 0, page);
	OK(post_recv(&pair.b, RECV, NULL, 0, 0));
	request_fails(&pair, op, src.p, len, src.mr->lkey, remote, rkey, IBV_WC_REM_ACCESS_ERR);
	if (is_read)
		check(src.p, len, 3, "destination of the refused read");
	/* The responder's QP is in the error state as well. */
	end_expect_error(&pair.b);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_WR_FLUSH_ERR);
	if (test->arg[1] == OTHER_PD)
		no_trace(env, &other);
	/*
	 * Packets place themselves: those in front of the one that oversteps may
	 * have come and been good.
	 */
	if (behind) {
		check_byte(behind, page, 0, "memory behind the region");
		env_check_works(env);
		return;
	}
	no_trace(env, &dst);
}

/* The QP itself was not opened for remote writes (or reads). */
static void qp_access(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	struct buf src, dst;
	struct pair pair;
	struct ibv_wc wc;

	pair_new(&pair, env, OPTS(.qp_access = op == IBV_WR_RDMA_READ ?
				  IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ));
	buf_new(&src, &env->a, 1000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 1000, ACCESS_ALL);
	memset(dst.p, 0, 1000);
	memset(src.p, 1, 1000);
	OK(post_recv(&pair.b, RECV, NULL, 0, 0));
	OK(post_send(&pair.a, op, WR, src.p, 1000, src.mr->lkey, dst.p, dst.mr->rkey,
		     IBV_SEND_SIGNALED));
	/* The specification: invalid request. Some adapters: access error. */
	CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion");
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR,
	      "completion \"%s\"", ibv_wc_status_str(wc.status));
	end_expect_error(&pair.a);
	end_expect_error(&pair.b);
	check_byte(src.p, 1000, 1, "local buffer");
	no_trace(env, &dst);
}

void tests_error_remote(void)
{
	static const struct {
		enum remote_case id;
		const char *name;
	} remote[] = {
		{ BAD_RKEY, "bad rkey" }, { RKEY_ZERO, "rkey 0" },
		{ BELOW, "one byte below the region" }, { ABOVE, "one byte above the region" },
		{ WRAPS, "range that wraps" }, { NO_RIGHT, "region without the right" },
		{ STALE, "rkey of a former region" }, { OTHER_PD, "region of another PD" },
	};
	static const enum ibv_wr_opcode one_sided[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	};
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(one_sided); i++)
		for (j = 0; j < ARRAY_SIZE(remote); j++)
			test_add("error", remote_access, 0, one_sided[i], remote[j].id,
				 "remote access, %s: %s", op_name(one_sided[i]),
				 remote[j].name);
	for (i = 0; i < ARRAY_SIZE(one_sided); i++)
		test_add("error", qp_access, 0, one_sided[i], 0,
			 "remote access, %s: QP without the right", op_name(one_sided[i]));
}
