// SPDX-License-Identifier: GPL-2.0
/*
 * Many queue pairs and connections at a time, for whoever measures what they take:
 *
 *   mrverbs scale [-g GIDS] DEVICE_A DEVICE_B COUNT...
 *
 * Makes queue pairs until there are COUNT at each device, sends a message through
 * each of the new ones, says how long that took, and goes on to the next COUNT when
 * it reads a line. The queue pairs take turns in using that many GIDs of either
 * device, each with each: so many connections there are, squared.
 */
#include "mrverbs.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_GIDS	32
#define SIZE		200

struct side {
	/* The same device with one GID after the other. */
	struct host as[MAX_GIDS];
	/* All queue pairs share these. */
	struct cq scq, rcq;
	struct buf buf;
	struct end *ends;
};

static void side_new(struct side *side, const char *device, int gids, int max)
{
	struct host *host = &side->as[0];
	int n = 1;

	host_open(host, device, false);
	for (int i = host->gid_index + 1; i < host->port.gid_tbl_len && n < gids; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(host->ctx, 1, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, host->gid.raw, 12))
			continue;
		side->as[n] = *host;
		side->as[n].gid = entry.gid;
		side->as[n++].gid_index = i;
	}
	CHECK(n == gids, "%s has %d GIDs of the kind, not %d", device, n, gids);
	cq_new(&side->scq, host, 64);
	cq_new(&side->rcq, host, 64);
	buf_new(&side->buf, host, SIZE, IBV_ACCESS_LOCAL_WRITE);
	side->ends = calloc(max, sizeof(*side->ends));
	CHECK(side->ends, "calloc: %m");
}

static void end_add(struct side *side, int i, int gid, const struct opts *opts)
{
	struct end *end = &side->ends[i];
	struct ibv_qp_init_attr init;

	end->host = &side->as[gid];
	end->scq = side->scq;
	end->rcq = side->rcq;
	end->psn = (uint32_t)random() & 0xffffff;
	init = end_init_attr(end, opts);
	end->qp = ibv_create_qp(end->host->pd, &init);
	CHECK(end->qp, "ibv_create_qp %d on %s: %m", i, end->host->name);
}

static void message(struct side *from, struct side *to, int i)
{
	fill(from->buf.p, SIZE, i);
	OK(post_recv(&to->ends[i], i, to->buf.p, SIZE, to->buf.mr->lkey));
	OK(post_send(&from->ends[i], IBV_WR_SEND, i, from->buf.p, SIZE, from->buf.mr->lkey,
		     NULL, 0, IBV_SEND_SIGNALED));
	cq_expect(&to->rcq, i, IBV_WC_SUCCESS);
	cq_expect(&from->scq, i, IBV_WC_SUCCESS);
	check(to->buf.p, SIZE, i, "message");
}

static void grow(struct side *a, struct side *b, int gids, int from, int to)
{
	const struct opts *opts = OPTS(.depth = 16);
	long long start = now_ms(), made, sent;

	for (int i = from; i < to; i++) {
		struct pair pair;

		end_add(a, i, i % gids, opts);
		end_add(b, i, i / gids % gids, opts);
		pair = (struct pair){ a->ends[i], b->ends[i] };
		pair_connect(&pair, opts);
		a->ends[i] = pair.a;
		b->ends[i] = pair.b;
	}
	made = now_ms();
	for (int i = from; i < to; i++) {
		message(a, b, i);
		message(b, a, i);
	}
	sent = now_ms();
	printf("%d queue pairs: %lld ms to make and connect %d, %lld ms for a message each way\n",
	       to, made - start, to - from, sent - made);
	fflush(stdout);
}

static void side_free(struct side *side, int n)
{
	for (int i = 0; i < n; i++)
		OK(ibv_destroy_qp(side->ends[i].qp));
	buf_free(&side->buf);
	cq_free(&side->scq);
	cq_free(&side->rcq);
	host_close(&side->as[0]);
	free(side->ends);
}

int cmd_scale(int argc, char **argv)
{
	static struct side a, b;
	long long start;
	int opt, gids = 1, n = 0;
	char line[16];

	while ((opt = getopt(argc, argv, "g:")) != -1) {
		if (opt != 'g')
			return KSFT_FAIL;
		gids = atoi(optarg);
	}
	if (optind + 3 > argc || gids < 1 || gids > MAX_GIDS) {
		fprintf(stderr, "scale: two devices and numbers of queue pairs, please\n");
		return KSFT_FAIL;
	}
	side_new(&a, argv[optind], gids, atoi(argv[argc - 1]));
	side_new(&b, argv[optind + 1], gids, atoi(argv[argc - 1]));
	for (int i = optind + 2; i < argc; i++) {
		int to = atoi(argv[i]);

		CHECK(to >= n && to <= atoi(argv[argc - 1]), "the numbers must grow");
		grow(&a, &b, gids, n, to);
		n = to;
		if (!fgets(line, sizeof(line), stdin))
			break;
	}
	start = now_ms();
	side_free(&a, n);
	side_free(&b, n);
	printf("%lld ms to destroy all\n", now_ms() - start);
	return KSFT_PASS;
}
