// SPDX-License-Identifier: GPL-2.0
/* Direct verbs: what holds for all queue pairs of a device, and who may say so. */
#include "dv.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL_PLANES	0xff
#define NOBODY		65534

#define SET(host, mask, ...)							\
	dv.modify_device((host)->ctx, &(struct metaroce_dv_device_attr){ __VA_ARGS__ }, mask)

/* Connections outlive their queue pairs by a while. */
static void no_connections(struct env *env)
{
	long long end = now_ms() + WAIT_MS;

	while (counter(&env->a, "connections") || counter(&env->b, "connections"))
		CHECK(now_ms() < end, "there are connections still");
}

static void all_paths(struct env *env, const struct test *test)
{
	const uint32_t mask = METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE;
	struct metaroce_dv_device_attr before;
	struct metaroce_dv_qp_attr attr = { .paths_per_plane = 5 };
	struct pair pair, other;
	int planes;

	(void)test;
	dv_load();
	before = dv_device(&env->a);
	planes = __builtin_popcount(before.planes);
	no_connections(env);
	OK(SET(&env->a, mask, .paths_per_plane = 3));
	CHECK_EQ(dv_device(&env->a).paths_per_plane, 3, "the device's");
	pair_new(&pair, env, OPTS());
	pair_check_works(&pair);
	CHECK_EQ(dv_qp(&pair.a).paths_per_plane, 3, "the queue pair's");
	CHECK_EQ(dv_qp(&pair.a).paths, 3 * planes, "paths");
	CHECK_EQ(dv_qp(&pair.a).flags, METAROCE_DV_QP_FLAG_ESTABLISHED, "the flags");
	/* The peer has not changed anything. */
	CHECK_EQ(dv_qp(&pair.b).paths_per_plane, dv_device(&env->b).paths_per_plane, "the peer's");

	/* A queue pair that wants others gets them; one that does not shares those. */
	end_new(&other.a, &env->a, OPTS());
	end_new(&other.b, &env->b, OPTS());
	OK(dv.modify_qp(other.a.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	pair_connect(&other, OPTS());
	pair_check_works(&other);
	CHECK_EQ(dv_qp(&other.a).paths, 5 * planes, "paths of the other");
	pair_free(&other);
	OK(SET(&env->a, mask, .paths_per_plane = before.paths_per_plane));
	pair_new(&other, env, OPTS());
	pair_check_works(&other);
	CHECK_EQ(dv_qp(&other.a).connection, dv_qp(&pair.a).connection, "the connection");
	CHECK_EQ(dv_qp(&other.a).paths, 3 * planes, "paths of what there was");
	pair_free(&other);
	pair_free(&pair);
	no_connections(env);
}

/* Data go by these planes alone, from now on. */
static void check_planes(struct env *env, struct pair *pair, uint32_t planes)
{
	const char *const names[] = { "plane0_tx_packets", "plane1_tx_packets" };
	long long end = now_ms() + WAIT_MS;
	unsigned long long before[2];
	int i, n;

	CHECK_EQ(dv_qp(&pair->a).planes, planes, "planes");
	for (i = 0; i < 2; i++)
		before[i] = counter(&env->a, names[i]);
	/* A plane that is back is tried first. */
	for (n = 0; n < 2;) {
		pair_check_works(pair);
		for (n = 0, i = 0; i < 2; i++)
			n += !(planes & 1U << i) || counter(&env->a, names[i]) > before[i];
		CHECK(now_ms() < end, "a plane has nothing");
	}
	for (i = 0; i < 2; i++)
		CHECK(planes & 1U << i || counter(&env->a, names[i]) == before[i],
		      "packets of plane %d", i);
}

/* Connections that there are follow as well. */
static void all_planes(struct env *env, const struct test *test)
{
	const uint32_t mask = METAROCE_DV_DEVICE_ATTR_PLANES;
	struct metaroce_dv_qp_attr attr = { .planes = 2 };
	struct pair pair, own, new;

	(void)test;
	dv_load();
	if (dv_device(&env->a).planes != 3)
		SKIP("not two planes");
	pair_new(&pair, env, OPTS());
	end_new(&own.a, &env->a, OPTS());
	end_new(&own.b, &env->b, OPTS());
	OK(dv.modify_qp(own.a.qp, &attr, METAROCE_DV_QP_ATTR_PLANES));
	pair_connect(&own, OPTS());
	check_planes(env, &pair, 3);
	OK(SET(&env->a, mask, .used_planes = 1));
	CHECK_EQ(dv_device(&env->a).used_planes, 1, "planes that are used");
	check_planes(env, &pair, 1);
	pair_new(&new, env, OPTS());
	check_planes(env, &new, 1);
	/* But for a queue pair that has chosen. */
	check_planes(env, &own, 2);
	OK(SET(&env->a, mask, .used_planes = 2));
	check_planes(env, &pair, 2);
	check_planes(env, &new, 2);
	/* Planes that do not exist yet may be named with one that does. */
	OK(SET(&env->a, mask, .used_planes = 0x81));
	check_planes(env, &pair, 1);
	OK(SET(&env->a, mask, .used_planes = ALL_PLANES));
	check_planes(env, &pair, 3);
	check_planes(env, &new, 3);
	check_planes(env, &own, 2);
	pair_free(&new);
	pair_free(&own);
	pair_free(&pair);
}

static void all_laws(struct env *env, const struct test *test)
{
	const uint32_t mask = METAROCE_DV_DEVICE_ATTR_CC;
	struct metaroce_dv_qp_attr attr = { .cc = METAROCE_DV_CC_FIXED };
	struct pair early, late, shared;
	uint32_t before;

	(void)test;
	dv_load();
	before = dv_device(&env->a).cc;
	end_new(&early.a, &env->a, OPTS());
	end_new(&early.b, &env->b, OPTS());
	end_new(&late.a, &env->a, OPTS());
	end_new(&late.b, &env->b, OPTS());
	OK(dv.modify_qp(early.a.qp, &attr, METAROCE_DV_QP_ATTR_CC));
	attr.paths_per_plane = 2;
	OK(dv.modify_qp(late.a.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	pair_connect(&early, OPTS());
	pair_connect(&late, OPTS());
	pair_new(&shared, env, OPTS());
	pair_check_works(&early);
	pair_check_works(&late);
	CHECK_EQ(dv_qp(&late.a).cc, before, "what was not chosen yet");
	OK(SET(&env->a, mask, .cc = METAROCE_DV_CC_DELAY));
	CHECK_EQ(dv_device(&env->a).cc, METAROCE_DV_CC_DELAY, "the device's");
	CHECK_EQ(dv_qp(&shared.a).cc, METAROCE_DV_CC_DELAY, "that of a shared connection");
	CHECK_EQ(dv_qp(&late.a).cc, METAROCE_DV_CC_DELAY, "what was not chosen");
	CHECK_EQ(dv_qp(&early.a).cc, METAROCE_DV_CC_FIXED, "what was chosen");
	OK(dv.modify_qp(late.a.qp, &attr, METAROCE_DV_QP_ATTR_CC));
	OK(SET(&env->a, mask, .cc = before));
	CHECK_EQ(dv_qp(&shared.a).cc, before, "that of a shared connection");
	CHECK_EQ(dv_qp(&late.a).cc, METAROCE_DV_CC_FIXED, "what was chosen later");
	CHECK_EQ(dv_qp(&early.a).cc, METAROCE_DV_CC_FIXED, "what was chosen");
	pair_check_works(&shared);
	pair_check_works(&early);
	pair_check_works(&late);
	pair_free(&shared);
	pair_free(&early);
	pair_free(&late);
}

static void bad_device_values(struct env *env, const struct test *test)
{
	struct metaroce_dv_device_attr before, after;
	struct host *a = &env->a;

	(void)test;
	dv_load();
	before = dv_device(a);
	OK(SET(a, 0, .used_planes = 77));
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PLANES, .used_planes = 0), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PLANES, .used_planes = 0x80), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PLANES, .used_planes = 0x101), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE, .paths_per_plane = 0), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE,
		    .paths_per_plane = before.max_paths_per_plane + 1), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE, .paths_per_plane = 257), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_CC, .cc = 3), EINVAL);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_OFFLOAD, .offload = 4), EINVAL);
	/* That is of queue pairs. */
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_OFFLOAD, .offload = METAROCE_DV_OFFLOAD_DEVICE),
		EINVAL);
	REFUSED(SET(a, 1U << 4, .cc = 0), EOPNOTSUPP);
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_CC, .comp_mask = 1), EOPNOTSUPP);
	/* All or nothing. */
	REFUSED(SET(a, METAROCE_DV_DEVICE_ATTR_CC | METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE |
		       METAROCE_DV_DEVICE_ATTR_OFFLOAD | METAROCE_DV_DEVICE_ATTR_PLANES,
		    .cc = METAROCE_DV_CC_FIXED, .paths_per_plane = 1,
		    .offload = METAROCE_DV_OFFLOAD_PREFER, .used_planes = 0x40), EINVAL);
	after = dv_device(a);
	CHECK_EQ(after.used_planes, before.used_planes, "planes that are used");
	CHECK_EQ(after.paths_per_plane, before.paths_per_plane, "paths");
	CHECK_EQ(after.cc, before.cc, "law");
	CHECK_EQ(after.offload, before.offload, "offload");
}

static int own_policy(struct end *end, uint32_t policy)
{
	struct metaroce_dv_qp_attr attr = { .offload = policy };

	return dv.modify_qp(end->qp, &attr, METAROCE_DV_QP_ATTR_OFFLOAD);
}

/* What an ordinary user may do while the device has this policy. */
static void __attribute__((noreturn)) as_user(struct host *host, struct end *end, uint32_t all)
{
	struct metaroce_dv_qp_attr attr = { .cc = METAROCE_DV_CC_FIXED };
	uint32_t policy;

	CHECK(!setresuid(NOBODY, NOBODY, NOBODY), "setresuid: %m");
	REFUSED(SET(host, 0, .cc = 0), EPERM);
	REFUSED(SET(host, METAROCE_DV_DEVICE_ATTR_CC, .cc = dv_device(host).cc), EPERM);
	REFUSED(SET(host, METAROCE_DV_DEVICE_ATTR_PLANES, .used_planes = ALL_PLANES), EPERM);
	OK(own_policy(end, METAROCE_DV_OFFLOAD_DEVICE));
	CHECK_EQ(dv_qp(end).offload, METAROCE_DV_OFFLOAD_DEVICE, "offload");
	for (policy = METAROCE_DV_OFFLOAD_OFF; policy <= METAROCE_DV_OFFLOAD_REQUIRE; policy++) {
		bool may = all == METAROCE_DV_OFFLOAD_PREFER || policy == all;

		REFUSED(own_policy(end, policy), may ? 0 : EPERM);
	}
	OK(dv.modify_qp(end->qp, &attr, METAROCE_DV_QP_ATTR_CC));
	exit(KSFT_PASS);
}

/* Ordinary users have a say in what is theirs alone. */
static void ordinary_user(struct env *env, const struct test *test)
{
	struct host *a = &env->a;
	uint32_t before;
	struct end end;
	int status;
	pid_t pid;

	dv_load();
	before = dv_device(a).offload;
	end_new(&end, a, OPTS());
	OK(own_policy(&end, METAROCE_DV_OFFLOAD_PREFER));
	CHECK_EQ(dv_qp(&end).offload, METAROCE_DV_OFFLOAD_PREFER, "offload");
	OK(SET(a, METAROCE_DV_DEVICE_ATTR_OFFLOAD, .offload = test->arg[0]));
	CHECK_EQ(dv_device(a).offload, test->arg[0], "the device's policy");
	pid = fork();
	if (!pid)
		as_user(a, &end, test->arg[0]);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork: %m");
	OK(SET(a, METAROCE_DV_DEVICE_ATTR_OFFLOAD, .offload = before));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == KSFT_PASS, "as an ordinary user");
	end_free(&end);
}

static bool is_offloaded(struct end *end)
{
	return dv_qp(end).flags & METAROCE_DV_QP_FLAG_OFFLOADED;
}

static void connected_with(struct pair *pair, struct env *env, uint32_t policy)
{
	end_new(&pair->a, &env->a, OPTS());
	end_new(&pair->b, &env->b, OPTS());
	OK(own_policy(&pair->a, policy));
	pair_connect(pair, OPTS());
	pair_check_works(pair);
	CHECK_EQ(dv_qp(&pair->a).offload, policy, "offload");
}

/* To be run where a NIC takes queue pairs, and the device's policy is to prefer that. */
static void own_policies(struct env *env, const struct test *test)
{
	struct pair pair;

	(void)test;
	dv_load();
	connected_with(&pair, env, METAROCE_DV_OFFLOAD_DEVICE);
	CHECK(is_offloaded(&pair.a), "not at the NIC as the device wants it");
	pair_free(&pair);
	connected_with(&pair, env, METAROCE_DV_OFFLOAD_REQUIRE);
	CHECK(is_offloaded(&pair.a), "not at the NIC");
	pair_free(&pair);
	connected_with(&pair, env, METAROCE_DV_OFFLOAD_OFF);
	CHECK(!is_offloaded(&pair.a), "at the NIC");
	/* It moves, there and back. */
	OK(own_policy(&pair.a, METAROCE_DV_OFFLOAD_PREFER));
	CHECK(is_offloaded(&pair.a), "not moved to the NIC");
	pair_check_works(&pair);
	OK(own_policy(&pair.a, METAROCE_DV_OFFLOAD_OFF));
	CHECK(!is_offloaded(&pair.a), "not moved back");
	pair_check_works(&pair);
	pair_free(&pair);
}

/* What only software does is software's, or nobody's. */
static void order_in_software(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = { .ordering = METAROCE_DV_LAST_BYTE_ORDERED };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct pair pair;

	(void)test;
	dv_load();
	end_new(&pair.a, &env->a, OPTS());
	end_new(&pair.b, &env->b, OPTS());
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_ORDERING));
	pair_connect(&pair, OPTS());
	pair_check_works(&pair);
	CHECK(!is_offloaded(&pair.a), "at the NIC");
	OK(own_policy(&pair.a, METAROCE_DV_OFFLOAD_REQUIRE));
	CHECK(!is_offloaded(&pair.a), "at the NIC");
	pair_check_works(&pair);
	/* A reset forgets the order. */
	OK(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE));
	OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
	pair_connect(&pair, OPTS());
	pair_check_works(&pair);
	CHECK(is_offloaded(&pair.a), "not at the NIC");
	pair_free(&pair);
}

/* Memory that no NIC can have is refused while one has queue pairs that could name it. */
static void memory_in_software(struct env *env, const struct test *test)
{
	struct ibv_pd *pd = env->a.pd;
	struct dma_buf dma;
	struct pair pair;
	struct area area;
	struct buf buf;
	bool has_dma;
	void *p = pages(4096);

	(void)test;
	dv_load();
	has_dma = dma_buf_new(&dma, 4096);
	connected_with(&pair, env, METAROCE_DV_OFFLOAD_DEVICE);
	CHECK(is_offloaded(&pair.a), "not at the NIC");
	REFUSED_PTR(ibv_reg_mr(pd, p, 4096, ACCESS_ALL | IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
	if (has_dma)
		REFUSED_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, dma.fd, ACCESS_ALL), EOPNOTSUPP);
	/* Nothing is left of that, and other memory is as welcome as before. */
	buf_new(&buf, &env->a, 4096, ACCESS_ALL);
	pair_check_works(&pair);
	CHECK(is_offloaded(&pair.a), "not at the NIC any more");
	buf_free(&buf);
	pair_free(&pair);
	area_new(&area, &env->a, 4096, ACCESS_ALL);
	area_free(&area);
	if (has_dma) {
		struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, dma.fd, ACCESS_ALL);

		CHECK(mr, "ibv_reg_dmabuf_mr: %m");
		OK(ibv_dereg_mr(mr));
		dma_buf_free(&dma);
	}
}

/* A queue pair that cannot move, for its memory, goes on with an atomic that waits for that. */
static void waits_in_software(struct env *env, const struct test *test)
{
	enum { ACCESS = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC };
	struct opts opts = *OPTS(.qp_access = ACCESS, .timeout = 0);
	struct ibv_send_wr *bad, wr = {
		.num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_sge sge;
	struct area word;
	struct pair pair;
	struct buf buf;
	long long end;
	int fd;

	(void)test;
	dv_load();
	end_new(&pair.a, &env->a, &opts);
	end_new(&pair.b, &env->b, &opts);
	pair_connect(&pair, &opts);
	pair_check_works(&pair);
	/* Those that were at a NIC can move. */
	CHECK(is_offloaded(&pair.b), "not at the NIC");
	OK(own_policy(&pair.a, METAROCE_DV_OFFLOAD_OFF));
	OK(own_policy(&pair.b, METAROCE_DV_OFFLOAD_OFF));
	CHECK(!is_offloaded(&pair.b), "not moved back");
	buf_new(&buf, &env->a, 4096, ACCESS_ALL);
	area_new(&word, &env->b, 4096, ACCESS);
	fd = withhold(word.p, word.len);
	sge = (struct ibv_sge){ (uintptr_t)buf.p, 8, buf.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.rkey = word.mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)word.p;
	wr.wr.atomic.compare_add = 9;
	OK(ibv_post_send(pair.a.qp, &wr, &bad));
	expect_fault(fd, word.p);
	for (end = now_ms() + QUIET_MS; now_ms() < end;) {
		OK(own_policy(&pair.b, METAROCE_DV_OFFLOAD_PREFER));
		CHECK(!is_offloaded(&pair.b), "at the NIC");
		OK(own_policy(&pair.b, METAROCE_DV_OFFLOAD_OFF));
	}
	cq_expect_empty(&pair.a.scq, "before the page is there");
	give(fd, word.p, word.len);
	cq_expect(&pair.a.scq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(*(uint64_t *)word.p, 9, "the atomic's word");
	pair_check_works(&pair);
	close(fd);
	pair_free(&pair);
	buf_free(&buf);
	area_free(&word);
}

void tests_dv_device(void)
{
	TEST("dv_offload", own_policies, "policies of queue pairs");
	TEST("dv_offload", order_in_software, "order of last bytes");
	TEST("dv_offload", memory_in_software, "memory that is not for NICs");
	TEST("dv_offload", waits_in_software, "an atomic that waits while its queue pair cannot move");
	TEST("dv", all_paths, "paths of all queue pairs");
	TEST("dv", all_planes, "planes of all queue pairs, also connected ones");
	TEST("dv", all_laws, "congestion control of all queue pairs");
	TEST("dv", bad_device_values, "values of a device out of range");
	test_add("dv", ordinary_user, 0, METAROCE_DV_OFFLOAD_OFF, 0, "ordinary users, offload off");
	test_add("dv", ordinary_user, 0, METAROCE_DV_OFFLOAD_PREFER, 0,
		 "ordinary users, offload preferred");
	test_add("dv", ordinary_user, 0, METAROCE_DV_OFFLOAD_REQUIRE, 0,
		 "ordinary users, offload required");
}
