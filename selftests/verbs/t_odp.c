// SPDX-License-Identifier: GPL-2.0
/* Memory that is not pinned: pages come when they are needed, and go when the process says. */
#include "mrverbs.h"
#include "ud.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN	(64 * 1024 + 100U)

enum {
	WR = 0xa1,
	RECV = 0x100,
};

#define ALL	(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

struct setup {
	struct pair pair;
	struct area src, dst;
};

static void set_up(struct setup *s, struct env *env)
{
	pair_new(&s->pair, env, OPTS(.qp_access = ALL));
	area_new(&s->src, &env->a, 1 << 20, IBV_ACCESS_LOCAL_WRITE);
	area_new(&s->dst, &env->b, 1 << 20, ALL);
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	area_free(&s->src);
	area_free(&s->dst);
}

static void request(struct setup *s, enum ibv_wr_opcode op, uint32_t len)
{
	OK(post_send(&s->pair.a, op, WR, s->src.p, len, s->src.mr->lkey, s->dst.p,
		     s->dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s->pair.a.scq, WR, IBV_WC_SUCCESS);
}

/* Nothing of the memory was ever touched at the other end. */
static void operations(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	struct setup s;

	set_up(&s, env);
	if (op == IBV_WR_RDMA_READ)
		fill(s.dst.p, LEN, 3);
	else
		fill(s.src.p, LEN, 3);
	if (op_receives(op))
		OK(post_recv(&s.pair.b, RECV, s.dst.p, LEN, s.dst.mr->lkey));
	request(&s, op, LEN);
	if (op_receives(op))
		cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	check(op == IBV_WR_RDMA_READ ? s.src.p : s.dst.p, LEN, 3, op_name(op));
	tear_down(&s);
}

static void atomics(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_sge sge;
	struct setup s;

	(void)test;
	set_up(&s, env);
	sge = (struct ibv_sge){ (uintptr_t)s.src.p, 8, s.src.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = s.dst.mr->rkey;
	wr.wr.atomic.compare_add = 5;
	for (uint64_t i = 0; i < 10; i++) {
		wr.wr.atomic.remote_addr = (uintptr_t)s.dst.p + 4096 * (i % 5);
		OK(ibv_post_send(s.pair.a.qp, &wr, &bad));
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint64_t *)s.src.p, i / 5 * 5, "value before");
	}
	CHECK_EQ(*(uint64_t *)(s.dst.p + 4096), 10, "value after");
	tear_down(&s);
}

/* An atomic waits for its page for as long as that takes, and what comes after it for its turn. */
static void late(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct area src, dst;
	struct ibv_sge sge;
	struct pair pair;
	int fd;

	(void)test;
	/* Without a timeout nobody asks again. */
	pair_new(&pair, env, OPTS(.qp_access = ALL, .timeout = 0));
	area_new(&src, &env->a, 4096, IBV_ACCESS_LOCAL_WRITE);
	area_new(&dst, &env->b, 4096, ALL);
	fd = withhold(dst.p, dst.len);
	sge = (struct ibv_sge){ (uintptr_t)src.p, 8, src.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = dst.mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)dst.p;
	wr.wr.atomic.compare_add = 5;
	for (int i = 0; i < 3; i++)
		OK(ibv_post_send(pair.a.qp, &wr, &bad));
	OK(post_recv(&pair.b, RECV, NULL, 0, 0));
	OK(post_send(&pair.a, IBV_WR_SEND, WR + 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	expect_fault(fd, dst.p);
	sleep_ms(QUIET_MS);
	cq_expect_empty(&pair.a.scq, "before the page is there");
	cq_expect_empty(&pair.b.rcq, "before the page is there");
	give(fd, dst.p, dst.len);
	for (int i = 0; i < 3; i++)
		cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&pair.a.scq, WR + 1, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
	CHECK_EQ(*(uint64_t *)src.p, 10, "value before the last");
	CHECK_EQ(*(uint64_t *)dst.p, 15, "value after");
	close(fd);
	pair_free(&pair);
	area_free(&src);
	area_free(&dst);
}

/* Memory that is given back, and comes anew, is the process's new memory. */
static void given_back(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env);
	for (int i = 0; i < 5; i++) {
		fill(s.src.p, LEN, i);
		request(&s, IBV_WR_RDMA_WRITE, LEN);
		check(s.dst.p, LEN, i, "data");
		OK(madvise(s.dst.p, s.dst.len, MADV_DONTNEED));
		check_byte(s.dst.p, LEN, 0, "memory given back");
		OK(madvise(s.src.p, s.src.len, MADV_DONTNEED));
	}
	/* What is sent is what is there now: zeroes. */
	memset(s.dst.p, 1, LEN);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	check_byte(s.dst.p, LEN, 0, "memory given back at the sender");
	tear_down(&s);
}

/* Another mapping in the place of the registered one. */
static void mapped_anew(struct env *env, const struct test *test)
{
	struct setup s;
	void *p;

	(void)test;
	set_up(&s, env);
	fill(s.src.p, LEN, 1);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	munmap(s.dst.p, s.dst.len);
	p = mmap(s.dst.p, s.dst.len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(p == s.dst.p, "mmap: %m");
	fill(s.src.p, LEN, 2);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	check(s.dst.p, LEN, 2, "data in the new mapping");
	tear_down(&s);
}

/* Memory that a child shares is copied when one of them writes: ours is the parent's. */
static void after_fork(struct env *env, const struct test *test)
{
	int status, go[2];
	struct setup s;
	pid_t child;

	(void)test;
	set_up(&s, env);
	fill(s.src.p, LEN, 1);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	CHECK(!pipe(go), "pipe: %m");
	child = fork();
	CHECK(child >= 0, "fork: %m");
	if (!child) {
		char c;
		bool same = true;

		if (read(go[0], &c, 1) != 1)
			_exit(2);
		for (size_t i = 0; i < LEN; i++)
			same &= s.dst.p[i] == s.src.p[i];
		_exit(!same);
	}
	fill(s.src.p, LEN, 2);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	check(s.dst.p, LEN, 2, "data at the parent");
	CHECK_EQ(write(go[1], "x", 1), 1, "write");
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %m");
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "the child sees other data than it had");
	tear_down(&s);
}

/* Memory that is not there any more. */
static void unmapped(struct env *env, const struct test *test)
{
	bool remote = test->arg[0];
	struct setup s;

	set_up(&s, env);
	memset(s.src.p, 1, LEN);
	munmap(remote ? s.dst.p : s.src.p, 1 << 20);
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey, s.dst.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR);
	pair_free(&s.pair);
	OK(ibv_dereg_mr(s.src.mr));
	OK(ibv_dereg_mr(s.dst.mr));
	env_check_works(env);
}

/* Memory that the process may only read cannot be written to by others. */
static void read_only(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env);
	fill(s.src.p, LEN, 1);
	memset(s.dst.p, 7, LEN);
	OK(mprotect(s.dst.p, s.dst.len, PROT_READ));
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey, s.dst.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_REM_ACCESS_ERR);
	check_byte(s.dst.p, LEN, 7, "memory that is read only");
	tear_down(&s);
}

/* Memory that the kernel itself cannot reach, in the place of other memory. */
static void secret(struct env *env, const struct test *test)
{
	bool remote = test->arg[0];
	int fd = syscall(SYS_memfd_secret, 0);
	struct setup s;
	void *p;

	if (fd < 0)
		SKIP("memfd_secret: %m");
	set_up(&s, env);
	OK(ftruncate(fd, s.src.len));
	memset(s.src.p, 1, LEN);
	p = mmap(remote ? s.dst.p : s.src.p, s.src.len, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, 0);
	CHECK(p != MAP_FAILED, "mmap: %m");
	memset(p, 7, LEN);
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, s.src.p, LEN, s.src.mr->lkey, s.dst.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR);
	check_byte(p, LEN, 7, "secret memory");
	tear_down(&s);
	close(fd);
	env_check_works(env);
}

/* A region that may not be locked, of which little is used. */
static void not_locked(struct env *env, const struct test *test)
{
	struct rlimit limit = { 1 << 16, 1 << 16 };
	struct area big;

	(void)test;
	OK(setrlimit(RLIMIT_MEMLOCK, &limit));
	area_new(&big, &env->a, 1ULL << 29, ALL);
	area_free(&big);
}

static void prefetch(struct env *env, const struct test *test)
{
	struct ibv_sge sge;
	struct buf pinned;
	struct setup s;

	(void)test;
	set_up(&s, env);
	sge = (struct ibv_sge){ (uintptr_t)s.dst.p, LEN, s.dst.mr->lkey };
	OK(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			 IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	OK(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	fill(s.src.p, LEN, 1);
	request(&s, IBV_WR_RDMA_WRITE, LEN);
	check(s.dst.p, LEN, 1, "data");
	/* Beyond the region; another domain; memory that is pinned; memory that is gone. */
	sge.length = s.dst.len + 1;
	REFUSED(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EINVAL);
	buf_new(&pinned, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	sge = (struct ibv_sge){ (uintptr_t)pinned.p, LEN, pinned.mr->lkey };
	REFUSED(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EINVAL);
	sge = (struct ibv_sge){ (uintptr_t)s.dst.p, LEN, s.dst.mr->lkey ^ 0x100 };
	REFUSED(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EINVAL);
	sge.lkey = s.dst.mr->lkey;
	munmap(s.dst.p, s.dst.len);
	REFUSED(ibv_advise_mr(env->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EFAULT);
	buf_free(&pinned);
	pair_free(&s.pair);
	area_free(&s.src);
	OK(ibv_dereg_mr(s.dst.mr));
}

static void not_changed(struct env *env, const struct test *test)
{
	struct area area;

	(void)test;
	area_new(&area, &env->a, 1 << 16, ALL);
	errno = 0;
	CHECK(ibv_rereg_mr(area.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			   IBV_ACCESS_LOCAL_WRITE), "rights of unpinned memory were changed");
	CHECK_EQ(errno, EOPNOTSUPP, "errno");
	area_free(&area);
	/* The whole address space. */
	REFUSED_PTR(ibv_reg_mr(env->a.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND),
		    EOPNOTSUPP);
}

struct fetch {
	struct host *host;
	struct ibv_sge sge;
	int ret;
};

static void *fetch(void *arg)
{
	struct fetch *f = arg;

	f->ret = ibv_advise_mr(f->host->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			       IBV_ADVISE_MR_FLAG_FLUSH, &f->sge, 1);
	return NULL;
}

/* Two who fetch parts of one region do so one after the other. */
static void one_at_a_time(struct env *env, const struct test *test)
{
	struct area area;
	struct fetch f[2];
	pthread_t threads[2];
	int fd, i;

	(void)test;
	area_new(&area, &env->a, 4 << 20, ALL);
	fd = withhold(area.p, area.len);
	for (i = 0; i < 2; i++) {
		f[i].host = &env->a;
		f[i].sge = (struct ibv_sge){ (uintptr_t)area.p + (i << 21), 4096,
					     area.mr->lkey };
		CHECK(!pthread_create(&threads[i], NULL, fetch, &f[i]), "pthread_create");
		if (i == 0)
			expect_fault(fd, area.p);
	}
	CHECK(!is_wanted(fd, QUIET_MS), "two fetch pages of one region at the same time");
	give(fd, area.p, 4096);
	expect_fault(fd, area.p + (1 << 21));
	give(fd, area.p + (1 << 21), 4096);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		OK(f[i].ret);
	}
	close(fd);
	area_free(&area);
}

/* What is sent is looked at ahead of that, but not all of it; 1 MiB is. */
static void ahead(struct env *env, const struct test *test)
{
	const uint32_t len = 8 << 20, there = 4 << 20;
	struct area src, dst;
	struct ibv_sge sge;
	struct pair pair;
	int fd;

	(void)test;
	/* So patient that nothing but the beginning is sent before the receive is there. */
	pair_new(&pair, env, OPTS(.min_rnr_timer = 31));
	area_new(&src, &env->a, len, IBV_ACCESS_LOCAL_WRITE);
	area_new(&dst, &env->b, len, ALL);
	fill(src.p, there, 5);
	sge = (struct ibv_sge){ (uintptr_t)src.p, there, src.mr->lkey };
	OK(ibv_advise_mr(env->a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			 &sge, 1));
	fd = withhold(src.p + there, len - there);
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	CHECK(!is_wanted(fd, QUIET_MS), "all of a message is looked at before it is sent");
	OK(post_recv(&pair.b, RECV, dst.p, len, dst.mr->lkey));
	expect_fault(fd, src.p + there);
	give(fd, src.p + there, len - there);
	cq_expect(&pair.a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, RECV, IBV_WC_SUCCESS);
	check(dst.p, there, 5, "data");
	check_byte(dst.p + there, len - there, 0, "memory that was given");
	close(fd);
	pair_free(&pair);
	area_free(&src);
	area_free(&dst);
}

/* What is too long to be sent is not even looked at. */
static void too_long(struct env *env, const struct test *test)
{
	size_t max = env->a.port.max_msg_sz;
	struct area src;
	struct pair pair;
	struct ibv_wc wc;
	int fd;

	(void)test;
	pair_new(&pair, env, OPTS());
	area_new(&src, &env->a, max + 4096, IBV_ACCESS_LOCAL_WRITE);
	fd = withhold(src.p, src.len);
	OK(post_send(&pair.a, IBV_WR_SEND, WR, src.p, max + 1, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	CHECK(cq_wait(&pair.a.scq, &wc, WAIT_MS), "no completion");
	CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR, "status");
	CHECK(!is_wanted(fd, QUIET_MS), "memory was fetched that is not sent");
	close(fd);
	pair_free(&pair);
	area_free(&src);
}

/*
 * stall DEVICE DEVICE: has a page fetched that this process does not give, and says "ready" when the
 * fetching waits for it; until it is killed. At the first device a send, a datagram that has come
 * and an atomic wait for pages, too.
 */
int cmd_stall(int argc, char **argv)
{
	unsigned long long before;
	struct ibv_recv_wr *bad_recv, recv = { .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_sge sge, into;
	struct ud_pair ud;
	struct area area;
	struct pair pair;
	struct env env;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "stall: two devices, please\n");
		return KSFT_FAIL;
	}
	host_open(&env.a, argv[1], false);
	host_open(&env.b, argv[2], false);
	pair_new(&pair, &env, OPTS(.qp_access = ALL));
	ud_pair_new(&ud, &env);
	area_new(&area, &env.a, 1 << 20, ALL);
	fd = withhold(area.p, area.len);
	OK(post_send(&pair.a, IBV_WR_SEND, WR, area.p, 100, area.mr->lkey, NULL, 0, 0));
	expect_fault(fd, area.p);
	before = ud_arrived(&ud.a);
	into = (struct ibv_sge){ (uintptr_t)area.p + 4096, GRH + 100, area.mr->lkey };
	recv.sg_list = &into;
	OK(ibv_post_recv(ud.a.qp, &recv, &bad_recv));
	ud_send(&ud.b, &ud.a, WR, 100);
	sge = (struct ibv_sge){ (uintptr_t)ud.b.buf.p, 8, ud.b.buf.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = area.mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)area.p + 8192;
	OK(ibv_post_send(pair.b.qp, &wr, &bad));
	while (ud_arrived(&ud.a) < before + 2)
		sleep_ms(1);
	printf("ready\n");
	fflush(stdout);
	return pause();
}

void tests_odp(void)
{
	test_add("odp", operations, 0, IBV_WR_SEND, 0, "Send");
	test_add("odp", operations, 0, IBV_WR_RDMA_WRITE, 0, "Write");
	test_add("odp", operations, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0, "Write with immediate");
	test_add("odp", operations, 0, IBV_WR_RDMA_READ, 0, "Read");
	TEST("odp", atomics, "atomics");
	TEST("odp", late, "atomics whose page comes late");
	TEST("odp", given_back, "memory given back");
	TEST("odp", mapped_anew, "another mapping");
	TEST("odp", after_fork, "after a fork");
	test_add("odp", unmapped, 0, 0, 0, "unmapped at the sender");
	test_add("odp", unmapped, 0, 1, 0, "unmapped at the receiver");
	TEST("odp", read_only, "read-only memory");
	test_add("odp", secret, 0, 0, 0, "secret memory at the sender");
	test_add("odp", secret, 0, 1, 0, "secret memory at the receiver");
	TEST("odp", not_locked, "more than may be locked");
	TEST("odp", prefetch, "prefetch");
	TEST("odp", one_at_a_time, "one who fetches at a time");
	TEST("odp", ahead, "what is looked at ahead");
	TEST("odp", too_long, "too long to be sent");
	TEST("odp", not_changed, "what cannot be asked for");
}
