// SPDX-License-Identifier: GPL-2.0
/* Peers that do not answer. */
#include "error.h"

#include <errno.h>
#include <string.h>

enum dead_case {
	NO_SUCH_QP, PEER_NOT_READY, PEER_DESTROYED, PEER_IN_ERROR, PEER_RESET,
};

/* Nobody answers: the requester gives up within the time that it was given. */
static void dead_peer(struct env *env, const struct test *test)
{
	/* 2^10 * 4.096 us = 4 ms, 2 retries. */
	const struct opts *opts = OPTS(.timeout = 10, .retry_cnt = 2);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct buf src, dst;
	struct pair pair, other;

	pair_new(&other, env, OPTS());
	end_new(&pair.a, &env->a, opts);
	end_new(&pair.b, &env->b, opts);
	buf_new(&src, &env->a, 20000, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, &env->b, 20000, ACCESS_ALL);
	switch ((enum dead_case)test->arg[0]) {
	case NO_SUCH_QP:
		end_init(&pair.a, opts);
		end_rtr_to(&pair.a, &env->b.gid, 0xfedcba, 1, opts);
		end_rts(&pair.a, opts);
		break;
	case PEER_NOT_READY:
		end_init(&pair.a, opts);
		end_init(&pair.b, opts);
		end_rtr_to(&pair.a, &env->b.gid, pair.b.qp->qp_num, pair.b.psn, opts);
		end_rts(&pair.a, opts);
		break;
	case PEER_DESTROYED:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		end_free(&pair.b);
		break;
	case PEER_IN_ERROR:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		end_error(&pair.b);
		break;
	case PEER_RESET:
		pair_connect(&pair, opts);
		pair_check_works(&pair);
		OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
		break;
	}
	request_fails(&pair, test->arg[1], src.p, 20000, src.mr->lkey, dst.p, dst.mr->rkey,
		      IBV_WC_RETRY_EXC_ERR);
	pair_check_works(&other);
	env_check_works(env);
}

/* A peer address that exists on no host. */
static void unreachable(struct env *env, const struct test *test)
{
	const struct opts *opts = OPTS(.timeout = 10, .retry_cnt = 2);
	union ibv_gid gid = env->b.gid;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 5,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr.is_global = 1,
		.ah_attr.port_num = 1,
	};
	struct end end;
	int ret;

	(void)test;
	gid.raw[15] = 199;
	end_new(&end, &env->a, opts);
	end_init(&end, opts);
	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = env->a.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	ret = ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER);
	if (ret) {
		/* Address resolution may notice it first. */
		CHECK(ret == ETIMEDOUT || ret == EHOSTUNREACH || ret == ENETUNREACH,
		      "modify to RTR: %d (%s)", ret, strerror(ret));
		end_free(&end);
		return;
	}
	end_rts(&end, opts);
	OK(post_send(&end, IBV_WR_SEND, WR, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
	post_next(&end);
	requester_failed(&end, IBV_WC_RETRY_EXC_ERR);
	end_free(&end);
}

void tests_error_peer(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	static const char * const dead[] = { "no such QP", "QP never ready", "QP destroyed",
					     "QP in error", "QP reset" };
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(dead); i++)
		for (j = 0; j < ARRAY_SIZE(ops); j++)
			test_add("error", dead_peer, 0, i, ops[j], "dead peer, %s: %s",
				 op_name(ops[j]), dead[i]);
	TEST("error", unreachable, "peer address that nobody has");
}
