// SPDX-License-Identifier: GPL-2.0
/* Devices, queues, buffers and waiting. */
#include "mrverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void no_more_mappings(void)
{
	/* Less than is mapped already; what is there stays. */
	struct rlimit limit = { 1 << 20, 1 << 20 };

	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit: %m");
}

long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

/* Data ------------------------------------------------------------------- */

static uint64_t pattern(uint64_t seed, uint64_t index)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL + index * 0xd1342543de82ef95ULL;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ULL;
	return x ^ x >> 32;
}

void fill(void *p, size_t len, uint64_t seed)
{
	uint8_t *dst = p;
	size_t i;

	for (i = 0; i < len; i += 8) {
		uint64_t word = pattern(seed, i / 8);

		memcpy(dst + i, &word, len - i < 8 ? len - i : 8);
	}
}

void check(const void *p, size_t len, uint64_t seed, const char *what)
{
	const uint8_t *got = p;
	size_t i, j;

	for (i = 0; i < len; i += 8) {
		uint64_t word = pattern(seed, i / 8);
		size_t n = len - i < 8 ? len - i : 8;
		uint8_t want[8];

		if (!memcmp(got + i, &word, n))
			continue;
		memcpy(want, &word, 8);
		for (j = 0; got[i + j] == want[j]; j++)
			;
		FAIL("%s: byte %zu of %zu is %02x, should be %02x", what, i + j,
		     len, got[i + j], want[j]);
	}
}

void check_byte(const void *p, size_t len, uint8_t byte, const char *what)
{
	const uint8_t *got = p;
	size_t i;

	for (i = 0; i < len; i++)
		CHECK(got[i] == byte, "%s: byte %zu of %zu is %02x, should be %02x",
		      what, i, len, got[i], byte);
}

#define GUARD_BYTE	0x5a

void buf_new(struct buf *buf, struct host *host, size_t len, int access)
{
	size_t page = sysconf(_SC_PAGESIZE);

	buf->len = len;
	buf->map_len = (len + 2 * GUARD + page - 1) / page * page;
	buf->map = mmap(NULL, buf->map_len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(buf->map != MAP_FAILED, "mmap of %zu bytes: %m", buf->map_len);
	buf->p = buf->map + GUARD;
	memset(buf->map, GUARD_BYTE, GUARD);
	memset(buf->p + len, GUARD_BYTE, buf->map_len - GUARD - len);
	buf->mr = ibv_reg_mr(host->pd, buf->map, buf->map_len, access);
	CHECK(buf->mr, "ibv_reg_mr of %zu bytes on %s: %m", buf->map_len, host->name);
}

void buf_check_guards(const struct buf *buf, const char *what)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		CHECK(buf->map[i] == GUARD_BYTE, "%s: byte -%zu before the buffer was written",
		      what, GUARD - i);
	for (i = GUARD + buf->len; i < buf->map_len; i++)
		CHECK(buf->map[i] == GUARD_BYTE, "%s: byte %zu of a buffer of %zu was written",
		      what, i - GUARD, buf->len);
}

void buf_free(struct buf *buf)
{
	OK(ibv_dereg_mr(buf->mr));
	munmap(buf->map, buf->map_len);
	memset(buf, 0, sizeof(*buf));
}

/* Devices ---------------------------------------------------------------- */

static bool gid_fits(const struct ibv_gid_entry *entry, bool ipv6)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_v4 = !memcmp(entry->gid.raw, mapped, sizeof(mapped));
	bool is_link_local = entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80;

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return false;
	return ipv6 ? !is_v4 && !is_link_local : is_v4;
}

void host_open(struct host *host, const char *name, bool ipv6)
{
	struct ibv_device **list;
	int i, n;

	memset(host, 0, sizeof(*host));
	host->name = name;
	list = ibv_get_device_list(&n);
	CHECK(list, "ibv_get_device_list: %m");
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			break;
	CHECK(i < n, "no device %s among %d", name, n);
	host->ctx = ibv_open_device(list[i]);
	CHECK(host->ctx, "ibv_open_device(%s): %m", name);
	ibv_free_device_list(list);

	OK(ibv_query_device(host->ctx, &host->attr));
	OK(ibv_query_port(host->ctx, 1, &host->port));
	host->gid_index = -1;
	for (i = 0; i < host->port.gid_tbl_len && host->gid_index < 0; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(host->ctx, 1, i, &entry, 0) || !gid_fits(&entry, ipv6))
			continue;
		host->gid_index = i;
		host->gid = entry.gid;
	}
	CHECK(host->gid_index >= 0, "%s has no RoCE v2 GID of an %s address", name,
	      ipv6 ? "IPv6" : "IPv4");
	host->pd = ibv_alloc_pd(host->ctx);
	CHECK(host->pd, "ibv_alloc_pd on %s: %m", name);
}

void host_close(struct host *host)
{
	OK(ibv_dealloc_pd(host->pd));
	OK(ibv_close_device(host->ctx));
}

void env_open(struct env *env, const char *a, const char *b, bool ipv6)
{
	host_open(&env->a, a, ipv6);
	host_open(&env->b, b, ipv6);
}

/* The tests say what they made; by hand, metaroce is meant. */
bool is_metaroce(void)
{
	const char *type = getenv("RDMA_TYPE");

	return !type || !strcmp(type, "metaroce");
}

int async_event_wait(struct host *host, int ms, struct ibv_async_event *event)
{
	struct pollfd pfd = { .fd = host->ctx->async_fd, .events = POLLIN };

	if (poll(&pfd, 1, ms) <= 0)
		return 0;
	OK(ibv_get_async_event(host->ctx, event));
	return 1;
}

void async_event_expect(struct host *host, enum ibv_event_type type, const void *of)
{
	struct ibv_async_event event;

	CHECK(async_event_wait(host, WAIT_MS, &event), "no event \"%s\"",
	      ibv_event_type_str(type));
	CHECK_EQ(event.event_type, type, "event");
	CHECK(event.element.qp == of, "event of another object");
	ibv_ack_async_event(&event);
}

/* Completion queues ------------------------------------------------------ */

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

/* Queue pairs ------------------------------------------------------------ */

static int mtu_bytes(enum ibv_mtu mtu)
{
	return 128 << mtu;
}

struct ibv_qp_init_attr end_init_attr(struct end *end, const struct opts *opts)
{
	bool shared = opts->srq && opts->srq->context == end->host->ctx;

	return (struct ibv_qp_init_attr) {
		.send_cq = end->scq.cq,
		.recv_cq = end->rcq.cq,
		.srq = shared ? opts->srq : NULL,
		.qp_type = opts->uc ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = opts->sig_all,
		.cap = {
			.max_send_wr = opts->depth,
			.max_recv_wr = shared ? 0 : opts->depth,
			.max_send_sge = opts->sge,
			.max_recv_sge = shared ? 0 : opts->sge,
			.max_inline_data = opts->max_inline,
		},
	};
}

void end_new(struct end *end, struct host *host, const struct opts *opts)
{
	struct ibv_qp_init_attr init;

	memset(end, 0, sizeof(*end));
	end->host = host;
	cq_new(&end->scq, host, opts->cqe ? opts->cqe : opts->depth + 8);
	cq_new(&end->rcq, host, opts->cqe ? opts->cqe : opts->depth + 8);
	init = end_init_attr(end, opts);
	end->qp = ibv_create_qp(host->pd, &init);
	CHECK(end->qp, "ibv_create_qp on %s (depth %d, %d sge, %d inline): %m", host->name,
	      opts->depth, opts->sge, opts->max_inline);
	end->cap = init.cap;
	CHECK((int)init.cap.max_send_wr >= opts->depth &&
	      (init.srq || (int)init.cap.max_recv_wr >= opts->depth) &&
	      (int)init.cap.max_send_sge >= opts->sge &&
	      (init.srq || (int)init.cap.max_recv_sge >= opts->sge) &&
	      (int)init.cap.max_inline_data >= opts->max_inline,
	      "QP smaller than asked for");
	end->psn = (uint32_t)random() & 0xffffff;
}

void end_init(struct end *end, const struct opts *opts)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = 1,
		.qp_access_flags = opts->qp_access,
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS));
}

void end_rtr_to(struct end *end, const union ibv_gid *gid, uint32_t qpn,
		uint32_t psn, const struct opts *opts)
{
	enum ibv_mtu mtu = opts->mtu ? (enum ibv_mtu)opts->mtu : end->host->port.active_mtu;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = opts->rd_atomic,
		.min_rnr_timer = opts->min_rnr_timer,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = *gid,
				.sgid_index = end->host->gid_index,
				.hop_limit = 64,
			},
		},
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 (opts->uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)));
	end->mtu = mtu_bytes(mtu);
}

void end_rts(struct end *end, const struct opts *opts)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = opts->timeout,
		.retry_cnt = opts->retry_cnt,
		.rnr_retry = opts->rnr_retry,
		.sq_psn = end->psn,
		.max_rd_atomic = opts->rd_atomic,
	};

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			 (opts->uc ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)));
}

void end_error(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	OK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
}

enum ibv_qp_state end_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	OK(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void end_expect_error(struct end *end)
{
	long long stop = now_ms() + WAIT_MS;

	while (end_state(end) != IBV_QPS_ERR) {
		CHECK(now_ms() < stop, "QP is in state %d, should be in the error state",
		      end_state(end));
		sleep_ms(5);
	}
}

void end_free(struct end *end)
{
	OK(ibv_destroy_qp(end->qp));
	cq_free(&end->scq);
	cq_free(&end->rcq);
}

void pair_connect(struct pair *pair, const struct opts *opts)
{
	end_init(&pair->a, opts);
	end_init(&pair->b, opts);
	end_rtr_to(&pair->a, &pair->b.host->gid, pair->b.qp->qp_num, pair->b.psn, opts);
	end_rtr_to(&pair->b, &pair->a.host->gid, pair->a.qp->qp_num, pair->a.psn, opts);
	end_rts(&pair->a, opts);
	end_rts(&pair->b, opts);
}

void pair_new(struct pair *pair, struct env *env, const struct opts *opts)
{
	end_new(&pair->a, &env->a, opts);
	end_new(&pair->b, &env->b, opts);
	pair_connect(pair, opts);
}

void pair_free(struct pair *pair)
{
	end_free(&pair->a);
	end_free(&pair->b);
}

static void check_works_one_way(struct end *from, struct end *to)
{
	const size_t len = 3 * from->mtu + 17;
	struct buf src, dst;

	buf_new(&src, from->host, len, IBV_ACCESS_LOCAL_WRITE);
	buf_new(&dst, to->host, len, IBV_ACCESS_LOCAL_WRITE);
	fill(src.p, len, len);
	OK(post_recv(to, 0xc0de, dst.p, len, dst.mr->lkey));
	OK(post_send(from, IBV_WR_SEND, 0xc0d0, src.p, len, src.mr->lkey, NULL, 0,
		     IBV_SEND_SIGNALED));
	cq_expect(&from->scq, 0xc0d0, IBV_WC_SUCCESS);
	cq_expect(&to->rcq, 0xc0de, IBV_WC_SUCCESS);
	check(dst.p, len, len, "data of the message after");
	buf_free(&src);
	buf_free(&dst);
}

void pair_check_works(struct pair *pair)
{
	check_works_one_way(&pair->a, &pair->b);
	check_works_one_way(&pair->b, &pair->a);
}

void env_check_works(struct env *env)
{
	struct pair pair;

	pair_new(&pair, env, OPTS());
	pair_check_works(&pair);
	pair_free(&pair);
}

int post_send(struct end *end, enum ibv_wr_opcode op, uint64_t wr_id,
	      const void *p, uint32_t len, uint32_t lkey,
	      const void *remote, uint32_t rkey, int flags)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = op,
		.send_flags = flags,
		.imm_data = htonl((uint32_t)wr_id ^ 0x1234abcd),
	};

	if (op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(end->qp, &wr, &bad);
}

int post_recv(struct end *end, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
	};

	return ibv_post_recv(end->qp, &wr, &bad);
}

const char *op_name(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
		return "write";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "write_imm";
	case IBV_WR_SEND:
		return "send";
	case IBV_WR_SEND_WITH_IMM:
		return "send_imm";
	case IBV_WR_SEND_WITH_INV:
		return "send_inv";
	case IBV_WR_RDMA_READ:
		return "read";
	default:
		return "?";
	}
}

bool op_receives(enum ibv_wr_opcode op)
{
	return op != IBV_WR_RDMA_WRITE && op != IBV_WR_RDMA_READ;
}

unsigned long long counter(struct host *host, const char *name)
{
	unsigned long long value;
	char path[256];
	FILE *file;
	int n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 host->name, name);
	/* Values are kept for some milliseconds. */
	sleep_ms(30);
	file = fopen(path, "r");
	CHECK(file, "%s: %m", path);
	n = fscanf(file, "%llu", &value);
	fclose(file);
	CHECK(n == 1, "nothing in %s", path);
	return value;
}
