// SPDX-License-Identifier: GPL-2.0
/* Garbage in the rings that a client shares with the kernel. */
#include "rings.h"

#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>
#include <string.h>

static struct metaroce_send_wqe *next_wqe(struct rings *r)
{
	/* 16 entries or more: slot 2 is free and in the first round. */
	return (struct metaroce_send_wqe *)(r->sq.slots + 2 * r->sq.stride);
}

enum sq_case {
	OPCODE, NUM_SGE, INLINE_LEN, INLINE_STRIDE, JUMP, BACK, WILD_SGE, HUGE_SGE, FLAGS,
};

static void sq_garbage(struct env *env, const struct test *test)
{
	struct metaroce_send_wqe *wqe;
	struct metaroce_sge *sge;
	struct rings r;

	need_metaroce();
	rings_new(&r, env);
	wqe = next_wqe(&r);
	sge = (struct metaroce_sge *)(wqe + 1);
	memset(wqe, 0, r.sq.stride);
	wqe->wr_id = 77;
	wqe->opcode = METAROCE_OP_RDMA_WRITE;
	wqe->flags = METAROCE_SEND_SIGNALED;
	wqe->num_sge = 1;
	wqe->remote_addr = (uintptr_t)r.peer.p;
	wqe->rkey = r.peer.mr->rkey;
	sge->addr = (uintptr_t)r.buf.p;
	sge->length = 64;
	sge->lkey = r.buf.mr->lkey;
	switch ((enum sq_case)test->arg[0]) {
	case OPCODE:
		wqe->opcode = 0xff;
		break;
	case NUM_SGE:
		wqe->num_sge = 0xffff;
		break;
	case INLINE_LEN:
		wqe->flags |= METAROCE_SEND_INLINE;
		wqe->inline_len = 0xffffffff;
		break;
	case INLINE_STRIDE:
		wqe->flags |= METAROCE_SEND_INLINE;
		wqe->inline_len = r.sq.stride;
		break;
	case WILD_SGE:
		sge->addr = 0xffff888000001000ULL;
		break;
	case HUGE_SGE:
		sge->length = 0xffffffff;
		break;
	case FLAGS:
		wqe->flags = 0xff;
		wqe->inline_len = 0xfff0;
		break;
	case JUMP:
	case BACK:
		break;
	}
	publish(&r, test->arg[0] == JUMP ? 0x12345 : test->arg[0] == BACK ? 1 : 3);
	end_expect_error(&r.pair.a);
	aftermath(&r, env);
}

static void scribble(uint8_t *p, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = random() >> 8;
}

/* Random bytes in all slots; sometimes plausible in part. */
static void sq_random(struct env *env, const struct test *test)
{
	struct rings r;
	int round, i;

	need_metaroce();
	for (round = 0; round < test->arg[0]; round++) {
		srandom(100 + round);
		rings_new(&r, env);
		scribble(r.sq.slots, r.sq.end - r.sq.slots);
		for (i = 2; i < 16 && round % 2; i++) {
			struct metaroce_send_wqe *wqe = (void *)(r.sq.slots + i * r.sq.stride);

			wqe->opcode %= METAROCE_OP_SEND_INV + 1;
			wqe->num_sge %= 5;
			wqe->inline_len %= 80;
		}
		publish(&r, 2 + 1 + random() % 14);
		for (i = 0; i < 200 && end_state(&r.pair.a) != IBV_QPS_ERR; i++)
			sleep_ms(5);
		aftermath(&r, env);
	}
}

/* The kernel's own index, and all the padding, overwritten. */
static void sq_header(struct env *env, const struct test *test)
{
	struct rings r;
	int round;

	need_metaroce();
	for (round = 0; round < test->arg[0]; round++) {
		srandom(500 + round);
		rings_new(&r, env);
		scribble((uint8_t *)r.sq.hdr, METAROCE_RING_HDR_SIZE);
		scribble((uint8_t *)r.rq.hdr, METAROCE_RING_HDR_SIZE);
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_SEND);
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_RECV);
		OK(post_send(&r.pair.b, IBV_WR_SEND, 1, NULL, 0, 0, NULL, 0, 0));
		sleep_ms(20);
		aftermath(&r, env);
	}
}

/* A receive queue of garbage, met by a send of the peer. */
static void rq_garbage(struct env *env, const struct test *test)
{
	struct metaroce_recv_wqe *wqe;
	struct rings r;
	struct ibv_wc wc;
	uint32_t i;

	need_metaroce();
	for (i = 0; i < 8; i++) {
		srandom(900 + i);
		rings_new(&r, env);
		scribble(r.rq.slots, r.rq.end - r.rq.slots);
		wqe = (struct metaroce_recv_wqe *)(r.rq.slots + r.rq.stride);
		if (test->arg[0] == 0)
			wqe->num_sge = i < 2 ? 0xffffffff : 1 + i % 4;
		__atomic_store_n(&r.rq.hdr->producer,
				 test->arg[0] == 1 ? 0x80000000U + i : 8U, __ATOMIC_SEQ_CST);
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_RECV);
		OK(post_send(&r.pair.b, IBV_WR_SEND, 1, r.peer.p, 60000, r.peer.mr->lkey, NULL,
			     0, IBV_SEND_SIGNALED));
		CHECK(cq_wait(&r.pair.b.scq, &wc, WAIT_MS), "the peer's send never ended");
		CHECK(wc.status != IBV_WC_SUCCESS, "data went into a garbage receive");
		end_expect_error(&r.pair.a);
		aftermath(&r, env);
	}
}

/* The indices and entries of a CQ overwritten while completions come in. */
static void cq_garbage(struct env *env, const struct test *test)
{
	struct rings r;
	int i, round;

	need_metaroce();
	for (round = 0; round < test->arg[0]; round++) {
		srandom(1300 + round);
		rings_new(&r, env);
		for (i = 0; i < 12; i++) {
			if (post_send(&r.pair.a, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, NULL, 0,
				      IBV_SEND_SIGNALED))
				break;
			if (round % 2)
				scribble((uint8_t *)r.scq.hdr, METAROCE_RING_HDR_SIZE);
			else
				__atomic_store_n(&r.scq.hdr->consumer, random(),
						 __ATOMIC_SEQ_CST);
			scribble(r.scq.slots, r.scq.end - r.scq.slots);
		}
		sleep_ms(10);
		pair_free(&r.pair);
		buf_free(&r.buf);
		buf_free(&r.peer);
		env_check_works(env);
	}
}

static struct rings racing;
static volatile bool racing_stop;

static void *racer(void *arg)
{
	unsigned int seed = 5;

	(void)arg;
	while (!racing_stop) {
		size_t len = racing.sq.end - racing.sq.slots;

		racing.sq.slots[rand_r(&seed) % len] = rand_r(&seed);
		if (rand_r(&seed) % 64 == 0)
			racing.rq.slots[rand_r(&seed) %
					(racing.rq.end - racing.rq.slots)] = rand_r(&seed);
	}
	return NULL;
}

/* Requests that change while the kernel reads them. */
static void sq_race(struct env *env, const struct test *test)
{
	pthread_t thread;
	int round, i;

	need_metaroce();
	for (round = 0; round < test->arg[0]; round++) {
		rings_new(&racing, env);
		racing_stop = false;
		CHECK(!pthread_create(&thread, NULL, racer, NULL), "pthread_create");
		for (i = 0; i < 300; i++) {
			struct ibv_wc wc;

			post_send(&racing.pair.a, IBV_WR_RDMA_WRITE, i, racing.buf.p, 3000,
				  racing.buf.mr->lkey, racing.peer.p, racing.peer.mr->rkey,
				  IBV_SEND_SIGNALED);
			while (ibv_poll_cq(racing.pair.a.scq.cq, 1, &wc) > 0)
				;
			if (i % 16 == 0 && end_state(&racing.pair.a) == IBV_QPS_ERR)
				break;
		}
		racing_stop = true;
		pthread_join(thread, NULL);
		aftermath(&racing, env);
	}
}

void tests_abuse_ring(void)
{
	static const struct {
		enum sq_case id;
		const char *name;
	} cases[] = {
		{ OPCODE, "unknown opcode" }, { NUM_SGE, "65535 pieces" },
		{ INLINE_LEN, "4 GiB inline" }, { INLINE_STRIDE, "inline longer than the slot" },
		{ JUMP, "producer far ahead" }, { BACK, "producer goes back" },
		{ WILD_SGE, "kernel address" }, { HUGE_SGE, "piece of 4 GiB" },
		{ FLAGS, "all flags" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		test_add("abuse", sq_garbage, 0, cases[i].id, 0, "send queue, %s",
			 cases[i].name);
	test_add("abuse", sq_random, 600, 24, 0, "send queue, random bytes");
	test_add("abuse", sq_header, 0, 8, 0, "ring headers overwritten");
	test_add("abuse", rq_garbage, 0, 0, 0, "receive queue, random bytes");
	test_add("abuse", rq_garbage, 0, 1, 0, "receive queue, producer far ahead");
	test_add("abuse", cq_garbage, 0, 8, 0, "CQ overwritten");
	test_add("abuse", sq_race, 600, 10, 0, "queues that change while they are read");
}
