// SPDX-License-Identifier: GPL-2.0
/* Datagrams to groups. */
#include "ud.h"

#include <errno.h>
#include <string.h>

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
	struct ibv_ah_attr attr = ud_ah_attr(&env->a, &env->b);
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

void tests_ud_multicast(void)
{
	TEST("ud", test_multicast, "multicast groups");
	TEST("ud", test_multicast_refused, "multicast groups, refused");
	TEST("ud", test_multicast_limits, "multicast groups, too many");
}
