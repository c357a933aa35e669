// SPDX-License-Identifier: GPL-2.0
/* Programs that poll on the last byte of what the peer writes, on queue pairs that allow it. */
#include "dv.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define SLOTS	16
#define SLOT	20000
#define FLAG	8	/* behind the slots */
#define MEMORY	(SLOTS * SLOT + FLAG)

struct polled {
	struct pair pair;
	struct buf from, to;
};

/* B polls, and asks for the order; A writes, and need not know. */
static void polled_with(struct polled *p, struct env *env, int access, const struct opts *opts)
{
	struct metaroce_dv_qp_attr attr = { .ordering = METAROCE_DV_LAST_BYTE_ORDERED };

	dv_load();
	end_new(&p->pair.a, &env->a, opts);
	end_new(&p->pair.b, &env->b, opts);
	OK(dv.modify_qp(p->pair.b.qp, &attr, METAROCE_DV_QP_ATTR_ORDERING));
	CHECK_EQ(dv_qp(&p->pair.b).ordering,
		 METAROCE_DV_LAST_BYTE_ORDERED | METAROCE_DV_COMPLETION_ORDERED, "ordering");
	pair_connect(&p->pair, opts);
	/* The connection is not concerned. */
	CHECK_EQ(dv_qp(&p->pair.b).flags & METAROCE_DV_QP_FLAG_OWN_CONNECTION, 0, "own connection");
	CHECK_EQ(dv_qp(&p->pair.a).ordering, METAROCE_DV_COMPLETION_ORDERED, "the peer's");
	buf_new(&p->from, &env->a, MEMORY, ACCESS_ALL);
	buf_new(&p->to, &env->b, MEMORY, access);
	memset(p->to.p, 0, MEMORY);
}

static void polled_new(struct polled *p, struct env *env, int access)
{
	polled_with(p, env, access, OPTS());
}

static void polled_free(struct polled *p)
{
	buf_check_guards(&p->to, "the memory that is written to");
	buf_free(&p->from);
	buf_free(&p->to);
	pair_free(&p->pair);
}

/* Any length, of one packet or more. */
static uint32_t length(uint32_t round, uint32_t slot)
{
	uint32_t x = (round * SLOTS + slot) * 2654435761u;

	return slot & 1 ? 1 + x % 100 : 1 + x % SLOT;
}

static void post(struct polled *p, enum ibv_wr_opcode op, uint32_t slot, uint32_t len, int flags)
{
	uint8_t *at = p->to.p + slot * SLOT;

	OK(post_send(&p->pair.a, op, slot, p->from.p + slot * SLOT, len, p->from.mr->lkey, at,
		     p->to.mr->rkey, flags));
}

static void poll_byte(const uint8_t *at, uint8_t want)
{
	const _Atomic uint8_t *byte = (const _Atomic uint8_t *)at;
	long long end = now_ms() + WAIT_MS;

	while (atomic_load_explicit(byte, memory_order_acquire) != want) {
		sched_yield();
		CHECK(now_ms() < end, "the last byte does not come");
	}
}

/* Many Writes at once; each last byte tells of all that was sent so far. */
static void last_bytes(struct env *env, const struct test *test)
{
	uint32_t round, slot, k;
	struct polled p;

	polled_new(&p, env, test->arg[0]);
	for (round = 1; round <= test->arg[1]; round++) {
		memset(p.from.p, round, MEMORY);
		for (slot = 0; slot < SLOTS; slot++)
			post(&p, IBV_WR_RDMA_WRITE, slot, length(round, slot),
			     slot == SLOTS - 1 ? IBV_SEND_SIGNALED : 0);
		for (slot = 0; slot < SLOTS; slot++) {
			poll_byte(p.to.p + slot * SLOT + length(round, slot) - 1, round);
			/* All of them now and then. */
			for (k = slot & 3 ? slot : 0; k <= slot; k++)
				check_byte(p.to.p + k * SLOT, length(round, k), round, "what was written");
		}
		cq_expect(&p.pair.a.scq, SLOTS - 1, IBV_WC_SUCCESS);
	}
	polled_free(&p);
}

/* A completion at the sender tells of the last byte, too. */
static void completions(struct env *env, const struct test *test)
{
	struct polled p;
	uint32_t round;

	(void)test;
	polled_new(&p, env, ACCESS_ALL);
	for (round = 1; round <= 100; round++) {
		uint32_t len = length(round, 0);

		memset(p.from.p, round, MEMORY);
		post(&p, IBV_WR_RDMA_WRITE, 0, len, IBV_SEND_SIGNALED);
		cq_expect(&p.pair.a.scq, 0, IBV_WC_SUCCESS);
		check_byte(p.to.p, len, round, "what is complete");
	}
	polled_free(&p);
}

/* As does one at the receiver. */
static void immediate(struct env *env, const struct test *test)
{
	struct polled p;
	uint32_t round;

	(void)test;
	polled_new(&p, env, ACCESS_ALL);
	for (round = 1; round <= 100; round++) {
		uint32_t len = length(round, 0);

		memset(p.from.p, round, MEMORY);
		OK(post_recv(&p.pair.b, round, NULL, 0, 0));
		post(&p, IBV_WR_RDMA_WRITE_WITH_IMM, 0, len, IBV_SEND_SIGNALED);
		cq_expect(&p.pair.b.rcq, round, IBV_WC_SUCCESS);
		check_byte(p.to.p, len, round, "what is complete");
		cq_expect(&p.pair.a.scq, 0, IBV_WC_SUCCESS);
	}
	polled_free(&p);
}

/* A flag of a word changes at once, when what it stands for is there. */
static void flag(struct env *env, const struct test *test)
{
	uint64_t last = 0, value;
	struct polled p;
	uint32_t round;

	(void)test;
	polled_new(&p, env, ACCESS_ALL);
	for (round = 1; round <= 100; round++) {
		_Atomic uint64_t *word = (_Atomic uint64_t *)(p.to.p + SLOTS * SLOT);
		long long end = now_ms() + WAIT_MS;

		memset(p.from.p, round, MEMORY);
		post(&p, IBV_WR_RDMA_WRITE, 0, SLOT, 0);
		post(&p, IBV_WR_RDMA_WRITE, SLOTS, FLAG, IBV_SEND_SIGNALED);
		while ((value = atomic_load_explicit(word, memory_order_acquire)) == last) {
			sched_yield();
			CHECK(now_ms() < end, "the flag does not change");
		}
		CHECK(value == round * 0x0101010101010101ull, "half a flag: %llx",
		      (unsigned long long)value);
		check_byte(p.to.p, SLOT, round, "what the flag stands for");
		cq_expect(&p.pair.a.scq, SLOTS, IBV_WC_SUCCESS);
		last = value;
	}
	polled_free(&p);
}

/* Other operations on such a queue pair. */
static void others(struct env *env, const struct test *test)
{
	struct polled p;

	(void)test;
	polled_new(&p, env, ACCESS_ALL);
	/* Nothing written is nothing to wait for, and needs no key. */
	OK(post_send(&p.pair.a, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	cq_expect(&p.pair.a.scq, 1, IBV_WC_SUCCESS);
	pair_check_works(&p.pair);
	/* A key that is not one ends it as ever. */
	OK(post_send(&p.pair.a, IBV_WR_RDMA_WRITE, 2, p.from.p, SLOT, p.from.mr->lkey, p.to.p,
		     p.to.mr->rkey ^ 0x5500, IBV_SEND_SIGNALED));
	cq_expect(&p.pair.a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	end_expect_error(&p.pair.b);
	check_byte(p.to.p, MEMORY, 0, "what was not written");
	polled_free(&p);
}

/*
 * The region goes between the arrival of a Write and its turn, which comes after that of an atomic
 * whose memory is not there yet. Nobody can be told but the user of the region.
 */
static void region_gone(struct env *env, const struct test *test)
{
	enum { LEN = SLOT, TAIL = 8, ACCESS = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_send_wr *bad, wr = { .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_sge sge;
	struct area word;
	struct polled p;
	int fd;

	(void)test;
	polled_with(&p, env, ACCESS, OPTS(.qp_access = ACCESS, .timeout = 0));
	area_new(&word, &env->b, 4096, ACCESS);
	fd = withhold(word.p, word.len);
	sge = (struct ibv_sge){ (uintptr_t)p.from.p + SLOT, 8, p.from.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = word.mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)word.p;
	wr.wr.atomic.compare_add = 1;
	OK(ibv_post_send(p.pair.a.qp, &wr, &bad));
	memset(p.from.p, 7, LEN);
	post(&p, IBV_WR_RDMA_WRITE, 0, LEN, 0);
	for (uint32_t i = 0; i < LEN - TAIL; i++)
		poll_byte(p.to.p + i, 7);
	expect_fault(fd, word.p);
	check_byte(p.to.p + LEN - TAIL, TAIL, 0, "last bytes before their turn");
	OK(ibv_dereg_mr(p.to.mr));
	give(fd, word.p, word.len);
	async_event_expect(&env->b, IBV_EVENT_QP_ACCESS_ERR, p.pair.b.qp);
	end_expect_error(&p.pair.b);
	CHECK_EQ(*(uint64_t *)word.p, 1, "the atomic's word");
	check_byte(p.to.p, LEN - TAIL, 7, "what was written before");
	check_byte(p.to.p + LEN - TAIL, TAIL, 0, "last bytes of a region that is gone");
	p.to.mr = ibv_reg_mr(env->b.pd, p.to.p, MEMORY, ACCESS_ALL);
	CHECK(p.to.mr, "ibv_reg_mr: %m");
	polled_free(&p);
	close(fd);
	area_free(&word);
	env_check_works(env);
}

void tests_dv_order(void)
{
	test_add("dv_order", last_bytes, 0, ACCESS_ALL, 60, "last bytes");
	test_add("dv_order", last_bytes, 0, ACCESS_ALL | IBV_ACCESS_ON_DEMAND, 20,
		 "last bytes in memory on demand");
	TEST("dv_order", completions, "last bytes and completions at the sender");
	TEST("dv_order", immediate, "last bytes and completions at the receiver");
	TEST("dv_order", flag, "a flag of a word");
	TEST("dv_order", others, "no bytes, and no key");
	TEST("dv_order", region_gone, "a region that goes before the turn of its last bytes");
}
