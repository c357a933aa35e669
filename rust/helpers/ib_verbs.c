// SPDX-License-Identifier: GPL-2.0

#include <linux/etherdevice.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <net/addrconf.h>
#include <net/netlink.h>
#include <rdma/restrack.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include "ib_verbs.h"

bool metaroce_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

struct ib_device *metaroce_ib_device_of(struct device *dev)
{
	return rdma_device_to_ibdev(dev);
}

/*
 * Compares with the copy of the name that ib_core keeps: that of the device is
 * freed by a rename at the same time.
 */
bool metaroce_ib_device_has_name(const struct ib_device *dev, const char *name)
{
	return !strncmp(dev->name, name, IB_DEVICE_NAME_MAX);
}

void metaroce_ib_mark_name_assigned_by_user(struct ib_device *dev)
{
	ib_mark_name_assigned_by_user(dev);
}

int metaroce_ib_is_udata_in_empty(struct ib_udata *udata)
{
	return ib_is_udata_in_empty(udata);
}

int metaroce_ib_respond_empty_udata(struct ib_udata *udata)
{
	return ib_respond_empty_udata(udata);
}

struct ib_udata *metaroce_uverbs_driver_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}

struct ib_ucontext *
metaroce_uverbs_ucontext(const struct uverbs_attr_bundle *attrs)
{
	return ib_uverbs_get_ucontext(attrs);
}

void *metaroce_uverbs_attr_obj(const struct uverbs_attr_bundle *attrs, u16 id)
{
	return uverbs_attr_get_obj(attrs, id);
}

int metaroce_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *attrs,
			      u16 id, size_t size)
{
	return _uverbs_copy_from_or_zero(to, attrs, id, size);
}

/* Derives the node GUID from the address of @ndev, or makes one up. */
void metaroce_ib_device_guid(struct ib_device *dev,
			     const struct net_device *ndev)
{
	u8 addr[ETH_ALEN];

	if (ndev->addr_len == ETH_ALEN && is_valid_ether_addr(ndev->dev_addr))
		ether_addr_copy(addr, ndev->dev_addr);
	else
		eth_random_addr(addr);
	addrconf_addr_eui48((u8 *)&dev->node_guid, addr);
}

struct net *metaroce_dev_net(const struct net_device *ndev)
{
	return dev_net(ndev);
}

struct ib_ucontext *metaroce_udata_to_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

u64 metaroce_rdma_user_mmap_get_offset(const struct rdma_user_mmap_entry *entry)
{
	return rdma_user_mmap_get_offset(entry);
}

struct ib_umem *metaroce_ib_umem_get_va(struct ib_device *device,
					unsigned long addr, size_t size,
					int access)
{
	return ib_umem_get_va(device, addr, size, access);
}

size_t metaroce_ib_umem_num_pages(struct ib_umem *umem)
{
	return ib_umem_num_pages(umem);
}

/* Stores the pages that back @umem in order; returns how many there were. */
size_t metaroce_ib_umem_pages(struct ib_umem *umem, struct page **pages,
			      size_t npages)
{
	struct sg_page_iter iter;
	size_t n = 0;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (n == npages)
			break;
		pages[n++] = sg_page_iter_page(&iter);
	}
	return n;
}

u32 metaroce_gid_attr_ifindex(const struct ib_gid_attr *attr)
{
	struct net_device *ndev;
	u32 ifindex = 0;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	if (ndev)
		ifindex = READ_ONCE(ndev->ifindex);
	rcu_read_unlock();
	return ifindex;
}

/*
 * Like vmalloc_user() and remap_vmalloc_range(), but the memory is accounted to
 * the process's control group, which the former cannot do.
 */
void *metaroce_vmalloc_shared(size_t size)
{
	/* Whoever asked for as much is told; the log is not theirs to fill. */
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
}

int metaroce_map_shared(struct vm_area_struct *vma, void *addr, size_t size)
{
	size_t off;
	int ret;

	if (vma->vm_end - vma->vm_start != size)
		return -EINVAL;

	for (off = 0; off < size; off += PAGE_SIZE) {
		ret = vm_insert_page(vma, vma->vm_start + off,
				     vmalloc_to_page(addr + off));
		if (ret)
			return ret;
	}

	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

void *metaroce_page_address(struct page *page)
{
	return page_address(page);
}

/* Waits for the work that handles completions of @cq, if there is such. */
void metaroce_ib_flush_cq(struct ib_cq *cq)
{
	if (cq->poll_ctx == IB_POLL_WORKQUEUE ||
	    cq->poll_ctx == IB_POLL_UNBOUND_WORKQUEUE)
		flush_work(&cq->work);
}

/* The page at @addr of the kernel's linear mapping, NULL elsewhere. */
struct page *metaroce_linear_page(unsigned long addr)
{
	return virt_addr_valid((void *)addr) ? virt_to_page((void *)addr) : NULL;
}

/* As for sendpage: slab pages have no reference counts of their own. */
bool metaroce_page_is_shareable(struct page *page)
{
	return sendpage_ok(page);
}

void metaroce_flush_ib_wq(void)
{
	flush_workqueue(ib_wq);
}

bool metaroce_may_sleep(void)
{
	return !in_atomic() && !irqs_disabled() && !rcu_preempt_depth();
}

struct nlattr *metaroce_rdma_nl_driver_start(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

void metaroce_rdma_nl_driver_end(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_end(msg, nest);
}

void metaroce_rdma_nl_driver_cancel(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_cancel(msg, nest);
}

/*
 * Copies from or to memory that user space changes at the same time. Rust must
 * not see these accesses: to the compiler they would be data races.
 */
void metaroce_copy_shared(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}
