// SPDX-License-Identifier: GPL-2.0
/* Making queue pairs: sizes, types, numbers, and what is in use by them. */
#include "mrverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* A QP that cannot be, and what a refusal leaves behind: nothing. */
static void limits(struct env *env, const struct test *test)
{
	struct ibv_device_attr *max = &env->a.attr;
	struct ibv_qp_init_attr init;
	struct end end;
	struct cq cq;

	(void)test;
	cq_new(&cq, &env->a, 16);
	memset(&end, 0, sizeof(end));
	end.host = &env->a;
	end.scq = end.rcq = cq;

	init = end_init_attr(&end, OPTS());
	init.cap.max_send_wr = max->max_qp_wr + 1;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	init = end_init_attr(&end, OPTS());
	init.cap.max_recv_wr = max->max_qp_wr + 1;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	init = end_init_attr(&end, OPTS());
	init.cap.max_send_sge = max->max_sge + 1;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	init = end_init_attr(&end, OPTS());
	init.cap.max_recv_sge = max->max_sge + 1;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	init = end_init_attr(&end, OPTS());
	init.cap.max_inline_data = 1 << 20;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	init = end_init_attr(&end, OPTS());
	init.cap.max_send_wr = UINT32_MAX;
	REFUSED_PTR(ibv_create_qp(env->a.pd, &init), EINVAL);
	CHECK(max->max_sge >= 16, "max_sge is %d", max->max_sge);

	/* The limits themselves are good, if they fit into a small machine. */
	if ((long long)max->max_qp_wr * max->max_sge > 1 << 20)
		SKIP("queues of %d requests of %d pieces", max->max_qp_wr, max->max_sge);
	init = end_init_attr(&end, OPTS());
	init.cap.max_send_wr = max->max_qp_wr;
	init.cap.max_recv_wr = max->max_qp_wr;
	init.cap.max_send_sge = max->max_sge;
	init.cap.max_recv_sge = max->max_sge;
	end.qp = ibv_create_qp(env->a.pd, &init);
	CHECK(end.qp, "a QP of %d requests of %d pieces: %m", max->max_qp_wr, max->max_sge);
	OK(ibv_destroy_qp(end.qp));

	/* A queue of no receives, and one of no sends. */
	init = end_init_attr(&end, OPTS());
	init.cap.max_recv_wr = 0;
	init.cap.max_recv_sge = 0;
	end.qp = ibv_create_qp(env->a.pd, &init);
	CHECK(end.qp, "a QP without receives: %m");
	OK(ibv_destroy_qp(end.qp));
	cq_free(&cq);
}

static void unsupported_type(struct env *env, const struct test *test)
{
	struct ibv_qp_init_attr init;
	struct end end = { .host = &env->a };
	struct ibv_qp *qp;

	cq_new(&end.scq, &env->a, 16);
	end.rcq = end.scq;
	init = end_init_attr(&end, OPTS());
	init.qp_type = test->arg[0];
	errno = 0;
	qp = ibv_create_qp(env->a.pd, &init);
	if (qp) {
		OK(ibv_destroy_qp(qp));
		cq_free(&end.scq);
		return;
	}
	CHECK(errno == EOPNOTSUPP, "errno %d, should be EOPNOTSUPP", errno);
	cq_free(&end.scq);
}

static void no_xrc(struct env *env, const struct test *test)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	(void)test;
	REFUSED_PTR(ibv_open_xrcd(env->a.ctx, &attr), EOPNOTSUPP);
}

/* Objects in use cannot be destroyed. */
static void busy_objects(struct env *env, const struct test *test)
{
	struct ibv_comp_channel *chan;
	struct buf buf;
	struct end end;

	(void)test;
	end_new(&end, &env->a, OPTS());
	buf_new(&buf, &env->a, 100, IBV_ACCESS_LOCAL_WRITE);
	REFUSED(ibv_destroy_cq(end.scq.cq), EBUSY);
	REFUSED(ibv_destroy_cq(end.rcq.cq), EBUSY);
	REFUSED(ibv_dealloc_pd(env->a.pd), EBUSY);
	chan = end.scq.chan;
	REFUSED(ibv_destroy_comp_channel(chan), EBUSY);
	buf_free(&buf);
	end_free(&end);
}

/* QP numbers: not 0 or 1, not the same twice, not at once the same again. */
static void numbers(struct env *env, const struct test *test)
{
	enum { N = 40 };
	struct end ends[N], again;
	uint32_t last;
	int i, j;

	(void)test;
	for (i = 0; i < N; i++) {
		end_new(&ends[i], &env->a, OPTS(.depth = 4));
		CHECK(ends[i].qp->qp_num > 1 && ends[i].qp->qp_num < 1 << 24,
		      "QP number %u", ends[i].qp->qp_num);
		for (j = 0; j < i; j++)
			CHECK(ends[i].qp->qp_num != ends[j].qp->qp_num, "QP number %u twice",
			      ends[i].qp->qp_num);
	}
	last = ends[N - 1].qp->qp_num;
	for (i = 0; i < N; i++)
		end_free(&ends[i]);
	if (!is_metaroce())
		return;
	/* A late packet for the old QP must not meet a new one. */
	end_new(&again, &env->a, OPTS(.depth = 4));
	CHECK(again.qp->qp_num != last, "QP number %u used again at once", last);
	end_free(&again);
}

/* A smaller path MTU than the port's, the two ends of one opinion. */
static void mtu(struct env *env, const struct test *test)
{
	struct pair pair;

	pair_new(&pair, env, OPTS(.mtu = test->arg[0]));
	pair_check_works(&pair);
	pair_free(&pair);
}

void tests_qp_create(void)
{
	int i;

	TEST("qp", limits, "limits of create_qp");
	TEST("qp", no_xrc, "no XRC domains: EOPNOTSUPP");
	test_add("qp", unsupported_type, 0, IBV_QPT_UC, 0, "create UC or EOPNOTSUPP");
	test_add("qp", unsupported_type, 0, IBV_QPT_UD, 0, "create UD or EOPNOTSUPP");
	test_add("qp", unsupported_type, 0, IBV_QPT_RAW_PACKET, 0,
		 "create RAW_PACKET or EOPNOTSUPP");
	TEST("qp", busy_objects, "objects in use");
	TEST("qp", numbers, "QP numbers");
	for (i = IBV_MTU_256; i <= IBV_MTU_4096; i++)
		test_add("qp", mtu, 0, i, 0, "path MTU %d", 128 << i);
}
