// SPDX-License-Identifier: GPL-2.0
/* Memory regions. */
#include "mrverbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void flags(struct env *env, const struct test *test)
{
	static const int good[] = {
		0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ACCESS_ALL,
	};
	/* Remote writing or atomics need local writing. */
	static const int bad[] = {
		IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	static uint8_t data[10000];
	struct ibv_mr *mr;
	size_t i;

	(void)test;
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		mr = ibv_reg_mr(env->a.pd, data, sizeof(data), good[i]);
		CHECK(mr, "access flags %#x: %m", good[i]);
		CHECK(mr->addr == data && mr->length == sizeof(data), "region differs");
		OK(ibv_dereg_mr(mr));
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		REFUSED_PTR(ibv_reg_mr(env->a.pd, data, sizeof(data), bad[i]), EINVAL);
}

static void bad_memory(struct env *env, const struct test *test)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)test;
	CHECK(map != MAP_FAILED, "mmap: %m");
	OK(munmap(map + 3 * page, page));
	OK(mprotect(map + 2 * page, page, PROT_READ));
	/* A hole; memory that may only be read; nothing at all; a range that wraps. */
	errno = 0;
	mr = ibv_reg_mr(env->a.pd, map, 4 * page, IBV_ACCESS_LOCAL_WRITE);
	CHECK(!mr && (errno == EFAULT || errno == ENOMEM), "region with a hole: %p, %m", mr);
	errno = 0;
	mr = ibv_reg_mr(env->a.pd, map, 3 * page, IBV_ACCESS_LOCAL_WRITE);
	CHECK(!mr && (errno == EFAULT || errno == ENOMEM), "read-only memory: %p, %m", mr);
	errno = 0;
	mr = ibv_reg_mr(env->a.pd, (void *)(UINTPTR_MAX - 100), 4096, 0);
	CHECK(!mr && errno, "range that wraps: %p", mr);
	errno = 0;
	mr = ibv_reg_mr(env->a.pd, NULL, 1UL << 46, 0);
	CHECK(!mr && errno, "region of 64 TiB: %p", mr);
	mr = ibv_reg_mr(env->a.pd, map, 2 * page, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "good part: %m");
	OK(ibv_dereg_mr(mr));
}

/* Memory stays pinned as long as it is registered. */
static void unmapped(struct env *env, const struct test *test)
{
	struct buf src, back, dst;
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 100000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&back, &env->a, 100000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 100000, ACCESS_ALL);
	fill(src.p, 100000, 33);
	munmap(dst.map, dst.map_len);
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, src.p, 100000, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	OK(post_send(&pair.a, IBV_WR_RDMA_READ, 2, back.p, 100000, back.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
	check(back.p, 100000, 33, "data in pinned, unmapped memory");
	OK(ibv_dereg_mr(dst.mr));
	pair_free(&pair);
}

/* Register and deregister: keys of the past never come back at once. */
static void keys(struct env *env, const struct test *test)
{
	static uint8_t data[4096];
	uint32_t last_r = 0, last_l = 0;
	struct ibv_mr *mr;
	int i;

	(void)test;
	for (i = 0; i < 300; i++) {
		mr = ibv_reg_mr(env->a.pd, data, sizeof(data), ACCESS_ALL);
		CHECK(mr, "ibv_reg_mr %d: %m", i);
		CHECK(mr->rkey != last_r && mr->lkey != last_l, "key %#x twice in a row",
		      mr->rkey);
		CHECK(mr->rkey && mr->lkey, "key 0");
		last_r = mr->rkey;
		last_l = mr->lkey;
		OK(ibv_dereg_mr(mr));
	}
}

static void many(struct env *env, const struct test *test)
{
	enum { N = 500 };
	static uint8_t data[4096];
	struct ibv_mr *mr[N];
	int i, j;

	(void)test;
	for (i = 0; i < N; i++) {
		mr[i] = ibv_reg_mr(env->a.pd, data, sizeof(data), ACCESS_ALL);
		CHECK(mr[i], "ibv_reg_mr %d: %m", i);
		for (j = 0; j < i; j++)
			CHECK(mr[i]->rkey != mr[j]->rkey, "rkey %#x twice", mr[i]->rkey);
	}
	for (i = 0; i < N; i++)
		OK(ibv_dereg_mr(mr[i]));
}

/* An ordinary user cannot pin more than the limit on locked memory. */
static void memlock(struct env *env, const struct test *test)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	struct ibv_mr *mr, *second;
	static uint8_t data[4 << 20];
	struct host host;

	(void)test;
	OK(setrlimit(RLIMIT_MEMLOCK, &limit));
	CHECK(!setgid(65534) && !setuid(65534), "becoming an ordinary user: %m");
	/* Opened as that user: the device must be visible and usable to it. */
	host_open(&host, env->a.name, false);
	mr = ibv_reg_mr(host.pd, data, 500 << 10, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "500 KiB of 1 MiB that may be locked: %m");
	REFUSED_PTR(ibv_reg_mr(host.pd, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE), ENOMEM);
	REFUSED_PTR(ibv_reg_mr(host.pd, data, 700 << 10, IBV_ACCESS_LOCAL_WRITE), ENOMEM);
	/* What was given back may be used again. */
	OK(ibv_dereg_mr(mr));
	second = ibv_reg_mr(host.pd, data, 700 << 10, IBV_ACCESS_LOCAL_WRITE);
	CHECK(second, "700 KiB after the first region is gone: %m");
	OK(ibv_dereg_mr(second));
	host_close(&host);
}

/* A child of fork() neither has the region nor hurts the parent's. */
static void forked(struct env *env, const struct test *test)
{
	struct buf src, dst;
	struct pair pair;
	int status;
	pid_t pid;

	(void)test;
	pair_new(&pair, env, OPTS());
	buf_new(&src, &env->a, 50000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 50000, ACCESS_ALL);
	fill(src.p, 50000, 3);
	pid = fork();
	if (!pid) {
		memset(src.p, 0xff, 50000);
		memset(dst.p, 0xff, 50000);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status, "child");
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, src.p, 50000, src.mr->lkey, dst.p,
		     dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	check(dst.p, 50000, 3, "data after a fork");
	buf_free(&src);
	buf_free(&dst);
	pair_free(&pair);
}

/* One region used by many QPs, and a QP that uses many regions. */
static void shared(struct env *env, const struct test *test)
{
	enum { N = 12 };
	const size_t len = 9000;
	struct pair pairs[N];
	struct buf src, dst;
	int i;

	(void)test;
	buf_new(&src, &env->a, len * N, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, len * N, ACCESS_ALL);
	fill(src.p, len * N, 12);
	for (i = 0; i < N; i++)
		pair_new(&pairs[i], env, OPTS());
	for (i = 0; i < N; i++)
		OK(post_send(&pairs[i].a, IBV_WR_RDMA_WRITE, i, src.p + i * len, len,
			     src.mr->lkey, dst.p + i * len, dst.mr->rkey,
			     IBV_SEND_SIGNALED));
	for (i = 0; i < N; i++)
		cq_expect(&pairs[i].a.scq, i, IBV_WC_SUCCESS);
	check(dst.p, len * N, 12, "region shared by QPs");
	for (i = 0; i < N; i++)
		pair_free(&pairs[i]);
	buf_free(&src);
	buf_free(&dst);
}

void tests_mr(void)
{
	TEST("mr", flags, "access flags");
	TEST("mr", bad_memory, "memory that cannot be registered");
	TEST("mr", unmapped, "registered memory that is unmapped");
	TEST("mr", keys, "keys change");
	TEST("mr", many, "500 regions");
	TEST("mr", memlock, "limit on locked memory");
	TEST("mr", forked, "fork");
	TEST("mr", shared, "one region of many QPs");
}
