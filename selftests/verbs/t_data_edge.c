// SPDX-License-Identifier: GPL-2.0
/* Operations at their edges: empty, short, too long, and with a key to invalidate. */
#include "data.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Zero bytes with keys and addresses that would never do for one byte. */
static void zero_needs_no_key(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	struct pair pair;

	pair_new(&pair, env, OPTS());
	if (op_receives(op))
		OK(post_recv(&pair.b, RECV_ID, NULL, 0, 0));
	OK(post_send(&pair.a, op, WR_ID, NULL, 0, 0, (void *)8, 0xbad, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
	if (op_receives(op))
		CHECK_EQ(cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS).byte_len, 0,
			 "byte_len");
	pair_check_works(&pair);
	pair_free(&pair);
}

/* A message shorter than the receive leaves the rest of the buffer alone. */
static void short_message(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 1000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 20000, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, 1000, 5);
	memset(dst.p, UNTOUCHED, dst.len);
	OK(post_recv(&pair.b, RECV_ID, dst.p, dst.len, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR_ID, src.p, 1000, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
	CHECK_EQ(cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS).byte_len, 1000, "byte_len");
	check(dst.p, 1000, 5, "short message");
	check_byte(dst.p + 1000, 19000, UNTOUCHED, "behind the short message");
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

/*
 * Send with invalidate of a memory window's rkey: the receive tells which key,
 * and the key is dead. A region registered with ibv_reg_mr is not to be
 * invalidated from remote: the peer must get an error, the region must live.
 */
static void send_inv(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;
	struct ibv_wc wc;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 512, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 512, ACCESS_ALL);
	OK(post_recv(&pair.b, RECV_ID, dst.p, 512, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND_WITH_INV, WR_ID, src.p, 512, src.mr->lkey, NULL,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion");
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR ||
	      wc.status == IBV_WC_REM_INV_REQ_ERR,
	      "invalidating a region of ibv_reg_mr: \"%s\"", ibv_wc_status_str(wc.status));
	pair_free(&pair);

	/* The region is still good. */
	pair_new(&pair, env, OPTS());
	fill(src.p, 512, 9);
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, WR_ID, src.p, 512, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
	check(dst.p, 512, 9, "write after the refused invalidation");
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

static void send_inv_window(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, bind = {
		.wr_id = 0xb14d,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct buf src, dst;
	struct pair pair;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	(void)test;
	mw = ibv_alloc_mw(env->b.pd, IBV_MW_TYPE_2);
	if (!mw)
		SKIP("no memory windows (%m)");
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 512, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 512, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info.mr = dst.mr;
	bind.bind_mw.bind_info.addr = (uintptr_t)dst.p;
	bind.bind_mw.bind_info.length = 512;
	bind.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	OK(ibv_post_send(pair.b.qp, &bind, &bad));
	cq_expect(&pair.b.scq, 0xb14d, IBV_WC_SUCCESS);

	fill(src.p, 512, 11);
	OK(post_recv(&pair.b, RECV_ID, dst.p, 512, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND_WITH_INV, WR_ID, src.p, 512, src.mr->lkey, NULL,
		     bind.bind_mw.rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
	wc = cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV, "no IBV_WC_WITH_INV");
	CHECK_EQ(wc.invalidated_rkey, bind.bind_mw.rkey, "invalidated rkey");
	check(dst.p, 512, 11, "send_inv");
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, WR_ID, src.p, 512, src.mr->lkey, dst.p,
		     bind.bind_mw.rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_REM_ACCESS_ERR);
	pair_free(&pair);
	OK(ibv_dealloc_mw(mw));
	buf_free(&src);
	buf_free(&dst);
}

/*
 * Messages of 2 GiB. Memory for them is not needed: one window of it is mapped
 * again and again, on both sides, so that equal offsets modulo the window hold
 * equal data whatever the order of arrival.
 */
#define WINDOW	(64UL << 20)

static uint8_t *alias_map(size_t len, int *fd)
{
	uint8_t *base;
	size_t off;

	*fd = memfd_create("window", 0);
	CHECK(*fd >= 0 && !ftruncate(*fd, WINDOW), "memfd: %m");
	base = mmap(NULL, len + WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	CHECK(base != MAP_FAILED, "mmap: %m");
	for (off = 0; off < len; off += WINDOW)
		CHECK(mmap(base + off, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   *fd, 0) != MAP_FAILED, "mmap of a window: %m");
	return base;
}

static void two_gib(struct env *env, const struct test *test)
{
	const size_t limit = 1UL << 31;
	size_t len = env->a.port.max_msg_sz < limit ? env->a.port.max_msg_sz : limit;
	struct ibv_mr *src_mr, *dst_mr;
	uint8_t *src, *dst;
	struct pair pair;
	size_t off;
	int fd;

	CHECK(env->a.port.max_msg_sz <= limit, "max_msg_sz %u is more than 2 GiB",
	      env->a.port.max_msg_sz);
	src = alias_map(limit, &fd);
	dst = alias_map(limit, &fd);
	fill(src, WINDOW, 21);
	src_mr = ibv_reg_mr(env->a.pd, src, limit, IBV_ACCESS_LOCAL_WRITE);
	CHECK(src_mr, "ibv_reg_mr of 2 GiB: %m");
	dst_mr = ibv_reg_mr(env->b.pd, dst, limit, ACCESS_ALL);
	CHECK(dst_mr, "ibv_reg_mr of 2 GiB: %m");
	pair_new(&pair, env, OPTS());
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, WR_ID, src, len, src_mr->lkey, dst,
		     dst_mr->rkey, IBV_SEND_SIGNALED));
	for (off = 0; off < (size_t)test->arg[0]; off++) {
		struct ibv_wc wc;

		if (!cq_wait(&pair.a.scq, &wc, 1000))
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS, "write of %zu bytes: \"%s\"", len,
		      ibv_wc_status_str(wc.status));
		check(dst, len < WINDOW ? len : WINDOW, 21, "data of the largest message");
		pair_check_works(&pair);
		return;
	}
	FAIL("write of %zu bytes did not end", len);
}

/* One byte more than the port's limit: refused at once or by completion. */
static void over_limit(struct env *env, const struct test *test)
{
	size_t max = env->a.port.max_msg_sz;
	struct ibv_sge sge[16];
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_ID,
		.sg_list = sge,
		.opcode = test->arg[0],
		.send_flags = IBV_SEND_SIGNALED,
	};
	size_t left = max + 1;
	struct pair pair;
	struct buf src, dst;
	struct ibv_wc wc;
	int ret;

	pair_new(&pair, env, OPTS(.sge = 16));
	buf_new(&src, &env->a, 160UL << 20, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 4096, ACCESS_ALL);
	while (left) {
		uint32_t piece = left > src.len ? src.len : left;

		CHECK(wr.num_sge < 16, "limit too big for this test");
		sge[wr.num_sge++] = (struct ibv_sge){ (uintptr_t)src.p, piece, src.mr->lkey };
		left -= piece;
	}
	wr.wr.rdma.remote_addr = (uintptr_t)dst.p;
	wr.wr.rdma.rkey = dst.mr->rkey;
	ret = ibv_post_send(pair.a.qp, &wr, &bad);
	if (ret) {
		CHECK(ret == EINVAL || ret == EMSGSIZE, "refused with %d (%s)", ret,
		      strerror(ret));
		pair_check_works(&pair);
		return;
	}
	CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion");
	CHECK(wc.status == IBV_WC_LOC_LEN_ERR, "%zu bytes over a limit of %zu: \"%s\"", max + 1,
	      max, ibv_wc_status_str(wc.status));
	end_expect_error(&pair.a);
}

void tests_data_edge(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		test_add("data", zero_needs_no_key, 0, ops[i], 0,
			 "%s of 0 bytes needs no key", op_name(ops[i]));
	TEST("data", short_message, "send shorter than the receive");
	TEST("data", send_inv, "send_inv of a region is refused");
	TEST("data", send_inv_window, "send_inv of a window");
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		test_add("data", over_limit, 0, ops[i], 0, "%s over max_msg_sz",
			 op_name(ops[i]));
	test_add("huge", two_gib, 1100, 1000, 0, "write of max_msg_sz bytes");
}
