// SPDX-License-Identifier: GPL-2.0
/* What the shell tests need beside the tests proper. */
#include "mrverbs.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct hello {
	union ibv_gid gid;
	uint32_t qpn, psn, rkey;
	uint64_t addr;
};

static void swap_hello(int fd, const struct hello *mine, struct hello *theirs)
{
	CHECK(write(fd, mine, sizeof(*mine)) == sizeof(*mine), "socket: %m");
	CHECK(read(fd, theirs, sizeof(*theirs)) == sizeof(*theirs), "socket: peer is gone");
}

/* One side of a flood: a device, a QP and a buffer of its own process. */
static void flood_side(const char *name, int fd, bool sends, enum ibv_wr_opcode op,
		       uint32_t size)
{
	/* 8 ms, 7 times: a peer that died is noticed soon. */
	const struct opts *opts = OPTS(.timeout = 11, .retry_cnt = 7);
	struct hello mine, theirs;
	struct host host;
	struct ibv_wc wc;
	struct end end;
	struct buf buf;
	long done = 0;
	int i;

	host_open(&host, name, false);
	end_new(&end, &host, opts);
	buf_new(&buf, &host, size * opts->depth, ACCESS_ALL);
	mine = (struct hello){ host.gid, end.qp->qp_num, end.psn, buf.mr->rkey,
			       (uintptr_t)buf.p };
	swap_hello(fd, &mine, &theirs);
	end_init(&end, opts);
	end_rtr_to(&end, &theirs.gid, theirs.qpn, theirs.psn, opts);
	end_rts(&end, opts);
	if (op == IBV_WR_SEND && !sends)
		for (i = 0; i < opts->depth; i++)
			OK(post_recv(&end, i, buf.p + i * size, size, buf.mr->lkey));
	swap_hello(fd, &mine, &theirs);
	if (op != IBV_WR_SEND && !sends) {
		/* Until the peer is gone, or this process. */
		i = read(fd, &mine, sizeof(mine));
		_exit(0);
	}
	for (i = 0; sends && i < opts->depth; i++)
		OK(post_send(&end, op, i, buf.p + i * size, size, buf.mr->lkey,
			     (void *)(theirs.addr + i * size), theirs.rkey,
			     IBV_SEND_SIGNALED));
	for (;;) {
		struct cq *cq = sends ? &end.scq : &end.rcq;

		CHECK(cq_wait(cq, &wc, WAIT_MS), "no completion in %d s", WAIT_MS / 1000);
		if (wc.status != IBV_WC_SUCCESS) {
			printf("# %s: \"%s\" after %ld messages\n", name,
			       ibv_wc_status_str(wc.status), done);
			fflush(stdout);
			/*
			 * The peer's end, and nothing else, may end a flood. Of a
			 * process that dies, the regions may go before the QP.
			 */
			_exit(wc.status == IBV_WC_RETRY_EXC_ERR ||
			      wc.status == IBV_WC_REM_ACCESS_ERR ||
			      wc.status == IBV_WC_REM_OP_ERR ||
			      wc.status == IBV_WC_WR_FLUSH_ERR ? 10 : KSFT_FAIL);
		}
		if (done++ == 0) {
			printf("# %s: traffic\n", name);
			fflush(stdout);
		}
		i = wc.wr_id;
		if (sends)
			OK(post_send(&end, op, i, buf.p + i * size, size, buf.mr->lkey,
				     (void *)(theirs.addr + i * size), theirs.rkey,
				     IBV_SEND_SIGNALED));
		else
			OK(post_recv(&end, i, buf.p + i * size, size, buf.mr->lkey));
	}
}

/*
 * flood [-o send|write|read] [-s SIZE] DEVICE_A DEVICE_B
 * Process a sends to process b without end. The pids go to standard output;
 * whoever kills one of them sees how the other one ends: 10 is "the peer is
 * gone", properly reported.
 */
int cmd_flood(int argc, char **argv)
{
	enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE;
	uint32_t size = 65536;
	int fds[2], opt, i;
	pid_t pid[2];

	while ((opt = getopt(argc, argv, "o:s:")) != -1) {
		switch (opt) {
		case 'o':
			op = !strcmp(optarg, "send") ? IBV_WR_SEND :
			     !strcmp(optarg, "read") ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
			break;
		case 's':
			size = atoi(optarg);
			break;
		default:
			return KSFT_FAIL;
		}
	}
	if (optind + 2 != argc || socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) {
		fprintf(stderr, "flood: two devices, please\n");
		return KSFT_FAIL;
	}
	for (i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			close(fds[!i]);
			flood_side(argv[optind + i], fds[i], i == 0, op, size);
		}
	}
	close(fds[0]);
	close(fds[1]);
	printf("pids %d %d\n", pid[0], pid[1]);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		int status;
		pid_t ended = wait(&status);

		if (WIFSIGNALED(status))
			printf("%s killed %d\n", ended == pid[0] ? "a" : "b", WTERMSIG(status));
		else
			printf("%s exit %d\n", ended == pid[0] ? "a" : "b",
			       WEXITSTATUS(status));
		fflush(stdout);
	}
	return KSFT_PASS;
}

/*
 * hold DEVICE: makes one of each object, says "ready", prints each asynchronous
 * event, and cleans up when standard input ends. Exit status 0 if everything
 * could be destroyed.
 */
int cmd_hold(int argc, char **argv)
{
	struct ibv_mr *dma_mr = NULL;
	struct pollfd pfd[2];
	struct dma_buf dma;
	struct host host;
	struct end end;
	struct buf buf;
	char line[16];

	if (argc != 2) {
		fprintf(stderr, "hold: a device, please\n");
		return KSFT_FAIL;
	}
	host_open(&host, argv[1], false);
	end_new(&end, &host, OPTS());
	end_init(&end, OPTS());
	buf_new(&buf, &host, 100000, ACCESS_ALL);
	OK(post_recv(&end, 1, buf.p, 1000, buf.mr->lkey));
	if (dma_buf_new(&dma, 1 << 16)) {
		dma_mr = ibv_reg_dmabuf_mr(host.pd, 0, dma.len, 0, dma.fd, ACCESS_ALL);
		CHECK(dma_mr || errno == EOPNOTSUPP, "ibv_reg_dmabuf_mr: %m");
		dma_buf_free(&dma);
	}
	printf("regions %d\nready\n", dma_mr ? 2 : 1);
	fflush(stdout);
	for (;;) {
		struct ibv_async_event event;

		pfd[0] = (struct pollfd){ .fd = 0, .events = POLLIN };
		pfd[1] = (struct pollfd){ .fd = host.ctx->async_fd, .events = POLLIN };
		CHECK(poll(pfd, 2, -1) > 0, "poll: %m");
		if (pfd[1].revents) {
			/* After the device is gone, the queue of events ends. */
			if (ibv_get_async_event(host.ctx, &event)) {
				printf("event end\n");
				fflush(stdout);
				break;
			}
			printf("event %s\n", ibv_event_type_str(event.event_type));
			fflush(stdout);
			ibv_ack_async_event(&event);
			if (event.event_type == IBV_EVENT_DEVICE_FATAL)
				break;
		}
		if (pfd[0].revents && read(0, line, sizeof(line)) <= 0)
			break;
	}
	/* Whether the device still is or not: the objects can be given back. */
	end_free(&end);
	buf_free(&buf);
	if (dma_mr)
		OK(ibv_dereg_mr(dma_mr));
	host_close(&host);
	printf("closed\n");
	return KSFT_PASS;
}

/*
 * member [-l] DEVICE: puts a queue pair into a multicast group and says "ready". With -l it
 * leaves and joins until the device is gone; else it stays, until it is killed.
 */
int cmd_member(int argc, char **argv)
{
	bool loop = argc == 3 && !strcmp(argv[1], "-l");
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 },
	};
	struct host host;
	struct ibv_qp *qp;
	struct cq cq;

	if (argc != 2 + loop) {
		fprintf(stderr, "member: a device, please\n");
		return KSFT_FAIL;
	}
	host_open(&host, argv[argc - 1], false);
	cq_new(&cq, &host, 2);
	init.send_cq = init.recv_cq = cq.cq;
	qp = ibv_create_qp(host.pd, &init);
	CHECK(qp, "ibv_create_qp: %m");
	OK(ibv_attach_mcast(qp, &group, 0));
	printf("ready\n");
	fflush(stdout);
	if (!loop)
		return pause();
	while (!ibv_detach_mcast(qp, &group, 0) &&
	       !ibv_attach_mcast(qp, &group, 0))
		;
	return KSFT_PASS;
}

/* info DEVICE: figures for the shell, one "name value" a line. */
int cmd_info(int argc, char **argv)
{
	struct host host;

	if (argc != 2) {
		fprintf(stderr, "info: a device, please\n");
		return KSFT_FAIL;
	}
	host_open(&host, argv[1], false);
	printf("gid_index %d\n", host.gid_index);
	printf("active_mtu %d\n", 128 << host.port.active_mtu);
	printf("max_mtu %d\n", 128 << host.port.max_mtu);
	printf("state %d\n", host.port.state);
	printf("max_msg_sz %u\n", host.port.max_msg_sz);
	printf("max_qp %d\n", host.attr.max_qp);
	printf("max_qp_wr %d\n", host.attr.max_qp_wr);
	printf("max_sge %d\n", host.attr.max_sge);
	printf("max_cqe %d\n", host.attr.max_cqe);
	printf("max_mr_size %llu\n", (unsigned long long)host.attr.max_mr_size);
	printf("phys_port_cnt %d\n", host.attr.phys_port_cnt);
	host_close(&host);
	return KSFT_PASS;
}
