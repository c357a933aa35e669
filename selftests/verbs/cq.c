// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */
#include "mrverbs.h"

#include <poll.h>
#include <string.h>

void cq_new(struct cq *cq, struct host *host, int entries)
{
	cq->chan = ibv_create_comp_channel(host->ctx);
	CHECK(cq->chan, "ibv_create_comp_channel: %m");
	cq->cq = ibv_create_cq(host->ctx, entries, NULL, cq->chan, 0);
	CHECK(cq->cq, "ibv_create_cq(%d): %m", entries);
	CHECK(cq->cq->cqe >= entries, "CQ of %d entries, asked for %d", cq->cq->cqe, entries);
}

void cq_free(struct cq *cq)
{
	OK(ibv_destroy_cq(cq->cq));
	OK(ibv_destroy_comp_channel(cq->chan));
}

int cq_event_pending(struct cq *cq, int ms)
{
	struct pollfd pfd = { .fd = cq->chan->fd, .events = POLLIN };

	return poll(&pfd, 1, ms) > 0;
}

void cq_event_take(struct cq *cq)
{
	struct ibv_cq *ev_cq;
	void *ctx;

	OK(ibv_get_cq_event(cq->chan, &ev_cq, &ctx));
	CHECK(ev_cq == cq->cq, "event of another CQ");
	ibv_ack_cq_events(ev_cq, 1);
}

int cq_wait(struct cq *cq, struct ibv_wc *wc, int ms)
{
	long long end = now_ms() + ms;

	for (;;) {
		long long left;
		int n = ibv_poll_cq(cq->cq, 1, wc);

		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			return 1;
		OK(ibv_req_notify_cq(cq->cq, 0));
		n = ibv_poll_cq(cq->cq, 1, wc);
		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			return 1;
		left = end - now_ms();
		if (left < 0)
			return 0;
		if (cq_event_pending(cq, left > 1000 ? 1000 : left))
			cq_event_take(cq);
	}
}

struct ibv_wc cq_expect(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	CHECK(cq_wait(cq, &wc, WAIT_MS),
	      "no completion of %#llx in %d s, should be \"%s\"",
	      (unsigned long long)wr_id, WAIT_MS / 1000, ibv_wc_status_str(status));
	CHECK(wc.wr_id == wr_id && wc.status == status,
	      "completion of %#llx \"%s\" (%d, vendor %#x), should be %#llx \"%s\" (%d)",
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.status,
	      wc.vendor_err, (unsigned long long)wr_id, ibv_wc_status_str(status), status);
	return wc;
}

void cq_expect_empty(struct cq *cq, const char *when)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq->cq, 1, &wc);

	CHECK(n == 0, "%s: a completion of %#llx \"%s\" too many", when,
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}
