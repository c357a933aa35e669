// SPDX-License-Identifier: GPL-2.0
/* Direct verbs: metaroce_dv_*, and the methods of the module under them. */
#include "dv.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/metaroce-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

struct dv dv;

static void *symbol(void *library, const char *name)
{
	void *p = dlvsym(library, name, "METAROCE_1.0");

	CHECK(p, "%s: %s", name, dlerror());
	return p;
}

/* Not linked: the other tests need no such library. */
void dv_load(void)
{
	void *library;

	if (!is_metaroce())
		SKIP("about metaroce only");
	library = dlopen("libmetaroce.so.1", RTLD_NOW);
	CHECK(library, "%s", dlerror());
	dv.is_supported = symbol(library, "metaroce_dv_is_supported");
	dv.query_device = symbol(library, "metaroce_dv_query_device");
	dv.modify_device = symbol(library, "metaroce_dv_modify_device");
	dv.query_qp = symbol(library, "metaroce_dv_query_qp");
	dv.modify_qp = symbol(library, "metaroce_dv_modify_qp");
}

struct metaroce_dv_device_attr dv_device(struct host *host)
{
	struct metaroce_dv_device_attr attr = { };

	OK(dv.query_device(host->ctx, &attr));
	return attr;
}

struct metaroce_dv_qp_attr dv_qp(struct end *end)
{
	struct metaroce_dv_qp_attr attr = { };

	OK(dv.query_qp(end->qp, &attr));
	return attr;
}

static void ends_new(struct pair *pair, struct env *env)
{
	end_new(&pair->a, &env->a, OPTS());
	end_new(&pair->b, &env->b, OPTS());
}

static void connect_and_check(struct pair *pair)
{
	pair_connect(pair, OPTS());
	pair_check_works(pair);
}

/* A connection that is the queue pair's alone, at both ends. */
static void check_own(struct pair *pair)
{
	const uint32_t flags = METAROCE_DV_QP_FLAG_OWN_CONNECTION |
		METAROCE_DV_QP_FLAG_ESTABLISHED;

	CHECK_EQ(dv_qp(&pair->a).flags, flags, "the flags of a");
	CHECK_EQ(dv_qp(&pair->b).flags, flags, "the flags of b");
}

static void query_device(struct env *env, const struct test *test)
{
	struct metaroce_dv_device_attr attr;
	int i;

	(void)test;
	dv_load();
	CHECK(dv.is_supported(env->a.ctx->device), "not supported");
	CHECK(!dv.is_supported(NULL), "no device is supported");
	attr = dv_device(&env->a);
	CHECK(attr.planes & 1, "no plane 0");
	CHECK_EQ(attr.planes_up, attr.planes, "planes that are up");
	for (i = 0; i < METAROCE_DV_MAX_PLANES; i++)
		CHECK_EQ(!!attr.ifindex[i], !!(attr.planes & 1U << i), "whether a plane has a netdev");
	CHECK(attr.paths_per_plane >= 1 && attr.paths_per_plane <= attr.max_paths_per_plane,
	      "%u paths a plane", attr.paths_per_plane);
	CHECK_EQ(attr.max_paths, 64, "max_paths");
	CHECK(attr.cc_supported & 1U << attr.cc, "law %u", attr.cc);
	CHECK_EQ(attr.ordering, METAROCE_DV_COMPLETION_ORDERED, "ordering");
	CHECK_EQ(attr.ordering_supported,
		 METAROCE_DV_COMPLETION_ORDERED | METAROCE_DV_LAST_BYTE_ORDERED,
		 "what may be asked for of it");
	CHECK_EQ(attr.used_planes, 0xff, "planes that are used");
	CHECK_EQ(attr.offload, METAROCE_DV_OFFLOAD_OFF, "offload");
	attr.comp_mask = 1;
	REFUSED(dv.query_device(env->a.ctx, &attr), EOPNOTSUPP);
}

static void defaults(struct env *env, const struct test *test)
{
	struct metaroce_dv_device_attr all;
	struct metaroce_dv_qp_attr attr;
	struct pair pair;

	(void)test;
	dv_load();
	all = dv_device(&env->a);
	ends_new(&pair, env);
	attr = dv_qp(&pair.a);
	CHECK_EQ(attr.connection, 0, "the connection");
	CHECK_EQ(attr.flags, 0, "the flags");
	CHECK_EQ(attr.planes, all.planes, "planes");
	CHECK_EQ(attr.ordering, all.ordering, "ordering");
	CHECK_EQ(attr.offload, METAROCE_DV_OFFLOAD_DEVICE, "offload");
	connect_and_check(&pair);
	attr = dv_qp(&pair.a);
	CHECK(attr.connection, "no connection");
	CHECK_EQ(attr.flags, METAROCE_DV_QP_FLAG_ESTABLISHED, "the flags");
	CHECK_EQ(attr.planes_up, all.planes_up, "planes that are up");
	CHECK_EQ(attr.paths, all.paths_per_plane * __builtin_popcount(all.planes), "paths");
	CHECK_EQ(attr.cc, all.cc, "law");
	attr.comp_mask = 1;
	REFUSED(dv.query_qp(pair.a.qp, &attr), EOPNOTSUPP);
	pair_free(&pair);
}

/* Data go by the plane that was chosen, and by no other. */
static void one_plane(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = { .planes = 1U << test->arg[0] };
	unsigned long long before, chosen;
	char name[2][48];
	struct pair pair;

	dv_load();
	if (dv_device(&env->a).planes != 3)
		SKIP("not two planes");
	snprintf(name[0], sizeof(name[0]), "plane%ld_tx_packets", test->arg[0]);
	snprintf(name[1], sizeof(name[1]), "plane%ld_tx_packets", 1 - test->arg[0]);
	ends_new(&pair, env);
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_PLANES));
	chosen = counter(&env->a, name[0]);
	before = counter(&env->a, name[1]);
	connect_and_check(&pair);
	check_own(&pair);
	attr = dv_qp(&pair.a);
	CHECK_EQ(attr.planes, 1U << test->arg[0], "planes");
	CHECK_EQ(attr.planes_up, attr.planes, "planes that are up");
	CHECK(counter(&env->a, name[0]) > chosen, "nothing on the plane");
	CHECK_EQ(counter(&env->a, name[1]), before, "packets of the other plane");
	pair_free(&pair);
}

static void paths(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = { .paths_per_plane = test->arg[0] };
	struct pair pair;
	int planes;

	dv_load();
	planes = __builtin_popcount(dv_device(&env->a).planes);
	ends_new(&pair, env);
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	OK(dv.modify_qp(pair.b.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	CHECK_EQ(dv_qp(&pair.a).paths_per_plane, test->arg[0], "paths_per_plane");
	connect_and_check(&pair);
	check_own(&pair);
	CHECK_EQ(dv_qp(&pair.a).paths, planes * test->arg[0], "paths of a");
	CHECK_EQ(dv_qp(&pair.b).paths, planes * test->arg[0], "paths of b");
	pair_free(&pair);
}

/* The law of one queue pair, which may change at any time. */
static void law(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = { .cc = METAROCE_DV_CC_DELAY };
	struct pair pair, other;

	(void)test;
	dv_load();
	ends_new(&pair, env);
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_CC));
	connect_and_check(&pair);
	check_own(&pair);
	CHECK_EQ(dv_qp(&pair.a).cc, METAROCE_DV_CC_DELAY, "the law");
	attr.cc = METAROCE_DV_CC_FIXED;
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_CC));
	CHECK_EQ(dv_qp(&pair.a).cc, METAROCE_DV_CC_FIXED, "the law");
	pair_check_works(&pair);

	/* Others are not concerned, and what is shared is not one's to change. */
	pair_new(&other, env, OPTS());
	pair_check_works(&other);
	CHECK_EQ(dv_qp(&other.a).cc, dv_device(&env->a).cc, "another's law");
	REFUSED(dv.modify_qp(other.a.qp, &attr, METAROCE_DV_QP_ATTR_CC), EINVAL);
	pair_free(&other);
	pair_free(&pair);
}

/* All at once, at both ends; a reset takes it back. */
static void reset_forgets(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = {
		.planes = 1, .paths_per_plane = 2, .cc = METAROCE_DV_CC_FIXED,
		.ordering = METAROCE_DV_LAST_BYTE_ORDERED,
	};
	const uint32_t mask = METAROCE_DV_QP_ATTR_PLANES | METAROCE_DV_QP_ATTR_PATHS_PER_PLANE |
		METAROCE_DV_QP_ATTR_CC | METAROCE_DV_QP_ATTR_ORDERING;
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct pair pair;

	(void)test;
	dv_load();
	ends_new(&pair, env);
	OK(dv.modify_qp(pair.a.qp, &attr, mask));
	OK(dv.modify_qp(pair.b.qp, &attr, mask));
	connect_and_check(&pair);
	check_own(&pair);
	attr = dv_qp(&pair.a);
	CHECK_EQ(attr.paths, 2 * __builtin_popcount(dv_device(&env->a).planes), "paths");
	CHECK_EQ(attr.ordering, dv_device(&env->a).ordering_supported, "ordering");
	OK(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE));
	OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
	attr = dv_qp(&pair.a);
	CHECK_EQ(attr.connection, 0, "the connection");
	CHECK_EQ(attr.paths_per_plane, dv_device(&env->a).paths_per_plane, "paths_per_plane");
	CHECK_EQ(attr.ordering, dv_device(&env->a).ordering, "ordering");
	connect_and_check(&pair);
	CHECK_EQ(dv_qp(&pair.a).flags, METAROCE_DV_QP_FLAG_ESTABLISHED, "the flags");

	/* And with others than before. */
	OK(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE));
	OK(ibv_modify_qp(pair.b.qp, &reset, IBV_QP_STATE));
	attr.paths_per_plane = 3;
	OK(dv.modify_qp(pair.a.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	OK(dv.modify_qp(pair.b.qp, &attr, METAROCE_DV_QP_ATTR_PATHS_PER_PLANE));
	connect_and_check(&pair);
	check_own(&pair);
	CHECK_EQ(dv_qp(&pair.a).paths,
		 3 * __builtin_popcount(dv_device(&env->a).planes), "paths");
	pair_free(&pair);
}

static void bad_values(struct env *env, const struct test *test)
{
	struct metaroce_dv_device_attr all;
	struct pair pair;

	(void)test;
	dv_load();
	all = dv_device(&env->a);
	ends_new(&pair, env);
#define MODIFY(mask, ...)							\
	dv.modify_qp(pair.a.qp, &(struct metaroce_dv_qp_attr){ __VA_ARGS__ }, mask)
	OK(MODIFY(0, .planes = 77));
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PLANES, .planes = 0), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PLANES, .planes = all.planes | 0x80), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PLANES, .planes = 0x101), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PATHS_PER_PLANE, .paths_per_plane = 0), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PATHS_PER_PLANE,
		       .paths_per_plane = all.max_paths_per_plane + 1), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PATHS_PER_PLANE, .paths_per_plane = 257), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_CC, .cc = 3), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_CC, .cc = UINT32_MAX), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_ORDERING, .ordering = 1U << 2), EOPNOTSUPP);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_ORDERING, .ordering = 1U << 31), EOPNOTSUPP);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_OFFLOAD, .offload = 4), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_OFFLOAD, .offload = UINT32_MAX), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_OFFLOAD | METAROCE_DV_QP_ATTR_ORDERING,
		       .offload = METAROCE_DV_OFFLOAD_REQUIRE, .ordering = 1U << 31), EOPNOTSUPP);
	REFUSED(MODIFY(1U << 5, .planes = 1), EOPNOTSUPP);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PLANES, .comp_mask = 1, .planes = 1), EOPNOTSUPP);
	/* Nothing of all that was taken. */
	CHECK_EQ(dv_qp(&pair.a).planes, all.planes, "planes");
	CHECK_EQ(dv_qp(&pair.a).ordering, all.ordering, "ordering");
	CHECK_EQ(dv_qp(&pair.a).offload, METAROCE_DV_OFFLOAD_DEVICE, "offload");
	connect_and_check(&pair);
	CHECK_EQ(dv_qp(&pair.a).flags, METAROCE_DV_QP_FLAG_ESTABLISHED, "the flags");
	/* Too late. */
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PLANES, .planes = 1), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_PATHS_PER_PLANE, .paths_per_plane = 1), EINVAL);
	REFUSED(MODIFY(METAROCE_DV_QP_ATTR_ORDERING, .ordering = METAROCE_DV_LAST_BYTE_ORDERED),
		EINVAL);
	OK(MODIFY(0, .planes = 77));
	pair_free(&pair);
}

static void other_services(struct env *env, const struct test *test)
{
	struct metaroce_dv_qp_attr attr = { .planes = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	struct end end;

	dv_load();
	end_new(&end, &env->a, OPTS());
	init = end_init_attr(&end, OPTS());
	init.qp_type = test->arg[0];
	qp = ibv_create_qp(env->a.pd, &init);
	CHECK(qp, "ibv_create_qp: %m");
	REFUSED(dv.modify_qp(qp, &attr, METAROCE_DV_QP_ATTR_PLANES), EOPNOTSUPP);
	if (test->arg[0] == IBV_QPT_UD)
		REFUSED(dv.query_qp(qp, &attr), EOPNOTSUPP);
	OK(ibv_destroy_qp(qp));
	end_free(&end);
}

/* A call as the library makes it, with anything in it. */
struct call {
	struct ib_uverbs_ioctl_hdr header;
	struct ib_uverbs_attr attrs[3];
};

static struct call call_of(int method, int n)
{
	struct call call = {
		.header = {
			.length = sizeof(call.header) + n * sizeof(call.attrs[0]),
			.object_id = METAROCE_OBJECT_DV,
			.method_id = method,
			.num_attrs = n,
			.driver_id = METAROCE_DRIVER_ID,
		},
	};
	int i;

	for (i = 0; i < n; i++)
		call.attrs[i].flags = UVERBS_ATTR_F_MANDATORY;
	return call;
}

static int make(struct env *env, struct call *call)
{
	return ioctl(env->a.ctx->cmd_fd, _IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr), call);
}

static void bad_calls(struct env *env, const struct test *test)
{
	struct {
		struct metaroce_dv_modify_qp req;
		uint64_t more;
	} longer = { .req = { .mask = METAROCE_DV_QP_PLANES, .planes = 1 } };
	struct {
		struct metaroce_dv_device resp;
		uint64_t more;
	} answer = { .more = 77 };
	struct {
		struct metaroce_dv_modify_device req;
		uint64_t more;
	} change = { .more = 1 };
	struct call call, good;
	struct end end;

	(void)test;
	dv_load();
	end_new(&end, &env->a, OPTS());
	good = call_of(METAROCE_METHOD_MODIFY_QP, 2);
	good.attrs[0].attr_id = METAROCE_ATTR_MODIFY_QP_HANDLE;
	good.attrs[0].data = end.qp->handle;
	good.attrs[1].attr_id = METAROCE_ATTR_MODIFY_QP_REQ;
	good.attrs[1].len = sizeof(longer.req);
	good.attrs[1].data = (uintptr_t)&longer.req;
	call = good;
	OK(make(env, &call));

	/* Objects. */
	call = good;
	call.attrs[0].data = 0x7fff0000;
	REFUSED(make(env, &call), ENOENT);
	call = good;
	call.attrs[0].data = env->a.pd->handle;
	REFUSED(make(env, &call), env->a.pd->handle == end.qp->handle ? 0 : EINVAL);
	call = good;
	call.attrs[0].len = 4;
	REFUSED(make(env, &call), EINVAL);

	/* Structures. */
	call = good;
	call.attrs[1].len--;
	REFUSED(make(env, &call), EINVAL);
	call = good;
	call.attrs[1].len = sizeof(longer);
	OK(make(env, &call));
	longer.more = 1;
	call = good;
	call.attrs[1].len = sizeof(longer);
	REFUSED(make(env, &call), EOPNOTSUPP);
	call = good;
	call.attrs[1].data = 8;
	REFUSED(make(env, &call), EFAULT);

	/* Attributes: missing, unknown, twice. */
	call = good;
	call.header.num_attrs = 1;
	call.header.length -= sizeof(call.attrs[0]);
	REFUSED(make(env, &call), EINVAL);
	call = good;
	call.header.num_attrs = 3;
	call.header.length += sizeof(call.attrs[0]);
	call.attrs[2] = (struct ib_uverbs_attr){
		.attr_id = METAROCE_ATTR_MODIFY_QP_REQ + 1, .flags = UVERBS_ATTR_F_MANDATORY,
	};
	REFUSED(make(env, &call), EPROTONOSUPPORT);
	call.attrs[2] = call.attrs[1];
	REFUSED(make(env, &call), EINVAL);

	/* Methods and drivers. */
	call = good;
	call.header.method_id = METAROCE_METHOD_MODIFY_DEVICE + 1;
	REFUSED(make(env, &call), EPROTONOSUPPORT);
	call = good;
	call.header.driver_id++;
	REFUSED(make(env, &call), EINVAL);

	/* What the kernel does not know of an answer is zero. */
	call = call_of(METAROCE_METHOD_QUERY_DEVICE, 1);
	call.attrs[0].attr_id = METAROCE_ATTR_QUERY_DEVICE_RESP;
	call.attrs[0].len = sizeof(answer);
	call.attrs[0].data = (uintptr_t)&answer;
	OK(make(env, &call));
	CHECK_EQ(answer.more, 0, "what is beyond the answer");
	CHECK(answer.resp.planes & 1, "no plane 0");
	call.attrs[0].data = 8;
	REFUSED(make(env, &call), EFAULT);
	call.attrs[0].data = (uintptr_t)&answer;
	call.attrs[0].len = METAROCE_DV_DEVICE_MIN - 8;
	REFUSED(make(env, &call), EINVAL);

	/* Who knows the structure as it was first gets that of it. */
	memset(&answer, 0x55, sizeof(answer));
	call.attrs[0].len = METAROCE_DV_DEVICE_MIN;
	OK(make(env, &call));
	CHECK(answer.resp.planes & 1, "no plane 0");
	CHECK_EQ(answer.resp.used_planes, 0x55555555, "what has no place");

	/* The device. */
	call = call_of(METAROCE_METHOD_MODIFY_DEVICE, 1);
	call.attrs[0].attr_id = METAROCE_ATTR_MODIFY_DEVICE_REQ;
	call.attrs[0].len = sizeof(change.req);
	call.attrs[0].data = (uintptr_t)&change;
	OK(make(env, &call));
	change.req.reserved = 1;
	REFUSED(make(env, &call), EOPNOTSUPP);
	change.req.reserved = 0;
	call.attrs[0].len = sizeof(change);
	REFUSED(make(env, &call), EOPNOTSUPP);
	call.attrs[0].len = sizeof(change.req) - 1;
	REFUSED(make(env, &call), EINVAL);
	call.attrs[0].len = sizeof(change.req);
	call.attrs[0].data = 8;
	REFUSED(make(env, &call), EFAULT);
	end_free(&end);
}

void tests_dv(void)
{
	TEST("dv", query_device, "query_device");
	TEST("dv", defaults, "queue pairs that want nothing");
	test_add("dv", one_plane, 0, 0, 0, "plane 0 alone");
	test_add("dv", one_plane, 0, 1, 0, "plane 1 alone");
	test_add("dv", paths, 0, 1, 0, "one path a plane");
	test_add("dv", paths, 0, 5, 0, "five paths a plane");
	test_add("dv", paths, 0, 16, 0, "sixteen paths a plane");
	TEST("dv", law, "congestion control of one queue pair");
	TEST("dv", reset_forgets, "a reset forgets what was wanted");
	TEST("dv", bad_values, "values out of range");
	test_add("dv", other_services, 0, IBV_QPT_UC, 0, "UC: EOPNOTSUPP");
	test_add("dv", other_services, 0, IBV_QPT_UD, 0, "UD: EOPNOTSUPP");
	TEST("dv", bad_calls, "malformed calls");
}
