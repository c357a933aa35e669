// SPDX-License-Identifier: GPL-2.0
/* Order, signalling, fences, queue reuse. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* When a receive completes, the writes posted before its send are in place. */
static void write_before_send(struct env *env, const struct test *test)
{
	const size_t len = 100000;
	struct buf src, dst;
	struct pair pair;
	int i;

	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	for (i = 0; i < 50; i++) {
		fill(src.p, len, i);
		OK(post_recv(&pair.b, i, NULL, 0, 0));
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i, src.p, len, src.mr->lkey, dst.p,
			     dst.mr->rkey, 0));
		if (test->arg[0])
			OK(post_send(&pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, i, NULL, 0, 0,
				     dst.p, dst.mr->rkey, IBV_SEND_SIGNALED));
		else
			OK(post_send(&pair.a, IBV_WR_SEND, i, NULL, 0, 0, NULL, 0,
				     IBV_SEND_SIGNALED));
		/* Looks at the receiver alone: the sender may know later. */
		cq_expect(&pair.b.rcq, i, IBV_WC_SUCCESS);
		check(dst.p, len, i, "write before the send");
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	}
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

/* Messages of very different sizes, all posted at once, end in order. */
static void completion_order(struct env *env, const struct test *test)
{
	enum { N = 60 };
	static const uint32_t sizes[] = { 300000, 1, 65536, 0, 4096, 9, 100000 };
	const size_t slot = 300000;
	struct buf src, dst;
	struct pair pair;
	struct ibv_wc wc;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = N));
	buf_new(&src, &env->a, slot * ARRAY_SIZE(sizes), IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, slot * ARRAY_SIZE(sizes), ACCESS_ALL);
	for (i = 0; i < (int)ARRAY_SIZE(sizes); i++)
		fill(src.p + i * slot, slot, i);
	for (i = 0; i < N; i++)
		OK(post_recv(&pair.b, 1000 + i, dst.p + i % ARRAY_SIZE(sizes) * slot,
			     sizes[i % ARRAY_SIZE(sizes)], dst.mr->lkey));
	for (i = 0; i < N; i++)
		OK(post_send(&pair.a, IBV_WR_SEND_WITH_IMM, i,
			     src.p + i % ARRAY_SIZE(sizes) * slot,
			     sizes[i % ARRAY_SIZE(sizes)], src.mr->lkey, NULL, 0,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < N; i++) {
		wc = cq_expect(&pair.b.rcq, 1000 + i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, sizes[i % ARRAY_SIZE(sizes)], "byte_len");
		CHECK_EQ(ntohl(wc.imm_data), (uint32_t)i ^ 0x1234abcd, "immediate");
	}
	for (i = 0; i < N; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	for (i = 0; i < (int)ARRAY_SIZE(sizes); i++)
		check(dst.p + i * slot, sizes[i], i, "data");
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

/* Reads and writes in one queue complete in posting order too. */
static void read_write_order(struct env *env, const struct test *test)
{
	enum { N = 24 };
	const size_t slot = 70000;
	struct buf local, remote;
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = N));
	buf_new(&local, &env->a, slot * N, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, slot * N, ACCESS_ALL);
	for (i = 0; i < N; i++)
		fill((i % 3 == 1 ? remote.p : local.p) + i * slot, slot, i);
	for (i = 0; i < N; i++)
		OK(post_send(&pair.a, i % 3 == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i,
			     local.p + i * slot, i % 3 == 2 ? 5 : slot, local.mr->lkey,
			     remote.p + i * slot, remote.mr->rkey, IBV_SEND_SIGNALED));
	for (i = 0; i < N; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	for (i = 0; i < N; i++)
		check((i % 3 == 1 ? local.p : remote.p) + i * slot, i % 3 == 2 ? 5 : slot, i,
		      i % 3 == 1 ? "read" : "write");
	buf_free(&local);
	buf_free(&remote);
	pair_free(&pair);
}

/* A read sees the write posted before it. */
static void read_after_write(struct env *env, const struct test *test)
{
	const size_t len = 100000;
	struct buf src, back, dst;
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&back, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len, ACCESS_ALL);
	for (i = 0; i < 20; i++) {
		fill(src.p, len, i);
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, src.p, len, src.mr->lkey, dst.p,
			     dst.mr->rkey, 0));
		OK(post_send(&pair.a, IBV_WR_RDMA_READ, 2, back.p, len, back.mr->lkey, dst.p,
			     dst.mr->rkey, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
		check(back.p, len, i, "read after write");
	}
	buf_free(&src);
	buf_free(&back);
	buf_free(&dst);
	pair_free(&pair);
}

/* A fenced send carries what the read before it has brought. */
static void fence(struct env *env, const struct test *test)
{
	const size_t len = 1 << 20;
	struct buf local, remote, dst;
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&local, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, len, ACCESS_ALL);
	buf_new(&dst, &env->b, len, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < 6; i++) {
		enum ibv_wr_opcode op = i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;

		fill(remote.p, len, i);
		memset(local.p, 0, len);
		memset(dst.p, 0, len);
		if (op == IBV_WR_SEND)
			OK(post_recv(&pair.b, 3, dst.p, len, dst.mr->lkey));
		OK(post_send(&pair.a, IBV_WR_RDMA_READ, 1, local.p, len, local.mr->lkey,
			     remote.p, remote.mr->rkey, 0));
		if (op == IBV_WR_RDMA_WRITE) {
			/* Not into dst, which has no remote access: back again. */
			OK(post_send(&pair.a, op, 2, local.p, len / 2, local.mr->lkey,
				     remote.p + len / 2, remote.mr->rkey,
				     IBV_SEND_SIGNALED | IBV_SEND_FENCE));
			cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
			check(remote.p + len / 2, len / 2, i, "fenced write");
			continue;
		}
		OK(post_send(&pair.a, op, 2, local.p, len, local.mr->lkey, NULL, 0,
			     IBV_SEND_SIGNALED | IBV_SEND_FENCE));
		cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, 3, IBV_WC_SUCCESS);
		check(dst.p, len, i, "fenced send");
	}
	buf_free(&local);
	buf_free(&remote);
	buf_free(&dst);
	pair_free(&pair);
}

/* Unsignalled requests complete nothing, but their slots come back. */
static void unsignalled(struct env *env, const struct test *test)
{
	enum { DEPTH = 16, ROUNDS = 20 };
	struct buf src, dst;
	struct pair pair;
	int i, j;

	(void)test;
	pair_new(&pair, env, OPTS(.depth = DEPTH));
	buf_new(&src, &env->a, 64 * DEPTH, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 64 * DEPTH, ACCESS_ALL);
	for (i = 0; i < ROUNDS; i++) {
		fill(src.p, src.len, i);
		for (j = 0; j < DEPTH; j++)
			OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, j, src.p + 64 * j, 64,
				     src.mr->lkey, dst.p + 64 * j, dst.mr->rkey,
				     j == DEPTH - 1 ? IBV_SEND_SIGNALED : 0));
		cq_expect(&pair.a.scq, DEPTH - 1, IBV_WC_SUCCESS);
		cq_expect_empty(&pair.a.scq, "after the signalled request");
		check(dst.p, dst.len, i, "unsignalled writes");
	}
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

/* sq_sig_all makes every request complete. */
static void signal_all(struct env *env, const struct test *test)
{
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS(.sig_all = 1));
	for (i = 0; i < 8; i++)
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, NULL, 0, 0));
	for (i = 0; i < 8; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	pair_free(&pair);
}

/* A list of requests posted by one call; the bad one is named, those before it go. */
static void posted_list(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr[5], *bad = NULL;
	struct ibv_sge sge[32] = { 0 };
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS());
	memset(wr, 0, sizeof(wr));
	for (i = 0; i < 5; i++) {
		wr[i].wr_id = i;
		wr[i].next = i < 4 ? &wr[i + 1] : NULL;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	OK(ibv_post_send(pair.a.qp, wr, &bad));
	for (i = 0; i < 5; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	CHECK(pair.a.cap.max_send_sge < ARRAY_SIZE(sge), "a QP of %u pieces, asked for 1",
	      pair.a.cap.max_send_sge);
	wr[3].sg_list = sge;
	wr[3].num_sge = pair.a.cap.max_send_sge + 1;
	CHECK(ibv_post_send(pair.a.qp, wr, &bad), "too many pieces accepted");
	CHECK(bad == &wr[3], "bad_wr is not the bad request");
	for (i = 0; i < 3; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	cq_expect_empty(&pair.a.scq, "after the good part of the list");
	pair_check_works(&pair);
	pair_free(&pair);
}

/* A full queue says so and goes on afterwards. */
static void full_queue(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;
	uint32_t posted;
	int ret;

	(void)test;
	/* Sends without a receive at the peer stay in the queue. */
	pair_new(&pair, env, OPTS(.depth = 8, .cqe = 200));
	buf_new(&src, &env->a, 64, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 64, IBV_ACCESS_LOCAL_WRITE);
	for (posted = 0; posted < 150; posted++) {
		ret = post_send(&pair.a, IBV_WR_SEND, posted, src.p, 64, src.mr->lkey, NULL,
				0, IBV_SEND_SIGNALED);
		if (ret)
			break;
	}
	CHECK(ret == ENOMEM, "a full send queue: %d, should be ENOMEM", ret);
	CHECK_EQ(posted, pair.a.cap.max_send_wr, "requests accepted");
	for (; posted; posted--) {
		OK(post_recv(&pair.b, 1, dst.p, 64, dst.mr->lkey));
		cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
		cq_expect(&pair.a.scq, pair.a.cap.max_send_wr - posted, IBV_WC_SUCCESS);
	}
	for (posted = 0; posted < 150; posted++) {
		ret = post_recv(&pair.b, posted, dst.p, 64, dst.mr->lkey);
		if (ret)
			break;
	}
	CHECK(ret == ENOMEM, "a full receive queue: %d, should be ENOMEM", ret);
	CHECK_EQ(posted, pair.b.cap.max_recv_wr, "receives accepted");
	buf_free(&src);
	pair_free(&pair);
	buf_free(&dst);
}

/* Two QPs of the same process, one on each device, talk both ways at once. */
static void both_ways(struct env *env, const struct test *test)
{
	const size_t len = 1 << 20;
	struct buf a, b, a_in, b_in;
	struct pair pair;
	int i;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&a, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&b, &env->b, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&a_in, &env->a, len, ACCESS_ALL);
	buf_new(&b_in, &env->b, len, ACCESS_ALL);
	for (i = 0; i < 5; i++) {
		fill(a.p, len, 2 * i);
		fill(b.p, len, 2 * i + 1);
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, a.p, len, a.mr->lkey, b_in.p,
			     b_in.mr->rkey, IBV_SEND_SIGNALED));
		OK(post_send(&pair.b, IBV_WR_RDMA_WRITE, 2, b.p, len, b.mr->lkey, a_in.p,
			     a_in.mr->rkey, IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
		cq_expect(&pair.b.scq, 2, IBV_WC_SUCCESS);
		check(b_in.p, len, 2 * i, "a to b");
		check(a_in.p, len, 2 * i + 1, "b to a");
	}
	buf_free(&a);
	buf_free(&b);
	buf_free(&a_in);
	buf_free(&b_in);
	pair_free(&pair);
}

/* More reads posted than max_rd_atomic allows at once: they wait their turn. */
static void many_reads(struct env *env, const struct test *test)
{
	enum { N = 48 };
	const size_t slot = 20000;
	struct buf local, remote;
	struct pair pair;
	int i;

	pair_new(&pair, env, OPTS(.depth = N, .rd_atomic = test->arg[0]));
	buf_new(&local, &env->a, slot * N, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, slot * N, ACCESS_ALL);
	fill(remote.p, slot * N, 77);
	for (i = 0; i < N; i++)
		OK(post_send(&pair.a, IBV_WR_RDMA_READ, i, local.p + i * slot, slot,
			     local.mr->lkey, remote.p + i * slot, remote.mr->rkey,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < N; i++)
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	check(local.p, slot * N, 77, "reads");
	buf_free(&local);
	buf_free(&remote);
	pair_free(&pair);
}

/* A QP that talks to another QP of its own device. */
static void loopback(struct env *env, const struct test *test)
{
	struct env self = *env;

	(void)test;
	self.b = self.a;
	env_check_works(&self);
}

void tests_order(void)
{
	test_add("order", write_before_send, 0, 0, 0, "writes are in place before the send");
	test_add("order", write_before_send, 0, 1, 0,
		 "writes are in place before the write_imm");
	TEST("order", completion_order, "sends complete in order at both ends");
	TEST("order", read_write_order, "reads and writes complete in order");
	TEST("order", read_after_write, "a read sees the write before it");
	TEST("order", fence, "a fenced request waits for the read");
	TEST("order", unsignalled, "unsignalled requests");
	TEST("order", signal_all, "sq_sig_all");
	TEST("order", posted_list, "a list with a bad request in it");
	TEST("order", full_queue, "a full queue");
	TEST("order", both_ways, "both directions at once");
	test_add("order", many_reads, 0, 1, 0, "48 reads, max_rd_atomic 1");
	test_add("order", many_reads, 0, 4, 0, "48 reads, max_rd_atomic 4");
	TEST("order", loopback, "two QPs of one device");
}
