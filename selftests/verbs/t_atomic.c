// SPDX-License-Identifier: GPL-2.0
/* Compare-and-swap and fetch-and-add: values, checks, and once only. */
#include "mrverbs.h"

#include <errno.h>
#include <string.h>

#define ACCESS_ATOMIC	(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

enum {
	WR = 0x71,
	WR_NEXT = 0x72,
};

static int post_atomic(struct end *end, enum ibv_wr_opcode op, uint64_t wr_id, void *local,
		       uint32_t len, uint32_t lkey, const void *remote, uint32_t rkey,
		       uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = { (uintptr_t)local, len, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	wr.wr.atomic.remote_addr = (uintptr_t)remote;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return ibv_post_send(end->qp, &wr, &bad);
}

/* One atomic that must succeed: the value before, the value after. */
static void atomic(struct pair *pair, enum ibv_wr_opcode op, struct buf *local, struct buf *remote,
		   size_t at, uint64_t before, uint64_t compare_add, uint64_t swap, uint64_t after)
{
	uint64_t got;
	struct ibv_wc wc;

	memcpy(remote->p + at, &before, 8);
	memset(local->p, 0x5a, local->len);
	OK(post_atomic(&pair->a, op, WR, local->p + 8, 8, local->mr->lkey, remote->p + at,
		       remote->mr->rkey, compare_add, swap));
	wc = cq_expect(&pair->a.scq, WR, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, op == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD,
		 "opcode of the completion");
	CHECK_EQ(wc.byte_len, 8, "byte_len");
	memcpy(&got, local->p + 8, 8);
	CHECK(got == before, "found %#llx, should be %#llx", (unsigned long long)got,
	      (unsigned long long)before);
	memcpy(&got, remote->p + at, 8);
	CHECK(got == after, "left %#llx, should be %#llx", (unsigned long long)got,
	      (unsigned long long)after);
	check_byte(local->p, 8, 0x5a, "in front of the result");
	check_byte(local->p + 16, 8, 0x5a, "behind the result");
	buf_check_guards(remote, "the atomic's target");
}

static void values(struct env *env, const struct test *test)
{
	const uint64_t x = 0x0123456789abcdefULL, y = 0xfedcba9876543210ULL;
	struct buf local, remote;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS(.qp_access = ACCESS_ATOMIC));
	buf_new(&local, &env->a, 24, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, 4096, ACCESS_ATOMIC);
	atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &local, &remote, 0, x, x, y, y);
	atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &local, &remote, 0, x, x + 1, y, x);
	/* All 64 bits are compared, and all are stored. */
	atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &local, &remote, 8, x, x ^ 1ULL << 63, y, x);
	atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &local, &remote, 8, 0, 0, ~0ULL, ~0ULL);
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 16, x, 1, 77, x + 1);
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 16, x, 0, 77, x);
	/* It carries through all bits, and wraps. */
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 16, 0xffffffffULL, 1, 0,
	       0x100000000ULL);
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 16, ~0ULL, 1, 0, 0);
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 16, 5, -6ULL, 0, ~0ULL);
	/* The first and the last word of the region. */
	atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &local, &remote, 4088, 1, 2, 0, 3);
	pair_check_works(&pair);
	pair_free(&pair);
	buf_free(&local);
	buf_free(&remote);
}

enum bad_case {
	MISALIGNED, BEHIND_END, IN_FRONT, BAD_RKEY, MR_NO_RIGHT, QP_NO_RIGHT, NO_READS, LOCAL_SHORT,
	LOCAL_RIGHT, LOCAL_KEY,
};

/* What may not be leaves the memory alone, and ends with the right status. */
static void refused(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	enum ibv_wc_status want = IBV_WC_REM_ACCESS_ERR;
	struct buf local, remote;
	struct pair pair;
	uint32_t len = 8, rkey, lkey;
	uint8_t *at;

	pair_new(&pair, env, OPTS(.qp_access = test->arg[1] == QP_NO_RIGHT ? ACCESS_ALL :
				  ACCESS_ATOMIC, .rd_atomic = test->arg[1] == NO_READS ? 0 : 4));
	buf_new(&local, &env->a, 8, test->arg[1] == LOCAL_RIGHT ? 0 : IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, 4096, test->arg[1] == MR_NO_RIGHT ? ACCESS_ALL : ACCESS_ATOMIC);
	memset(remote.p, 0, remote.len);
	at = remote.p;
	rkey = remote.mr->rkey;
	lkey = local.mr->lkey;
	switch ((enum bad_case)test->arg[1]) {
	case MISALIGNED:
		at += 4;
		want = IBV_WC_REM_INV_REQ_ERR;
		break;
	case BEHIND_END:
		at = remote.map + remote.map_len;
		break;
	case IN_FRONT:
		at = remote.map - 8;
		break;
	case BAD_RKEY:
		rkey ^= 0x00a5a500;
		break;
	case MR_NO_RIGHT:
		break;
	case QP_NO_RIGHT:
		want = IBV_WC_REM_INV_REQ_ERR;
		break;
	case NO_READS:
		want = IBV_WC_LOC_QP_OP_ERR;
		break;
	case LOCAL_SHORT:
		len = 4;
		want = IBV_WC_LOC_LEN_ERR;
		break;
	case LOCAL_RIGHT:
		want = IBV_WC_LOC_PROT_ERR;
		break;
	case LOCAL_KEY:
		lkey ^= 0x00a5a500;
		want = IBV_WC_LOC_PROT_ERR;
		break;
	}
	OK(post_atomic(&pair.a, op, WR, local.p, len, lkey, at, rkey, 0, 1));
	OK(post_atomic(&pair.a, op, WR_NEXT, local.p, 8, local.mr->lkey, remote.p,
		       remote.mr->rkey, 0, 1));
	cq_expect(&pair.a.scq, WR, want);
	cq_expect(&pair.a.scq, WR_NEXT, IBV_WC_WR_FLUSH_ERR);
	end_expect_error(&pair.a);
	check_byte(remote.p, remote.len, 0, "the atomic's target");
	buf_check_guards(&remote, "the atomic's target");
	pair_free(&pair);
	env_check_works(env);
}

/*
 * Many at once on one word, from several queue pairs: each finds a value that no
 * other finds, in order, and together they find them all.
 */
static void once(struct env *env, const struct test *test)
{
	enum { QPS = 4, DEPTH = 16, PER_QP = 400, ALL = QPS * PER_QP };
	static uint8_t seen[ALL];
	struct pair pairs[QPS];
	struct buf local, word;
	struct { int posted, done; uint64_t last; } ends[QPS] = {};
	int i, done = 0;
	long long stop = now_ms() + 3LL * WAIT_MS;
	uint64_t sum;

	(void)test;
	buf_new(&local, &env->a, QPS * DEPTH * 8, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&word, &env->b, 8, ACCESS_ATOMIC);
	memset(word.p, 0, 8);
	for (i = 0; i < QPS; i++)
		pair_new(&pairs[i], env, OPTS(.depth = DEPTH, .qp_access = ACCESS_ATOMIC,
					      .rd_atomic = 16));
	while (done < ALL) {
		CHECK(now_ms() < stop, "only %d of %d have completed", done, ALL);
		for (i = 0; i < QPS; i++) {
			struct end *end = &pairs[i].a;
			struct ibv_wc wc;

			while (ends[i].posted < PER_QP &&
			       ends[i].posted - ends[i].done < DEPTH) {
				int slot = i * DEPTH + ends[i].posted % DEPTH;

				OK(post_atomic(end, IBV_WR_ATOMIC_FETCH_AND_ADD, ends[i].posted,
					       local.p + slot * 8, 8, local.mr->lkey,
					       word.p, word.mr->rkey, 1, 0));
				ends[i].posted++;
			}
			while (ibv_poll_cq(end->scq.cq, 1, &wc) == 1) {
				int slot = i * DEPTH + wc.wr_id % DEPTH;
				uint64_t found;

				CHECK(wc.status == IBV_WC_SUCCESS, "completion \"%s\"",
				      ibv_wc_status_str(wc.status));
				CHECK_EQ(wc.wr_id, ends[i].done, "wr_id");
				memcpy(&found, local.p + slot * 8, 8);
				CHECK(found < ALL && !seen[found], "%llu was found twice",
				      (unsigned long long)found);
				seen[found] = 1;
				CHECK(!ends[i].done || found > ends[i].last,
				      "found %llu after %llu", (unsigned long long)found,
				      (unsigned long long)ends[i].last);
				ends[i].last = found;
				ends[i].done++;
				done++;
			}
		}
	}
	memcpy(&sum, word.p, 8);
	CHECK_EQ(sum, ALL, "sum");
	for (i = 0; i < ALL; i++)
		CHECK(seen[i], "%d was never found", i);
	for (i = 0; i < QPS; i++)
		pair_free(&pairs[i]);
	buf_free(&local);
	buf_free(&word);
}

/* A lock: whoever swaps 0 for its number has it. */
static void lock_word(struct env *env, const struct test *test)
{
	enum { QPS = 2, ROUNDS = 50 };
	struct pair pairs[QPS];
	struct buf local, word;
	int i, n, held = 0;

	(void)test;
	buf_new(&local, &env->a, QPS * 8, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&word, &env->b, 8, ACCESS_ATOMIC);
	memset(word.p, 0, 8);
	for (i = 0; i < QPS; i++)
		pair_new(&pairs[i], env, OPTS(.qp_access = ACCESS_ATOMIC));
	for (n = 0; n < ROUNDS; n++) {
		for (i = 0; i < QPS; i++)
			OK(post_atomic(&pairs[i].a, IBV_WR_ATOMIC_CMP_AND_SWP, n, local.p + i * 8,
				       8, local.mr->lkey, word.p, word.mr->rkey, 0, i + 1));
		for (i = 0, held = 0; i < QPS; i++) {
			uint64_t found;

			cq_expect(&pairs[i].a.scq, n, IBV_WC_SUCCESS);
			memcpy(&found, local.p + i * 8, 8);
			held += found == 0;
		}
		CHECK_EQ(held, 1, "holders of the lock");
		memset(word.p, 0, 8);
	}
	for (i = 0; i < QPS; i++)
		pair_free(&pairs[i]);
	buf_free(&local);
	buf_free(&word);
}

/* An atomic comes after the write posted before it, and a fenced write after the atomic. */
static void order(struct env *env, const struct test *test)
{
	enum { ROUNDS = 100 };
	const size_t len = 50000;
	struct buf local, remote;
	struct pair pair;
	uint64_t found;
	int n;

	(void)test;
	pair_new(&pair, env, OPTS(.qp_access = ACCESS_ATOMIC));
	buf_new(&local, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&remote, &env->b, len, ACCESS_ATOMIC);
	for (n = 0; n < ROUNDS; n++) {
		uint64_t value = 0x1000 + n;

		memset(remote.p, 0, len);
		memset(local.p, 0, len);
		memcpy(local.p + len - 16, &value, 8);
		OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, n, local.p, len - 8, local.mr->lkey,
			     remote.p, remote.mr->rkey, IBV_SEND_SIGNALED));
		OK(post_atomic(&pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, n, local.p + len - 8, 8,
			       local.mr->lkey, remote.p + len - 16, remote.mr->rkey, 1, 0));
		cq_expect(&pair.a.scq, n, IBV_WC_SUCCESS);
		cq_expect(&pair.a.scq, n, IBV_WC_SUCCESS);
		memcpy(&found, local.p + len - 8, 8);
		CHECK_EQ(found, value, "what the atomic found");
	}
	pair_free(&pair);
	buf_free(&local);
	buf_free(&remote);
}

static void capability(struct env *env, const struct test *test)
{
	(void)test;
	CHECK(env->a.attr.atomic_cap != IBV_ATOMIC_NONE, "atomic_cap says there are none");
	CHECK(env->a.attr.max_qp_rd_atom > 0, "max_qp_rd_atom is 0");
}

void tests_atomic(void)
{
	static const struct { enum bad_case c; const char *name; } bad[] = {
		{ MISALIGNED, "misaligned" }, { BEHIND_END, "behind the region" },
		{ IN_FRONT, "in front of the region" }, { BAD_RKEY, "wrong rkey" },
		{ MR_NO_RIGHT, "region without right" }, { QP_NO_RIGHT, "QP without right" },
		{ NO_READS, "max_rd_atomic 0" }, { LOCAL_SHORT, "local buffer of 4 bytes" },
		{ LOCAL_RIGHT, "read-only local buffer" }, { LOCAL_KEY, "wrong lkey" },
	};
	size_t i;

	TEST("atomic", capability, "capability");
	TEST("atomic", values, "values");
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		test_add("atomic", refused, 0, IBV_WR_ATOMIC_CMP_AND_SWP, bad[i].c,
			 "compare and swap, %s", bad[i].name);
		test_add("atomic", refused, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, bad[i].c,
			 "fetch and add, %s", bad[i].name);
	}
	TEST("atomic", order, "after the write before");
	TEST("atomic", lock_word, "lock");
	TEST("atomic", once, "each once, 4 QPs on one word");
}
