// SPDX-License-Identifier: GPL-2.0
/* Memory that changes while it is under way: what arrives is of no use, but it arrives. */
#include "ud.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS	20

struct changing {
	struct buf buf;
	atomic_bool stop;
	pthread_t thread;
};

static void *change(void *arg)
{
	struct changing *c = arg;

	while (!c->stop)
		for (size_t i = 0; i < c->buf.len; i += 64)
			++*(volatile uint8_t *)(c->buf.p + i);
	return NULL;
}

static void start(struct changing *c, struct host *host, size_t len)
{
	buf_new(&c->buf, host, len, ACCESS_ALL);
	c->stop = false;
	CHECK(!pthread_create(&c->thread, NULL, change, c), "pthread_create");
}

static void stop(struct changing *c)
{
	c->stop = true;
	pthread_join(c->thread, NULL);
	buf_check_guards(&c->buf, "memory that changes");
	buf_free(&c->buf);
}

static void connected(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	bool reads = op == IBV_WR_RDMA_READ;
	uint32_t len = test->arg[1];
	struct changing c;
	struct pair pair;
	struct buf other;

	start(&c, reads ? &env->b : &env->a, len);
	buf_new(&other, reads ? &env->a : &env->b, len, ACCESS_ALL);
	pair_new(&pair, env, OPTS());
	for (int i = 0; i < ROUNDS; i++) {
		struct buf *from = reads ? &other : &c.buf, *to = reads ? &c.buf : &other;

		OK(post_send(&pair.a, op, i, from->p, len, from->mr->lkey, to->p, to->mr->rkey,
			     IBV_SEND_SIGNALED));
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	}
	stop(&c);
	buf_check_guards(&other, "what it was copied to");
	buf_free(&other);
	pair_free(&pair);
}

static void datagrams(struct env *env, const struct test *test)
{
	uint32_t len = test->arg[0];
	struct ud_pair pair;
	struct changing c;
	struct buf buf;

	start(&c, &env->a, len);
	ud_pair_new(&pair, env);
	buf = pair.a.buf;
	pair.a.buf = c.buf;
	for (int i = 0; i < ROUNDS; i++) {
		OK(ud_recv(&pair.b, i, 0, GRH + len));
		ud_send(&pair.a, &pair.b, i, len);
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		cq_expect(&pair.b.rcq, i, IBV_WC_SUCCESS);
	}
	pair.a.buf = buf;
	stop(&c);
	ud_pair_free(&pair);
}

void tests_changing(void)
{
	test_add("changing", connected, 0, IBV_WR_RDMA_READ, 8, "a word is read");
	test_add("changing", connected, 0, IBV_WR_RDMA_READ, 20000, "much is read");
	test_add("changing", connected, 0, IBV_WR_RDMA_WRITE, 8, "a word is written");
	test_add("changing", connected, 0, IBV_WR_RDMA_WRITE, 20000, "much is written");
	test_add("changing", datagrams, 2000, 0, 0, "datagrams");
}
