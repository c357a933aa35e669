// SPDX-License-Identifier: GPL-2.0
/* Work that is posted faster than the kernel can take it. */
#include "rings.h"

#include <limits.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>
#include <string.h>
#include <unistd.h>

enum flood_case {
	FLUSH_SENDS, FLUSH_RECEIVES, BINDS,
};

/* So deep that the queue lasts until the other thread has the CPU again. */
#define FLOOD_DEPTH	16384
/* Longer than the kernel may take for what the queue holds, on however busy a machine. */
#define FLOOD_MS	3000

static struct metaroce_ring_hdr *flooded;
static volatile long long flood_until;
static volatile bool flood_stop, flood_over;

static void *flood(void *arg)
{
	(void)arg;
	while (!flood_stop && !flood_over) {
		__atomic_store_n(&flooded->producer, __atomic_load_n(&flooded->consumer,
				 __ATOMIC_SEQ_CST) + FLOOD_DEPTH, __ATOMIC_SEQ_CST);
		flood_over = now_ms() > flood_until;
	}
	return NULL;
}

/* Whoever takes the work off comes back, though there is always more. */
static void queue_flood(struct env *env, const struct test *test)
{
	enum flood_case what = test->arg[0];
	struct metaroce_send_wqe *wqe;
	struct ibv_mw *mw;
	pthread_t thread;
	struct rings r;
	int i;

	need_metaroce();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP("one CPU: nobody posts while the kernel takes work");
	rings_new_deep(&r, env, FLOOD_DEPTH);
	mw = ibv_alloc_mw(env->a.pd, IBV_MW_TYPE_1);
	CHECK(mw, "ibv_alloc_mw: %m");
	for (i = 0; i < FLOOD_DEPTH && what == BINDS; i++) {
		/* To nothing, under the key that it has: as often as one likes. */
		wqe = (struct metaroce_send_wqe *)(r.sq.slots + i * r.sq.stride);
		memset(wqe, 0, sizeof(*wqe));
		wqe->opcode = METAROCE_OP_BIND_MW;
		wqe->rkey = mw->rkey;
		wqe->imm_data = mw->rkey;
	}
	flooded = what == FLUSH_RECEIVES ? r.rq.hdr : r.sq.hdr;
	flood_stop = false;
	flood_over = false;
	flood_until = LLONG_MAX;
	if (what != BINDS)
		end_error(&r.pair.a);
	CHECK(!pthread_create(&thread, NULL, flood, NULL), "pthread_create");
	for (i = 0; i < 20; i++) {
		flood_until = now_ms() + FLOOD_MS;
		doorbell(&r.pair.a, IB_USER_VERBS_CMD_POST_SEND);
		CHECK(!flood_over, "the kernel took work for %d ms on end", FLOOD_MS);
		flood_until = LLONG_MAX;
		sleep_ms(5);
	}
	flood_stop = true;
	pthread_join(thread, NULL);
	CHECK_EQ(end_state(&r.pair.a), what == BINDS ? IBV_QPS_RTS : IBV_QPS_ERR,
		 "state of the QP");
	OK(ibv_dealloc_mw(mw));
	aftermath(&r, env);
}

void tests_abuse_flood(void)
{
	test_add("abuse", queue_flood, 0, FLUSH_SENDS, 0, "sends without end, to be flushed");
	test_add("abuse", queue_flood, 0, FLUSH_RECEIVES, 0,
		 "receives without end, to be flushed");
	test_add("abuse", queue_flood, 0, BINDS, 0, "windows bound without end");
}
