// SPDX-License-Identifier: GPL-2.0
/* The kernel is told of pages that were written to behind its back: it may throw others away. */
#include "mrverbs.h"

#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	4096
#define PAGES	8
#define LEN	(PAGES * PAGE)
#define ALL	(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

#define PRESENT		(1ULL << 63)
#define PFN_MASK	((1ULL << 55) - 1)

static uint64_t entry(const char *path, uint64_t index)
{
	int fd = open(path, O_RDONLY);
	uint64_t value;

	if (fd < 0)
		SKIP("%s: %m", path);
	CHECK(pread(fd, &value, sizeof(value), index * sizeof(value)) == sizeof(value),
	      "%s: %m", path);
	close(fd);
	return value;
}

static bool is_dirty(const volatile uint8_t *p)
{
	uint64_t page;

	(void)*p;
	page = entry("/proc/self/pagemap", (uintptr_t)p / PAGE);
	CHECK(page & PRESENT, "a page that was read is not there");
	return entry("/proc/kpageflags", page & PFN_MASK) >> KPF_DIRTY & 1;
}

static void *map(int fd)
{
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED, "mmap: %m");
	return p;
}

/*
 * Pages that the process has read are writable, and clean. They are still so to it after a peer
 * has written to them; only the device knows better, when the region goes or when the pages do.
 */
static void stays_dirty(struct env *env, const struct test *test)
{
	bool pages_first = test->arg[0];
	int fd = memfd_create("odp", MFD_CLOEXEC);
	struct ibv_mr *mr;
	struct pair pair;
	struct buf src;
	uint8_t *p;

	CHECK(fd >= 0, "memfd_create: %m");
	OK(ftruncate(fd, LEN));
	p = map(fd);
	for (int i = 0; i < PAGES; i++)
		if (is_dirty(p + i * PAGE))
			SKIP("new pages are dirty");
	pair_new(&pair, env, OPTS(.qp_access = ALL));
	buf_new(&src, &env->a, LEN, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, LEN, 5);
	mr = ibv_reg_mr(env->b.pd, p, LEN, ALL | IBV_ACCESS_ON_DEMAND);
	if (!mr && errno == EOPNOTSUPP)
		SKIP("no on-demand paging");
	CHECK(mr, "ibv_reg_mr: %m");
	OK(post_send(&pair.a, IBV_WR_RDMA_WRITE, 1, src.p, LEN, src.mr->lkey, p, mr->rkey,
		     IBV_SEND_SIGNALED));
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	if (pages_first)
		munmap(p, LEN);
	OK(ibv_dereg_mr(mr));
	if (!pages_first)
		munmap(p, LEN);
	p = map(fd);
	for (int i = 0; i < PAGES; i++)
		CHECK(is_dirty(p + i * PAGE), "page %d is clean", i);
	check(p, LEN, 5, "data");
	pair_free(&pair);
	buf_free(&src);
	munmap(p, LEN);
	close(fd);
}

void tests_odp_dirty(void)
{
	test_add("odp", stays_dirty, 0, 0, 0, "written pages are dirty when the region goes");
	test_add("odp", stays_dirty, 0, 1, 0, "written pages are dirty when they are unmapped");
}
