/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mrverbs: what the tests of the verbs share.
 *
 * One process opens two devices, "a" and "b", which may be in different
 * network namespaces (with "rdma system netns shared" a process sees both),
 * and drives both ends of each connection. Every test runs in a child process
 * of its own: it may exit at any point, and what it leaves behind is the
 * kernel's to clean up.
 */
#ifndef MRVERBS_H
#define MRVERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#define KSFT_PASS	0
#define KSFT_FAIL	1
#define KSFT_SKIP	4

/* Watchdog of one wait and of one test: generous, for emulated machines. */
#define WAIT_MS		wait_ms
#define TEST_S		240

extern int wait_ms;		/* MRVERBS_WAIT, in seconds, sets it */

/* Bytes on either side of every buffer that nobody may touch. */
#define GUARD		256

struct host {
	const char *name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
};

struct env {
	struct host a, b;
};

struct test {
	const char *group;
	char name[64];
	void (*fn)(struct env *env, const struct test *test);
	long arg[2];
	int seconds;		/* watchdog, TEST_S if 0 */
};

/* Ends the test; the message becomes its diagnostic line. */
void __attribute__((noreturn, format(printf, 4, 5)))
test_end(int result, const char *file, int line, const char *fmt, ...);

#define FAIL(...)	test_end(KSFT_FAIL, __FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...)	test_end(KSFT_SKIP, __FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond, ...) do { if (!(cond)) FAIL(__VA_ARGS__); } while (0)
#define CHECK_EQ(got, want, what) do {					\
		long long got_ = (long long)(got);			\
		long long want_ = (long long)(want);			\
		CHECK(got_ == want_, "%s is %lld, should be %lld",	\
		      what, got_, want_);				\
	} while (0)
/* Calls that return an errno value, as most of libibverbs does. */
#define OK(call) do {							\
		int ret_ = (call);					\
		CHECK(ret_ == 0, "%s: %d (%s)", #call, ret_,		\
		      strerror(ret_ < 0 ? -ret_ : ret_));		\
	} while (0)
/* Some return -1 and set errno, some return errno: either is a refusal. */
#define REFUSED(call, err) do {						\
		int want_ = (err), ret_;				\
		errno = 0;						\
		ret_ = (call);						\
		if (ret_ == -1)						\
			ret_ = errno;					\
		CHECK(ret_ == want_, "%s: %d, should be %d (%s)", #call,\
		      ret_, want_, strerror(want_));			\
	} while (0)
/* Calls that return a pointer. */
#define REFUSED_PTR(call, err) do {					\
		int want_ = (err);					\
		void *p_;						\
		errno = 0;						\
		p_ = (call);						\
		CHECK(!p_, "%s was accepted", #call);			\
		CHECK(errno == want_, "%s: errno %d, should be %d (%s)",\
		      #call, errno, want_, strerror(want_));		\
	} while (0)

/* A registered buffer with guards on both sides. */
struct buf {
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
	uint8_t *map;
	size_t map_len;
};

#define ACCESS_ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)

void buf_new(struct buf *buf, struct host *host, size_t len, int access);
void buf_free(struct buf *buf);
void buf_check_guards(const struct buf *buf, const char *what);
void fill(void *p, size_t len, uint64_t seed);
void check(const void *p, size_t len, uint64_t seed, const char *what);
void check_byte(const void *p, size_t len, uint8_t byte, const char *what);

/* A dma-buf, and the process's mapping of its memory. */
struct dma_buf {
	uint8_t *p;
	size_t len;
	int fd;
};

/* false if there are none on this machine. */
bool dma_buf_new(struct dma_buf *buf, size_t len);
void dma_buf_free(struct dma_buf *buf);

/* Memory that is not pinned, and was never touched. */
struct area {
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
};

void *pages(size_t len);
void area_new(struct area *area, struct host *host, size_t len, int access);
void area_free(struct area *area);
/* Whoever touches these pages waits until they are given. Returns the file of the faults. */
int withhold(void *p, size_t len);
bool is_wanted(int fd, int ms);
/* Waits for the fault at a page. */
void expect_fault(int fd, void *p);
void give(int fd, void *p, size_t len);
/* Who does something that it should not does it within this. */
#define QUIET_MS	300

/* A completion queue with a completion channel. */
struct cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *chan;
};

void cq_new(struct cq *cq, struct host *host, int entries);
void cq_free(struct cq *cq);
/* One completion, waiting for an event if there is none; 0 on time-out. */
int cq_wait(struct cq *cq, struct ibv_wc *wc, int ms);
/* The next completion must have this wr_id and status. */
struct ibv_wc cq_expect(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void cq_expect_empty(struct cq *cq, const char *when);
int cq_event_pending(struct cq *cq, int ms);
void cq_event_take(struct cq *cq);

struct opts {
	int depth;		/* send and receive work requests */
	int sge;
	int max_inline;
	int cqe;		/* 0: as many as the QP can produce */
	int mtu;		/* 0: the port's */
	int timeout;
	int retry_cnt;
	int rnr_retry;
	int min_rnr_timer;
	int rd_atomic;
	int sig_all;
	int qp_access;
	struct ibv_srq *srq;	/* for the end on its host */
	bool uc;		/* unreliable, not reliable connection */
};

#define OPTS(...) (&(const struct opts){				\
		.depth = 32, .sge = 1, .timeout = 14, .retry_cnt = 7,	\
		.rnr_retry = 7, .min_rnr_timer = 12, .rd_atomic = 4,	\
		.qp_access = ACCESS_ALL, ##__VA_ARGS__ })

/* One end of a connection: a QP and its two CQs. */
struct end {
	struct host *host;
	struct cq scq, rcq;
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
	uint32_t psn;
	int mtu;		/* bytes, once connected */
};

struct pair {
	struct end a, b;
};

void end_new(struct end *end, struct host *host, const struct opts *opts);
void end_free(struct end *end);
void end_init(struct end *end, const struct opts *opts);
void end_rtr_to(struct end *end, const union ibv_gid *gid, uint32_t qpn,
		uint32_t psn, const struct opts *opts);
void end_rts(struct end *end, const struct opts *opts);
void end_error(struct end *end);
enum ibv_qp_state end_state(struct end *end);
/* Waits until the QP is in the error state. */
void end_expect_error(struct end *end);

/* Both QPs made, connected and in RTS. */
void pair_new(struct pair *pair, struct env *env, const struct opts *opts);
void pair_connect(struct pair *pair, const struct opts *opts);
void pair_free(struct pair *pair);
/* The pair still (or again) carries data, both ways. */
void pair_check_works(struct pair *pair);
void env_check_works(struct env *env);

struct ibv_qp_init_attr end_init_attr(struct end *end, const struct opts *opts);

/* Work requests of one element. */
int post_send(struct end *end, enum ibv_wr_opcode op, uint64_t wr_id,
	      const void *p, uint32_t len, uint32_t lkey,
	      const void *remote, uint32_t rkey, int flags);
int post_recv(struct end *end, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey);

int async_event_wait(struct host *host, int ms, struct ibv_async_event *event);
/* The next event of the device has this type, and is of this CQ, QP or SRQ. */
void async_event_expect(struct host *host, enum ibv_event_type type, const void *of);
const char *op_name(enum ibv_wr_opcode op);
bool op_receives(enum ibv_wr_opcode op);
bool is_metaroce(void);
/* A counter of the port, of the driver's own. */
unsigned long long counter(struct host *host, const char *name);
/* This process can map nothing of some size any more. */
void no_more_mappings(void);
long long now_ms(void);
void sleep_ms(int ms);

/* Soak: random operations on many QPs, every byte checked. */
struct soak {
	int qps;
	int depth;
	long messages;		/* per QP */
	uint32_t max_size;
	uint32_t fixed_size;	/* 0: random sizes up to max_size */
	unsigned int ops;	/* bits of SOAK_* */
	uint64_t seed;
	int seconds_without_progress;
	int timeout;		/* local ACK timeout, exponent of 4.096 us */
	bool one_way;
	bool late_receives;	/* post receives after the send: RNR */
};

enum {
	SOAK_SEND	= 1 << 0,
	SOAK_SEND_IMM	= 1 << 1,
	SOAK_WRITE	= 1 << 2,
	SOAK_WRITE_IMM	= 1 << 3,
	SOAK_READ	= 1 << 4,
	SOAK_ALL	= 31,
};

void soak_run(struct env *env, const struct soak *soak);

void env_open(struct env *env, const char *a, const char *b, bool ipv6);
void host_open(struct host *host, const char *name, bool ipv6);
void host_close(struct host *host);

/* Each file of tests adds its own. */
void test_add(const char *group, void (*fn)(struct env *, const struct test *),
	      int seconds, long arg0, long arg1, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
#define TEST(group, fn, name)	test_add(group, fn, 0, 0, 0, "%s", name)

void tests_data(void);
void tests_data_edge(void);
void tests_order(void);
void tests_error_remote(void);
void tests_error_local(void);
void tests_error_rnr(void);
void tests_error_peer(void);
void tests_error_state(void);
void tests_qp_state(void);
void tests_qp_create(void);
void tests_cq(void);
void tests_mr(void);
void tests_many(void);
void tests_abuse_ring(void);
void tests_abuse_flood(void);
void tests_abuse_call(void);
void tests_atomic(void);
void tests_mw(void);
void tests_srq_use(void);
void tests_srq_event(void);
void tests_srq_resize(void);
void tests_srq_bounds(void);
void tests_odp(void);
void tests_odp_dirty(void);
void tests_dmabuf(void);
void tests_ud_data(void);
void tests_ud_drop(void);
void tests_ud_error(void);
void tests_ud_ah(void);
void tests_ud_srq(void);
void tests_ud_multicast(void);
void tests_ud_odp(void);
void tests_uc(void);
void tests_rereg(void);
void tests_cq_change(void);
void tests_ex(void);
void tests_dv(void);
void tests_dv_device(void);
void tests_dv_order(void);
void tests_migrate(void);
void tests_changing(void);

/* Commands that shell tests use; each returns the exit status. */
int cmd_soak(int argc, char **argv);
int cmd_flood(int argc, char **argv);
int cmd_hold(int argc, char **argv);
int cmd_member(int argc, char **argv);
int cmd_stall(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_cm_serve(int argc, char **argv);
int cmd_cm_connect(int argc, char **argv);
int cmd_scale(int argc, char **argv);
int cmd_migrate(int argc, char **argv);

#endif /* MRVERBS_H */
