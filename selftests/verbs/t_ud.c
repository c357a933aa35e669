// SPDX-License-Identifier: GPL-2.0
/* Datagram queue pairs and address handles. */
#include "mrverbs.h"
#include "ud.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_ah_attr ah_attr(struct host *from, struct host *to)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {
			.dgid = to->gid,
			.sgid_index = from->gid_index,
			.hop_limit = 64,
		},
	};
}

static struct ibv_qp *ud_qp(struct ud *ud)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ud->scq.cq,
		.recv_cq = ud->rcq.cq,
		.srq = ud->srq,
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = ud->depth,
			.max_recv_wr = ud->depth,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 64,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(ud->host->pd, &init);

	CHECK(qp, "ibv_create_qp of type UD on %s: %m", ud->host->name);
	return qp;
}

void ud_state(struct ud *ud, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	OK(ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE));
}

static enum ibv_qp_state ud_state_of(struct ud *ud)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	OK(ibv_query_qp(ud->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void ud_expect_state(struct ud *ud, enum ibv_qp_state state)
{
	long long stop = now_ms() + WAIT_MS;

	while (ud_state_of(ud) != state) {
		CHECK(now_ms() < stop, "QP is in state %d, should be in %d", ud_state_of(ud),
		      state);
		sleep_ms(5);
	}
}

void ud_init(struct ud *ud)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
	};

	OK(ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_QKEY));
}

void ud_rts(struct ud *ud)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = 7 };

	OK(ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

void ud_new_with(struct ud *ud, struct host *host, struct host *peer,
		 struct ibv_srq *srq, int depth)
{
	struct ibv_ah_attr attr = ah_attr(host, peer);

	memset(ud, 0, sizeof(*ud));
	ud->host = host;
	ud->srq = srq;
	ud->depth = depth;
	cq_new(&ud->scq, host, 2 * depth);
	cq_new(&ud->rcq, host, 2 * depth);
	ud->qp = ud_qp(ud);
	buf_new(&ud->buf, host, 64 * (GRH + MTU), IBV_ACCESS_LOCAL_WRITE);
	ud->ah = ibv_create_ah(host->pd, &attr);
	CHECK(ud->ah, "ibv_create_ah on %s: %m", host->name);
	ud_init(ud);
	ud_state(ud, IBV_QPS_RTR);
	ud_rts(ud);
}

static void ud_new(struct ud *ud, struct host *host, struct host *peer)
{
	ud_new_with(ud, host, peer, NULL, 64);
}

void ud_pair_new(struct ud_pair *pair, struct env *env)
{
	ud_new(&pair->a, &env->a, &env->b);
	ud_new(&pair->b, &env->b, &env->a);
}

void ud_free(struct ud *ud)
{
	OK(ibv_destroy_qp(ud->qp));
	OK(ibv_destroy_ah(ud->ah));
	buf_check_guards(&ud->buf, ud->host->name);
	buf_free(&ud->buf);
	cq_free(&ud->scq);
	cq_free(&ud->rcq);
}

void ud_pair_free(struct ud_pair *pair)
{
	ud_free(&pair->a);
	ud_free(&pair->b);
}

int ud_recv(struct ud *ud, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)ud->buf.p + at, len, ud->buf.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(ud->qp, &wr, &bad);
}

struct ibv_send_wr ud_wr(struct ud *from, struct ud *to, uint64_t wr_id,
			 struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = sge && sge->length ? 1 : 0,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	wr.wr.ud.ah = from->ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

void ud_send(struct ud *from, struct ud *to, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)from->buf.p, len, from->buf.mr->lkey };
	struct ibv_send_wr *bad, wr = ud_wr(from, to, wr_id, &sge);

	OK(ibv_post_send(from->qp, &wr, &bad));
}

static uint16_t sum16(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < len; i += 2)
		sum += p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static int is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* What stands in front of a message, as RoCE v2 has it. */
static void check_grh(const uint8_t *p, struct ud *from, struct ud *to, int traffic_class)
{
	if (is_ipv4(&from->host->gid)) {
		const struct iphdr *ip = (const void *)(p + 20);

		CHECK_EQ(ip->version, 4, "IP version");
		CHECK_EQ(ip->ihl, 5, "IPv4 header length");
		CHECK_EQ(ip->protocol, IPPROTO_UDP, "protocol");
		CHECK_EQ(sum16(p + 20, 20), 0xffff, "sum of the IPv4 header");
		CHECK_EQ(ip->tos >> 2, traffic_class >> 2, "DSCP");
		CHECK_EQ(ip->ttl, 64, "hop limit");
		CHECK(!memcmp(&ip->saddr, from->host->gid.raw + 12, 4), "wrong source");
		CHECK(!memcmp(&ip->daddr, to->host->gid.raw + 12, 4), "wrong destination");
	} else {
		const struct ip6_hdr *ip = (const void *)p;
		uint32_t flow = ntohl(ip->ip6_flow);

		CHECK_EQ(flow >> 28, 6, "IP version");
		CHECK_EQ((flow >> 22 & 0x3f), traffic_class >> 2, "DSCP");
		CHECK_EQ(ip->ip6_nxt, IPPROTO_UDP, "next header");
		CHECK_EQ(ip->ip6_hlim, 64, "hop limit");
		CHECK(!memcmp(&ip->ip6_src, from->host->gid.raw, 16), "wrong source");
		CHECK(!memcmp(&ip->ip6_dst, to->host->gid.raw, 16), "wrong destination");
	}
}

void expect_message(struct ud *from, struct ud *to, uint64_t wr_id, size_t at,
		    uint32_t len, uint64_t seed)
{
	struct ibv_wc wc = cq_expect(&to->rcq, wr_id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, IBV_WC_RECV, "opcode");
	CHECK_EQ(wc.byte_len, GRH + len, "byte_len");
	CHECK(wc.wc_flags & IBV_WC_GRH, "no IBV_WC_GRH");
	CHECK_EQ(wc.src_qp, from->qp->qp_num, "src_qp");
	CHECK_EQ(wc.qp_num, to->qp->qp_num, "qp_num");
	/* UCX before 1.19 takes the family from there, as mlx5 has it. */
	if (is_metaroce())
		CHECK_EQ(wc.sl, is_ipv4(&from->host->gid) ? 0xa : 0x9, "sl");
	check_grh(to->buf.p + at, from, to, 0);
	check(to->buf.p + at + GRH, len, seed, "message");
}

/* A message from one to the other arrives. */
static void check_message(struct ud *from, struct ud *to, uint64_t wr_id, uint32_t len)
{
	fill(from->buf.p, len, wr_id);
	OK(ud_recv(to, wr_id, 0, GRH + len));
	ud_send(from, to, wr_id, len);
	cq_expect(&from->scq, wr_id, IBV_WC_SUCCESS);
	expect_message(from, to, wr_id, 0, len, wr_id);
}

static void test_sizes(struct env *env, const struct test *test)
{
	static const uint32_t sizes[] = { 0, 1, 7, 17, 1023, 1024, 1025, 2048, MTU };
	struct ud_pair pair;
	size_t i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		check_message(&pair.a, &pair.b, i, sizes[i]);
		check_message(&pair.b, &pair.a, 100 + i, sizes[i]);
	}
	ud_pair_free(&pair);
}

/* As many as the queues hold, of alternating sizes, posted at once. */
static void test_many_at_once(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr[32], *bad;
	struct ibv_sge sge[32];
	struct ud_pair pair;
	int round, i;

	(void)test;
	ud_pair_new(&pair, env);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 32; i++) {
			size_t at = i * (GRH + MTU);
			uint32_t len = i % 4 == 3 ? 100 + i : 1000;

			fill(pair.a.buf.p + at, len, round * 32 + i);
			OK(ud_recv(&pair.b, i, at, GRH + MTU));
			sge[i] = (struct ibv_sge){ (uintptr_t)pair.a.buf.p + at, len,
						   pair.a.buf.mr->lkey };
			wr[i] = ud_wr(&pair.a, &pair.b, i, &sge[i]);
			wr[i].next = i < 31 ? &wr[i + 1] : NULL;
		}
		OK(ibv_post_send(pair.a.qp, wr, &bad));
		for (i = 0; i < 32; i++)
			cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
		for (i = 0; i < 32; i++)
			expect_message(&pair.a, &pair.b, i, i * (GRH + MTU), sge[i].length,
				       round * 32 + i);
	}
	ud_pair_free(&pair);
}

static void test_immediate(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_wc wc;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	OK(ud_recv(&pair.b, 2, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 3, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0xcafef00d);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wc = cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM), "an immediate that nobody sent");
	wc = cq_expect(&pair.b.rcq, 2, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM, "no immediate");
	CHECK_EQ(ntohl(wc.imm_data), 0xcafef00d, "immediate");
	ud_pair_free(&pair);
}

static void test_solicited(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ibv_req_notify_cq(pair.b.rcq.cq, 1));
	OK(ud_recv(&pair.b, 1, 0, GRH));
	OK(ud_recv(&pair.b, 2, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 3, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	while (!ibv_poll_cq(pair.b.rcq.cq, 1, &(struct ibv_wc){ 0 }))
		sleep_ms(1);
	CHECK(!cq_event_pending(&pair.b.rcq, 0), "an event that nobody solicited");
	wr.send_flags |= IBV_SEND_SOLICITED;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	CHECK(cq_event_pending(&pair.b.rcq, WAIT_MS), "no solicited event");
	cq_event_take(&pair.b.rcq);
	cq_expect(&pair.b.rcq, 2, IBV_WC_SUCCESS);
	ud_pair_free(&pair);
}

static void test_inline_and_lists(struct env *env, const struct test *test)
{
	struct ibv_recv_wr *bad_recv, recv;
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge[4], to[3];
	struct ud_pair pair;
	uint8_t data[60];
	int i;

	(void)test;
	ud_pair_new(&pair, env);
	fill(data, sizeof(data), 5);
	sge[0] = (struct ibv_sge){ (uintptr_t)data, sizeof(data), 0 };
	wr = ud_wr(&pair.a, &pair.b, 1, sge);
	wr.send_flags |= IBV_SEND_INLINE;
	OK(ud_recv(&pair.b, 2, 0, GRH + 100));
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	memset(data, 0, sizeof(data));
	expect_message(&pair.a, &pair.b, 2, 0, 60, 5);
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);

	/* Pieces that differ on both sides, one of them in the middle of the GRH. */
	fill(pair.a.buf.p, 1000, 6);
	for (i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)pair.a.buf.p + 250 * i, 250,
					   pair.a.buf.mr->lkey };
	to[0] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p, 13, pair.b.buf.mr->lkey };
	to[1] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p + 13, 300, pair.b.buf.mr->lkey };
	to[2] = (struct ibv_sge){ (uintptr_t)pair.b.buf.p + 313, 727, pair.b.buf.mr->lkey };
	recv = (struct ibv_recv_wr){ .wr_id = 3, .sg_list = to, .num_sge = 3 };
	OK(ibv_post_recv(pair.b.qp, &recv, &bad_recv));
	wr = ud_wr(&pair.a, &pair.b, 4, sge);
	wr.num_sge = 4;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.a.scq, 4, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 3, 0, 1000, 6);
	ud_pair_free(&pair);
}

/* The buffer is the sender's again as soon as the send is complete. */
static void test_buffer_reuse(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	int i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < 32; i++)
		OK(ud_recv(&pair.b, i, i * (GRH + MTU), GRH + MTU));
	for (i = 0; i < 32; i++) {
		fill(pair.a.buf.p, 3000, i);
		ud_send(&pair.a, &pair.b, i, 3000);
		cq_expect(&pair.a.scq, i, IBV_WC_SUCCESS);
	}
	memset(pair.a.buf.p, 0, 3000);
	for (i = 0; i < 32; i++)
		expect_message(&pair.a, &pair.b, i, i * (GRH + MTU), 3000, i);
	ud_pair_free(&pair);
}

/* Sends one that must be dropped, then one that must take the same receive. */
static void dropped_then_taken(struct ud_pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	OK(ibv_post_send(pair->a.qp, wr, &bad));
	cq_expect(&pair->a.scq, wr->wr_id, IBV_WC_SUCCESS);
	fill(pair->a.buf.p, 50, 9);
	ud_send(&pair->a, &pair->b, 77, 50);
	cq_expect(&pair->a.scq, 77, IBV_WC_SUCCESS);
	expect_message(&pair->a, &pair->b, 1, 0, 50, 9);
	cq_expect_empty(&pair->b.rcq, "after a datagram that is to be dropped");
}

static void test_wrong_key(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	struct ibv_send_wr wr;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qkey = QKEY + 1;
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_wrong_number(struct env *env, const struct test *test)
{
	struct ud_pair pair;
	struct ibv_send_wr wr;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qpn = 0xfffffe;
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_short_receive(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH + 50));
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, 51, pair.a.buf.mr->lkey };
	wr = ud_wr(&pair.a, &pair.b, 2, &sge);
	dropped_then_taken(&pair, &wr);
	ud_pair_free(&pair);
}

static void test_no_receive(struct env *env, const struct test *test)
{
	struct ud_pair pair, other;

	(void)test;
	ud_pair_new(&pair, env);
	ud_pair_new(&other, env);
	ud_send(&pair.a, &pair.b, 2, 30);
	cq_expect(&pair.a.scq, 2, IBV_WC_SUCCESS);
	/* The datagrams of one host come in order: the first one has come by then. */
	OK(ud_recv(&other.b, 3, 0, GRH + 50));
	ud_send(&pair.a, &other.b, 4, 30);
	cq_expect(&pair.a.scq, 4, IBV_WC_SUCCESS);
	cq_expect(&other.b.rcq, 3, IBV_WC_SUCCESS);
	check_message(&pair.a, &pair.b, 5, 40);
	cq_expect_empty(&pair.b.rcq, "after a datagram without receive");
	ud_pair_free(&other);
	ud_pair_free(&pair);
}

/* A key with the most significant bit set stands for the sender's own. */
static void test_controlled_key(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.remote_qkey = 0x80010000;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	ud_pair_free(&pair);
}

/* Without privilege, no QP gets such a key as its own. */
static void test_controlled_key_unprivileged(struct env *env, const struct test *test)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x80010000,
	};
	struct ud ud = { .host = &env->a };

	(void)test;
	cq_new(&ud.scq, &env->a, 16);
	cq_new(&ud.rcq, &env->a, 16);
	ud.qp = ud_qp(&ud);
	CHECK(!setresuid(65534, 65534, 65534), "setresuid: %m");
	REFUSED(ibv_modify_qp(ud.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_QKEY), EPERM);
}

/* The send queue fails, receiving goes on, and the QP can be brought back. */
static void send_fails(struct ud_pair *pair, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_send_wr *bad;

	OK(ibv_post_send(pair->a.qp, wr, &bad));
	cq_expect(&pair->a.scq, wr->wr_id, status);
	ud_expect_state(&pair->a, IBV_QPS_SQE);
	check_message(&pair->b, &pair->a, 50, 60);
	ud_send(&pair->a, &pair->b, 51, 10);
	cq_expect(&pair->a.scq, 51, IBV_WC_WR_FLUSH_ERR);
	OK(ibv_modify_qp(pair->a.qp, &attr, IBV_QP_STATE));
	check_message(&pair->a, &pair->b, 52, 60);
}

static void test_too_long(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, MTU + 1, pair.a.buf.mr->lkey };
	wr = ud_wr(&pair.a, &pair.b, 1, &sge);
	send_fails(&pair, &wr, IBV_WC_LOC_LEN_ERR);
	ud_pair_free(&pair);
}

static void test_send_protection(struct env *env, const struct test *test)
{
	struct ibv_send_wr wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.a.buf.p, 10, pair.b.buf.mr->lkey + 0x1234500 };
	wr = ud_wr(&pair.a, &pair.b, 1, &sge);
	send_fails(&pair, &wr, IBV_WC_LOC_PROT_ERR);
	ud_pair_free(&pair);
}

static void test_foreign_handle(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ah_attr(&env->a, &env->b);
	struct ud_pair pair;
	struct ibv_send_wr wr;
	struct ibv_pd *pd;
	struct ibv_ah *ah;

	(void)test;
	ud_pair_new(&pair, env);
	pd = ibv_alloc_pd(env->a.ctx);
	CHECK(pd, "ibv_alloc_pd: %m");
	ah = ibv_create_ah(pd, &attr);
	CHECK(ah, "ibv_create_ah: %m");
	wr = ud_wr(&pair.a, &pair.b, 1, NULL);
	wr.wr.ud.ah = ah;
	send_fails(&pair, &wr, IBV_WC_LOC_QP_OP_ERR);
	OK(ibv_destroy_ah(ah));
	OK(ibv_dealloc_pd(pd));
	ud_pair_free(&pair);
}

/* What the provider keeps of a handle is not what the kernel believes. */
static void test_forged_handle(struct env *env, const struct test *test)
{
	struct {
		struct ibv_ah ah;
		uint32_t number;
	} forged;
	static const uint32_t numbers[] = { 1, 1000, 0x1ffff, 0x20000, 0x7fffffff, 0xffffffff };
	struct ud_pair pair;
	struct ibv_send_wr wr;
	size_t i;

	(void)test;
	if (!is_metaroce())
		SKIP("knows the handles of metaroce only");
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		forged.ah = *pair.a.ah;
		forged.number = numbers[i] + (numbers[i] == 1 ? 50 : 0);
		wr = ud_wr(&pair.a, &pair.b, 1, NULL);
		wr.wr.ud.ah = &forged.ah;
		send_fails(&pair, &wr, IBV_WC_LOC_QP_OP_ERR);
	}
	ud_pair_free(&pair);
}

static void test_receive_protection(struct env *env, const struct test *test)
{
	struct ibv_recv_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_sge sge;

	(void)test;
	ud_pair_new(&pair, env);
	sge = (struct ibv_sge){ (uintptr_t)pair.b.buf.p, 100, pair.b.buf.mr->lkey + 0x1234500 };
	wr = (struct ibv_recv_wr){ .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	OK(ibv_post_recv(pair.b.qp, &wr, &bad));
	OK(ud_recv(&pair.b, 2, 0, 100));
	ud_send(&pair.a, &pair.b, 3, 10);
	cq_expect(&pair.a.scq, 3, IBV_WC_SUCCESS);
	cq_expect(&pair.b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	cq_expect(&pair.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	ud_expect_state(&pair.b, IBV_QPS_ERR);
	ud_pair_free(&pair);
}

static void test_wrong_operation(struct env *env, const struct test *test)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV,
		IBV_WR_LOCAL_INV,
	};
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	size_t i;

	(void)test;
	ud_pair_new(&pair, env);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		wr = ud_wr(&pair.a, &pair.b, 1, NULL);
		wr.opcode = ops[i];
		REFUSED(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	}
	wr = ud_wr(&pair.a, &pair.b, 1, NULL);
	wr.wr.ud.ah = NULL;
	REFUSED(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	check_message(&pair.a, &pair.b, 2, 60);
	ud_pair_free(&pair);
}

static void test_states(struct env *env, const struct test *test)
{
	struct ibv_qp_attr attr = { 0 };
	struct ibv_qp_init_attr init;
	struct ud_pair pair;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS, "state");
	CHECK_EQ(attr.qkey, QKEY, "Q_Key");
	CHECK_EQ(init.qp_type, IBV_QPT_UD, "type");

	/* All that is posted is flushed, and what is posted then, too. */
	OK(ud_recv(&pair.b, 1, 0, 100));
	OK(ud_recv(&pair.b, 2, 0, 100));
	ud_state(&pair.b, IBV_QPS_ERR);
	cq_expect(&pair.b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	cq_expect(&pair.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	OK(ud_recv(&pair.b, 3, 0, 100));
	cq_expect(&pair.b.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	ud_send(&pair.b, &pair.a, 4, 10);
	cq_expect(&pair.b.scq, 4, IBV_WC_WR_FLUSH_ERR);

	/* From the beginning; receives may be posted in INIT, and taken in RTR. */
	ud_state(&pair.b, IBV_QPS_RESET);
	ud_init(&pair.b);
	OK(ud_recv(&pair.b, 5, 0, 100));
	ud_state(&pair.b, IBV_QPS_RTR);
	fill(pair.a.buf.p, 60, 8);
	ud_send(&pair.a, &pair.b, 6, 60);
	cq_expect(&pair.a.scq, 6, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 5, 0, 60, 8);
	ud_rts(&pair.b);
	check_message(&pair.b, &pair.a, 7, 70);

	/* A drained queue sends nothing until it goes on. */
	ud_state(&pair.a, IBV_QPS_SQD);
	fill(pair.a.buf.p, 60, 9);
	OK(ud_recv(&pair.b, 8, 0, 100));
	ud_send(&pair.a, &pair.b, 9, 60);
	cq_expect_empty(&pair.a.scq, "while drained");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	OK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE));
	cq_expect(&pair.a.scq, 9, IBV_WC_SUCCESS);
	expect_message(&pair.a, &pair.b, 8, 0, 60, 9);

	attr.qp_state = IBV_QPS_INIT;
	REFUSED(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
	ud_pair_free(&pair);
}

static void test_traffic_class(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ah_attr(&env->a, &env->b);
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_ah *ah;

	(void)test;
	ud_pair_new(&pair, env);
	attr.grh.traffic_class = 0xb8;
	attr.grh.flow_label = 0x12345;
	attr.sl = 5;
	ah = ibv_create_ah(env->a.pd, &attr);
	CHECK(ah, "ibv_create_ah: %m");
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	wr.wr.ud.ah = ah;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	check_grh(pair.b.buf.p, &pair.a, &pair.b, 0xb8);
	OK(ibv_destroy_ah(ah));
	ud_pair_free(&pair);
}

/* A handle made from what a datagram has brought leads back. */
static void test_handle_from_completion(struct env *env, const struct test *test)
{
	struct ibv_send_wr *bad, wr;
	struct ud_pair pair;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)test;
	ud_pair_new(&pair, env);
	OK(ud_recv(&pair.b, 1, 0, GRH));
	wr = ud_wr(&pair.a, &pair.b, 2, NULL);
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	wc = cq_expect(&pair.b.rcq, 1, IBV_WC_SUCCESS);
	ah = ibv_create_ah_from_wc(env->b.pd, &wc, (struct ibv_grh *)pair.b.buf.p, 1);
	CHECK(ah, "ibv_create_ah_from_wc: %m");
	OK(ud_recv(&pair.a, 3, 0, GRH));
	wr = ud_wr(&pair.b, &pair.a, 4, NULL);
	wr.wr.ud.ah = ah;
	OK(ibv_post_send(pair.b.qp, &wr, &bad));
	cq_expect(&pair.a.rcq, 3, IBV_WC_SUCCESS);
	check_grh(pair.a.buf.p, &pair.b, &pair.a, 0);
	OK(ibv_destroy_ah(ah));
	ud_pair_free(&pair);
}

static void test_handle_attributes(struct env *env, const struct test *test)
{
	struct ibv_ah_attr good = ah_attr(&env->a, &env->b), attr;
	struct ibv_pd *pd = env->a.pd;

	(void)test;
	attr = good;
	attr.is_global = 0;
	REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	attr = good;
	attr.port_num = 2;
	REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	attr = good;
	attr.grh.sgid_index = 254;
	/* ib_core's answer to a place of the table that is empty. */
	REFUSED_PTR(ibv_create_ah(pd, &attr), ENODATA);
	if (is_metaroce()) {
		attr = good;
		attr.sl = 16;
		REFUSED_PTR(ibv_create_ah(pd, &attr), EINVAL);
	}
}

/* A domain in use by a handle stays. */
static void test_many_handles(struct env *env, const struct test *test)
{
	struct ibv_ah_attr attr = ah_attr(&env->a, &env->b);
	static struct ibv_ah *ah[2000];
	struct ud_pair pair;
	struct ibv_pd *pd;
	size_t i;

	(void)test;
	pd = ibv_alloc_pd(env->a.ctx);
	CHECK(pd, "ibv_alloc_pd: %m");
	for (i = 0; i < ARRAY_SIZE(ah); i++) {
		ah[i] = ibv_create_ah(pd, &attr);
		CHECK(ah[i], "ibv_create_ah, number %zu: %m", i);
	}
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	for (i = 0; i < ARRAY_SIZE(ah); i++)
		OK(ibv_destroy_ah(ah[i]));
	OK(ibv_dealloc_pd(pd));
	ud_pair_new(&pair, env);
	check_message(&pair.a, &pair.b, 1, 100);
	ud_pair_free(&pair);
}

/* The same device, and the same host, as source and destination. */
static void test_to_itself(struct env *env, const struct test *test)
{
	struct ud a, b;

	(void)test;
	ud_new(&a, &env->a, &env->a);
	ud_new(&b, &env->a, &env->a);
	check_message(&a, &b, 1, 100);
	check_message(&b, &a, 2, MTU);
	check_message(&a, &a, 3, 1000);
	ud_free(&a);
	ud_free(&b);
}

void srq_recv(struct ud *ud, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)ud->buf.p + at, len, ud->buf.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	OK(ibv_post_srq_recv(ud->srq, &wr, &bad));
}

/* Receives from a shared queue go to whoever has a message. One that is too short stays. */
static void test_shared_queue(struct env *env, const struct test *test)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(env->b.pd, &init);
	struct ibv_async_event event;
	struct ud from, to[2];

	(void)test;
	CHECK(srq, "ibv_create_srq: %m");
	ud_new(&from, &env->a, &env->b);
	for (int i = 0; i < 2; i++)
		ud_new_with(&to[i], &env->b, &env->a, srq, 64);
	fill(from.buf.p, MTU, 5);
	srq_recv(&to[0], 1, 0, GRH + 50);
	ud_send(&from, &to[0], 10, 51);
	cq_expect(&from.scq, 10, IBV_WC_SUCCESS);
	ud_send(&from, &to[0], 11, 50);
	cq_expect(&from.scq, 11, IBV_WC_SUCCESS);
	expect_message(&from, &to[0], 1, 0, 50, 5);
	/* Whoever comes first. The memory is that of the first one's buffer. */
	srq_recv(&to[0], 2, 0, GRH + MTU);
	ud_send(&from, &to[1], 12, MTU);
	cq_expect(&from.scq, 12, IBV_WC_SUCCESS);
	cq_expect(&to[1].rcq, 2, IBV_WC_SUCCESS);
	check(to[0].buf.p + GRH, MTU, 5, "message to the second one");
	/* What a queue pair holds is flushed with it. */
	srq_recv(&to[0], 3, 0, GRH + 50);
	srq_recv(&to[0], 4, 0, GRH + 50);
	ud_send(&from, &to[0], 13, 51);
	cq_expect(&from.scq, 13, IBV_WC_SUCCESS);
	ud_send(&from, &to[1], 14, 50);
	cq_expect(&from.scq, 14, IBV_WC_SUCCESS);
	cq_expect(&to[1].rcq, 4, IBV_WC_SUCCESS);
	ud_state(&to[0], IBV_QPS_ERR);
	cq_expect(&to[0].rcq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK(async_event_wait(&env->b, WAIT_MS, &event), "no event");
	CHECK_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED, "event");
	ibv_ack_async_event(&event);
	ud_free(&from);
	for (int i = 0; i < 2; i++)
		ud_free(&to[i]);
	OK(ibv_destroy_srq(srq));
}

/* The address of a group, of the family of the host's own. */
static union ibv_gid group_gid(struct host *host, uint8_t number)
{
	union ibv_gid gid = host->gid;

	if (!gid.raw[0]) {
		gid.raw[12] = 239;
		gid.raw[13] = 1;
		gid.raw[14] = 2;
		gid.raw[15] = number;
	} else {
		memset(gid.raw, 0, sizeof(gid.raw));
		gid.raw[0] = 0xff;
		gid.raw[1] = 0x0e;
		gid.raw[15] = number;
	}
	return gid;
}

static void group_send(struct ud *from, struct ibv_ah *ah, uint64_t wr_id, uint32_t len,
		       uint32_t q_key)
{
	struct ibv_sge sge = { (uintptr_t)from->buf.p, len, from->buf.mr->lkey };
	struct ibv_send_wr *bad, wr = ud_wr(from, from, wr_id, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = q_key;
	OK(ibv_post_send(from->qp, &wr, &bad));
	cq_expect(&from->scq, wr_id, IBV_WC_SUCCESS);
}

static void group_expect(struct ud *ud, uint64_t wr_id, uint32_t len, uint64_t seed)
{
	struct ibv_wc wc = cq_expect(&ud->rcq, wr_id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH + len, "byte_len");
	check(ud->buf.p + GRH, len, seed, "message to the group");
}

static void test_multicast(struct env *env, const struct test *test)
{
	union ibv_gid group = group_gid(&env->a, 7), other = group_gid(&env->a, 8);
	struct ibv_ah_attr attr = ah_attr(&env->a, &env->b);
	struct ud from, to[3];
	struct ibv_ah *ah;

	(void)test;
	ud_new(&from, &env->a, &env->b);
	for (int i = 0; i < 3; i++)
		ud_new(&to[i], &env->b, &env->a);
	attr.grh.dgid = group;
	ah = ibv_create_ah(env->a.pd, &attr);
	CHECK(ah, "ibv_create_ah of a group: %m");
	OK(ibv_attach_mcast(to[0].qp, &group, 0));
	OK(ibv_attach_mcast(to[1].qp, &group, 0));
	OK(ibv_attach_mcast(to[1].qp, &group, 0));
	OK(ibv_attach_mcast(to[2].qp, &other, 0));

	/* All members, each once; nobody else. */
	for (int i = 0; i < 3; i++) {
		OK(ud_recv(&to[i], 1, 0, GRH + MTU));
		OK(ud_recv(&to[i], 2, 0, GRH + MTU));
	}
	fill(from.buf.p, 1000, 1);
	group_send(&from, ah, 10, 1000, QKEY);
	group_expect(&to[0], 1, 1000, 1);
	group_expect(&to[1], 1, 1000, 1);
	/* Another key, then one that is left, then the sender too. */
	group_send(&from, ah, 11, 1000, QKEY + 1);
	OK(ibv_detach_mcast(to[1].qp, &group, 0));
	OK(ibv_attach_mcast(from.qp, &group, 0));
	fill(from.buf.p, 900, 2);
	group_send(&from, ah, 12, 900, QKEY);
	group_expect(&to[0], 2, 900, 2);
	ud_send(&from, &to[2], 13, 10);
	cq_expect(&from.scq, 13, IBV_WC_SUCCESS);
	cq_expect(&to[2].rcq, 1, IBV_WC_SUCCESS);
	cq_expect_empty(&to[1].rcq, "left");
	if (is_metaroce()) {
		/* The message is sent from behind where it is received. */
		OK(ud_recv(&from, 4, 0, GRH + MTU));
		OK(ud_recv(&to[0], 3, 0, GRH + MTU));
		group_send(&from, ah, 14, 20, QKEY);
		group_expect(&to[0], 3, 20, 2);
		group_expect(&from, 4, 20, 2);
	}
	OK(ibv_destroy_ah(ah));
	OK(ibv_detach_mcast(from.qp, &group, 0));
	OK(ibv_detach_mcast(to[0].qp, &group, 0));
	OK(ibv_detach_mcast(to[2].qp, &other, 0));
	ud_free(&from);
	for (int i = 0; i < 3; i++)
		ud_free(&to[i]);
}

static void test_multicast_refused(struct env *env, const struct test *test)
{
	union ibv_gid group = group_gid(&env->a, 9);
	struct pair rc;
	struct ud ud;

	(void)test;
	ud_new(&ud, &env->a, &env->b);
	pair_new(&rc, env, OPTS());
	REFUSED(ibv_attach_mcast(ud.qp, &env->b.gid, 0), EINVAL);
	REFUSED(ibv_attach_mcast(rc.a.qp, &group, 0), EINVAL);
	REFUSED(ibv_detach_mcast(ud.qp, &group, 0), EINVAL);
	OK(ibv_attach_mcast(ud.qp, &group, 0));
	OK(ibv_detach_mcast(ud.qp, &group, 0));
	REFUSED(ibv_detach_mcast(ud.qp, &group, 0), EINVAL);
	pair_free(&rc);
	ud_free(&ud);
}

/* More groups than a device has, and more queue pairs than a group. */
static void test_multicast_limits(struct env *env, const struct test *test)
{
	union ibv_gid group = group_gid(&env->a, 0);
	struct ud ud;
	int n;

	(void)test;
	if (!is_metaroce())
		SKIP("limits of this device");
	ud_new(&ud, &env->a, &env->b);
	for (n = 0; n < env->a.attr.max_mcast_grp; n++) {
		group.raw[14] = n >> 8;
		group.raw[15] = n;
		OK(ibv_attach_mcast(ud.qp, &group, 0));
	}
	group.raw[13] = 9;
	REFUSED(ibv_attach_mcast(ud.qp, &group, 0), ENOMEM);
	/* Whoever is in a group stays, but for the end of the process. */
	REFUSED(ibv_destroy_qp(ud.qp), EBUSY);
}

/*
 * As many messages as there are receives: none is lost on the sender's side,
 * however slow its link is.
 */
static void test_all_arrive(struct env *env, const struct test *test)
{
	enum { MESSAGES = 3000, LEN = 1000 };
	struct ibv_sge sge;
	struct ud from, to;

	(void)test;
	ud_new_with(&from, &env->a, &env->b, NULL, 64);
	ud_new_with(&to, &env->b, &env->a, NULL, 4096);
	for (int i = 0; i < MESSAGES; i++)
		OK(ud_recv(&to, i, 0, GRH + LEN));
	sge = (struct ibv_sge){ (uintptr_t)from.buf.p, LEN, from.buf.mr->lkey };
	for (int sent = 0, done = 0; done < MESSAGES;) {
		if (sent < MESSAGES && sent - done < 64) {
			struct ibv_send_wr *bad, wr = ud_wr(&from, &to, sent++, &sge);

			OK(ibv_post_send(from.qp, &wr, &bad));
			if (sent - done < 64)
				continue;
		}
		cq_expect(&from.scq, done++, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < MESSAGES; i++)
		cq_expect(&to.rcq, i, IBV_WC_SUCCESS);
	ud_free(&from);
	ud_free(&to);
}

void tests_ud(void)
{
	TEST("ud", test_sizes, "sizes");
	TEST("ud", test_many_at_once, "many at once");
	TEST("ud", test_immediate, "immediate");
	TEST("ud", test_solicited, "solicited event");
	TEST("ud", test_inline_and_lists, "inline data and lists");
	TEST("ud", test_buffer_reuse, "buffer used again after the completion");
	TEST("ud", test_wrong_key, "wrong Q_Key");
	TEST("ud", test_wrong_number, "wrong QP number");
	TEST("ud", test_short_receive, "receive too short");
	TEST("ud", test_no_receive, "no receive");
	TEST("ud", test_controlled_key, "controlled Q_Key");
	TEST("ud", test_controlled_key_unprivileged, "controlled Q_Key, no privilege");
	TEST("ud", test_too_long, "longer than the MTU");
	TEST("ud", test_send_protection, "send without access");
	TEST("ud", test_foreign_handle, "address handle of another domain");
	TEST("ud", test_forged_handle, "forged address handle");
	TEST("ud", test_receive_protection, "receive without access");
	TEST("ud", test_wrong_operation, "operations of other services");
	TEST("ud", test_states, "states");
	TEST("ud", test_traffic_class, "traffic class");
	TEST("ud", test_handle_from_completion, "address handle from a completion");
	TEST("ud", test_handle_attributes, "attributes of address handles");
	TEST("ud", test_many_handles, "2000 address handles");
	TEST("ud", test_to_itself, "to itself");
	TEST("ud", test_shared_queue, "a shared receive queue");
	TEST("ud", test_multicast, "multicast groups");
	TEST("ud", test_multicast_refused, "multicast groups, refused");
	TEST("ud", test_multicast_limits, "multicast groups, too many");
	TEST("ud_paced", test_all_arrive, "all arrive");
}
