// SPDX-License-Identifier: GPL-2.0
/* Every operation, at every interesting size, compared byte by byte. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WR_ID		0x5e4d
#define RECV_ID		0x4ec5
#define UNTOUCHED	0xa5

/* Sizes that depend on the path MTU are given as MTU_REL plus an offset. */
#define MTU_REL		(1L << 40)

static long real_size(long size, const struct end *end)
{
	return size >= MTU_REL / 2 ? size - MTU_REL + end->mtu : size;
}

static void check_recv(struct end *end, enum ibv_wr_opcode op, uint32_t size, uint32_t imm)
{
	struct ibv_wc wc = cq_expect(&end->rcq, RECV_ID, IBV_WC_SUCCESS);
	bool has_imm = op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;

	CHECK_EQ(wc.opcode, op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM :
		 IBV_WC_RECV, "opcode of the receive completion");
	CHECK_EQ(wc.byte_len, size, "byte_len of the receive completion");
	CHECK_EQ(!!(wc.wc_flags & IBV_WC_WITH_IMM), has_imm, "IBV_WC_WITH_IMM");
	if (has_imm)
		CHECK_EQ(wc.imm_data, imm, "immediate");
	CHECK_EQ(wc.qp_num, end->qp->qp_num, "qp_num of the receive completion");
	cq_expect_empty(&end->rcq, "after the receive");
}

static void check_send(struct end *end, enum ibv_wr_opcode op, uint32_t size)
{
	struct ibv_wc wc = cq_expect(&end->scq, WR_ID, IBV_WC_SUCCESS);
	enum ibv_wc_opcode want = IBV_WC_SEND;

	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM)
		want = IBV_WC_RDMA_WRITE;
	else if (op == IBV_WR_RDMA_READ)
		want = IBV_WC_RDMA_READ;
	CHECK_EQ(wc.opcode, want, "opcode of the send completion");
	CHECK_EQ(wc.qp_num, end->qp->qp_num, "qp_num of the send completion");
	if (op == IBV_WR_RDMA_READ)
		CHECK_EQ(wc.byte_len, size, "byte_len of the read completion");
	cq_expect_empty(&end->scq, "after the send");
}

/* Cuts len bytes at p into n pieces that differ, none of them empty. */
static int cut(struct ibv_sge *sge, int n, uint8_t *p, size_t len, uint32_t lkey)
{
	size_t done = 0;
	int i, used = 0;

	for (i = 0; i < n && done < len; i++) {
		size_t piece = len / n + (i % 2 ? i : -(i / 2));

		if (piece < 1 || piece > len)
			piece = 1;
		if (i == n - 1 || piece > len - done)
			piece = len - done;
		sge[used++] = (struct ibv_sge){ (uintptr_t)p + done, piece, lkey };
		done += piece;
	}
	return used;
}

static void one_way(struct end *from, struct end *to, enum ibv_wr_opcode op, size_t size,
		    int n_sge)
{
	bool is_read = op == IBV_WR_RDMA_READ;
	struct ibv_sge sge[32], rsge[32];
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_ID,
		.sg_list = sge,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr *rbad, rwr = { .wr_id = RECV_ID, .sg_list = rsge };
	struct buf local, remote, *src, *dst;

	buf_new(&local, from->host, size, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, to->host, size, ACCESS_ALL);
	src = is_read ? &remote : &local;
	dst = is_read ? &local : &remote;
	fill(src->p, size, size * 31 + op);
	memset(dst->p, UNTOUCHED, size);

	if (op_receives(op)) {
		/* A write with immediate consumes a receive, not its buffers. */
		if (op != IBV_WR_RDMA_WRITE_WITH_IMM)
			rwr.num_sge = cut(rsge, n_sge, dst->p, size, dst->mr->lkey);
		OK(ibv_post_recv(to->qp, &rwr, &rbad));
	}
	wr.num_sge = cut(sge, n_sge, local.p, size, local.mr->lkey);
	wr.wr.rdma.remote_addr = (uintptr_t)remote.p;
	wr.wr.rdma.rkey = remote.mr->rkey;
	wr.imm_data = htonl(0xfeed0000 + op);
	OK(ibv_post_send(from->qp, &wr, &bad));

	check_send(from, op, size);
	if (op_receives(op))
		check_recv(to, op, size, wr.imm_data);
	check(dst->p, size, size * 31 + op, op_name(op));
	buf_check_guards(dst, "destination");
	check(src->p, size, size * 31 + op, "source");
	buf_check_guards(src, "source");
	buf_free(&local);
	buf_free(&remote);
}

static void transfer_sge(struct env *env, enum ibv_wr_opcode op, long size, int n_sge)
{
	struct pair pair;

	pair_new(&pair, env, OPTS(.sge = n_sge));
	size = real_size(size, &pair.a);
	one_way(&pair.a, &pair.b, op, size, n_sge);
	one_way(&pair.b, &pair.a, op, size, n_sge);
	CHECK_EQ(end_state(&pair.a), IBV_QPS_RTS, "state of QP a");
	CHECK_EQ(end_state(&pair.b), IBV_QPS_RTS, "state of QP b");
	pair_free(&pair);
}

static void transfer(struct env *env, const struct test *test)
{
	transfer_sge(env, test->arg[0], test->arg[1], 1);
}

static void transfer_16_sge(struct env *env, const struct test *test)
{
	transfer_sge(env, test->arg[0], test->arg[1], 16);
}

/* As above with the smallest path MTU, so with many packets. */
static void transfer_mtu256(struct env *env, const struct test *test)
{
	struct pair pair;

	pair_new(&pair, env, OPTS(.mtu = IBV_MTU_256));
	one_way(&pair.a, &pair.b, test->arg[0], real_size(test->arg[1], &pair.a), 1);
	pair_free(&pair);
}

/*
 * Unaligned ends: the first and last bytes of source and destination lie at
 * every offset in a machine word, and across page borders.
 */
static void unaligned(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	const size_t page = sysconf(_SC_PAGESIZE), len = 3 * page;
	struct buf a, b;
	struct pair pair;
	int i;

	pair_new(&pair, env, OPTS());
	buf_new(&a, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&b, &env->b, len, ACCESS_ALL);
	for (i = 0; i < 16; i++) {
		size_t a_off = page - GUARD - 8 + i, b_off = page - GUARD + 5 - i;
		size_t size = page + 1 + i * 3;
		struct buf *src = op == IBV_WR_RDMA_READ ? &b : &a;
		struct buf *dst = op == IBV_WR_RDMA_READ ? &a : &b;
		size_t src_off = src == &a ? a_off : b_off;
		size_t dst_off = dst == &a ? a_off : b_off;

		memset(dst->p, UNTOUCHED, len);
		fill(src->p + src_off, size, i);
		if (op_receives(op))
			OK(post_recv(&pair.b, RECV_ID, b.p + b_off, size, b.mr->lkey));
		OK(post_send(&pair.a, op, WR_ID, a.p + a_off, size, a.mr->lkey,
			     b.p + b_off, b.mr->rkey, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
		if (op_receives(op))
			cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS);
		check(dst->p + dst_off, size, i, "unaligned data");
		check_byte(dst->p, dst_off, UNTOUCHED, "before the data");
		check_byte(dst->p + dst_off + size, len - dst_off - size, UNTOUCHED,
			   "behind the data");
	}
	buf_free(&a);
	buf_free(&b);
	pair_free(&pair);
}

/* Inline data is taken at once: what the caller does to it later is not sent. */
static void inline_data(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	uint8_t data[4096];
	struct pair pair;
	struct buf dst;
	uint32_t size;
	int i, max;

	pair_new(&pair, env, OPTS(.max_inline = 64));
	max = pair.a.cap.max_inline_data;
	CHECK(max >= 64, "max_inline_data is %d", max);
	if (max > (int)sizeof(data))
		max = sizeof(data);
	buf_new(&dst, &env->b, max, ACCESS_ALL);
	for (i = 0; i < 4; i++) {
		size = (int[]){ 1, 13, 64, max }[i];
		fill(data, size, size);
		memset(dst.p, UNTOUCHED, max);
		if (op_receives(op))
			OK(post_recv(&pair.b, RECV_ID, dst.p, max, dst.mr->lkey));
		/* No key: inline data needs no registration. */
		OK(post_send(&pair.a, op, WR_ID, data, size, 0xdeadbeef, dst.p,
			     dst.mr->rkey, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
		memset(data, 0xee, sizeof(data));
		cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
		if (op_receives(op))
			cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS);
		check(dst.p, size, size, "inline data");
		check_byte(dst.p + size, max - size, UNTOUCHED, "behind the inline data");
	}
	/* One byte more than the queue was made for. */
	if (max < (int)sizeof(data))
		CHECK(post_send(&pair.a, op, WR_ID, data, max + 1, 0, dst.p, dst.mr->rkey,
				IBV_SEND_INLINE | IBV_SEND_SIGNALED),
		      "inline data of %d bytes accepted by a queue for %d", max + 1, max);
	pair_check_works(&pair);
	buf_free(&dst);
	pair_free(&pair);
}

/* Inline data gathered from several places. */
static void inline_gather(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_ID,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	};
	struct ibv_sge sge[3];
	uint8_t data[48];
	struct pair pair;
	struct buf dst;

	(void)test;
	pair_new(&pair, env, OPTS(.max_inline = 48, .sge = 3));
	buf_new(&dst, &env->b, 48, IBV_ACCESS_LOCAL_WRITE);
	fill(data, 48, 7);
	sge[0] = (struct ibv_sge){ (uintptr_t)data, 5, 0 };
	sge[1] = (struct ibv_sge){ (uintptr_t)data + 5, 30, 0 };
	sge[2] = (struct ibv_sge){ (uintptr_t)data + 35, 13, 0 };
	wr.sg_list = sge;
	wr.num_sge = 3;
	OK(post_recv(&pair.b, RECV_ID, dst.p, 48, dst.mr->lkey));
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.a.scq, WR_ID, IBV_WC_SUCCESS);
	CHECK_EQ(cq_expect(&pair.b.rcq, RECV_ID, IBV_WC_SUCCESS).byte_len, 48, "byte_len");
	check(dst.p, 48, 7, "gathered inline data");
	buf_check_guards(&dst, "destination");
	buf_free(&dst);
	pair_free(&pair);
}

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

void tests_data(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	};
	static const struct {
		const char *name;
		long size;
	} sizes[] = {
		{ "0", 0 }, { "1", 1 }, { "mtu-1", MTU_REL - 1 }, { "mtu", MTU_REL },
		{ "mtu+1", MTU_REL + 1 }, { "64K", 65536 }, { "1M+3", (1 << 20) + 3 },
	};
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (j = 0; j < ARRAY_SIZE(sizes); j++)
			test_add("data", transfer, 0, ops[i], sizes[j].size, "%s of %s bytes",
				 op_name(ops[i]), sizes[j].name);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		test_add("data", transfer_mtu256, 0, ops[i], MTU_REL + 1,
			 "%s of mtu+1 bytes, mtu 256", op_name(ops[i]));
		test_add("data", transfer_mtu256, 0, ops[i], 200000,
			 "%s of 200000 bytes, mtu 256", op_name(ops[i]));
		test_add("data", unaligned, 0, ops[i], 0, "%s, unaligned", op_name(ops[i]));
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (j = 0; j < 3; j++)
			test_add("data", transfer_16_sge, 0, ops[i],
				 (long[]){ 16, 5000, 300001 }[j],
				 "%s of %ld bytes in 16 pieces", op_name(ops[i]),
				 (long[]){ 16, 5000, 300001 }[j]);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i] == IBV_WR_RDMA_READ)
			continue;
		test_add("data", inline_data, 0, ops[i], 0, "%s, inline", op_name(ops[i]));
	}
	TEST("data", inline_gather, "send, inline, gathered");
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
