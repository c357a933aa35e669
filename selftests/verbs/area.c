// SPDX-License-Identifier: GPL-2.0
/* Memory that is not pinned, and pages of it that do not come before the test gives them. */
#include "mrverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED, "mmap of %zu bytes: %m", len);
	return p;
}

void area_new(struct area *area, struct host *host, size_t len, int access)
{
	area->len = len;
	area->p = pages(len);
	area->mr = ibv_reg_mr(host->pd, area->p, len, access | IBV_ACCESS_ON_DEMAND);
	if (!area->mr && errno == EOPNOTSUPP)
		SKIP("no on-demand paging");
	CHECK(area->mr, "ibv_reg_mr of %zu bytes on %s: %m", len, host->name);
}

void area_free(struct area *area)
{
	OK(ibv_dereg_mr(area->mr));
	munmap(area->p, area->len);
}

int withhold(void *p, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register missing = {
		.range = { (uintptr_t)p, len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		SKIP("userfaultfd: %m");
	CHECK(!ioctl(fd, UFFDIO_REGISTER, &missing), "UFFDIO_REGISTER: %m");
	return fd;
}

bool is_wanted(int fd, int ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, ms) == 1;
}

void expect_fault(int fd, void *p)
{
	struct uffd_msg msg;

	CHECK(is_wanted(fd, WAIT_MS), "nobody wants the page at %p", p);
	CHECK(read(fd, &msg, sizeof(msg)) == sizeof(msg), "userfaultfd: %m");
	CHECK_EQ(msg.event, UFFD_EVENT_PAGEFAULT, "event");
	CHECK_EQ(msg.arg.pagefault.address & -4096UL, (uintptr_t)p, "page that is wanted");
}

void give(int fd, void *p, size_t len)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)p, len } };

	CHECK(!ioctl(fd, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE: %m");
}
