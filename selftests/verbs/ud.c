// SPDX-License-Identifier: GPL-2.0
/* Datagram queue pairs as the tests have them, and messages between two of them. */
#include "ud.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <string.h>

struct ibv_ah_attr ud_ah_attr(struct host *from, struct host *to)
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

struct ibv_qp *ud_qp(struct ud *ud)
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
	struct ibv_ah_attr attr = ud_ah_attr(host, peer);

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

void ud_new(struct ud *ud, struct host *host, struct host *peer)
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

void check_grh(const uint8_t *p, struct ud *from, struct ud *to, int traffic_class)
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

void check_message(struct ud *from, struct ud *to, uint64_t wr_id, uint32_t len)
{
	fill(from->buf.p, len, wr_id);
	OK(ud_recv(to, wr_id, 0, GRH + len));
	ud_send(from, to, wr_id, len);
	cq_expect(&from->scq, wr_id, IBV_WC_SUCCESS);
	expect_message(from, to, wr_id, 0, len, wr_id);
}

void srq_recv(struct ud *ud, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)ud->buf.p + at, len, ud->buf.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	OK(ibv_post_srq_recv(ud->srq, &wr, &bad));
}
