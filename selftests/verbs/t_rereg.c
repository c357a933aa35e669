// SPDX-License-Identifier: GPL-2.0
/* Memory regions that change. */
#include "mrverbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN	20000U

enum { WR = 0xb1, RECV = 0xb2 };

struct setup {
	struct pair pair;
	struct buf src, dst;
};

static void set_up(struct setup *s, struct env *env, int access)
{
	pair_new(&s->pair, env, OPTS());
	buf_new(&s->src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&s->dst, &env->b, LEN, access);
	fill(s->src.p, LEN, 31);
	memset(s->dst.p, 0, LEN);
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	buf_free(&s->src);
	buf_free(&s->dst);
}

static void write_ends(struct setup *s, void *remote, uint32_t len, enum ibv_wc_status status)
{
	OK(post_send(&s->pair.a, IBV_WR_RDMA_WRITE, WR, s->src.p, len, s->src.mr->lkey, remote,
		     s->dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s->pair.a.scq, WR, status);
}

/* Keys stay what they are, or are the ones in the structure: both must work. */
static void rights(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env, IBV_ACCESS_LOCAL_WRITE);
	OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL));
	write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 31, "written with the new right");
	OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	memset(s.dst.p, 0, LEN);
	write_ends(&s, s.dst.p, LEN, IBV_WC_REM_ACCESS_ERR);
	check_byte(s.dst.p, LEN, 0, "written without the right");
	tear_down(&s);
}

/* Memory that was registered to be read becomes writable; what cannot be written does not. */
static void writable(struct env *env, const struct test *test)
{
	struct setup s;
	uint8_t *map;
	struct ibv_mr *mr;

	(void)test;
	set_up(&s, env, IBV_ACCESS_REMOTE_READ);
	OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL));
	write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 31, "written with the new right");

	map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map != MAP_FAILED, "mmap: %m");
	mr = ibv_reg_mr(env->b.pd, map, 8192, IBV_ACCESS_REMOTE_READ);
	CHECK(mr, "ibv_reg_mr: %m");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL),
	      "read-only memory became writable");
	/* It is what it was. */
	OK(post_send(&s.pair.a, IBV_WR_RDMA_READ, WR, s.src.p, 100, s.src.mr->lkey, map, mr->rkey,
		     IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	check_byte(s.src.p, 100, 0, "read of the region that was not changed");
	OK(ibv_dereg_mr(mr));
	tear_down(&s);
}

static void range(struct env *env, const struct test *test)
{
	struct setup s;
	struct buf other;

	(void)test;
	set_up(&s, env, ACCESS_ALL);
	buf_new(&other, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	memset(other.p, 0, LEN);
	OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other.p, LEN / 2, 0));
	CHECK(s.dst.mr->addr == other.p && s.dst.mr->length == LEN / 2, "region differs");
	write_ends(&s, other.p, LEN / 2, IBV_WC_SUCCESS);
	check(other.p, LEN / 2, 31, "written to the new range");
	check_byte(s.dst.p, LEN, 0, "the old range");
	check_byte(other.p + LEN / 2, LEN / 2, 0, "behind the new range");
	/* The old range is out of it, and so is what is behind the new one. */
	write_ends(&s, test->arg[0] ? s.dst.p : other.p + LEN / 2, 1, IBV_WC_REM_ACCESS_ERR);
	check_byte(s.dst.p, LEN, 0, "the old range");
	tear_down(&s);
	buf_free(&other);
}

static void domain(struct env *env, const struct test *test)
{
	struct host second = env->b;
	struct pair other;
	struct setup s;

	(void)test;
	set_up(&s, env, ACCESS_ALL);
	second.pd = ibv_alloc_pd(env->b.ctx);
	CHECK(second.pd, "ibv_alloc_pd: %m");
	OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_PD, second.pd, NULL, 0, 0));
	end_new(&other.a, &env->a, OPTS());
	end_new(&other.b, &second, OPTS());
	pair_connect(&other, OPTS());
	OK(post_send(&other.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey, s.dst.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&other.a.scq, WR, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 31, "written in the new domain");
	/* Not in the old one any more; the old one is free to go. */
	write_ends(&s, s.dst.p, 1, IBV_WC_REM_ACCESS_ERR);
	pair_free(&other);
	REFUSED(ibv_dealloc_pd(second.pd), EBUSY);
	tear_down(&s);
	OK(ibv_dealloc_pd(second.pd));
}

static void bad(struct env *env, const struct test *test)
{
	struct setup s;
	struct ibv_mw *mw;

	(void)test;
	set_up(&s, env, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	CHECK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			   (void *)(UINTPTR_MAX & -4096UL), 8192, 0), "a range that wraps");
	CHECK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			   IBV_ACCESS_REMOTE_WRITE), "remote without local writing");
	CHECK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8192, 0),
	      "no memory");
	/* None of these has changed anything. */
	write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 31, "written after refused changes");

	mw = ibv_alloc_mw(env->b.pd, IBV_MW_TYPE_1);
	if (mw) {
		struct ibv_mw_bind b = {
			.wr_id = WR, .send_flags = IBV_SEND_SIGNALED,
			.bind_info = { s.dst.mr, (uintptr_t)s.dst.p, LEN,
				       IBV_ACCESS_REMOTE_WRITE },
		};

		OK(ibv_bind_mw(s.pair.b.qp, mw, &b));
		cq_expect(&s.pair.b.scq, WR, IBV_WC_SUCCESS);
		CHECK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		      "a region with a window was changed");
		write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
		OK(ibv_dealloc_mw(mw));
	}
	tear_down(&s);
}

/* Changed all the time while others use it: each use succeeds or is refused. */
static void busy(struct env *env, const struct test *test)
{
	struct setup s;
	struct ibv_wc wc;
	int i, good = 0;

	(void)test;
	set_up(&s, env, ACCESS_ALL);
	for (i = 0; i < 100; i++) {
		OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey,
			     s.dst.p, s.dst.mr->rkey, IBV_SEND_SIGNALED));
		OK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL));
		CHECK(cq_wait(&s.pair.a.scq, &wc, WAIT_MS), "no completion");
		good += wc.status == IBV_WC_SUCCESS;
	}
	/* The right was never taken away. */
	CHECK_EQ(good, 100, "writes that succeeded");
	tear_down(&s);
}

/* The device that carries the queue pairs refuses a change: all is as before, there too. */
static void refused(struct env *env, const struct test *test)
{
	const char *file = getenv("MRVERBS_FAIL");
	struct buf other;
	struct setup s;
	FILE *fail;

	(void)test;
	if (!file)
		SKIP("no MRVERBS_FAIL, see offload_fail.sh");
	set_up(&s, env, ACCESS_ALL);
	buf_new(&other, &env->b, LEN, ACCESS_ALL);
	memset(other.p, 0, LEN);
	write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
	memset(s.dst.p, 0, LEN);
	fail = fopen(file, "w");
	CHECK(fail && fprintf(fail, "mr_add %d\n", EIO) > 0 && !fclose(fail), "%s: %m", file);
	CHECK(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other.p, LEN, 0),
	      "the region was changed");
	CHECK_EQ(errno, EIO, "errno");
	write_ends(&s, s.dst.p, LEN, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 31, "written after the refused change");
	write_ends(&s, other.p, LEN, IBV_WC_REM_ACCESS_ERR);
	check_byte(other.p, LEN, 0, "memory that was refused");
	tear_down(&s);
	buf_free(&other);
}

void tests_rereg(void)
{
	TEST("mr", rights, "change of rights");
	TEST("mr", writable, "change to writable");
	test_add("mr", range, 0, 0, 0, "change of range");
	test_add("mr", range, 0, 1, 0, "change of range, the old one used");
	TEST("mr", domain, "change of domain");
	TEST("mr", bad, "bad changes");
	TEST("mr", busy, "change under way");
	TEST("refused", refused, "change that is refused");
}
