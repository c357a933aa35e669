// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues that change their size under traffic. */
#include "srq.h"

#include <errno.h>
#include <string.h>

/* What is posted moves along, in order; work goes on in the new ring. */
static void resize(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 3);
	uint32_t next_recv = 0, next_post = 0, to[] = { 64, 1024, 16, 32, 16384, 8 }, i, n;
	struct buf src, dst;
	struct pair pair;

	(void)test;
	if (!(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	pair_new(&pair, env, OPTS(.srq = srq));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < ARRAY_SIZE(to); i++) {
		/* In the middle of the ring, with 8 posted. */
		for (n = 0; n < 11; n++) {
			while (next_post < next_recv + 8) {
				OK(srq_post(srq, RECV + next_post, dst.p, LEN, dst.mr->lkey));
				next_post++;
			}
			fill(src.p, LEN, next_recv);
			deliver(&pair, RECV + next_recv, &src, LEN);
			check(dst.p, LEN, next_recv, "message");
			next_recv++;
		}
		OK(srq_post(srq, RECV + next_post++, dst.p, LEN, dst.mr->lkey));
		REFUSED(srq_modify(srq, 4, 0, IBV_SRQ_MAX_WR), EINVAL);
		OK(srq_modify(srq, to[i], 0, IBV_SRQ_MAX_WR));
		CHECK(srq_query(srq).max_wr >= to[i], "max_wr is %u, should be %u",
		      srq_query(srq).max_wr, to[i]);
	}
	/* The last size is filled to the brim. */
	n = srq_query(srq).max_wr;
	while (next_post < next_recv + n) {
		OK(srq_post(srq, RECV + next_post, dst.p, LEN, dst.mr->lkey));
		next_post++;
	}
	REFUSED(srq_post(srq, RECV, dst.p, LEN, dst.mr->lkey), ENOMEM);
	while (next_recv < next_post) {
		deliver(&pair, RECV + next_recv, &src, LEN);
		next_recv++;
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
	buf_free(&src);
	buf_free(&dst);
}

/* A long queue, which is taken from while it moves. */
static void resize_long(struct env *env, const struct test *test)
{
	enum { N = 2000, SENDS = 100 };
	struct ibv_srq *srq = srq_new(env->b.pd, N, 1);
	struct pair pair;
	int i, j;

	(void)test;
	if (!(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	pair_new(&pair, env, OPTS(.depth = SENDS, .srq = srq));
	for (i = 0; i < N; i++)
		OK(srq_post(srq, RECV + i, NULL, 0, 0));
	for (i = 0; i < N; i += SENDS) {
		for (j = 0; j < SENDS; j++)
			send_one(&pair.a, WR, NULL, 0);
		OK(srq_modify(srq, i / SENDS % 2 ? N : 2 * N, 0, IBV_SRQ_MAX_WR));
		for (j = 0; j < SENDS; j++) {
			cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
			cq_expect(&pair.b.rcq, RECV + i + j, IBV_WC_SUCCESS);
		}
	}
	pair_free(&pair);
	OK(ibv_destroy_srq(srq));
}

/* The new ring cannot be mapped: whoever posts is told so. */
static void resize_unmapped(struct env *env, const struct test *test)
{
	struct ibv_srq *srq = srq_new(env->b.pd, 16, 1);

	(void)test;
	if (!is_metaroce() || !(env->b.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		SKIP("the device cannot");
	OK(srq_post(srq, RECV, NULL, 0, 0));
	no_more_mappings();
	CHECK(srq_modify(srq, 16384, 0, IBV_SRQ_MAX_WR), "resized without memory for it");
	REFUSED(srq_post(srq, RECV, NULL, 0, 0), EIO);
	OK(ibv_destroy_srq(srq));
}

void tests_srq_resize(void)
{
	TEST("srq", resize, "resize");
	TEST("srq", resize_long, "resize of a long queue");
	TEST("srq", resize_unmapped, "resize that cannot be mapped");
}
