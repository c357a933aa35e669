// SPDX-License-Identifier: GPL-2.0
/* The rings that a process shares with the kernel, found in its own mappings. */
#include "rings.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEND_1	0x5e11d00000000001ULL
#define SEND_2	0x5e11d00000000002ULL
#define RECV_1	0x4ec1d00000000001ULL
#define RECV_2	0x4ec1d00000000002ULL

void need_metaroce(void)
{
	if (!is_metaroce())
		SKIP("knows the rings of metaroce only");
}

int read_maps(struct mapping *maps, int room)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(f, "/proc/self/maps: %m");
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		CHECK(n < room, "too many mappings");
		maps[n++] = (struct mapping){ (uint8_t *)start, (uint8_t *)end };
	}
	fclose(f);
	CHECK(n, "the provider has mapped nothing");
	return n;
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

void rings_new_deep(struct rings *r, struct env *env, int depth)
{
	memset(r, 0, sizeof(*r));
	pair_new(&r->pair, env, OPTS(.depth = depth, .sge = 4, .max_inline = 64, .timeout = 12));
	buf_new(&r->buf, &env->a, 65536, ACCESS_ALL);
	buf_new(&r->peer, &env->b, 65536, ACCESS_ALL);
	OK(post_recv(&r->pair.a, RECV_1, r->buf.p, 100, r->buf.mr->lkey));
	OK(post_recv(&r->pair.a, RECV_2, r->buf.p, 100, r->buf.mr->lkey));
	r->n_maps = read_maps(r->maps, ARRAY_SIZE(r->maps));
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

void rings_new(struct rings *r, struct env *env)
{
	rings_new_deep(r, env, 16);
}

void doorbell(struct end *end, __u32 command)
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

void publish(struct rings *r, uint32_t producer)
{
	__atomic_store_n(&r->sq.hdr->producer, producer, __ATOMIC_SEQ_CST);
	doorbell(&r->pair.a, IB_USER_VERBS_CMD_POST_SEND);
}

void aftermath(struct rings *r, struct env *env)
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
