// SPDX-License-Identifier: GPL-2.0
/* What a queue pair is told when its connection goes over to other planes. */
#include "mrverbs.h"

#include <poll.h>
#include <stdio.h>

static enum ibv_mig_state mig_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	OK(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE, &init));
	return attr.path_mig_state;
}

static int set_mig_state(struct ibv_qp *qp, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = { .path_mig_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE);
}

/* What does not depend on planes: the states that there are. */
static void states(struct env *env, const struct test *test)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct pair pair;

	(void)test;
	pair_new(&pair, env, OPTS());
	CHECK_EQ(mig_state(pair.a.qp), IBV_MIG_MIGRATED, "state at first");
	OK(set_mig_state(pair.a.qp, IBV_MIG_ARMED));
	CHECK_EQ(mig_state(pair.a.qp), IBV_MIG_ARMED, "state when armed");
	REFUSED(set_mig_state(pair.a.qp, IBV_MIG_REARM), EOPNOTSUPP);
	REFUSED(set_mig_state(pair.a.qp, 7), EINVAL);
	CHECK_EQ(mig_state(pair.a.qp), IBV_MIG_ARMED, "state after refusals");
	OK(set_mig_state(pair.a.qp, IBV_MIG_MIGRATED));
	CHECK_EQ(mig_state(pair.a.qp), IBV_MIG_MIGRATED, "state when disarmed");
	OK(set_mig_state(pair.a.qp, IBV_MIG_ARMED));
	pair_check_works(&pair);
	OK(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE));
	CHECK_EQ(mig_state(pair.a.qp), IBV_MIG_MIGRATED, "state after a reset");
	pair_free(&pair);
}

/*
 * migrate DEVICE_A DEVICE_B: arms a queue pair of A, not another one beside it,
 * and says "armed"; again after each migration that it is told of, which is
 * "migrated". Ends with the standard input.
 */
int cmd_migrate(int argc, char **argv)
{
	struct pair armed, other;
	struct env env;

	if (argc != 3) {
		fprintf(stderr, "migrate: two devices, please\n");
		return KSFT_FAIL;
	}
	env_open(&env, argv[1], argv[2], false);
	pair_new(&armed, &env, OPTS());
	pair_new(&other, &env, OPTS());
	for (;;) {
		struct ibv_async_event event;

		OK(set_mig_state(armed.a.qp, IBV_MIG_ARMED));
		printf("armed\n");
		fflush(stdout);
		do {
			struct pollfd pfd[] = {
				{ .fd = 0, .events = POLLIN },
				{ .fd = env.a.ctx->async_fd, .events = POLLIN },
			};

			CHECK(poll(pfd, 2, -1) > 0, "poll: %m");
			if (pfd[0].revents)
				return KSFT_PASS;
			OK(ibv_get_async_event(env.a.ctx, &event));
			ibv_ack_async_event(&event);
		} while (event.event_type != IBV_EVENT_PATH_MIG);
		CHECK(event.element.qp == armed.a.qp, "event of another QP");
		CHECK_EQ(mig_state(armed.a.qp), IBV_MIG_MIGRATED, "state");
		pair_check_works(&armed);
		pair_check_works(&other);
		printf("migrated\n");
		fflush(stdout);
	}
}

void tests_migrate(void)
{
	TEST("qp", states, "path migration: armed, disarmed, refused");
}
