// SPDX-License-Identifier: GPL-2.0
/* Memory windows: bound and unbound by work requests, and what they let in. */
#include "mrverbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ACCESS_BIND	(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
#define LEN		8192U

enum {
	WR = 0x81,
	WR_BIND = 0x82,
	WR_INV = 0x83,
	RECV = 0x91,
};

/* A region on host b, windows over it, data on host a. */
struct setup {
	struct pair pair;
	struct buf src, dst;
	struct ibv_mw *mw;
};

static void set_up(struct setup *s, struct env *env, enum ibv_mw_type type)
{
	s->mw = ibv_alloc_mw(env->b.pd, type);
	if (!s->mw && (errno == EOPNOTSUPP || errno == ENOSYS))
		SKIP("no memory windows");
	CHECK(s->mw, "ibv_alloc_mw: %m");
	pair_new(&s->pair, env, OPTS(.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC));
	buf_new(&s->src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&s->dst, &env->b, LEN, ACCESS_BIND);
	fill(s->src.p, LEN, 17);
	memset(s->dst.p, 0, LEN);
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	OK(ibv_dealloc_mw(s->mw));
	buf_free(&s->src);
	buf_free(&s->dst);
}

static int post_bind(struct end *end, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr,
		     const void *addr, uint64_t len, unsigned int access)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_BIND,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = rkey,
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)addr,
				.length = len,
				.mw_access_flags = access,
			},
		},
	};

	return ibv_post_send(end->qp, &wr, &bad);
}

/* Binds a type 2 window and waits for it; returns its new key. */
static uint32_t bind(struct setup *s, const void *addr, uint64_t len, unsigned int access)
{
	uint32_t rkey = ibv_inc_rkey(s->mw->rkey);
	struct ibv_wc wc;

	OK(post_bind(&s->pair.b, s->mw, rkey, s->dst.mr, addr, len, access));
	wc = cq_expect(&s->pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_BIND_MW, "opcode of the completion");
	s->mw->rkey = rkey;
	return rkey;
}

static int post_inv(struct end *end, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_INV,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};

	return ibv_post_send(end->qp, &wr, &bad);
}

static void access_ends(struct setup *s, enum ibv_wr_opcode op, const void *remote, uint32_t len,
			uint32_t rkey, enum ibv_wc_status status)
{
	OK(post_send(&s->pair.a, op, WR, s->src.p, len, s->src.mr->lkey, remote, rkey,
		     IBV_SEND_SIGNALED));
	cq_expect(&s->pair.a.scq, WR, status);
}

/* Bound, used, invalidated, bound elsewhere with the next key. */
static void life(struct env *env, const struct test *test)
{
	uint32_t rkey, old;
	struct ibv_wc wc;
	struct setup s;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_2);
	old = bind(&s, s.dst.p, LEN / 2, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, LEN / 2, old, IBV_WC_SUCCESS);
	check(s.dst.p, LEN / 2, 17, "written through the window");
	check_byte(s.dst.p + LEN / 2, LEN / 2, 0, "behind the window");
	OK(post_inv(&s.pair.b, old));
	wc = cq_expect(&s.pair.b.scq, WR_INV, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_LOCAL_INV, "opcode of the completion");
	rkey = bind(&s, s.dst.p + LEN / 2, LEN / 2, IBV_ACCESS_REMOTE_WRITE |
		    IBV_ACCESS_REMOTE_READ);
	CHECK(rkey != old, "the key is the old one");
	access_ends(&s, IBV_WR_RDMA_READ, s.dst.p + LEN / 2, 100, rkey, IBV_WC_SUCCESS);
	check_byte(s.src.p, 100, 0, "read through the window");
	/* The old key is dead, what is left of the region closed. */
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p + LEN / 2, 100, old, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
	env_check_works(env);
}

/* A region whose remote rights are none: the window alone lets in. */
static void closed_region(struct env *env, const struct test *test)
{
	struct buf dst;
	struct setup s;
	uint32_t rkey = 0;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_2);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	memset(dst.p, 0, LEN);
	rkey = ibv_inc_rkey(s.mw->rkey);
	OK(post_bind(&s.pair.b, s.mw, rkey, dst.mr, dst.p, LEN, IBV_ACCESS_REMOTE_WRITE));
	cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
	access_ends(&s, IBV_WR_RDMA_WRITE, dst.p, LEN, rkey, IBV_WC_SUCCESS);
	check(dst.p, LEN, 17, "written through the window");
	access_ends(&s, IBV_WR_RDMA_WRITE, dst.p, 1, dst.mr->rkey, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
	buf_free(&dst);
}

enum out_case { BELOW, ABOVE, NO_WRITE, NO_READ, NO_ATOMIC, UNBOUND, INVALIDATED, OTHER_QP };

static void shut_out(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE;
	unsigned int rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct pair other;
	struct setup s;
	uint8_t *at;
	uint32_t rkey, len = 1000;

	set_up(&s, env, IBV_MW_TYPE_2);
	at = s.dst.p + 1000;
	switch ((enum out_case)test->arg[0]) {
	case BELOW:
		at--;
		break;
	case ABOVE:
		at += 1001;
		break;
	case NO_WRITE:
		rights = IBV_ACCESS_REMOTE_READ;
		break;
	case NO_READ:
		rights = IBV_ACCESS_REMOTE_WRITE;
		op = IBV_WR_RDMA_READ;
		break;
	case NO_ATOMIC:
		op = IBV_WR_ATOMIC_FETCH_AND_ADD;
		len = 8;
		break;
	default:
		break;
	}
	rkey = s.mw->rkey;
	if (test->arg[0] != UNBOUND)
		rkey = bind(&s, s.dst.p + 1000, 2000, rights);
	if (test->arg[0] == INVALIDATED) {
		OK(post_inv(&s.pair.b, rkey));
		cq_expect(&s.pair.b.scq, WR_INV, IBV_WC_SUCCESS);
	}
	if (test->arg[0] == OTHER_QP) {
		/* Type 2 windows are those of the queue pair that bound them. */
		pair_new(&other, env, OPTS());
		OK(post_send(&other.a, op, WR, s.src.p, len, s.src.mr->lkey, at, rkey,
			     IBV_SEND_SIGNALED));
		cq_expect(&other.a.scq, WR, IBV_WC_REM_ACCESS_ERR);
		pair_free(&other);
	} else {
		OK(post_send(&s.pair.a, op, WR, s.src.p, len, s.src.mr->lkey, at, rkey,
			     IBV_SEND_SIGNALED));
		cq_expect(&s.pair.a.scq, WR, IBV_WC_REM_ACCESS_ERR);
	}
	check_byte(s.dst.p, LEN, 0, "memory that the window does not open");
	tear_down(&s);
	env_check_works(env);
}

enum bind_case {
	B_BELOW, B_ABOVE, B_WRAPS, B_EMPTY, B_OLD_KEY, B_NO_MR, B_MR_NO_BIND, B_MR_NO_WRITE,
	B_MR_OTHER_PD, B_TWICE, B_RIGHTS,
};

/* Binds that may not be: the window stays as it was. */
static void bad_bind(struct env *env, const struct test *test)
{
	unsigned int rights = IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ibv_mw *mw;
	struct setup s;
	uint32_t rkey;
	uint64_t len = LEN;
	uint8_t *at;

	set_up(&s, env, IBV_MW_TYPE_2);
	mw = s.mw;
	mr = s.dst.mr;
	at = s.dst.p;
	rkey = ibv_inc_rkey(mw->rkey);
	switch ((enum bind_case)test->arg[0]) {
	case B_BELOW:
		at = s.dst.map - 1;
		break;
	case B_ABOVE:
		len = s.dst.map + s.dst.map_len - at + 1;
		break;
	case B_WRAPS:
		len = UINT64_MAX;
		break;
	case B_EMPTY:
		len = 0;
		break;
	case B_OLD_KEY:
		mw->rkey ^= 0x00005500;
		break;
	case B_NO_MR:
		mr = NULL;
		break;
	case B_MR_NO_BIND:
		mr = ibv_reg_mr(env->b.pd, at, len, ACCESS_ALL);
		break;
	case B_MR_NO_WRITE:
		mr = ibv_reg_mr(env->b.pd, at, len, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
		break;
	case B_MR_OTHER_PD:
		pd = ibv_alloc_pd(env->b.ctx);
		CHECK(pd, "ibv_alloc_pd: %m");
		mr = ibv_reg_mr(pd, at, len, ACCESS_BIND);
		break;
	case B_TWICE:
		bind(&s, at, len, rights);
		rkey = ibv_inc_rkey(mw->rkey);
		break;
	case B_RIGHTS:
		rights |= IBV_ACCESS_MW_BIND;
		break;
	}
	CHECK(mr || test->arg[0] == B_NO_MR, "ibv_reg_mr: %m");
	OK(post_bind(&s.pair.b, mw, rkey, mr, at, len, rights));
	cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_MW_BIND_ERR);
	end_expect_error(&s.pair.b);
	if (test->arg[0] == B_OLD_KEY)
		mw->rkey ^= 0x00005500;
	check_byte(s.dst.p, LEN, 0, "memory of a window that was not bound");
	tear_down(&s);
	env_check_works(env);
}

enum inv_case { I_MR, I_UNKNOWN, I_UNBOUND, I_TWICE, I_OTHER_QP };

/* Keys that cannot be invalidated, locally or by the peer. */
static void bad_inv(struct env *env, const struct test *test)
{
	bool remote = test->arg[1];
	struct pair other;
	struct setup s;
	struct end *end;
	uint32_t rkey;

	set_up(&s, env, IBV_MW_TYPE_2);
	end = &s.pair.b;
	rkey = s.mw->rkey;
	if (test->arg[0] == I_TWICE || test->arg[0] == I_OTHER_QP)
		rkey = bind(&s, s.dst.p, LEN, IBV_ACCESS_REMOTE_WRITE);
	switch ((enum inv_case)test->arg[0]) {
	case I_MR:
		rkey = s.dst.mr->rkey;
		break;
	case I_UNKNOWN:
		rkey = 0xfffffff0;
		break;
	case I_UNBOUND:
		break;
	case I_TWICE:
		OK(post_inv(end, rkey));
		cq_expect(&end->scq, WR_INV, IBV_WC_SUCCESS);
		break;
	case I_OTHER_QP:
		pair_new(&other, env, OPTS());
		end = &other.b;
		break;
	}
	if (remote) {
		struct end *from = test->arg[0] == I_OTHER_QP ? &other.a : &s.pair.a;

		OK(post_recv(end, RECV, s.dst.p, LEN, s.dst.mr->lkey));
		OK(post_send(from, IBV_WR_SEND_WITH_INV, WR, s.src.p, 100, s.src.mr->lkey, NULL,
			     rkey, IBV_SEND_SIGNALED));
		cq_expect(&from->scq, WR, IBV_WC_REM_INV_REQ_ERR);
	} else {
		OK(post_inv(end, rkey));
		cq_expect(&end->scq, WR_INV, IBV_WC_LOC_QP_OP_ERR);
	}
	end_expect_error(end);
	if (test->arg[0] == I_OTHER_QP) {
		/* The window is still its owner's. */
		access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, LEN, rkey, IBV_WC_SUCCESS);
		pair_free(&other);
	}
	tear_down(&s);
	env_check_works(env);
}

/* The peer invalidates, and uses the window no more; it can be bound again. */
static void remote_inv(struct env *env, const struct test *test)
{
	uint32_t rkey, n = test->arg[0], i;
	struct ibv_wc wc;
	struct setup s;

	set_up(&s, env, IBV_MW_TYPE_2);
	for (i = 0; i < n; i++) {
		rkey = bind(&s, s.dst.p, LEN, IBV_ACCESS_REMOTE_WRITE);
		memset(s.dst.p, 0, LEN);
		OK(post_recv(&s.pair.b, RECV, NULL, 0, 0));
		OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey,
			     s.dst.p, rkey, IBV_SEND_SIGNALED));
		OK(post_send(&s.pair.a, IBV_WR_SEND_WITH_INV, WR, NULL, 0, 0, NULL, rkey,
			     IBV_SEND_SIGNALED));
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		wc = cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
		CHECK(wc.wc_flags & IBV_WC_WITH_INV, "no IBV_WC_WITH_INV");
		CHECK_EQ(wc.invalidated_rkey, rkey, "invalidated rkey");
		check(s.dst.p, LEN, 17, "written before the invalidation");
	}
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, 1, s.mw->rkey, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
}

/* Type 1 windows: bound by a verb, rebound at will, used by any queue pair of the domain. */
static void type_1(struct env *env, const struct test *test)
{
	struct ibv_mw_bind bind = {
		.wr_id = WR_BIND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct pair other;
	struct setup s;
	uint32_t old;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_1);
	bind.bind_info = (struct ibv_mw_bind_info){
		.mr = s.dst.mr, .addr = (uintptr_t)s.dst.p, .length = LEN,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	old = s.mw->rkey;
	OK(ibv_bind_mw(s.pair.b.qp, s.mw, &bind));
	cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
	CHECK(s.mw->rkey != old, "the key is the old one");
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, LEN, s.mw->rkey, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 17, "written through the window");

	pair_new(&other, env, OPTS());
	OK(post_send(&other.a, IBV_WR_RDMA_WRITE, WR, s.src.p, 8, s.src.mr->lkey, s.dst.p,
		     s.mw->rkey, IBV_SEND_SIGNALED));
	cq_expect(&other.a.scq, WR, IBV_WC_SUCCESS);
	pair_free(&other);

	old = s.mw->rkey;
	bind.bind_info.length = 100;
	OK(ibv_bind_mw(s.pair.b.qp, s.mw, &bind));
	cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, 100, s.mw->rkey, IBV_WC_SUCCESS);
	/* Bound to nothing. */
	bind.bind_info = (struct ibv_mw_bind_info){};
	OK(ibv_bind_mw(s.pair.b.qp, s.mw, &bind));
	cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, 100, s.mw->rkey, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
}

/* A region that windows are bound to stays; they may go first. */
static void region_first(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_2);
	bind(&s, s.dst.p, LEN, IBV_ACCESS_REMOTE_WRITE);
	REFUSED(ibv_dereg_mr(s.dst.mr), EINVAL);
	access_ends(&s, IBV_WR_RDMA_WRITE, s.dst.p, LEN, s.mw->rkey, IBV_WC_SUCCESS);
	tear_down(&s);
}

/* A window outlives the queue pair that bound it, but lets nobody in. */
static void qp_first(struct env *env, const struct test *test)
{
	struct setup s;
	uint32_t rkey;
	int i;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_2);
	rkey = bind(&s, s.dst.p, LEN, IBV_ACCESS_REMOTE_WRITE);
	pair_free(&s.pair);
	/* Among these is one with the number of the one that went. */
	for (i = 0; i < 8; i++) {
		struct pair other;

		pair_new(&other, env, OPTS());
		OK(post_send(&other.a, IBV_WR_RDMA_WRITE, WR, s.src.p, 100, s.src.mr->lkey,
			     s.dst.p, rkey, IBV_SEND_SIGNALED));
		cq_expect(&other.a.scq, WR, IBV_WC_REM_ACCESS_ERR);
		pair_free(&other);
	}
	check_byte(s.dst.p, LEN, 0, "memory of the window");
	OK(ibv_dealloc_mw(s.mw));
	buf_free(&s.dst);
	buf_free(&s.src);
}

/* Bind, Send, Invalidate posted at once: each in its turn. */
static void in_order(struct env *env, const struct test *test)
{
	enum { N = 40 };
	struct setup s;
	uint32_t rkey;
	int i;

	(void)test;
	set_up(&s, env, IBV_MW_TYPE_2);
	rkey = s.mw->rkey;
	for (i = 0; i < N; i++) {
		s.mw->rkey = rkey;
		rkey = ibv_inc_rkey(rkey);
		OK(post_recv(&s.pair.a, RECV, s.src.p, LEN, s.src.mr->lkey));
		OK(post_bind(&s.pair.b, s.mw, rkey, s.dst.mr, s.dst.p, LEN,
			     IBV_ACCESS_REMOTE_WRITE));
		OK(post_send(&s.pair.b, IBV_WR_SEND, WR, s.dst.p, 5000, s.dst.mr->lkey, NULL, 0,
			     IBV_SEND_SIGNALED));
		OK(post_inv(&s.pair.b, rkey));
		cq_expect(&s.pair.b.scq, WR_BIND, IBV_WC_SUCCESS);
		cq_expect(&s.pair.b.scq, WR, IBV_WC_SUCCESS);
		cq_expect(&s.pair.b.scq, WR_INV, IBV_WC_SUCCESS);
		cq_expect(&s.pair.a.rcq, RECV, IBV_WC_SUCCESS);
	}
	tear_down(&s);
}

void tests_mw(void)
{
	static const char * const out[] = {
		"in front of it", "behind it", "write, not allowed", "read, not allowed",
		"atomic, not allowed", "not bound", "invalidated", "another QP",
	};
	static const char * const bad[] = {
		"in front of the region", "behind the region", "length wraps", "length 0",
		"stale key", "no region", "region without MW_BIND", "region not writable",
		"region of another PD", "bound already", "rights that no window has",
	};
	static const char * const inv[] = {
		"region", "unknown key", "window not bound", "twice", "another QP's window",
	};
	size_t i;

	TEST("mw", life, "bind, use, invalidate, bind again");
	TEST("mw", closed_region, "region without remote rights");
	for (i = 0; i < ARRAY_SIZE(out); i++)
		test_add("mw", shut_out, 0, i, 0, "shut out: %s", out[i]);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		test_add("mw", bad_bind, 0, i, 0, "refused bind: %s", bad[i]);
	for (i = 0; i < ARRAY_SIZE(inv); i++) {
		test_add("mw", bad_inv, 0, i, 0, "refused invalidate: %s", inv[i]);
		test_add("mw", bad_inv, 0, i, 1, "refused remote invalidate: %s", inv[i]);
	}
	test_add("mw", remote_inv, 0, 1, 0, "remote invalidate");
	test_add("mw", remote_inv, 0, 50, 0, "remote invalidate, 50 times");
	TEST("mw", type_1, "type 1");
	TEST("mw", region_first, "region with a window is kept");
	TEST("mw", qp_first, "window outlives its QP");
	TEST("mw", in_order, "bind, send, invalidate in one go");
}
