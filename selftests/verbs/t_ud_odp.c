// SPDX-License-Identifier: GPL-2.0
/* Datagrams from and to memory that is not pinned. */
#include "mrverbs.h"
#include "ud.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As many datagrams wait for the memory of their receives, at a queue pair and at a device. */
#define HELD	16
#define HELD_OF_ALL	1024
#define LEN	1000
#define STEP	(2 * MTU)

/* Memory that is not pinned, mapped anew for this. */
static void unpinned(struct ud *ud, size_t len)
{
	buf_free(&ud->buf);
	memset(&ud->buf, 0, sizeof(ud->buf));
	ud->buf.p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ud->buf.p != MAP_FAILED, "mmap: %m");
	ud->buf.len = len;
	ud->buf.mr = ibv_reg_mr(ud->host->pd, ud->buf.p, len,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	if (!ud->buf.mr && errno == EOPNOTSUPP)
		SKIP("no on-demand paging");
	CHECK(ud->buf.mr, "ibv_reg_mr: %m");
}

static void unpinned_free(struct ud *ud)
{
	OK(ibv_dereg_mr(ud->buf.mr));
	munmap(ud->buf.p, ud->buf.len);
	buf_new(&ud->buf, ud->host, 64, IBV_ACCESS_LOCAL_WRITE);
}

/* Each send finds its pages missing, and all arrive, in order. */
static void test_send(struct env *env, const struct test *test)
{
	enum { ROUNDS = 10, SENDS = 16 };
	struct ibv_send_wr wr[SENDS], *bad;
	struct ibv_sge sge[SENDS];
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	unpinned(&pair.a, SENDS * STEP);
	for (int round = 0; round < ROUNDS; round++) {
		OK(madvise(pair.a.buf.p, SENDS * STEP, MADV_DONTNEED));
		for (int i = 0; i < SENDS; i++) {
			uint8_t *p = pair.a.buf.p + i * STEP + MTU - 500;

			fill(p, 1000, round * SENDS + i);
			OK(ud_recv(&pair.b, i, i * (GRH + MTU), GRH + MTU));
			sge[i] = (struct ibv_sge){ (uintptr_t)p, 1000, pair.a.buf.mr->lkey };
			wr[i] = ud_wr(&pair.a, &pair.b, i, &sge[i]);
			wr[i].next = i < SENDS - 1 ? &wr[i + 1] : NULL;
		}
		OK(ibv_post_send(pair.a.qp, wr, &bad));
		for (int i = 0; i < SENDS; i++)
			cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		for (int i = 0; i < SENDS; i++)
			expect_message(&pair.a, &pair.b, i, i * (GRH + MTU), 1000,
				       round * SENDS + i);
	}
	/* All of it can go while sends may still wait for memory. */
	OK(madvise(pair.a.buf.p, SENDS * STEP, MADV_DONTNEED));
	OK(ibv_post_send(pair.a.qp, wr, &bad));
	unpinned_free(&pair.a);
	ud_pair_free(&pair);
}

static void test_send_unmapped(struct env *env, const struct test *test)
{
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	unpinned(&pair.a, 2 * MTU);
	OK(munmap(pair.a.buf.p, pair.a.buf.len));
	pair.a.buf.len = 0;
	ud_send(&pair.a, &pair.b, 1, 100);
	cq_expect(&pair.a.scq, 1, IBV_WC_LOC_PROT_ERR);
	ud_expect_state(&pair.a, IBV_QPS_SQE);
	unpinned_free(&pair.a);
	ud_pair_free(&pair);
}

/* Sends as many messages, each with its number as content. */
static void send_numbered(struct ud_pair *pair, int first, int n)
{
	for (int i = first; i < first + n; i++) {
		fill(pair->a.buf.p, LEN, i);
		ud_send(&pair->a, &pair->b, i, LEN);
		cq_expect(&pair->a.scq, i, IBV_WC_SUCCESS);
	}
}

unsigned long long ud_arrived(struct ud *ud)
{
	return counter(ud->host, "plane0_rx_packets") + counter(ud->host, "plane1_rx_packets");
}

static void expect_counter(struct ud *ud, unsigned long long (*get)(struct ud *ud),
			   unsigned long long want)
{
	long long stop = now_ms() + WAIT_MS;
	unsigned long long now;

	while ((now = get(ud)) < want)
		CHECK(now_ms() < stop, "%llu datagrams, should be %llu", now, want);
	CHECK_EQ(now, want, "datagrams");
}

static unsigned long long without_receive(struct ud *ud)
{
	return counter(ud->host, "drop_no_receive");
}

/* Each receive's pages are missing when its datagram comes, and none is lost. */
static void test_receive(struct env *env, const struct test *test)
{
	enum { ROUNDS = 10, N = 12 };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = N, .max_sge = 1 } };
	struct ibv_srq *srq = test->arg[0] ? ibv_create_srq(env->b.pd, &init) : NULL;
	struct ibv_send_wr wr[N], *bad;
	struct ibv_sge sge[N];
	struct ud_pair pair;

	CHECK(srq || !test->arg[0], "ibv_create_srq: %m");
	ud_new_with(&pair.a, &env->a, &env->b, NULL, 64);
	ud_new_with(&pair.b, &env->b, &env->a, srq, 64);
	unpinned(&pair.b, N * STEP);
	for (int round = 0; round < ROUNDS; round++) {
		OK(madvise(pair.b.buf.p, N * STEP, MADV_DONTNEED));
		for (int i = 0; i < N; i++) {
			uint8_t *p = pair.a.buf.p + i * LEN;
			/* From one page to the next. */
			size_t at = i * STEP + MTU - 500;

			fill(p, LEN, round * N + i);
			if (srq)
				srq_recv(&pair.b, i, at, GRH + LEN);
			else
				OK(ud_recv(&pair.b, i, at, GRH + LEN));
			sge[i] = (struct ibv_sge){ (uintptr_t)p, LEN, pair.a.buf.mr->lkey };
			wr[i] = ud_wr(&pair.a, &pair.b, i, &sge[i]);
			wr[i].next = i < N - 1 ? &wr[i + 1] : NULL;
		}
		OK(ibv_post_send(pair.a.qp, wr, &bad));
		for (int i = 0; i < N; i++)
			cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		for (int i = 0; i < N; i++)
			expect_message(&pair.a, &pair.b, i, i * STEP + MTU - 500, LEN,
				       round * N + i);
	}
	cq_expect_empty(&pair.b.rcq, "after the last message");
	unpinned_free(&pair.b);
	ud_pair_free(&pair);
	if (srq)
		OK(ibv_destroy_srq(srq));
}

/* What waits has an end; what came first is what is kept. */
static void test_too_many(struct env *env, const struct test *test)
{
	enum { N = HELD + 9 };
	unsigned long long dropped;
	struct ud_pair pair;
	int fd;

	(void)test;
	if (!is_metaroce())
		SKIP("about metaroce only");
	ud_pair_new(&pair, env);
	unpinned(&pair.b, (N + 1) * STEP);
	fd = withhold(pair.b.buf.p, pair.b.buf.len);
	for (int i = 0; i <= N; i++)
		OK(ud_recv(&pair.b, i, i * STEP, GRH + LEN));
	dropped = without_receive(&pair.b);
	send_numbered(&pair, 0, N);
	expect_counter(&pair.b, without_receive, dropped + N - HELD);
	cq_expect_empty(&pair.b.rcq, "while pages are missing");
	give(fd, pair.b.buf.p, pair.b.buf.len);
	for (int i = 0; i < HELD; i++)
		expect_message(&pair.a, &pair.b, i, i * STEP, LEN, i);
	send_numbered(&pair, N, 1);
	expect_message(&pair.a, &pair.b, HELD, HELD * STEP, LEN, N);
	cq_expect_empty(&pair.b.rcq, "after the last message");
	unpinned_free(&pair.b);
	close(fd);
	ud_pair_free(&pair);
}

static int receives_done(struct ud *qps, int n)
{
	struct ibv_wc wc;
	int done = 0;

	for (int i = 0; i < n; i++)
		while (ibv_poll_cq(qps[i].rcq.cq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status");
			done++;
		}
	return done;
}

/* Nor do many queue pairs together keep more than some; when those are placed, there is room anew. */
static void test_too_many_of_all(struct env *env, const struct test *test)
{
	enum { QPS = HELD_OF_ALL / HELD + 2, N = QPS * HELD, ROUNDS = 2 };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = N, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(env->b.pd, &init);
	unsigned long long dropped;
	struct area area;
	struct ud from, qps[QPS];

	(void)test;
	if (!is_metaroce())
		SKIP("about metaroce only");
	CHECK(srq, "ibv_create_srq: %m");
	ud_new_with(&from, &env->a, &env->b, NULL, 64);
	for (int i = 0; i < QPS; i++)
		ud_new_with(&qps[i], &env->b, &env->a, srq, 64);
	fill(from.buf.p, LEN, 3);
	for (int round = 0; round < ROUNDS; round++) {
		long long stop = now_ms() + WAIT_MS;
		int fd, done = 0;

		area_new(&area, &env->b, MTU, IBV_ACCESS_LOCAL_WRITE);
		fd = withhold(area.p, area.len);
		for (int i = 0; i < N; i++) {
			struct ibv_sge sge = { (uintptr_t)area.p, GRH + LEN, area.mr->lkey };
			struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

			OK(ibv_post_srq_recv(srq, &wr, &bad));
		}
		dropped = without_receive(&qps[0]);
		for (int i = 0; i < N; i++) {
			ud_send(&from, &qps[i % QPS], i, LEN);
			cq_expect(&from.scq, i, IBV_WC_SUCCESS);
		}
		expect_counter(&qps[0], without_receive, dropped + N - HELD_OF_ALL);
		CHECK_EQ(receives_done(qps, QPS), 0, "receives while the page is missing");
		give(fd, area.p, area.len);
		while ((done += receives_done(qps, QPS)) < HELD_OF_ALL)
			CHECK(now_ms() < stop, "%d datagrams received", done);
		CHECK_EQ(done, HELD_OF_ALL, "datagrams received");
		check(area.p + GRH, LEN, 3, "datagram");
		/* Take the receives that are left, too. */
		for (int i = 0; i < N - HELD_OF_ALL; i++) {
			ud_send(&from, &qps[i % QPS], i, LEN);
			cq_expect(&from.scq, i, IBV_WC_SUCCESS);
			cq_expect(&qps[i % QPS].rcq, 0, IBV_WC_SUCCESS);
		}
		close(fd);
		area_free(&area);
	}
	ud_free(&from);
	for (int i = 0; i < QPS; i++)
		ud_free(&qps[i]);
	OK(ibv_destroy_srq(srq));
}

/* A receive that ends its queue pair ends what waits behind it: others have the next receives. */
static void test_shared_unmapped(struct env *env, const struct test *test)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(env->b.pd, &init);
	enum { N = 3 };
	unsigned long long before;
	struct ud_pair pair;
	struct ud other;
	int fd;

	(void)test;
	CHECK(srq, "ibv_create_srq: %m");
	if (!is_metaroce())
		SKIP("about metaroce only");
	ud_new_with(&pair.a, &env->a, &env->b, NULL, 64);
	ud_new_with(&pair.b, &env->b, &env->a, srq, 64);
	ud_new_with(&other, &env->b, &env->a, srq, 64);
	unpinned(&pair.b, MTU);
	fd = withhold(pair.b.buf.p, pair.b.buf.len);
	srq_recv(&pair.b, 0, 0, GRH + LEN);
	for (int i = 1; i < N; i++)
		srq_recv(&other, i, i * STEP, GRH + LEN);
	before = ud_arrived(&pair.b);
	send_numbered(&pair, 0, N);
	expect_counter(&pair.b, ud_arrived, before + N);
	cq_expect_empty(&pair.b.rcq, "while pages are missing");
	OK(munmap(pair.b.buf.p, pair.b.buf.len));
	pair.b.buf.len = 0;
	close(fd);
	cq_expect(&pair.b.rcq, 0, IBV_WC_LOC_PROT_ERR);
	ud_expect_state(&pair.b, IBV_QPS_ERR);
	cq_expect_empty(&pair.b.rcq, "in the error state");
	for (int i = 1; i < N; i++) {
		fill(pair.a.buf.p, LEN, 10 + i);
		ud_send(&pair.a, &other, i, LEN);
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		expect_message(&pair.a, &other, i, i * STEP, LEN, 10 + i);
	}
	unpinned_free(&pair.b);
	ud_free(&other);
	ud_pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* Datagrams that wait go with the state in which they came, or with their queue pair. */
static void test_reset(struct env *env, const struct test *test)
{
	enum { N = 3, LAST = 9 };
	unsigned long long before;
	struct ud_pair pair;
	struct buf pinned;
	int fd;

	(void)test;
	if (!is_metaroce())
		SKIP("about metaroce only");
	ud_pair_new(&pair, env);
	unpinned(&pair.b, N * MTU);
	pinned = pair.b.buf;
	fd = withhold(pair.b.buf.p, pair.b.buf.len);
	for (int round = 0; round < 2; round++) {
		before = ud_arrived(&pair.b);
		for (int i = 0; i < N; i++)
			OK(ud_recv(&pair.b, i, i * MTU, GRH + LEN));
		send_numbered(&pair, 0, N);
		expect_counter(&pair.b, ud_arrived, before + N);
		cq_expect_empty(&pair.b.rcq, "while pages are missing");
		if (round == 0) {
			ud_state(&pair.b, IBV_QPS_ERR);
			for (int i = 0; i < N; i++)
				cq_expect(&pair.b.rcq, i, IBV_WC_WR_FLUSH_ERR);
		}
		ud_state(&pair.b, IBV_QPS_RESET);
		ud_init(&pair.b);
		ud_state(&pair.b, IBV_QPS_RTR);
		ud_rts(&pair.b);
		/* The next that comes is the next that was sent. */
		pinned = pair.b.buf;
		buf_new(&pair.b.buf, pair.b.host, MTU, IBV_ACCESS_LOCAL_WRITE);
		OK(ud_recv(&pair.b, LAST, 0, GRH + LEN));
		send_numbered(&pair, LAST, 1);
		expect_message(&pair.a, &pair.b, LAST, 0, LEN, LAST);
		buf_free(&pair.b.buf);
		pair.b.buf = pinned;
	}
	/* Now with the queue pair. */
	before = ud_arrived(&pair.b);
	OK(ud_recv(&pair.b, 0, 0, GRH + LEN));
	send_numbered(&pair, 0, 1);
	expect_counter(&pair.b, ud_arrived, before + 1);
	OK(ibv_destroy_qp(pair.b.qp));
	give(fd, pair.b.buf.p, pair.b.buf.len);
	OK(ibv_dereg_mr(pair.b.buf.mr));
	cq_expect_empty(&pair.b.rcq, "without a queue pair");
}

static void test_receive_unmapped(struct env *env, const struct test *test)
{
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	unpinned(&pair.b, 2 * MTU);
	OK(munmap(pair.b.buf.p, pair.b.buf.len));
	pair.b.buf.len = 0;
	OK(ud_recv(&pair.b, 1, 0, GRH + LEN));
	OK(ud_recv(&pair.b, 2, 0, GRH + LEN));
	send_numbered(&pair, 1, 1);
	cq_expect(&pair.b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	cq_expect(&pair.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	ud_expect_state(&pair.b, IBV_QPS_ERR);
	unpinned_free(&pair.b);
	ud_pair_free(&pair);
}

void tests_ud_odp(void)
{
	TEST("odp", test_send, "datagrams are sent");
	TEST("odp", test_send_unmapped, "datagrams, unmapped at the sender");
	test_add("odp", test_receive, 0, 0, 0, "datagrams are received");
	test_add("odp", test_receive, 0, 1, 0, "datagrams are received, shared queue");
	TEST("odp", test_receive_unmapped, "datagrams, unmapped at the receiver");
	TEST("odp", test_shared_unmapped, "datagrams, unmapped at the receiver, shared queue");
	TEST("odp", test_too_many, "datagrams, more than can wait");
	TEST("odp", test_too_many_of_all, "datagrams, more than can wait at a device");
	TEST("odp", test_reset, "datagrams that wait in vain");
}
