// SPDX-License-Identifier: GPL-2.0
/* Every operation at every size: all bytes arrive, and none beside them. */
#include "data.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

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

void tests_data(void)
{
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
}
