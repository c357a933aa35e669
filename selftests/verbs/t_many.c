// SPDX-License-Identifier: GPL-2.0
/* Many QPs, all operations, long runs. */
#include "mrverbs.h"

static void soak(struct env *env, const struct test *test)
{
	int qps = test->arg[0];

	soak_run(env, &(struct soak) {
		.qps = qps,
		.depth = 8,
		.messages = test->arg[1] / qps,
		.max_size = qps > 8 ? 40000 : 200000,
		.ops = SOAK_ALL,
		.seed = 1000 + qps,
	});
}

static void soak_late(struct env *env, const struct test *test)
{
	soak_run(env, &(struct soak) {
		.qps = test->arg[0],
		.depth = 8,
		.messages = test->arg[1] / test->arg[0],
		.max_size = 30000,
		.ops = SOAK_ALL,
		.seed = 2000,
		.late_receives = true,
	});
}

static void soak_small(struct env *env, const struct test *test)
{
	(void)test;
	soak_run(env, &(struct soak) {
		.qps = 4,
		.depth = 64,
		.messages = 1000,
		.max_size = 64,
		.ops = SOAK_ALL,
		.seed = 3000,
	});
}

/* QPs come and go while another one works. */
static void churn(struct env *env, const struct test *test)
{
	struct pair steady, pair;
	int i;

	pair_new(&steady, env, OPTS());
	for (i = 0; i < test->arg[0]; i++) {
		pair_new(&pair, env, OPTS(.depth = 4));
		pair_check_works(&pair);
		pair_free(&pair);
		if (i % 8 == 0)
			pair_check_works(&steady);
	}
	pair_free(&steady);
}

/* No QP between two: each time the first and last of a connection. */
static void churn_alone(struct env *env, const struct test *test)
{
	int i;

	for (i = 0; i < test->arg[0]; i++)
		env_check_works(env);
}

void tests_many(void)
{
	test_add("many", soak, 0, 1, 300, "1 QP");
	test_add("many", soak, 0, 8, 600, "8 QPs at once");
	test_add("many", soak, 600, 64, 1280, "64 QPs at once");
	test_add("many", soak_late, 0, 1, 100, "1 QP, late receives");
	test_add("many", soak_late, 600, 16, 480, "16 QPs at once, late receives");
	TEST("many", soak_small, "small messages");
	test_add("many", churn, 600, 100, 0, "QPs come and go beside a steady one");
	test_add("many", churn_alone, 600, 30, 0, "connections come and go");
}
