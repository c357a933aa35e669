// SPDX-License-Identifier: GPL-2.0
/* Datagrams to a shared receive queue. */
#include "ud.h"

#include <string.h>

/* Receives from a shared queue go to whoever has a message. One that is too short stays. */
static void test_shared_queue(struct env *env, const struct test *test)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(env->b.pd, &init);
	struct ud from, to[2];

	(void)test;
	CHECK(srq, "ibv_create_srq: %m");
	ud_new(&from, &env->a, &env->b);
	for (int i = 0; i < 2; i++)
		ud_new_with(&to[i], &env->b, &env->a, srq, 64);
	fill(from.buf.p, MTU, 5);
	srq_recv(&to[0], 1, 0, GRH + 50);
	ud_send(&from, &to[0], 10, 51);
	cq_expect(&from.scq, 10, IBV_WC_SUCCESS);
	ud_send(&from, &to[0], 11, 50);
	cq_expect(&from.scq, 11, IBV_WC_SUCCESS);
	expect_message(&from, &to[0], 1, 0, 50, 5);
	/* Whoever comes first. The memory is that of the first one's buffer. */
	srq_recv(&to[0], 2, 0, GRH + MTU);
	ud_send(&from, &to[1], 12, MTU);
	cq_expect(&from.scq, 12, IBV_WC_SUCCESS);
	cq_expect(&to[1].rcq, 2, IBV_WC_SUCCESS);
	check(to[0].buf.p + GRH, MTU, 5, "message to the second one");
	/* What a queue pair holds is flushed with it. */
	srq_recv(&to[0], 3, 0, GRH + 50);
	srq_recv(&to[0], 4, 0, GRH + 50);
	ud_send(&from, &to[0], 13, 51);
	cq_expect(&from.scq, 13, IBV_WC_SUCCESS);
	ud_send(&from, &to[1], 14, 50);
	cq_expect(&from.scq, 14, IBV_WC_SUCCESS);
	cq_expect(&to[1].rcq, 4, IBV_WC_SUCCESS);
	ud_state(&to[0], IBV_QPS_ERR);
	cq_expect(&to[0].rcq, 3, IBV_WC_WR_FLUSH_ERR);
	async_event_expect(&env->b, IBV_EVENT_QP_LAST_WQE_REACHED, to[0].qp);
	ud_free(&from);
	for (int i = 0; i < 2; i++)
		ud_free(&to[i]);
	OK(ibv_destroy_srq(srq));
}

void tests_ud_srq(void)
{
	TEST("ud", test_shared_queue, "a shared receive queue");
}
