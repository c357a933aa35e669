// SPDX-License-Identifier: GPL-2.0
/* Odd calls: what a client passes to the driver by hand. */
#include "rings.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Mappings that nobody offered, and those of objects that are gone. */
static void odd_mappings(struct env *env, const struct test *test)
{
	int fd = env->a.ctx->cmd_fd;
	size_t page = sysconf(_SC_PAGESIZE);
	struct rings r;
	uint8_t *map;
	long off;
	int i;

	(void)test;
	need_metaroce();
	rings_new(&r, env);
	srandom(7);
	for (i = 0; i < 300; i++) {
		off = (i < 100 ? (long)i : random() % (1L << (i % 40))) * page;
		map = mmap(NULL, page * (1 + random() % 64), PROT_READ |
			   (random() & 1 ? PROT_WRITE : 0),
			   random() & 1 ? MAP_SHARED : MAP_PRIVATE, fd, off);
		if (map == MAP_FAILED)
			continue;
		/* A ring of ours, once more: to be read and let go. */
		(void)*(volatile uint8_t *)map;
		CHECK(!munmap(map, page), "munmap: %m");
	}
	/* The rings themselves unmapped: the kernel has its own way to them. */
	for (i = 0; i < r.n_maps; i++)
		munmap(r.maps[i].start, r.maps[i].end - r.maps[i].start);
	for (i = 0; i < 3; i++)
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_SEND);
	/* Nothing is destroyed: the process ends with the objects in use. */
}

/* The ABI version and the reserved parts are looked at. */
static void bad_context(struct env *env, const struct test *test)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		__u64 response;
		struct metaroce_alloc_ucontext_req req;
	} cmd;
	struct {
		struct ib_uverbs_get_context_resp resp;
		struct metaroce_alloc_ucontext_resp driver;
	} resp;
	char path[300];
	int fd, i;

	(void)test;
	need_metaroce();
	snprintf(path, sizeof(path), "/dev/infiniband/%s", env->a.ctx->device->dev_name);
	for (i = 0; i < 3; i++) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		CHECK(fd >= 0, "%s: %m", path);
		memset(&cmd, 0, sizeof(cmd));
		cmd.hdr.command = IB_USER_VERBS_CMD_GET_CONTEXT;
		cmd.hdr.in_words = sizeof(cmd) / 4;
		cmd.hdr.out_words = sizeof(resp) / 4;
		cmd.response = (uintptr_t)&resp;
		cmd.req.abi_version = METAROCE_ABI_VERSION + (i == 1 ? 1000 : 0);
		cmd.req.reserved = i == 2;
		errno = 0;
		if (i == 0)
			CHECK(write(fd, &cmd, sizeof(cmd)) == sizeof(cmd),
			      "a proper context was refused: %m");
		else
			CHECK(write(fd, &cmd, sizeof(cmd)) < 0, "%s was accepted",
			      i == 1 ? "ABI version 1001" : "a reserved member that is set");
		close(fd);
	}
}

static long available_mb(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[100];
	long kb = 0;

	CHECK(f, "/proc/meminfo: %m");
	while (fgets(line, sizeof(line), f) && !sscanf(line, "MemAvailable: %ld", &kb))
		;
	fclose(f);
	CHECK(kb, "no MemAvailable");
	return kb / 1024;
}

/* CQs that fail once they are all but made leave nothing behind. */
static void cq_answer(struct env *env, const struct test *test)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_cq cmd;
	} req = { 0 };
	size_t page = sysconf(_SC_PAGESIZE);
	long before, mb;
	uint8_t *map;
	int i;

	(void)test;
	need_metaroce();
	map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map != MAP_FAILED && !mprotect(map + page, page, PROT_NONE), "mmap: %m");
	req.hdr.command = IB_USER_VERBS_CMD_CREATE_CQ;
	req.hdr.in_words = sizeof(req) / 4;
	req.hdr.out_words = (sizeof(struct ib_uverbs_create_cq_resp) +
			     sizeof(struct metaroce_create_cq_resp)) / 4;
	/* There is room for the core's answer and none for the driver's. */
	req.cmd.response = (uintptr_t)map + page - sizeof(struct ib_uverbs_create_cq_resp);
	req.cmd.cqe = 1 << 17;
	req.cmd.comp_channel = -1;
	mb = (long)req.cmd.cqe * METAROCE_CQE_SIZE >> 20;
	before = available_mb();
	for (i = 0; i < 64; i++)
		CHECK(write(env->a.ctx->cmd_fd, &req, sizeof(req)) < 0 && errno == EFAULT,
		      "an answer that cannot be written: %m");
	mb = before - available_mb() - i * mb / 2;
	CHECK(mb < 0, "%ld MiB more than half of all rings are still there", mb);
	munmap(map, 2 * page);
	env_check_works(env);
}

/* The raw interface without any request, on every kind of handle. */
static void odd_doorbells(struct env *env, const struct test *test)
{
	struct rings r;
	struct ibv_qp fake;
	struct end end;
	uint32_t i;

	(void)test;
	need_metaroce();
	rings_new(&r, env);
	fake = *r.pair.a.qp;
	end = r.pair.a;
	end.qp = &fake;
	for (i = 0; i < 64; i++) {
		fake.handle = i;
		doorbell(&end, IB_USER_VERBS_CMD_POST_SEND);
		doorbell(&end, IB_USER_VERBS_CMD_POST_RECV);
		doorbell(&end, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
		doorbell(&end, IB_USER_VERBS_CMD_POLL_CQ);
	}
	CHECK_EQ(end_state(&r.pair.a), IBV_QPS_RTS, "state of the QP");
	aftermath(&r, env);
}

void tests_abuse_call(void)
{
	TEST("abuse", odd_mappings, "mappings that nobody offered");
	TEST("abuse", bad_context, "ABI version and reserved members");
	TEST("abuse", cq_answer, "CQs whose answer cannot be written");
	TEST("abuse", odd_doorbells, "doorbells on every handle");
}
