// SPDX-License-Identifier: GPL-2.0
/* Where a queue ends: its domain, queue pairs that go, a ring that is broken. */
#include "rings.h"
#include "srq.h"

#include <errno.h>
#include <string.h>

/* The memory of receives belongs to the queue's domain, not the queue pair's. */
static void domains(struct env *env, const struct test *test)
{
	struct host second = env->b;
	struct buf src, mine, others;
	struct ibv_srq *srq;
	struct pair pair;

	(void)test;
	second.pd = ibv_alloc_pd(env->b.ctx);
	CHECK(second.pd, "ibv_alloc_pd: %m");
	srq = srq_new(second.pd, 16, 1);
	pair_new(&pair, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&mine, &second, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&others, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 12);
	OK(srq_post(srq, RECV, mine.p, LEN, mine.mr->lkey));
	OK(srq_post(srq, RECV + 1, others.p, LEN, others.mr->lkey));
	deliver(&pair, RECV, &src, LEN);
	check(mine.p, LEN, 12, "message");
	send_one(&pair.a, WR, &src, LEN);
	cq_expect(&pair.b.rcq, RECV + 1, IBV_WC_LOC_PROT_ERR);
	cq_expect(&pair.a.scq, WR, IBV_WC_REM_OP_ERR);
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&mine);
	buf_free(&others);
	OK(ibv_dealloc_pd(second.pd));
}

/* The queue pair goes in the middle of its messages; the queue serves the others. */
static void qp_goes(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 256, 1);
	struct buf src, dst;
	struct pair pair, good;
	int round, i;

	(void)test;
	pair_new(&good, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (round = 0; round < 10; round++) {
		pair_new(&pair, env, OPTS(.srq = srq));
		for (i = 0; i < 16; i++)
			OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
		for (i = 0; i < 16; i++)
			send_one(&pair.a, WR, &src, LEN);
		pair_free(&pair);
		OK(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey));
		deliver(&good, RECV, &src, LEN);
	}
	pair_free(&good);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* A wild index in the shared ring: the queue is broken and says so, its QPs end as they use it. */
static void wild_index(struct env *env, const struct test *test)
{
	const uint64_t mark = 0x5a9d00d5a9d00dULL;
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);
	struct metaroce_ring_hdr *hdr = NULL;
	struct mapping maps[64];
	struct ibv_async_event event;
	bool srq_told = false, qp_told = false, last_told = false;
	struct pair pair;
	int i, n;

	(void)test;
	need_metaroce();
	pair_new(&pair, env, OPTS(.srq = srq));
	OK(srq_post(srq, mark, NULL, 0, 0));
	n = read_maps(maps, ARRAY_SIZE(maps));
	for (i = 0; i < n; i++)
		if (!memcmp(maps[i].start + METAROCE_RING_HDR_SIZE, &mark, sizeof(mark)))
			hdr = (struct metaroce_ring_hdr *)maps[i].start;
	CHECK(hdr, "no ring of the SRQ in the mappings");
	__atomic_store_n(&hdr->producer, (uint32_t)test->arg[0], __ATOMIC_SEQ_CST);
	send_one(&pair.a, WR, NULL, 0);
	end_expect_error(&pair.b);
	while (!srq_told || !qp_told || !last_told) {
		CHECK(async_event_wait(&env->b, WAIT_MS, &event), "SRQ_ERR %d, QP_FATAL %d, LAST_WQE %d",
		      srq_told, qp_told, last_told);
		srq_told |= event.event_type == IBV_EVENT_SRQ_ERR && event.element.srq == srq;
		qp_told |= event.event_type == IBV_EVENT_QP_FATAL &&
			   event.element.qp == pair.b.qp;
		last_told |= event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
		ibv_ack_async_event(&event);
	}
	REFUSED(srq_modify(srq, 64, 0, IBV_SRQ_MAX_WR), EINVAL);
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	env_check_works(env);
}

void tests_srq_bounds(void)
{
	TEST("srq", domains, "domains");
	TEST("srq", qp_goes, "QPs go in the middle");
	test_add("srq", wild_index, 0, 0x80000000L, 0, "wild index");
	test_add("srq", wild_index, 0, 17, 0, "index one too far");
}
