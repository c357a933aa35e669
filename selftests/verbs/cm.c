// SPDX-License-Identifier: GPL-2.0
/*
 * Connects and disconnects with rdma_cm, one connection after the other, each
 * with a message there and back:
 *
 *   mrverbs cm_serve ADDRESS COUNT
 *   mrverbs cm_connect ADDRESS COUNT
 */
#include "mrverbs.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

#define PORT	"7471"
#define SIZE	5000

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {
			.max_send_wr = 2,
			.max_recv_wr = 2,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,
	};
}

static struct rdma_addrinfo *address(const char *name, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *res;

	CHECK(!rdma_getaddrinfo(name, PORT, &hints, &res), "rdma_getaddrinfo(%s): %m", name);
	return res;
}

static void receive(struct rdma_cm_id *id, void *p, uint64_t seed)
{
	struct ibv_wc wc;
	int n = rdma_get_recv_comp(id, &wc);

	CHECK(n == 1, "rdma_get_recv_comp: %m");
	CHECK(wc.status == IBV_WC_SUCCESS, "receive: %s", ibv_wc_status_str(wc.status));
	CHECK_EQ(wc.byte_len, SIZE, "byte_len");
	check(p, SIZE, seed, "message");
}

static void send_message(struct rdma_cm_id *id, void *p, struct ibv_mr *mr, uint64_t seed)
{
	struct ibv_wc wc;

	fill(p, SIZE, seed);
	CHECK(!rdma_post_send(id, NULL, p, SIZE, mr, 0), "rdma_post_send: %m");
	CHECK(rdma_get_send_comp(id, &wc) == 1, "rdma_get_send_comp: %m");
	CHECK(wc.status == IBV_WC_SUCCESS, "send: %s", ibv_wc_status_str(wc.status));
}

/* What a connection needs at either end. */
struct side {
	struct ibv_mr *in, *out;
	uint8_t in_buf[SIZE], out_buf[SIZE];
};

static void side_new(struct side *side, struct rdma_cm_id *id)
{
	side->in = rdma_reg_msgs(id, side->in_buf, SIZE);
	side->out = rdma_reg_msgs(id, side->out_buf, SIZE);
	CHECK(side->in && side->out, "rdma_reg_msgs: %m");
	CHECK(!rdma_post_recv(id, NULL, side->in_buf, SIZE, side->in), "rdma_post_recv: %m");
}

static void side_free(struct side *side, struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	CHECK(!rdma_dereg_mr(side->in) && !rdma_dereg_mr(side->out), "rdma_dereg_mr: %m");
	rdma_destroy_ep(id);
}

int cmd_cm_serve(int argc, char **argv)
{
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *listener, *id;
	static struct side side;
	struct rdma_addrinfo *to;
	long i, count;

	CHECK(argc == 3, "cm_serve ADDRESS COUNT");
	count = atol(argv[2]);
	to = address(argv[1], RAI_PASSIVE);
	CHECK(!rdma_create_ep(&listener, to, NULL, &attr), "rdma_create_ep: %m");
	CHECK(!rdma_listen(listener, 16), "rdma_listen: %m");
	for (i = 0; i < count; i++) {
		CHECK(!rdma_get_request(listener, &id), "rdma_get_request: %m");
		side_new(&side, id);
		CHECK(!rdma_accept(id, NULL), "rdma_accept of connection %ld: %m", i);
		receive(id, side.in_buf, i);
		send_message(id, side.out_buf, side.out, ~i);
		side_free(&side, id);
	}
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(to);
	return KSFT_PASS;
}

int cmd_cm_connect(int argc, char **argv)
{
	long long begin = now_ms();
	static struct side side;
	struct rdma_addrinfo *to;
	long i, count;

	CHECK(argc == 3, "cm_connect ADDRESS COUNT");
	count = atol(argv[2]);
	to = address(argv[1], 0);
	for (i = 0; i < count; i++) {
		struct ibv_qp_init_attr attr = qp_attr();
		struct rdma_cm_id *id;

		CHECK(!rdma_create_ep(&id, to, NULL, &attr), "rdma_create_ep: %m");
		side_new(&side, id);
		CHECK(!rdma_connect(id, NULL), "rdma_connect, number %ld: %m", i);
		send_message(id, side.out_buf, side.out, i);
		receive(id, side.in_buf, ~i);
		side_free(&side, id);
	}
	rdma_freeaddrinfo(to);
	printf("%ld connections in %lld ms\n", count, now_ms() - begin);
	return KSFT_PASS;
}
