// SPDX-License-Identifier: GPL-2.0
/*
 * Soak: random operations of random sizes on many QPs at once. Each flow has a
 * ring of slots; a slot owns one part of the buffer on either side, is filled
 * before its operation, and compared byte by byte after it.
 */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define UNTOUCHED	0xa5
#define SLOT_GUARD	64

struct slot {
	enum ibv_wr_opcode op;
	uint32_t size;
	uint64_t seed;
	bool send_pending, recv_pending;
};

struct flow {
	struct end *from, *to;
	struct pair pair;
	struct buf local, remote;
	struct slot *slots;
	long posted, done;	/* slots in use: [done, posted) */
	long receives;		/* posted so far, of late receives */
};

struct run {
	const struct soak *soak;
	struct flow *flows;
	struct cq cq[2];
	uint64_t random;
	size_t stride;
	unsigned long long bytes;
	long messages;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static uint32_t next_random(struct run *run, uint32_t below)
{
	run->random = run->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (run->random >> 33) % below;
}

static enum ibv_wr_opcode pick_op(struct run *run)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	};
	uint32_t i;

	do {
		i = next_random(run, ARRAY_SIZE(ops));
	} while (!(run->soak->ops & 1 << i));
	return ops[i];
}

/* Small, about a packet, or anything: equally often. */
static uint32_t pick_size(struct run *run, const struct flow *flow)
{
	uint32_t max = run->soak->max_size, size;

	if (run->soak->fixed_size)
		return run->soak->fixed_size;
	switch (next_random(run, 3)) {
	case 0:
		size = next_random(run, 65);
		break;
	case 1:
		size = flow->from->mtu * (1 + next_random(run, 3)) - 2 + next_random(run, 5);
		break;
	default:
		size = next_random(run, max + 1);
	}
	return size > max ? max : size;
}

static uint64_t wr_id(struct run *run, struct flow *flow, long slot)
{
	return (uint64_t)(flow - run->flows) << 32 | (uint32_t)slot;
}

static void start(struct run *run, struct flow *flow)
{
	long index = flow->posted % run->soak->depth;
	struct slot *slot = &flow->slots[index];
	uint8_t *local = flow->local.p + index * run->stride;
	uint8_t *remote = flow->remote.p + index * run->stride;
	uint8_t *src, *dst;

	slot->op = pick_op(run);
	slot->size = pick_size(run, flow);
	slot->seed = run->random;
	src = slot->op == IBV_WR_RDMA_READ ? remote : local;
	dst = slot->op == IBV_WR_RDMA_READ ? local : remote;
	memset(dst, UNTOUCHED, run->stride);
	fill(src, slot->size, slot->seed);
	slot->send_pending = true;
	slot->recv_pending = op_receives(slot->op);
	if (slot->recv_pending && !run->soak->late_receives)
		OK(post_recv(flow->to, wr_id(run, flow, index), remote,
			     slot->op == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : slot->size,
			     flow->remote.mr->lkey));
	OK(post_send(flow->from, slot->op, wr_id(run, flow, index), local, slot->size,
		     flow->local.mr->lkey, remote, flow->remote.mr->rkey, IBV_SEND_SIGNALED));
	flow->posted++;
}

/* Receives of sends that are already under way, at random moments. */
static bool post_late(struct run *run, struct flow *flow)
{
	bool any = false;

	for (; flow->receives < flow->posted; flow->receives++) {
		long index = flow->receives % run->soak->depth;
		struct slot *slot = &flow->slots[index];

		if (!slot->recv_pending)
			continue;
		if (next_random(run, 4) == 0)
			break;
		any = true;
		OK(post_recv(flow->to, wr_id(run, flow, index),
			     flow->remote.p + index * run->stride,
			     slot->op == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : slot->size,
			     flow->remote.mr->lkey));
	}
	return any;
}

static void finish(struct run *run, struct flow *flow, struct slot *slot)
{
	long index = slot - flow->slots;
	bool is_read = slot->op == IBV_WR_RDMA_READ;
	uint8_t *dst = (is_read ? flow->local.p : flow->remote.p) + index * run->stride;
	uint8_t *src = (is_read ? flow->remote.p : flow->local.p) + index * run->stride;
	char what[80];

	snprintf(what, sizeof(what), "%s of %u bytes, message %ld of flow %d",
		 op_name(slot->op), slot->size, flow->done, (int)(flow - run->flows));
	check(dst, slot->size, slot->seed, what);
	check_byte(dst + slot->size, run->stride - slot->size, UNTOUCHED, what);
	check(src, slot->size, slot->seed, "source");
	run->bytes += slot->size;
	run->messages++;
}

static void complete(struct run *run, const struct ibv_wc *wc)
{
	struct flow *flow = &run->flows[wc->wr_id >> 32];
	long index = (uint32_t)wc->wr_id;
	struct slot *slot = &flow->slots[index];
	bool is_recv;

	CHECK(wc->status == IBV_WC_SUCCESS, "%s of %u bytes, flow %d: \"%s\" (vendor %#x)",
	      op_name(slot->op), slot->size, (int)(flow - run->flows),
	      ibv_wc_status_str(wc->status), wc->vendor_err);
	is_recv = wc->opcode & IBV_WC_RECV;
	CHECK_EQ(wc->qp_num, is_recv ? flow->to->qp->qp_num : flow->from->qp->qp_num, "qp_num");
	if (is_recv) {
		CHECK(slot->recv_pending, "a receive completed twice");
		slot->recv_pending = false;
		CHECK_EQ(wc->byte_len, slot->size, "byte_len");
		if (slot->op != IBV_WR_SEND)
			CHECK_EQ(ntohl(wc->imm_data),
				 (uint32_t)wr_id(run, flow, index) ^ 0x1234abcd, "immediate");
	} else {
		CHECK(slot->send_pending, "a request completed twice");
		slot->send_pending = false;
	}
	while (flow->done < flow->posted) {
		struct slot *oldest = &flow->slots[flow->done % run->soak->depth];

		if (oldest->send_pending || oldest->recv_pending)
			break;
		finish(run, flow, oldest);
		flow->done++;
	}
}

static int reap(struct run *run)
{
	struct ibv_wc wc[16];
	int side, i, n, total = 0;

	for (side = 0; side < 2; side++) {
		n = ibv_poll_cq(run->cq[side].cq, ARRAY_SIZE(wc), wc);
		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		for (i = 0; i < n; i++)
			complete(run, &wc[i]);
		total += n;
	}
	return total;
}

static void wait_for_event(struct run *run)
{
	struct pollfd pfd[2];
	int side;

	for (side = 0; side < 2; side++) {
		pfd[side].fd = run->cq[side].chan->fd;
		pfd[side].events = POLLIN;
		OK(ibv_req_notify_cq(run->cq[side].cq, 0));
	}
	if (reap(run))
		return;
	if (poll(pfd, 2, 100) <= 0)
		return;
	for (side = 0; side < 2; side++)
		if (pfd[side].revents)
			cq_event_take(&run->cq[side]);
}

static void flow_new(struct run *run, struct env *env, struct flow *flow, bool reversed)
{
	const struct soak *soak = run->soak;
	const struct opts *opts = OPTS(.depth = soak->depth, .min_rnr_timer = 4,
				       .timeout = soak->timeout ? soak->timeout : 14);
	struct end *ends[2] = { &flow->pair.a, &flow->pair.b };
	struct ibv_qp_init_attr init;
	int side;

	for (side = 0; side < 2; side++) {
		ends[side]->host = side ? &env->b : &env->a;
		ends[side]->scq = ends[side]->rcq = run->cq[side];
		ends[side]->psn = next_random(run, 1 << 24);
		init = end_init_attr(ends[side], opts);
		ends[side]->qp = ibv_create_qp(ends[side]->host->pd, &init);
		CHECK(ends[side]->qp, "ibv_create_qp: %m");
	}
	pair_connect(&flow->pair, opts);
	flow->from = ends[reversed];
	flow->to = ends[!reversed];
	flow->slots = calloc(soak->depth, sizeof(*flow->slots));
	CHECK(flow->slots, "calloc");
	buf_new(&flow->local, flow->from->host, run->stride * soak->depth,
		IBV_ACCESS_LOCAL_WRITE);
	buf_new(&flow->remote, flow->to->host, run->stride * soak->depth, ACCESS_ALL);
}

static void flow_free(struct flow *flow)
{
	buf_check_guards(&flow->local, "local buffer");
	buf_check_guards(&flow->remote, "remote buffer");
	OK(ibv_destroy_qp(flow->pair.a.qp));
	OK(ibv_destroy_qp(flow->pair.b.qp));
	buf_free(&flow->local);
	buf_free(&flow->remote);
	free(flow->slots);
}

void soak_run(struct env *env, const struct soak *soak)
{
	long long last_progress = now_ms(), began = now_ms();
	struct run run = {
		.soak = soak,
		.random = soak->seed,
		.stride = (soak->max_size + SLOT_GUARD + 63) / 64 * 64,
	};
	int patience = soak->seconds_without_progress ? soak->seconds_without_progress : 60;
	bool busy = true;
	int i;

	run.flows = calloc(soak->qps, sizeof(*run.flows));
	CHECK(run.flows, "calloc");
	for (i = 0; i < 2; i++)
		cq_new(&run.cq[i], i ? &env->b : &env->a, 2 * soak->qps * soak->depth);
	for (i = 0; i < soak->qps; i++)
		flow_new(&run, env, &run.flows[i], !soak->one_way && i % 2);
	while (busy) {
		bool progress = false;

		busy = false;
		for (i = 0; i < soak->qps; i++) {
			struct flow *flow = &run.flows[i];

			while (!stop && flow->posted < soak->messages &&
			       flow->posted - flow->done < soak->depth) {
				start(&run, flow);
				progress = true;
			}
			if (soak->late_receives)
				progress |= post_late(&run, flow);
			busy |= flow->done < flow->posted;
		}
		progress |= reap(&run) > 0;
		if (progress) {
			last_progress = now_ms();
			continue;
		}
		if (!busy)
			break;
		if (now_ms() - last_progress > patience * 1000LL) {
			for (i = 0; i < soak->qps; i++)
				printf("# flow %d: %ld of %ld posted, %ld done\n", i,
				       run.flows[i].posted, soak->messages,
				       run.flows[i].done);
			FAIL("no progress for %d s", patience);
		}
		wait_for_event(&run);
	}
	for (i = 0; i < soak->qps; i++)
		flow_free(&run.flows[i]);
	cq_free(&run.cq[0]);
	cq_free(&run.cq[1]);
	printf("# soak: %ld messages, %llu bytes verified on %d QPs in %lld ms, seed %llu\n",
	       run.messages, run.bytes, soak->qps, now_ms() - began,
	       (unsigned long long)soak->seed);
	free(run.flows);
}

static unsigned int parse_ops(char *list)
{
	static const char * const names[] = { "send", "send_imm", "write", "write_imm", "read" };
	unsigned int ops = 0;
	char *name;
	size_t i;

	for (name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		for (i = 0; i < ARRAY_SIZE(names) && strcmp(name, names[i]); i++)
			;
		CHECK(i < ARRAY_SIZE(names), "no operation \"%s\"", name);
		ops |= 1 << i;
	}
	return ops;
}

/*
 * soak [-q QPS] [-d DEPTH] [-n MESSAGES] [-m MAX_SIZE | -s SIZE] [-o OPS]
 *      [-r SEED] [-p SECONDS] [-t TIMEOUT] [-1] [-l]
 * Ends early, successfully, on SIGTERM or SIGINT.
 */
int cmd_soak(int argc, char **argv)
{
	struct soak soak = {
		.qps = 4, .depth = 16, .messages = 200, .max_size = 100000, .ops = SOAK_ALL,
		.seed = 1,
	};
	struct env env;
	int opt;

	while ((opt = getopt(argc, argv, "q:d:n:m:s:o:r:p:t:1l")) != -1) {
		switch (opt) {
		case 'q':
			soak.qps = atoi(optarg);
			break;
		case 'd':
			soak.depth = atoi(optarg);
			break;
		case 'n':
			soak.messages = atol(optarg);
			break;
		case 'm':
			soak.max_size = atoi(optarg);
			break;
		case 's':
			soak.fixed_size = soak.max_size = atoi(optarg);
			break;
		case 'o':
			soak.ops = parse_ops(optarg);
			break;
		case 'r':
			soak.seed = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			soak.seconds_without_progress = atoi(optarg);
			break;
		case 't':
			soak.timeout = atoi(optarg);
			break;
		case '1':
			soak.one_way = true;
			break;
		case 'l':
			soak.late_receives = true;
			break;
		default:
			return KSFT_FAIL;
		}
	}
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	if (optind + 2 != argc) {
		fprintf(stderr, "soak: two devices, please\n");
		return KSFT_FAIL;
	}
	env_open(&env, argv[optind], argv[optind + 1], false);
	soak_run(&env, &soak);
	return KSFT_PASS;
}
