// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile client: garbage in the rings that it shares with the kernel, and
 * in what it passes to the driver. The QP may die of it; nothing else may.
 * For metaroce alone: this knows its ABI.
 */
#include "mrverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEND_1	0x5e11d00000000001ULL
#define SEND_2	0x5e11d00000000002ULL
#define RECV_1	0x4ec1d00000000001ULL
#define RECV_2	0x4ec1d00000000002ULL

struct mapping {
	uint8_t *start, *end;
};

struct ring {
	struct metaroce_ring_hdr *hdr;
	uint8_t *slots, *end;
	size_t stride;
};

struct rings {
	struct pair pair;
	struct buf buf;			/* registered at a */
	struct buf peer;		/* registered at b */
	struct mapping maps[64];
	int n_maps;
	struct ring sq, rq, scq, rcq;	/* those of a */
};

static void need_metaroce(void)
{
	if (!is_metaroce())
		SKIP("knows the rings of metaroce only");
}

static void read_maps(struct rings *r)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	CHECK(f, "/proc/self/maps: %m");
	r->n_maps = 0;
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		CHECK(r->n_maps < (int)ARRAY_SIZE(r->maps), "too many mappings");
		r->maps[r->n_maps++] = (struct mapping){ (uint8_t *)start, (uint8_t *)end };
	}
	fclose(f);
	CHECK(r->n_maps, "the provider has mapped nothing");
}

/* The slot that begins with this wr_id, outside the ring "not". */
static uint8_t *find_slot(struct rings *r, uint64_t id, const struct ring *not, uint8_t **end)
{
	int i;

	for (i = 0; i < r->n_maps; i++) {
		uint8_t *p;

		for (p = r->maps[i].start; p + 64 <= r->maps[i].end; p += 16) {
			if (memcmp(p, &id, sizeof(id)))
				continue;
			if (not && p >= (uint8_t *)not->hdr && p < not->end)
				continue;
			*end = r->maps[i].end;
			return p;
		}
	}
	return NULL;
}

static void find_ring(struct rings *r, struct ring *ring, uint64_t first, uint64_t second,
		      size_t stride, const struct ring *not, const char *what)
{
	uint8_t *slot = find_slot(r, first, not, &ring->end), *other, *other_end;

	CHECK(slot, "no %s in the mappings", what);
	ring->slots = slot;
	ring->hdr = (struct metaroce_ring_hdr *)(slot - METAROCE_RING_HDR_SIZE);
	ring->stride = stride;
	if (second) {
		other = find_slot(r, second, not, &other_end);
		CHECK(other && other > slot, "no second slot of %s", what);
		ring->stride = other - slot;
	}
}

/* Two QPs that have talked a little, the rings of a's found in memory. */
static void rings_new_deep(struct rings *r, struct env *env, int depth)
{
	memset(r, 0, sizeof(*r));
	pair_new(&r->pair, env, OPTS(.depth = depth, .sge = 4, .max_inline = 64, .timeout = 12));
	buf_new(&r->buf, &env->a, 65536, ACCESS_ALL);
	buf_new(&r->peer, &env->b, 65536, ACCESS_ALL);
	OK(post_recv(&r->pair.a, RECV_1, r->buf.p, 100, r->buf.mr->lkey));
	OK(post_recv(&r->pair.a, RECV_2, r->buf.p, 100, r->buf.mr->lkey));
	read_maps(r);
	find_ring(r, &r->rq, RECV_1, RECV_2, 0, NULL, "receive queue");
	OK(post_send(&r->pair.b, IBV_WR_SEND, 1, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	cq_expect(&r->pair.b.scq, 1, IBV_WC_SUCCESS);
	cq_expect(&r->pair.a.rcq, RECV_1, IBV_WC_SUCCESS);
	find_ring(r, &r->rcq, RECV_1, 0, METAROCE_CQE_SIZE, &r->rq, "CQ of receives");
	OK(post_send(&r->pair.a, IBV_WR_RDMA_WRITE, SEND_1, NULL, 0, 0, NULL, 0, 0));
	OK(post_send(&r->pair.a, IBV_WR_RDMA_WRITE, SEND_2, NULL, 0, 0, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&r->pair.a.scq, SEND_2, IBV_WC_SUCCESS);
	find_ring(r, &r->sq, SEND_1, SEND_2, 0, NULL, "send queue");
	find_ring(r, &r->scq, SEND_2, 0, METAROCE_CQE_SIZE, &r->sq, "CQ of sends");
}

static void rings_new(struct rings *r, struct env *env)
{
	rings_new_deep(r, env, 16);
}

static struct metaroce_send_wqe *next_wqe(struct rings *r)
{
	/* 16 entries or more: slot 2 is free and in the first round. */
	return (struct metaroce_send_wqe *)(r->sq.slots + 2 * r->sq.stride);
}

static void doorbell(struct end *end, __u32 command)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} req = { 0 };
	struct ib_uverbs_post_send_resp resp;

	req.hdr.command = command;
	req.hdr.in_words = sizeof(req) / 4;
	req.hdr.out_words = sizeof(resp) / 4;
	req.cmd.response = (uintptr_t)&resp;
	req.cmd.qp_handle = end->qp->handle;
	req.cmd.wqe_size = command == IB_USER_VERBS_CMD_POST_SEND ?
			   sizeof(struct ib_uverbs_send_wr) : sizeof(struct ib_uverbs_recv_wr);
	/* It may be refused, of a queue that is broken. */
	if (write(end->host->ctx->cmd_fd, &req, sizeof(req)) < 0)
		return;
}

static void publish(struct rings *r, uint32_t producer)
{
	__atomic_store_n(&r->sq.hdr->producer, producer, __ATOMIC_SEQ_CST);
	doorbell(&r->pair.a, IB_USER_VERBS_CMD_POST_SEND);
}

/* What remains usable, and what goes away quietly. */
static void aftermath(struct rings *r, struct env *env)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 100 && ibv_poll_cq(r->pair.a.scq.cq, 1, &wc) > 0; i++)
		;
	for (i = 0; i < 100 && ibv_poll_cq(r->pair.a.rcq.cq, 1, &wc) > 0; i++)
		;
	pair_free(&r->pair);
	buf_check_guards(&r->peer, "peer's buffer");
	buf_free(&r->buf);
	buf_free(&r->peer);
	env_check_works(env);
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

/* Work that is posted faster than the kernel can take it. */
enum flood_case {
	FLUSH_SENDS, FLUSH_RECEIVES, BINDS,
};

/* So deep that the queue lasts until the other thread has the CPU again. */
#define FLOOD_DEPTH	16384
/* Longer than the kernel may take for what the queue holds, on however busy a machine. */
#define FLOOD_MS	3000

static struct metaroce_ring_hdr *flooded;
static volatile long long flood_until;
static volatile bool flood_stop, flood_over;

static void *flood(void *arg)
{
	(void)arg;
	while (!flood_stop && !flood_over) {
		__atomic_store_n(&flooded->producer, __atomic_load_n(&flooded->consumer,
				 __ATOMIC_SEQ_CST) + FLOOD_DEPTH, __ATOMIC_SEQ_CST);
		flood_over = now_ms() > flood_until;
	}
	return NULL;
}

/* Whoever takes the work off comes back, though there is always more. */
static void queue_flood(struct env *env, const struct test *test)
{
	enum flood_case what = test->arg[0];
	struct metaroce_send_wqe *wqe;
	struct ibv_mw *mw;
	pthread_t thread;
	struct rings r;
	int i;

	need_metaroce();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP("one CPU: nobody posts while the kernel takes work");
	rings_new_deep(&r, env, FLOOD_DEPTH);
	mw = ibv_alloc_mw(env->a.pd, IBV_MW_TYPE_1);
	CHECK(mw, "ibv_alloc_mw: %m");
	for (i = 0; i < FLOOD_DEPTH && what == BINDS; i++) {
		/* To nothing, under the key that it has: as often as one likes. */
		wqe = (struct metaroce_send_wqe *)(r.sq.slots + i * r.sq.stride);
		memset(wqe, 0, sizeof(*wqe));
		wqe->opcode = METAROCE_OP_BIND_MW;
		wqe->rkey = mw->rkey;
		wqe->imm_data = mw->rkey;
	}
	flooded = what == FLUSH_RECEIVES ? r.rq.hdr : r.sq.hdr;
	flood_stop = false;
	flood_over = false;
	flood_until = LLONG_MAX;
	if (what != BINDS)
		end_error(&r.pair.a);
	CHECK(!pthread_create(&thread, NULL, flood, NULL), "pthread_create");
	for (i = 0; i < 20; i++) {
		flood_until = now_ms() + FLOOD_MS;
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_SEND);
		CHECK(!flood_over, "the kernel took work for %d ms on end", FLOOD_MS);
		flood_until = LLONG_MAX;
		sleep_ms(5);
	}
	flood_stop = true;
	pthread_join(thread, NULL);
	CHECK_EQ(end_state(&r.pair.a), what == BINDS ? IBV_QPS_RTS : IBV_QPS_ERR,
		 "state of the QP");
	OK(ibv_dealloc_mw(mw));
	aftermath(&r, env);
}

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

void tests_abuse(void)
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
	test_add("abuse", queue_flood, 0, FLUSH_SENDS, 0, "sends without end, to be flushed");
	test_add("abuse", queue_flood, 0, FLUSH_RECEIVES, 0,
		 "receives without end, to be flushed");
	test_add("abuse", queue_flood, 0, BINDS, 0, "windows bound without end");
	TEST("abuse", odd_mappings, "mappings that nobody offered");
	TEST("abuse", bad_context, "ABI version and reserved members");
	TEST("abuse", cq_answer, "CQs whose answer cannot be written");
	TEST("abuse", odd_doorbells, "doorbells on every handle");
}
