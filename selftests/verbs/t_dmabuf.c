// SPDX-License-Identifier: GPL-2.0
/* Memory of dma-bufs: what goes in and out, seen by the CPU's own mapping of it. */
#include "mrverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096U
#define LEN	(64 * 1024 + 100U)
#define SIZE	(64 * PAGE)
/* Neither where the memory is in the dma-buf nor what the work requests call it is its address. */
#define OFFSET	(3 * PAGE + 104)
#define IOVA	(0x123456789000 + OFFSET % PAGE)
#define ALL	(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

enum {
	WR = 0xd1,
	RECV = 0x200,
};

bool dma_buf_new(struct dma_buf *buf, size_t len)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = len };
	int mem, dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (dev < 0)
		return false;
	mem = memfd_create("dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(mem >= 0, "memfd_create: %m");
	OK(ftruncate(mem, len));
	OK(fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK));
	buf->len = len;
	buf->p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	CHECK(buf->p != MAP_FAILED, "mmap: %m");
	create.memfd = mem;
	buf->fd = ioctl(dev, UDMABUF_CREATE, &create);
	CHECK(buf->fd >= 0, "UDMABUF_CREATE: %m");
	close(mem);
	close(dev);
	return true;
}

/* Another exporter, whose pages are mapped through the dma-buf. */
static bool heap_new(struct dma_buf *buf, size_t len)
{
	struct dma_heap_allocation_data data = { .len = len, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);

	if (heap < 0)
		return false;
	CHECK(!ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data), "DMA_HEAP_IOCTL_ALLOC: %m");
	buf->len = len;
	buf->fd = data.fd;
	buf->p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, data.fd, 0);
	CHECK(buf->p != MAP_FAILED, "mmap: %m");
	close(heap);
	return true;
}

void dma_buf_free(struct dma_buf *buf)
{
	OK(close(buf->fd));
	OK(munmap(buf->p, buf->len));
}

/* A region of a dma-buf. */
struct region {
	struct dma_buf buf;
	uint8_t *p;		/* its first byte */
	struct ibv_mr *mr;
};

static void region_of(struct region *region, struct host *host, int access)
{
	memset(region->buf.p, 0xee, SIZE);
	region->p = region->buf.p + OFFSET;
	region->mr = ibv_reg_dmabuf_mr(host->pd, OFFSET, LEN, IOVA, region->buf.fd, access);
	if (!region->mr && errno == EOPNOTSUPP && !is_metaroce())
		SKIP("no memory of dma-bufs");
	CHECK(region->mr, "ibv_reg_dmabuf_mr on %s: %m", host->name);
}

static void region_new(struct region *region, struct host *host, int access)
{
	if (!dma_buf_new(&region->buf, SIZE))
		SKIP("no /dev/udmabuf");
	region_of(region, host, access);
}

static void region_free(struct region *region)
{
	/* Around the region, nothing was written. */
	check_byte(region->buf.p, OFFSET, 0xee, "before the region");
	check_byte(region->p + LEN, SIZE - OFFSET - LEN, 0xee, "behind the region");
	OK(ibv_dereg_mr(region->mr));
	dma_buf_free(&region->buf);
}

struct setup {
	struct pair pair;
	struct region src, dst;
};

static void set_up(struct setup *s, struct env *env, int access)
{
	region_new(&s->src, &env->a, IBV_ACCESS_LOCAL_WRITE);
	region_new(&s->dst, &env->b, access);
	pair_new(&s->pair, env, OPTS(.qp_access = ALL));
}

static void tear_down(struct setup *s)
{
	pair_free(&s->pair);
	region_free(&s->src);
	region_free(&s->dst);
}

static void *at(size_t off)
{
	return (void *)(IOVA + off);
}

static void post(struct setup *s, enum ibv_wr_opcode op, size_t at_src, size_t at_dst, uint32_t len)
{
	OK(post_send(&s->pair.a, op, WR, at(at_src), len, s->src.mr->lkey, at(at_dst),
		     s->dst.mr->rkey, IBV_SEND_SIGNALED));
}

static void ends(struct setup *s, enum ibv_wr_opcode op, size_t at_src, size_t at_dst, uint32_t len,
		 enum ibv_wc_status status)
{
	post(s, op, at_src, at_dst, len);
	cq_expect(&s->pair.a.scq, WR, status);
}

static void operations(struct env *env, const struct test *test)
{
	enum ibv_wr_opcode op = test->arg[0];
	struct setup s;

	if (test->arg[1]) {
		if (!heap_new(&s.src.buf, SIZE) || !heap_new(&s.dst.buf, SIZE))
			SKIP("no dma-heap");
		region_of(&s.src, &env->a, IBV_ACCESS_LOCAL_WRITE);
		region_of(&s.dst, &env->b, ALL);
		pair_new(&s.pair, env, OPTS(.qp_access = ALL));
	} else {
		set_up(&s, env, ALL);
	}
	fill(op == IBV_WR_RDMA_READ ? s.dst.p : s.src.p, LEN, 3);
	if (op_receives(op))
		OK(post_recv(&s.pair.b, RECV, at(0), LEN, s.dst.mr->lkey));
	ends(&s, op, 0, 0, LEN, IBV_WC_SUCCESS);
	if (op_receives(op))
		cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	check(s.src.p, LEN, 3, op_name(op));
	check(s.dst.p, LEN, 3, op_name(op));
	/* A part of it, from the middle of one page to the middle of another. */
	fill(op == IBV_WR_RDMA_READ ? s.dst.p + 777 : s.src.p + 777, 9999, 4);
	if (op_receives(op))
		OK(post_recv(&s.pair.b, RECV, at(777), 9999, s.dst.mr->lkey));
	ends(&s, op, 777, 777, 9999, IBV_WC_SUCCESS);
	if (op_receives(op))
		cq_expect(&s.pair.b.rcq, RECV, IBV_WC_SUCCESS);
	check(s.src.p + 777, 9999, 4, op_name(op));
	check(s.dst.p + 777, 9999, 4, op_name(op));
	tear_down(&s);
}

static void atomics(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
	};
	uint64_t *target, *result;
	struct ibv_sge sge;
	struct setup s;

	(void)test;
	set_up(&s, env, ALL);
	result = (uint64_t *)s.src.p;
	target = (uint64_t *)(s.dst.p + 4096);
	sge = (struct ibv_sge){ IOVA, 8, s.src.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = s.dst.mr->rkey;
	wr.wr.atomic.remote_addr = IOVA + 4096;
	*target = 100;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 5;
	for (uint64_t i = 0; i < 3; i++) {
		OK(ibv_post_send(s.pair.a.qp, &wr, &bad));
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		CHECK_EQ(*result, 100 + 5 * i, "value before");
		CHECK_EQ(*target, 105 + 5 * i, "value after");
	}
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 115;
	wr.wr.atomic.swap = 7;
	for (int i = 0; i < 2; i++) {
		OK(ibv_post_send(s.pair.a.qp, &wr, &bad));
		cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
		CHECK_EQ(*result, i ? 7 : 115, "value before");
		CHECK_EQ(*target, 7, "value after");
	}
	wr.wr.atomic.remote_addr++;
	OK(ibv_post_send(s.pair.a.qp, &wr, &bad));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(*target, 7, "value that was not named");
	tear_down(&s);
	env_check_works(env);
}

/* What the region does not let in, at either end. */
static void refused(struct env *env, const struct test *test)
{
	static const struct {
		enum ibv_wr_opcode op;
		int access;		/* of the destination */
		size_t src, dst;
		enum ibv_wc_status status;
	} cases[] = {
		{ IBV_WR_RDMA_WRITE, ALL, 0, LEN - 99, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, ALL, 0, -1, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, ALL, 0, LEN - 99, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, 0, 0, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, 0, 0, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, ALL, LEN - 99, 0, IBV_WC_LOC_PROT_ERR },
		{ IBV_WR_RDMA_READ, ALL, LEN - 99, 0, IBV_WC_LOC_PROT_ERR },
	};
	struct setup s;

	(void)test;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		set_up(&s, env, cases[i].access);
		ends(&s, cases[i].op, cases[i].src, cases[i].dst, 100, cases[i].status);
		check_byte(s.src.p, LEN, 0xee, "source of what is refused");
		check_byte(s.dst.p, LEN, 0xee, "destination of what is refused");
		tear_down(&s);
	}
	env_check_works(env);
}

/* The process has let go of all but the region. */
static void closed(struct env *env, const struct test *test)
{
	struct setup s;

	(void)test;
	set_up(&s, env, ALL);
	fill(s.src.p, LEN, 5);
	dma_buf_free(&s.dst.buf);
	ends(&s, IBV_WR_RDMA_WRITE, 0, 0, LEN, IBV_WC_SUCCESS);
	memset(s.src.p, 0, LEN);
	ends(&s, IBV_WR_RDMA_READ, 0, 0, LEN, IBV_WC_SUCCESS);
	check(s.src.p, LEN, 5, "memory that only the region has");
	pair_free(&s.pair);
	region_free(&s.src);
	OK(ibv_dereg_mr(s.dst.mr));
}

/* The mapping is the dma-buf's, not the region's. */
static void shared(struct env *env, const struct test *test)
{
	struct ibv_mr *second;
	struct setup s;
	uint8_t *p;

	(void)test;
	set_up(&s, env, ALL);
	second = ibv_reg_dmabuf_mr(env->b.pd, 0, SIZE, 0, s.dst.buf.fd, ALL);
	CHECK(second, "second region: %m");
	fill(s.src.p, LEN, 6);
	ends(&s, IBV_WR_RDMA_WRITE, 0, 0, LEN, IBV_WC_SUCCESS);
	OK(ibv_dereg_mr(s.dst.mr));
	s.dst.mr = second;
	memset(s.src.p, 0, LEN);
	OK(post_send(&s.pair.a, IBV_WR_RDMA_READ, WR, at(0), LEN, s.src.mr->lkey, (void *)OFFSET,
		     second->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	check(s.src.p, LEN, 6, "read by the other region");
	/* The first one is gone. */
	p = s.dst.p;
	ends(&s, IBV_WR_RDMA_WRITE, 0, 0, 1, IBV_WC_REM_ACCESS_ERR);
	check(p, LEN, 6, "memory of a region that is gone");
	tear_down(&s);
	env_check_works(env);
}

/* libibverbs does not ask the kernel. */
static void change(struct ibv_mr *mr, uint32_t flags, void *p, size_t len, uint32_t access)
{
	struct ib_uverbs_rereg_mr_resp resp = { 0 };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr cmd;
	} req = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_REREG_MR,
			.in_words = sizeof(req) / 4, .out_words = sizeof(resp) / 4,
		},
		.cmd = {
			.response = (uintptr_t)&resp, .mr_handle = mr->handle, .flags = flags,
			.start = (uintptr_t)p, .length = len, .hca_va = (uintptr_t)p,
			.access_flags = access,
		},
	};

	CHECK(write(mr->context->cmd_fd, &req, sizeof(req)) == sizeof(req), "rereg_mr: %m");
	CHECK_EQ(resp.rkey, mr->rkey, "key");
}

/* Rights can change; a new range is one of the process's memory. */
static void changed(struct env *env, const struct test *test)
{
	struct buf plain;
	struct setup s;

	(void)test;
	set_up(&s, env, IBV_ACCESS_REMOTE_READ);
	REFUSED(ibv_rereg_mr(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), EINVAL);
	change(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, ALL);
	fill(s.src.p, LEN, 7);
	ends(&s, IBV_WR_RDMA_WRITE, 0, 0, LEN, IBV_WC_SUCCESS);
	check(s.dst.p, LEN, 7, "written with the new right");

	buf_new(&plain, &env->b, LEN, IBV_ACCESS_LOCAL_WRITE);
	change(s.dst.mr, IBV_REREG_MR_CHANGE_TRANSLATION, plain.p, LEN, 0);
	fill(s.src.p, LEN, 8);
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, at(0), LEN, s.src.mr->lkey, plain.p,
		     s.dst.mr->rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	check(plain.p, LEN, 8, "written to the new range");
	check(s.dst.p, LEN, 7, "the dma-buf that it was before");
	tear_down(&s);
	buf_free(&plain);
}

/* A window needs a right that the verb does not give. */
static void window(struct env *env, const struct test *test)
{
	struct ibv_mw *mw = ibv_alloc_mw(env->b.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.bind_info = {
				.addr = IOVA + 5000, .length = 5000,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};
	struct setup s;

	(void)test;
	CHECK(mw, "ibv_alloc_mw: %m");
	set_up(&s, env, IBV_ACCESS_LOCAL_WRITE);
	change(s.dst.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0,
	       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	wr.bind_mw.bind_info.mr = s.dst.mr;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	OK(ibv_post_send(s.pair.b.qp, &wr, &bad));
	cq_expect(&s.pair.b.scq, WR, IBV_WC_SUCCESS);
	fill(s.src.p, 5000, 9);
	OK(post_send(&s.pair.a, IBV_WR_RDMA_WRITE, WR, at(0), 5000, s.src.mr->lkey, at(5000),
		     wr.bind_mw.rkey, IBV_SEND_SIGNALED));
	cq_expect(&s.pair.a.scq, WR, IBV_WC_SUCCESS);
	check(s.dst.p + 5000, 5000, 9, "written through the window");
	check_byte(s.dst.p, 5000, 0xee, "before the window");
	check_byte(s.dst.p + 10000, LEN - 10000, 0xee, "behind the window");
	REFUSED(ibv_dereg_mr(s.dst.mr), EINVAL);
	OK(ibv_dealloc_mw(mw));
	tear_down(&s);
}

static void bad_input(struct env *env, const struct test *test)
{
	int null = open("/dev/null", O_RDWR);
	struct ibv_pd *pd = env->a.pd;
	struct ibv_mr *mr;
	struct dma_buf buf;
	struct ibv_sge sge;

	(void)test;
	if (!dma_buf_new(&buf, SIZE))
		SKIP("no /dev/udmabuf");
	/* No file; none that is a dma-buf. */
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, ALL), EBADF);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, 1 << 20, ALL), EBADF);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, null, ALL), EINVAL);
	/* Nothing; beyond the end; around the end of all addresses. */
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, 0, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, SIZE, 0, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, SIZE + 1, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 1, SIZE, 1, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, SIZE, 1, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, UINT64_MAX, 1, UINT64_MAX, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, -(uint64_t)PAGE, 2 * PAGE, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, PAGE, SIZE_MAX, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, -1024ULL, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, 2 * PAGE, -(uint64_t)PAGE, buf.fd, ALL), EINVAL);
	/* Elsewhere in a page than its address. */
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 1, PAGE, 0, buf.fd, ALL), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 8, buf.fd, ALL), EINVAL);
	/* Rights that need others, are not for dma-bufs, or do not exist. */
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, ALL | IBV_ACCESS_MW_BIND), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, ALL | IBV_ACCESS_HUGETLB), EINVAL);
	REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, buf.fd, ALL | 1 << 30), EINVAL);

	/* The last byte, and all of it, is not too much. */
	mr = ibv_reg_dmabuf_mr(pd, SIZE - 1, 1, PAGE - 1, buf.fd, ALL);
	CHECK(mr, "last byte: %m");
	OK(ibv_dereg_mr(mr));
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, buf.fd, ALL | IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr, "all: %m");
	sge = (struct ibv_sge){ 0, PAGE, mr->lkey };
	/* There is nothing that could be fetched. */
	REFUSED(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		EINVAL);
	OK(ibv_dereg_mr(mr));
	dma_buf_free(&buf);
	close(null);
}

/* A process that ends, of whose dma-buf another one has the rest. */
static void left(struct env *env, const struct test *test)
{
	struct dma_buf buf;
	int status;
	pid_t pid;

	(void)test;
	if (!dma_buf_new(&buf, SIZE))
		SKIP("no /dev/udmabuf");
	memset(buf.p, 7, SIZE);
	pid = fork();
	CHECK(pid >= 0, "fork: %m");
	if (!pid) {
		struct host host;

		host_open(&host, env->a.name, false);
		_exit(ibv_reg_dmabuf_mr(host.pd, 0, SIZE, 0, buf.fd, ALL) ? 0 : errno);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "waitpid: %m");
	OK(WEXITSTATUS(status));
	check_byte(buf.p, SIZE, 7, "what the other process had as region");
	dma_buf_free(&buf);
}

void tests_dmabuf(void)
{
	test_add("dmabuf", operations, 0, IBV_WR_SEND, 0, "Send");
	test_add("dmabuf", operations, 0, IBV_WR_RDMA_WRITE, 0, "Write");
	test_add("dmabuf", operations, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0, "Write with immediate");
	test_add("dmabuf", operations, 0, IBV_WR_RDMA_READ, 0, "Read");
	test_add("dmabuf", operations, 0, IBV_WR_RDMA_WRITE, 1, "Write, memory of a dma-heap");
	test_add("dmabuf", operations, 0, IBV_WR_RDMA_READ, 1, "Read, memory of a dma-heap");
	TEST("dmabuf", atomics, "atomics");
	TEST("dmabuf", refused, "what is out of bounds, or not allowed");
	TEST("dmabuf", closed, "closed and unmapped");
	TEST("dmabuf", shared, "two regions of one dma-buf");
	TEST("dmabuf", changed, "rights and range that change");
	TEST("dmabuf", window, "memory window");
	TEST("dmabuf", bad_input, "what cannot be registered");
	TEST("dmabuf", left, "a process ends");
}
