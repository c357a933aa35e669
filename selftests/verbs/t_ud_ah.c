// SPDX-License-Identifier: GPL-2.0
/* Address handles: what they say of the way, and where they lead. */
#include "ud.h"

#include <errno.h>
#include <string.h>

static void test_traffic_class(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ud_ah_attr(&env->a, &env->b);
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_ah *ah;

	(void)test;
	ud_pair_new(&pair, env);
	attr.grh.traffic_class = 0xb8;
	attr.grh.flow_label = 0x12345;
	attr.sl = 5;
	ah = ibv_create_ah(env->a.pd, &attr);
	CHECK(ah, "ibv_create_ah: %m");
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.ah = ah;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	check_grh(pair.b.buf.p, &pair.a, &pair.b, 0xb8);
	OK(ibv_destroy_ah(ah));
	ud_pair_free(&pair);
}

/* A handle made from what a datagram has brought leads back. */
static void test_handle_from_completion(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wc = cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	ah = ibv_create_ah_from_wc(env->b.pd, &wc, (struct ibv_grh *)pair.b.buf.p, 1);
	CHECK(ah, "ibv_create_ah_from_wc: %m");
	OK(ud_recv(&pair.a, 3, 0, GRH));
	wr = ud_wr(&pair.b, &pair.a, 4, NULL);
	wr.wr.ud.ah = ah;
	OK(ibv_post_send(pair.b.qp, &wr, &bad));
	cq_expect(&pair.a.rcq, 3, IBV_WC_SUCCESS);
	check_grh(pair.a.buf.p, &pair.b, &pair.a, 0);
	OK(ibv_destroy_ah(ah));
	ud_pair_free(&pair);
}

static void test_handle_attributes(struct env *env, const struct test *test)
{
	struct ibv_ah_attr good = ud_ah_attr(&env->a, &env->b), attr;
	struct ibv_pd *pd = env->a.pd;

	(void)test;
	attr = good;
	attr.is_global = 0;
	REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	attr = good;
	attr.port_num = 2;
	REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	attr = good;
	attr.grh.sgid_index = 254;
	/* ib_core's answer to a place of the table that is empty. */
	REFUSED_PTR(ibv_create_ah(pd, &attr), ENODATA);
	if (is_metaroce()) {
		attr = good;
		attr.sl = 16;
		REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	}
}

/* A domain in use by a handle stays. */
static void test_many_handles(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ud_ah_attr(&env->a, &env->b);
	static struct ibv_ah *ah[2000];
	struct ud_pair pair;
	struct ibv_pd *pd;
	size_t i;

	(void)test;
	pd = ibv_alloc_pd(env->a.ctx);
	CHECK(pd, "ibv_alloc_pd: %m");
	for (i = 0; i < ARRAY_SIZE(ah); i++) {
		ah[i] = ibv_create_ah(pd, &attr);
		CHECK(ah[i], "ibv_create_ah, number %zu: %m", i);
	}
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	for (i = 0; i < ARRAY_SIZE(ah); i++)
		OK(ibv_destroy_ah(ah[i]));
	OK(ibv_dealloc_pd(pd));
	ud_pair_new(&pair, env);
	check_message(&pair.a, &pair.b, 1, 100);
	ud_pair_free(&pair);
}

/* The same device, and the same host, as source and destination. */
static void test_to_itself(struct env *env, const struct test *test)
{
	struct ud a, b;

	(void)test;
	ud_new(&a, &env->a, &env->a);
	ud_new(&b, &env->a, &env->a);
	check_message(&a, &b, 1, 100);
	check_message(&b, &a, 2, MTU);
	check_message(&a, &a, 3, 1000);
	ud_free(&a);
	ud_free(&b);
}

void tests_ud_ah(void)
{
	TEST("ud", test_traffic_class, "traffic class");
	TEST("ud", test_handle_from_completion, "address handle from a completion");
	TEST("ud", test_handle_attributes, "attributes of address handles");
	TEST("ud", test_many_handles, "2000 address handles");
	TEST("ud", test_to_itself, "to itself");
}
