// SPDX-License-Identifier: GPL-2.0
/* Datagrams that find nobody, and the keys that let them in. */
#include "ud.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Sends one that must be dropped, then one that must take the same receive. */
static void dropped_then_taken(struct ud_pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	OK(ibv_post_send(pair->a.qp, wr, &bad));
	cq_expect(&pair->a.scq, wr->wr_id, IBV_WC_SUCCESS);
	fill(pair->a.buf.p, 50, 9);
	ud_send(&pair->a, &pair->b, 77, 50);
	cq_expect(&pair->a.scq, 77, IBV_WC_SUCCESS);
	expect_message(&pair->a, &pair->b, 1, 0, 50, 9);
	cq_expect_empty(&pair->b.rcq, "after a datagram that is to be dropped");
}

static void test_wrong_key(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	struct ibv_send_wr wr;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qkey = QKEY + 1;
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_wrong_number(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	struct ibv_send_wr wr;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qpn = 0xfffffe;
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_short_receive(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, 51, pair.a.buf.mr->lkey };
	wr = ud_wr(&pair.a, &pair.b, 2, &sge);
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_no_receive(struct env *env, const struct test *test)
{
	struct ud_pair pair, other;

	(void)test;
	ud_pair_new(&pair, env);
	ud_pair_new(&other, env);
	ud_send(&pair.a, &pair.b, 2, 30);
	cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
	/* The datagrams of one host come in order: the first one has come by then. */
	OK(ud_recv(&other.b, 3, 0, GRH + 50));
	ud_send(&pair.a, &other.b, 4, 30);
	cq_expect(&pair.a.scq, 4, IBV_WC_SUCCESS);
	cq_expect(&other.b.rcq, 3, IBV_WC_SUCCESS);
	check_message(&pair.a, &pair.b, 5, 40);
	cq_expect_empty(&pair.b.rcq, "after a datagram without receive");
	ud_pair_free(&other);
	ud_pair_free(&pair);
}

/* A key with the most significant bit set stands for the sender's own. */
static void test_controlled_key(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qkey = 0x80010000;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	ud_pair_free(&pair);
}

/* Without privilege, no QP gets such a key as its own. */
static void test_controlled_key_unprivileged(struct env *env, const struct test *test)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x80010000,
	};
	struct ud ud = { .host = &env->a };

	(void)test;
	cq_new(&ud.scq, &env->a, 16);
	cq_new(&ud.rcq, &env->a, 16);
	ud.qp = ud_qp(&ud);
	CHECK(!setresuid(65534, 65534, 65534), "setresuid: %m");
	REFUSED(ibv_modify_qp(ud.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_QKEY), EPERM);
}

void tests_ud_drop(void)
{
	TEST("ud", test_wrong_key, "wrong Q_Key");
	TEST("ud", test_wrong_number, "wrong QP number");
	TEST("ud", test_short_receive, "receive too short");
	TEST("ud", test_no_receive, "no receive");
	TEST("ud", test_controlled_key, "controlled Q_Key");
	TEST("ud", test_controlled_key_unprivileged, "controlled Q_Key, no privilege");
}
