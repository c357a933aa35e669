// SPDX-License-Identifier: GPL-2.0
/* Datagrams that arrive: sizes, immediates, lists, many of them. */
#include "ud.h"

#include <arpa/inet.h>
#include <string.h>

static void test_sizes(struct env *env, const struct test *test)
{
	static const uint32_t sizes[] = { 0, 1, 7, 17, 1023, 1024, 1025, 2048, MTU };
	struct ud_pair pair;
	size_t i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		check_message(&pair.a, &pair.b, i, sizes[i]);
		check_message(&pair.b, &pair.a, 100 + i, sizes[i]);
	}
	ud_pair_free(&pair);
}

/* As many as the queues hold, of alternating sizes, posted at once. */
static void test_many_at_once(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr[32], *bad;
	struct ibv_sge sge[32];
	struct ud_pair pair;
	int round, i;

	(void)test;
	ud_pair_new(&pair, env);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 32; i++) {
			size_t at = i * (GRH + MTU);
			uint32_t len = i % 4 == 3 ? 100 + i : 1000;

			fill(pair.a.buf.p + at, len, round * 32 + i);
			OK(ud_recv(&pair.b, i, at, GRH + MTU));
			sge[i] = (struct ibv_sge){ (uintptr_t)pair.a.buf.p + at, len,
						   pair.a.buf.mr->lkey };
			wr[i] = ud_wr(&pair.a, &pair.b, i, &sge[i]);
			wr[i].next = i < 31 ? &wr[i + 1] : NULL;
		}
		OK(ibv_post_send(pair.a.qp, wr, &bad));
		for (i = 0; i < 32; i++)
			cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		for (i = 0; i < 32; i++)
			expect_message(&pair.a, &pair.b, i, i * (GRH + MTU), sge[i].length,
				       round * 32 + i);
	}
	ud_pair_free(&pair);
}

static void test_immediate(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_wc wc;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	OK(ud_recv(&pair.b, 2, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 3, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0xcafef00d);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wc = cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM), "an immediate that nobody sent");
	wc = cq_expect(&pair.b.rcq, 2, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM, "no immediate");
	CHECK_EQ(ntohl(wc.imm_data), 0xcafef00d, "immediate");
	ud_pair_free(&pair);
}

static void test_solicited(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	OK(ud_recv(&pair.b, 1, 0, GRH));
	OK(ud_recv(&pair.b, 2, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 3, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	while (!ibv_poll_cq(pair.b.rcq.cq, 1, &(struct ibv_wc){ 0 }))
		sleep_ms(1);
	CHECK(!cq_event_pending(&pair.b.rcq, 0), "an event that nobody solicited");
	wr.send_flags |= IBV_SEND_SOLICITED;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no solicited event");
	cq_event_take(&pair.b.rcq);
	cq_expect(&pair.b.rcq, 2, IBV_WC_SUCCESS);
	ud_pair_free(&pair);
}

static void test_inline_and_lists(struct env *env, const struct test *test)
{
	struct ibv_recv_wr *bad_recv, recv;
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge[4], to[3];
	struct ud_pair pair;
	uint8_t data[60];
	int i;

	(void)test;
	ud_pair_new(&pair, env);
	fill(data, sizeof(data), 5);
	sge[0] = (struct ibv_sge){ (uintptr_t)data, sizeof(data), 0 };
	wr = ud_wr(&pair.a, &pair.b, 1, sge);
	wr.send_flags |= IBV_SEND_INLINE;
	OK(ud_recv(&pair.b, 2, 0, GRH + 100));
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	memset(data, 0, sizeof(data));
	expect_message(&pair.a, &pair.b, 2, 0, 60, 5);
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);

	/* Pieces that differ on both sides, one of them in the middle of the GRH. */
	fill(pair.a.buf.p, 1000, 6);
	for (i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)pair.a.buf.p + 250 * i, 250,
					   pair.a.buf.mr->lkey };
	to[0] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p, 13, pair.b.buf.mr->lkey };
	to[1] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p + 13, 300, pair.b.buf.mr->lkey };
	to[2] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p + 313, 727, pair.b.buf.mr->lkey };
	recv = (struct ibv_recv_wr){ .wr_id = 3, .sg_list = to, .num_sge = 3 };
	OK(ibv_post_recv(pair.b.qp, &recv, &bad_recv));
	wr = ud_wr(&pair.a, &pair.b, 4, sge);
	wr.num_sge = 4;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.a.scq, 4, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 3, 0, 1000, 6);
	ud_pair_free(&pair);
}

/* The buffer is the sender's again as soon as the send is complete. */
static void test_buffer_reuse(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	int i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < 32; i++)
		OK(ud_recv(&pair.b, i, i * (GRH + MTU), GRH + MTU));
	for (i = 0; i < 32; i++) {
		fill(pair.a.buf.p, 3000, i);
		ud_send(&pair.a, &pair.b, i, 3000);
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	}
	memset(pair.a.buf.p, 0, 3000);
	for (i = 0; i < 32; i++)
		expect_message(&pair.a, &pair.b, i, i * (GRH + MTU), 3000, i);
	ud_pair_free(&pair);
}

/*
 * As many messages as there are receives: none is lost on the sender's side,
 * however slow its link is.
 */
static void test_all_arrive(struct env *env, const struct test *test)
{
	enum { MESSAGES = 3000, LEN = 1000 };
	struct ibv_sge sge;
	struct ud from, to;

	(void)test;
	ud_new_with(&from, &env->a, &env->b, NULL, 64);
	ud_new_with(&to, &env->b, &env->a, NULL, 4096);
	for (int i = 0; i < MESSAGES; i++)
		OK(ud_recv(&to, i, 0, GRH + LEN));
	sge = (struct ibv_sge){ (uintptr_t)from.buf.p, LEN, from.buf.mr->lkey };
	for (int sent = 0, done = 0; done < MESSAGES;) {
		if (sent < MESSAGES && sent - done < 64) {
			struct ibv_send_wr *bad, wr = ud_wr(&from, &to, sent++, &sge);

			OK(ibv_post_send(from.qp, &wr, &bad));
			if (sent - done < 64)
				continue;
		}
		cq_expect(&from.scq, done++, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < MESSAGES; i++)
		cq_expect(&to.rcq, i, IBV_WC_SUCCESS);
	ud_free(&from);
	ud_free(&to);
}

void tests_ud_data(void)
{
	TEST("ud", test_sizes, "sizes");
	TEST("ud", test_many_at_once, "many at once");
	TEST("ud", test_immediate, "immediate");
	TEST("ud", test_solicited, "solicited event");
	TEST("ud", test_inline_and_lists, "inline data and lists");
	TEST("ud", test_buffer_reuse, "buffer used again after the completion");
	TEST("ud_paced", test_all_arrive, "all arrive");
}
