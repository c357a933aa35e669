// SPDX-License-Identifier: GPL-2.0
/* Unreliable connections: what arrives, what is dropped, and that nobody is told. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define LEN	9000U		/* a few packets */

enum {
	WR = 0xa1,
	WR_NEXT = 0xa2,
	RECV = 0x100,		/* and up */
};

struct setup {
	struct pair pair;
	struct buf src, dst;
};

static void set_up(struct setup *s, struct env *env, const struct opts *opts)
{
	pair_new(&s->pair, env, opts);
	buf_new(&s->src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&s->dst, &env->b, LEN, ACCESS_ALL);
	fill(s->src.p, LEN, 71);
	memset(s->dst.p, 0, LEN);
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	buf_free(&s->src);
	buf_free(&s->dst);
}

static void request(struct setup *s, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t len)
{
	OK(post_send(&s->pair.a, op, wr_id, s->src.p, len, s->src.mr->lkey, s->dst.p,
		     s->dst.mr->rkey, IBV_SEND_SIGNALED));
}

/* Every operation that there is, of every interesting size. */
static void operations(struct env *env, const struct test *test)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	static const uint32_t sizes[] = { 0, 1, 1023, 1024, 1025, 4096, LEN };
	struct setup s;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	for (size_t i = 0; i < ARRAY_SIZE(ops) * ARRAY_SIZE(sizes); i++) {
		enum ibv_wr_opcode op = ops[i % ARRAY_SIZE(ops)];
		uint32_t len = sizes[i / ARRAY_SIZE(ops)];

		memset(s.dst.p, 0, LEN);
		if (op_receives(op))
			OK(post_recv(&s.pair.b, RECV, s.dst.p, LEN, s.dst.mr->lkey));
		request(&s, op, WR, len);
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		if (op_receives(op)) {
			struct ibv_wc wc = cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);

			CHECK_EQ(wc.byte_len, len, op_name(op));
			CHECK_EQ(wc.src_qp, s.pair.a.qp->qp_num, "src_qp");
		}
		/* On this device a completion says more than it has to. */
		if (op_receives(op) || is_metaroce())
			check(s.dst.p, len, 71, op_name(op));
	}
	pair_check_works(&s.pair);
	tear_down(&s);
}

/* The next message takes the receive that the dropped one would have taken. */
static void no_receive(struct env *env, const struct test *test)
{
	struct setup s;
	struct ibv_wc wc;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	for (int i = 0; i < 5; i++) {
		request(&s, i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, WR + i, 100 + i);
		cq_expect(&s.pair.a.scq, WR + i, IBV_WC_SUCCESS);
	}
	cq_expect_empty(&s.pair.b.rcq, "nothing was posted");
	memset(s.dst.p, 0, LEN);
	OK(post_recv(&s.pair.b, RECV, s.dst.p, LEN, s.dst.mr->lkey));
	request(&s, IBV_WR_SEND, WR_NEXT, LEN);
	cq_expect(&s.pair.a.scq, WR_NEXT, IBV_WC_SUCCESS);
	wc = cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, LEN, "byte_len");
	check(s.dst.p, LEN, 71, "the message after");
	pair_check_works(&s.pair);
	tear_down(&s);
}

/* A receive that is too short stays. */
static void too_long(struct env *env, const struct test *test)
{
	struct setup s;
	struct ibv_wc wc;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	OK(post_recv(&s.pair.b, RECV, s.dst.p, 50, s.dst.mr->lkey));
	request(&s, IBV_WR_SEND, WR, LEN);
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	request(&s, IBV_WR_SEND, WR_NEXT, 50);
	cq_expect(&s.pair.a.scq, WR_NEXT, IBV_WC_SUCCESS);
	wc = cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 50, "byte_len");
	check(s.dst.p, 50, 71, "the message after");
	check_byte(s.dst.p + 50, LEN - 50, 0, "behind the receive");
	pair_check_works(&s.pair);
	tear_down(&s);
}

/* Memory that may not be written stays as it is, and nobody is told. */
static void bad_key(struct env *env, const struct test *test)
{
	struct ibv_async_event event;
	struct setup s;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey, s.dst.p,
		     s.dst.mr->rkey ^ 0x100, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	check_byte(s.dst.p, LEN, 0, "what a Write with a bad key would have written");
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey,
		     s.dst.map + s.dst.map_len - 10, s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	pair_check_works(&s.pair);
	buf_check_guards(&s.dst, "a Write over the end");
	CHECK_EQ(end_state(&s.pair.a), IBV_QPS_RTS, "state of the requester");
	CHECK_EQ(end_state(&s.pair.b), IBV_QPS_RTS, "state of the responder");
	CHECK(!async_event_wait(&env->b, 0, &event), "event %d", event.event_type);
	tear_down(&s);
}

static void to_rts(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
}

/* The send queue has an error of its own: receiving goes on, sending is taken up again. */
static void send_queue_error(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	uint32_t lkey_bit = test->arg[1];
	struct buf back;
	struct setup s;

	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	buf_new(&back, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	OK(post_recv(&s.pair.b, RECV, s.dst.p, LEN, s.dst.mr->lkey));
	request(&s, IBV_WR_SEND, 1, 10);
	OK(post_send(&s.pair.a, op, 2, s.src.p, 8, s.src.mr->lkey ^ lkey_bit, s.dst.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	request(&s, IBV_WR_SEND, 3, 10);
	cq_expect(&s.pair.a.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.scq, 2, lkey_bit ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_QP_OP_ERR);
	cq_expect(&s.pair.a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	CHECK_EQ(end_state(&s.pair.a), IBV_QPS_SQE, "state");
	/* More that is posted is flushed. */
	request(&s, IBV_WR_SEND, 4, 10);
	cq_expect(&s.pair.a.scq, 4, IBV_WC_WR_FLUSH_ERR);

	OK(post_recv(&s.pair.a, RECV, s.src.p, LEN, s.src.mr->lkey));
	fill(back.p, LEN, 72);
	OK(post_send(&s.pair.b, IBV_WR_SEND, 5, back.p, LEN, back.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&s.pair.b.scq, 5, IBV_WC_SUCCESS);
	cq_expect(&s.pair.a.rcq, RECV, IBV_WC_SUCCESS);
	check(s.src.p, LEN, 72, "received in the SQE state");

	to_rts(&s.pair.a);
	pair_check_works(&s.pair);
	buf_free(&back);
	tear_down(&s);
}

/* The receiver's own fault ends the receiver, and only that. */
static void bad_receive(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0));
	OK(post_recv(&s.pair.b, RECV, s.dst.p, LEN, s.dst.mr->lkey ^ 0x100));
	request(&s, IBV_WR_SEND, WR, LEN);
	cq_expect(&s.pair.b.rcq, RECV, IBV_WC_LOC_PROT_ERR);
	end_expect_error(&s.pair.b);
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	request(&s, IBV_WR_SEND, WR_NEXT, LEN);
	cq_expect(&s.pair.a.scq, WR_NEXT, IBV_WC_SUCCESS);
	CHECK_EQ(end_state(&s.pair.a), IBV_QPS_RTS, "state of the requester");
	tear_down(&s);
}

/* The peer is gone: sends complete as ever. */
static void no_peer(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0, .depth = 512));
	pair_check_works(&s.pair);
	end_free(&s.pair.b);
	for (int i = 0; i < 3; i++) {
		request(&s, IBV_WR_SEND, WR + i, LEN);
		cq_expect(&s.pair.a.scq, WR + i, IBV_WC_SUCCESS);
	}
	/* More than can be under way, after the connection is closed as well. */
	sleep_ms(test->arg[0]);
	for (int i = 0; i < 300; i++)
		request(&s, IBV_WR_RDMA_WRITE, WR + i, 10);
	for (int i = 0; i < 300; i++)
		cq_expect(&s.pair.a.scq, WR + i, IBV_WC_SUCCESS);
	CHECK_EQ(end_state(&s.pair.a), IBV_QPS_RTS, "state");
	end_free(&s.pair.a);
	buf_free(&s.src);
	buf_free(&s.dst);
}

/*
 * A receiver that does not keep up: what arrives is whole, in order, and not
 * twice. Each message has its number in all its words.
 */
static void slow_receiver(struct env *env, const struct test *test)
{
	enum { MESSAGES = 400, WORDS = 600, RECVS = 8 };
	struct ibv_wc wc;
	struct setup s;
	struct buf src, dst[RECVS];
	uint32_t sent = 0, done = 0, last = 0, got = 0;
	long long stop = now_ms() + WAIT_MS;

	(void)test;
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0, .depth = 16));
	buf_new(&src, &env->a, 16 * WORDS * 4, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < RECVS; i++)
		buf_new(&dst[i], &env->b, WORDS * 4, IBV_ACCESS_LOCAL_WRITE);
	while (done < MESSAGES) {
		CHECK(now_ms() < stop, "%u of %u sends done", done, MESSAGES);
		if (sent < MESSAGES && sent - done < 16) {
			uint32_t *p = (uint32_t *)src.p + (sent % 16) * WORDS;

			sent++;
			for (int i = 0; i < WORDS; i++)
				p[i] = sent;
			OK(post_send(&s.pair.a, IBV_WR_SEND, sent, p, WORDS * 4, src.mr->lkey,
				     NULL, 0, IBV_SEND_SIGNALED));
		}
		while (ibv_poll_cq(s.pair.a.scq.cq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a send");
			CHECK_EQ(wc.wr_id, ++done, "order of the sends");
		}
		if (random() % 50 == 0) {
			int i = random() % RECVS;

			if (!dst[i].p[WORDS * 4 - 1]) {
				memset(dst[i].p, 1, WORDS * 4);
				OK(post_recv(&s.pair.b, i, dst[i].p, WORDS * 4, dst[i].mr->lkey));
			}
		}
		while (ibv_poll_cq(s.pair.b.rcq.cq, 1, &wc) == 1) {
			uint32_t *p = (uint32_t *)dst[wc.wr_id].p;

			CHECK_EQ(wc.status, IBV_WC_SUCCESS, "status of a receive");
			CHECK_EQ(wc.byte_len, WORDS * 4, "byte_len");
			CHECK(p[0] > last, "message %u after %u", p[0], last);
			for (int i = 0; i < WORDS; i++)
				CHECK(p[i] == p[0], "word %d of message %u is %u", i, p[0], p[i]);
			last = p[0];
			got++;
			memset(p, 0, WORDS * 4);
		}
	}
	CHECK(got, "nothing arrived");
	for (int i = 0; i < RECVS; i++)
		buf_free(&dst[i]);
	buf_free(&src);
	tear_down(&s);
}

/* A shared receive queue: what a dropped message had taken goes to the next one. */
static void shared_queue(struct env *env, const struct test *test)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(env->b.pd, &init);
	struct ibv_recv_wr *bad, wr = { .wr_id = RECV, .num_sge = 1 };
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct setup s;

	(void)test;
	CHECK(srq, "ibv_create_srq: %m");
	set_up(&s, env, OPTS(.uc = true, .rd_atomic = 0, .srq = srq));
	request(&s, IBV_WR_SEND, WR, 10);
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	sge = (struct ibv_sge){ (uintptr_t)s.dst.p, 2000, s.dst.mr->lkey };
	wr.sg_list = &sge;
	OK(ibv_post_srq_recv(srq, &wr, &bad));
	request(&s, IBV_WR_SEND, WR, 2001);
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	request(&s, IBV_WR_SEND, WR, 2000);
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	wc = cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 2000, "byte_len");
	check(s.dst.p, 2000, 71, "the message that fits");
	tear_down(&s);
	OK(ibv_destroy_srq(srq));
}

/* What only reliable connections have cannot be set. */
static void attributes(struct env *env, const struct test *test)
{
	const struct opts *opts = OPTS(.uc = true, .rd_atomic = 0);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 14 };
	struct setup s;
	struct end end;

	(void)test;
	set_up(&s, env, opts);
	OK(ibv_query_qp(s.pair.a.qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(init.qp_type, IBV_QPT_UC, "type");
	CHECK_EQ(attr.dest_qp_num, s.pair.b.qp->qp_num, "dest_qp_num");
	end_new(&end, &env->a, opts);
	end_init(&end, opts);
	end_rtr_to(&end, &env->b.gid, s.pair.b.qp->qp_num, 1, opts);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14 };
	REFUSED(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT),
		EINVAL);
	end_free(&end);
	tear_down(&s);
}

/* A peer of the other kind gets nothing through, and a reliable one is told. */
static void other_kind(struct env *env, const struct test *test)
{
	const struct opts *rc = OPTS(), *uc = OPTS(.uc = true, .rd_atomic = 0);
	struct buf src, dst;
	struct pair pair;

	(void)test;
	if (!is_metaroce())
		SKIP("about this device's streams");
	end_new(&pair.a, &env->a, rc);
	end_new(&pair.b, &env->b, uc);
	end_init(&pair.a, rc);
	end_init(&pair.b, uc);
	end_rtr_to(&pair.a, &env->b.gid, pair.b.qp->qp_num, pair.b.psn, rc);
	end_rtr_to(&pair.b, &env->a.gid, pair.a.qp->qp_num, pair.a.psn, uc);
	end_rts(&pair.a, rc);
	end_rts(&pair.b, uc);
	buf_new(&src, &env->a, LEN, ACCESS_ALL);
	buf_new(&dst, &env->b, LEN, ACCESS_ALL);
	memset(dst.p, 0, LEN);
	OK(post_recv(&pair.b, RECV, dst.p, LEN, dst.mr->lkey));
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, LEN, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, WR, IBV_WC_REM_INV_REQ_ERR);
	cq_expect_empty(&pair.b.rcq, "a message of the other kind");
	pair_free(&pair);
	buf_free(&src);
	buf_free(&dst);
}

void tests_uc(void)
{
	TEST("uc", operations, "operations and sizes");
	TEST("uc", no_receive, "dropped: no receive");
	TEST("uc", too_long, "dropped: longer than the receive");
	TEST("uc", bad_key, "dropped: memory that may not be written");
	test_add("uc", send_queue_error, 0, IBV_WR_SEND, 0x100, "SQE: bad local key");
	test_add("uc", send_queue_error, 0, IBV_WR_RDMA_READ, 0, "SQE: a Read");
	test_add("uc", send_queue_error, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, "SQE: an atomic");
	TEST("uc", bad_receive, "a receive that may not be written");
	test_add("uc", no_peer, 0, 0, 0, "the peer's queue pair is gone");
	test_add("uc", no_peer, 0, 3000, 0, "the peer's queue pair is gone, and the connection");
	TEST("uc", slow_receiver, "a receiver that does not keep up");
	TEST("uc", shared_queue, "a shared receive queue");
	TEST("uc", attributes, "attributes");
	TEST("uc", other_kind, "a peer of the reliable kind");
}
